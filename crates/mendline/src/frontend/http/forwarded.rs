//! Requests that come through a proxy.
//!
//! A proxy connects for its clients: the user at the other end of a loopback connection is that of the proxy, and the
//! `Host` may be one of the proxy's choice. The proxy reports the address and the host of its client in headers. Every
//! client can write the same headers, so they count only from addresses that the configuration names. From any other
//! address their presence alone counts: such a request is not one of the local user.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderMap;
use http::header::{FORWARDED, VIA};

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_HOST: &str = "x-forwarded-host";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The beginning of the names of further headers that proxies add.
const PREFIX: &str = "x-forwarded-";

/// Headers with the address of a client that proxies, tunnels and content networks add.
const OF_PROXIES: [&str; 4] = ["x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"];

/// The most entries of a list of addresses that are read.
const MOST_ENTRIES: usize = 32;

/// An address, or a range of addresses such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is not an address or a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNetwork;

impl Network {
    /// Returns whether an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let ((own, own_length), (other, length)) = (bits(self.address), bits(address.to_canonical()));
        let differing = if self.prefix == 0 { 0 } else { (own ^ other) >> (128 - u32::from(self.prefix)) };
        own_length == length && differing == 0
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Network, NoNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or(NoNetwork)?,
            None => longest,
        };
        Ok(Network { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The way of a request to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Through {
    /// No header of a proxy.
    Direct,
    /// A proxy that the configuration does not name, which has added this header.
    Unnamed(String),
    /// A proxy that the configuration names.
    Named {
        /// The hosts that the client has asked for, by the proxy's headers. All of them must be allowed.
        hosts: Vec<String>,
        /// The address of the client, if the proxy tells it.
        client: Option<IpAddr>,
        /// Whether the client uses `https`, if the proxy tells it.
        is_https: Option<bool>,
    },
}

impl Through {
    /// Reads the headers of a request from this address.
    pub(super) fn of(headers: &HeaderMap, address: Option<IpAddr>, proxies: &[Network]) -> Through {
        let is_named = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
        if address.is_some_and(is_named) {
            let element = forwarded_elements(headers).into_iter().next_back();
            let of_forwarded = element.as_deref().and_then(|element| parameter(element, "host"));
            let of_header = last(headers, FORWARDED_HOST);
            let hosts = of_header.into_iter().chain(of_forwarded).collect();
            let scheme = last(headers, FORWARDED_PROTO).or_else(|| parameter(element.as_deref()?, "proto"));
            let is_https = scheme.map(|scheme| scheme.eq_ignore_ascii_case("https"));
            return Through::Named { hosts, client: client(headers, is_named), is_https };
        }
        match header_of_proxy(headers) {
            Some(name) => Through::Unnamed(name),
            None => Through::Direct,
        }
    }
}

/// Returns the name of a header that only proxies add.
fn header_of_proxy(headers: &HeaderMap) -> Option<String> {
    let is_theirs =
        |name: &str| name == FORWARDED || name == VIA || name.starts_with(PREFIX) || OF_PROXIES.contains(&name);
    headers.keys().map(http::HeaderName::as_str).find(|name| is_theirs(name)).map(str::to_owned)
}

/// Returns the address of the client: the last one that is not a named proxy.
fn client(headers: &HeaderMap, is_proxy: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let mut addresses: Vec<Option<IpAddr>> =
        values(headers, FORWARDED_FOR).iter().map(|text| address_of(text)).collect();
    if addresses.is_empty() {
        let elements = forwarded_elements(headers);
        addresses = elements.iter().map(|element| address_of(&parameter(element, "for")?)).collect();
    }
    let mut client = None;
    for address in addresses.into_iter().rev().take(MOST_ENTRIES) {
        // What stands before an entry that is no address cannot be trusted.
        let Some(address) = address else { break };
        client = Some(address);
        if !is_proxy(address) {
            break;
        }
    }
    client
}

/// Returns an address with or without a port, such as `10.0.0.1:80` or `[fd00::1]:80`.
fn address_of(text: &str) -> Option<IpAddr> {
    let without_port = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    without_port.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Returns the entries of a header that is a list.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let all = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).map(|entry| entry.trim().to_owned()).collect()
}

fn last(headers: &HeaderMap, name: &str) -> Option<String> {
    values(headers, name).pop().filter(|value| !value.is_empty())
}

/// Returns the elements of `Forwarded`. A comma in quotes separates nothing.
fn forwarded_elements(headers: &HeaderMap) -> Vec<String> {
    let mut elements = Vec::new();
    for value in headers.get_all(FORWARDED).into_iter().filter_map(|value| value.to_str().ok()) {
        let (mut element, mut is_quoted) = (String::new(), false);
        for c in value.chars() {
            is_quoted ^= c == '"';
            match c {
                ',' if !is_quoted => elements.push(std::mem::take(&mut element)),
                c => element.push(c),
            }
        }
        elements.push(element);
    }
    elements
}

/// Returns a parameter of an element of `Forwarded`.
fn parameter(element: &str, name: &str) -> Option<String> {
    element.split(';').find_map(|pair| {
        let (its, value) = pair.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (its.trim().eq_ignore_ascii_case(name) && !value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn through(pairs: &[(&'static str, &str)], address: &str, proxies: &[&str]) -> Through {
        let proxies: Vec<Network> = proxies.iter().map(|text| text.parse().unwrap()).collect();
        Through::of(&headers(pairs), Some(address.parse().unwrap()), &proxies)
    }

    #[test]
    fn network_contains_the_addresses_of_its_prefix() {
        let contains =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.1.2") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("127.0.0.1", "::ffff:127.0.0.1"), "the form of IPv6");
        assert!(contains("fd00::/8", "fd12::1") && !contains("fd00::/8", "fe80::1") && !contains("::/0", "10.0.0.1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8"));
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "10.0.0.0/-1"] {
            assert_eq!(wrong.parse::<Network>(), Err(NoNetwork), "{wrong}");
        }
    }

    #[test]
    fn headers_count_only_from_named_addresses() {
        let pairs = [("x-forwarded-for", "203.0.113.9, 10.0.0.7"), ("x-forwarded-host", "mcp.example.com")];
        let named = through(&pairs, "127.0.0.1", &["127.0.0.1", "10.0.0.0/8"]);
        let (hosts, client) = (vec!["mcp.example.com".to_owned()], Some("203.0.113.9".parse().unwrap()));
        assert_eq!(named, Through::Named { hosts, client, is_https: None });
        assert!(matches!(through(&pairs, "127.0.0.2", &["127.0.0.1"]), Through::Unnamed(_)));
        assert_eq!(through(&[], "127.0.0.2", &["127.0.0.1"]), Through::Direct);
        for name in ["forwarded", "via", "x-forwarded-proto", "x-real-ip", "cf-connecting-ip"] {
            assert_eq!(through(&[(name, "x")], "127.0.0.1", &[]), Through::Unnamed(name.to_owned()));
        }
    }

    #[test]
    fn forged_entries_of_the_client_are_not_its_address() {
        let client = |value: &str| match through(&[("x-forwarded-for", value)], "10.0.0.1", &["10.0.0.0/8"]) {
            Through::Named { client, .. } => client.map(|client| client.to_string()),
            _ => None,
        };
        assert_eq!(client("1.1.1.1, 203.0.113.9").as_deref(), Some("203.0.113.9"));
        assert_eq!(client("1.1.1.1, nonsense, 10.0.0.2").as_deref(), Some("10.0.0.2"));
        assert_eq!(client("nonsense"), None);
        assert_eq!(client("203.0.113.9:4711, 10.0.0.2").as_deref(), Some("203.0.113.9"));
    }

    #[test]
    fn standard_header_is_read_with_quotes() {
        let value =
            r#"for=1.1.1.1;host=evil.example, for="[2001:db8::9]:4711";host="mcp.example.com:8443";proto=https"#;
        let Through::Named { hosts, client, is_https: Some(true) } = through(&[("forwarded", value)], "::1", &["::1"])
        else {
            panic!()
        };
        assert_eq!((hosts, client), (vec!["mcp.example.com:8443".to_owned()], Some("2001:db8::9".parse().unwrap())));
    }
}
