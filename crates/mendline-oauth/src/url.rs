//! URLs as texts: their parts, their addresses, and forms.
//!
//! URLs of servers are sent and compared as they were written. A parser that normalises would change an issuer by a
//! slash and break the login, so this module only finds the parts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{AddressProblem, OAuthError};
use crate::settings::Settings;

/// The longest URL that is accepted from a server.
const MAX_LENGTH: usize = 4096;

/// The parts of a URL, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) scheme: &'a str,
    /// The host without brackets.
    pub(crate) host: &'a str,
    pub(crate) port: Option<u16>,
    /// Scheme, host and port.
    pub(crate) origin: &'a str,
    /// The path with its first slash; empty if there is none.
    pub(crate) path: &'a str,
    /// The query without `?`.
    pub(crate) query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// Finds the parts of an `http` or `https` URL without a user.
    pub(crate) fn of(url: &'a str) -> Option<Parts<'a>> {
        if url.len() > MAX_LENGTH || url.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'\\') {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return None;
        }
        let (host, port) = split_authority(authority)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let origin = &url[..scheme.len() + 3 + authority.len()];
        Some(Parts { scheme, host, port, origin, path, query })
    }

    fn is_https(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("https")
    }

    fn effective_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Returns whether two URLs have the same origin.
    pub(crate) fn same_origin(&self, other: &Parts<'_>) -> bool {
        self.scheme.eq_ignore_ascii_case(other.scheme)
            && self.host.eq_ignore_ascii_case(other.host)
            && self.effective_port() == other.effective_port()
    }

    /// Returns whether the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let name = self.host.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost") || self.address().is_some_and(|ip| ip.is_loopback())
    }

    /// Returns whether the host is an address or a name that no public server has.
    pub(crate) fn is_private(&self) -> bool {
        self.is_loopback() || self.address().is_some_and(is_private)
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.split('%').next()?.parse().ok()
    }
}

fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let port = match port {
        None | Some("") => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

/// Returns whether an address is of this machine or of a network that is not part of the Internet.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_four(address),
        IpAddr::V6(address) => is_private_six(address),
    }
}

/// Returns whether no server has this address. Clouds offer credentials at link-local addresses.
fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            first == 0 || address.is_link_local() || address.is_multicast() || address.is_broadcast()
        }
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_forbidden(inner.into()),
            None => address.is_unspecified() || address.is_multicast() || address.segments()[0] & 0xffc0 == 0xfe80,
        },
    }
}

/// Returns the IPv4 address inside an IPv6 address: mapped, translated or tunnelled.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

fn is_private_four(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || (first == 100 && second & 0xc0 == 64)
}

fn is_private_six(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded(address) {
        return is_private_four(inner);
    }
    let first = address.segments()[0];
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || first & 0xffc0 == 0xfe80
        || first & 0xffc0 == 0xfec0
        || first & 0xfe00 == 0xfc00
}

/// The rule for addresses that servers name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressRule<'a> {
    private_allowed: bool,
    /// The host that may be reached unencrypted.
    http_host: Option<&'a str>,
}

impl<'a> AddressRule<'a> {
    /// The rule for the authorization server of an MCP server: private addresses only if the MCP server has one, or the
    /// operator allows them.
    pub(crate) fn for_server(server: &'a str, allow_private: bool) -> AddressRule<'a> {
        let private = Parts::of(server).is_some_and(|parts| parts.is_private());
        AddressRule { private_allowed: allow_private || private, http_host: None }
    }

    /// The rule for these settings. The operator may trust the network to the server, and then also to an authorization
    /// server on the same host.
    pub(crate) fn of(settings: &'a Settings) -> AddressRule<'a> {
        let host = Parts::of(&settings.server).map(|parts| parts.host).filter(|_| settings.allow_http);
        AddressRule { http_host: host, ..AddressRule::for_server(&settings.server, settings.allow_private) }
    }

    fn allows_http(self, parts: &Parts<'_>) -> bool {
        parts.is_loopback() || self.http_host.is_some_and(|host| host.eq_ignore_ascii_case(parts.host))
    }

    /// Checks a URL before it is used. Names are checked again by the HTTP client when they are resolved.
    pub(crate) fn check(self, what: &'static str, url: &str) -> Result<(), OAuthError> {
        let problem = match Parts::of(url) {
            None => AddressProblem::NotAUrl,
            Some(parts) if parts.address().is_some_and(is_forbidden) => AddressProblem::Forbidden,
            Some(parts) if parts.is_private() && !self.private_allowed => AddressProblem::Private,
            Some(parts) if !parts.is_https() && !self.allows_http(&parts) => AddressProblem::NotHttps,
            Some(_) => return Ok(()),
        };
        Err(OAuthError::Address { what, url: crate::text::shown(url), why: problem })
    }
}

/// Returns whether a resource of metadata covers a server: it is its URL, or its origin with a beginning of its path.
pub(crate) fn covers(resource: &str, server: &str) -> bool {
    if resource == server {
        return true;
    }
    let (Some(resource), Some(server)) = (Parts::of(resource), Parts::of(server)) else { return false };
    let prefix = resource.path.trim_end_matches('/');
    let below = server.path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.same_origin(&server) && below && (resource.query.is_none() || resource.query == server.query)
}

/// Appends a name and a value to a form or a query.
pub(crate) fn push_parameter(form: &mut String, name: &str, value: &str) {
    if !form.is_empty() && !form.ends_with(['?', '&']) {
        form.push('&');
    }
    encode(form, name);
    form.push('=');
    encode(form, value);
}

/// Appends the percent-encoded text.
pub(crate) fn encode(to: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push('%');
            to.push(char::from(HEX[usize::from(byte >> 4)]));
            to.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Returns the parameters of a query, decoded.
pub(crate) fn parameters(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// Decodes `%XX` and `+`. Broken sequences stay as they are.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_without_change() {
        let parts = Parts::of("https://Auth.Example:8443/Tenant/v2?x=%7e#f").unwrap();
        assert_eq!((parts.host, parts.port, parts.path), ("Auth.Example", Some(8443), "/Tenant/v2"));
        assert_eq!((parts.origin, parts.query), ("https://Auth.Example:8443", Some("x=%7e")));
        assert_eq!(Parts::of("http://[::1]:80").unwrap().host, "::1");
        for bad in
            ["", "https://", "file:///etc/passwd", "https://a@b/", "https://a b/", "ftp://a", "https://a:x/", "//a"]
        {
            assert_eq!(Parts::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn private_addresses_are_refused_for_public_server() {
        let rule = AddressRule::for_server("https://mcp.example/mcp", false);
        for url in [
            "https://127.0.0.1/",
            "https://localhost:1/",
            "https://a.localhost/",
            "https://10.1.2.3/",
            "https://192.168.0.1/",
            "https://172.16.0.1/",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[fd00::1]/",
            "https://[::ffff:10.0.0.1]/",
        ] {
            let error = rule.check("token endpoint", url).unwrap_err();
            assert!(matches!(error, OAuthError::Address { why: AddressProblem::Private, .. }), "{url}: {error}");
        }
        assert!(rule.check("token endpoint", "https://auth.example/token").is_ok());
        for url in ["file:///etc/passwd", "javascript:alert(1)", "data:,x", "https://"] {
            let error = rule.check("token endpoint", url).unwrap_err();
            assert!(matches!(error, OAuthError::Address { why: AddressProblem::NotAUrl, .. }), "{url}");
        }
        let error = rule.check("token endpoint", "http://auth.example/token").unwrap_err();
        assert!(matches!(error, OAuthError::Address { why: AddressProblem::NotHttps, .. }));
    }

    #[test]
    fn link_local_addresses_are_refused_for_every_server() {
        for url in [
            "https://169.254.169.254/latest",
            "https://0.0.0.0/",
            "https://[fe80::1]/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://[::ffff:169.254.169.254]/",
            "https://224.0.0.1/",
        ] {
            for server in ["https://mcp.example/mcp", "http://127.0.0.1:1/mcp"] {
                let error = AddressRule::for_server(server, true).check("issuer", url).unwrap_err();
                assert!(matches!(error, OAuthError::Address { why: AddressProblem::Forbidden, .. }), "{url}: {error}");
            }
        }
    }

    #[test]
    fn private_addresses_are_allowed_for_private_server_or_by_setting() {
        for rule in [
            AddressRule::for_server("http://127.0.0.1:8000/mcp", false),
            AddressRule::for_server("https://mcp.example/mcp", true),
        ] {
            assert!(rule.check("issuer", "http://localhost:9000").is_ok());
            assert!(rule.check("issuer", "https://10.0.0.1").is_ok());
            assert!(rule.check("issuer", "http://10.0.0.1").is_err(), "not https");
        }
    }

    #[test]
    fn unencrypted_requests_go_to_the_allowed_host_only() {
        let mut settings = Settings::new("http://nas.example:8000/mcp");
        assert!(AddressRule::of(&settings).check("issuer", "http://nas.example:8000").is_err());
        settings.allow_http = true;
        assert!(AddressRule::of(&settings).check("issuer", "http://nas.example:9000").is_ok());
        assert!(AddressRule::of(&settings).check("issuer", "http://other.example").is_err());
    }

    #[test]
    fn resource_covers_its_url_and_what_is_below() {
        let server = "https://mcp.example/api/mcp";
        for resource in [
            server,
            "https://mcp.example",
            "https://mcp.example/",
            "https://MCP.example:443/api",
            "https://mcp.example/api/",
        ] {
            assert!(covers(resource, server), "{resource}");
        }
        for resource in [
            "https://evil.example/api/mcp",
            "https://mcp.example/api/m",
            "https://mcp.example/api/mcp/more",
            "http://mcp.example/api",
            "https://mcp.example:8443/api",
            "https://mcp.example.evil.example/",
            "x",
        ] {
            assert!(!covers(resource, server), "{resource}");
        }
    }

    #[test]
    fn parameters_are_encoded_and_decoded() {
        let mut form = String::new();
        push_parameter(&mut form, "a b", "ä&=+%");
        push_parameter(&mut form, "c", "");
        assert_eq!(form, "a%20b=%C3%A4%26%3D%2B%25&c=");
        assert_eq!(parameters(&form), [("a b".to_owned(), "ä&=+%".to_owned()), ("c".to_owned(), String::new())]);
        assert_eq!(
            parameters("x=a+b&&y=%zz&z=%"),
            [("x", "a b"), ("y", "%zz"), ("z", "%")].map(|(a, b)| (a.into(), b.into()))
        );
    }
}
