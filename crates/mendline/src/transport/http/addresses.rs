//! The addresses of a name that may be dialed.
//!
//! A URL with an address means that address. A name means the answer of its name server, which may be an address that
//! the operator did not intend: the metadata service of a cloud, another machine on the local network or, during a
//! session, a service on this machine (DNS rebinding). So two kinds of addresses are refused, and nothing is sent to
//! them: addresses that no MCP server should have, and private addresses of a name that had only public ones at its
//! first lookup by this process. A name that is private from the start is normal on an intranet and stays allowed.
//!
//! A URL that a server or its metadata names is not the operator's choice. For such a URL [`AddressPolicy::check`] is
//! stricter, and it holds for addresses too.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The most names in memory; a process has one server and perhaps a proxy.
const MAX_NAMES: usize = 1024;

/// Addresses of cloud metadata services, which give credentials to every program on a machine, in addition to the
/// link-local ones.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The names that this process has looked up.
pub(super) static LOOKED_UP: Names = Names::new();

/// For each name, whether all its addresses were public at the first lookup.
pub(super) struct Names(Mutex<BTreeMap<String, bool>>);

/// The scope of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Public,
    /// This machine, or a network that is not part of the Internet.
    Private,
    /// An address that no server found by name should have.
    Forbidden(&'static str),
}

/// Returns whether a host is an address, perhaps with a zone, and not a name.
pub(super) fn is_literal(host: &str) -> bool {
    host.split('%').next().is_some_and(|address| address.parse::<IpAddr>().is_ok())
}

/// The addresses to which a request may go whose URL comes from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Addresses of the Internet.
    Public,
    /// Private addresses too. Addresses that no server has stay refused, such as link-local ones.
    Any,
}

impl AddressPolicy {
    /// Returns the addresses of a host that a request may go to, or the reason why there are none. The host may be an
    /// address itself.
    pub(super) fn check(self, host: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotAdmitted> {
        let mut refused = None;
        let admitted: Vec<SocketAddr> = addresses
            .into_iter()
            .filter(|address| {
                let (host, address) = (host.to_owned(), address.ip());
                let why = match (scope(address), self) {
                    (Scope::Forbidden(what), _) => NotAdmitted::Forbidden { host, address, what },
                    (Scope::Private, AddressPolicy::Public) => NotAdmitted::Private { host, address },
                    (Scope::Private, AddressPolicy::Any) | (Scope::Public, _) => return true,
                };
                refused.get_or_insert(why);
                false
            })
            .collect();
        match refused {
            Some(why) if admitted.is_empty() => Err(why),
            _ => Ok(admitted),
        }
    }
}

/// The reason why no address of a name may be dialed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    /// No server has such an address; `what` says what it is.
    Forbidden { host: String, address: IpAddr, what: &'static str },
    /// The name led to a public address before.
    BecamePrivate { host: String, address: IpAddr },
    /// The address is private, and the operator has not named the host.
    Private { host: String, address: IpAddr },
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAdmitted::Forbidden { host, address, what } => write!(
                f,
                "the name {host} leads to {address}, {what}; nothing is sent there unless the URL holds the address itself"
            ),
            NotAdmitted::BecamePrivate { host, address } => write!(
                f,
                "the name {host} led to a public address before and now leads to {address}, which is private; nothing is \
                 sent there (restart Mendline if the server has moved)"
            ),
            NotAdmitted::Private { host, address } => write!(
                f,
                "{host} leads to {address}, which is private; nothing is sent there, because the URL does not come from \
                 the configuration (if it is right, set auth.allowPrivate)"
            ),
        }
    }
}

impl Names {
    const fn new() -> Names {
        Names(Mutex::new(BTreeMap::new()))
    }

    /// Returns the addresses of this name that may be dialed, or the reason why there are none.
    pub(super) fn admit(&self, host: &str, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotAdmitted> {
        let mut forbidden = None;
        addresses.retain(|address| match scope(address.ip()) {
            Scope::Forbidden(what) => {
                forbidden.get_or_insert((address.ip(), what));
                false
            }
            Scope::Public | Scope::Private => true,
        });
        if let (true, Some((address, what))) = (addresses.is_empty(), forbidden) {
            return Err(NotAdmitted::Forbidden { host: host.to_owned(), address, what });
        }
        let is_private = |address: &SocketAddr| scope(address.ip()) == Scope::Private;
        let private = addresses.iter().find(|address| is_private(address)).map(SocketAddr::ip);
        if self.was_public(host, private.is_none())
            && let Some(private) = private
        {
            addresses.retain(|address| !is_private(address));
            if addresses.is_empty() {
                return Err(NotAdmitted::BecamePrivate { host: host.to_owned(), address: private });
            }
        }
        Ok(addresses)
    }

    /// Returns whether all addresses of this name were public at the first lookup, which may be this one.
    fn was_public(&self, host: &str, is_public: bool) -> bool {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&name) {
            Some(was_public) => *was_public,
            None => {
                if known.len() < MAX_NAMES {
                    known.insert(name, is_public);
                }
                is_public
            }
        }
    }
}

fn scope(address: IpAddr) -> Scope {
    if METADATA.contains(&address) {
        return Scope::Forbidden("where a cloud offers credentials");
    }
    match address {
        IpAddr::V4(address) => scope_of_four(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => scope(inner.into()),
            None => scope_of_six(address),
        },
    }
}

fn scope_of_four(address: Ipv4Addr) -> Scope {
    let [first, second, ..] = address.octets();
    if address.is_link_local() {
        Scope::Forbidden("a link-local address")
    } else if first == 0 {
        Scope::Forbidden("which is no address of a machine")
    } else if address.is_multicast() || address.is_broadcast() {
        Scope::Forbidden("an address of many machines")
    } else if address.is_private() || address.is_loopback() || (first == 100 && second & 0xc0 == 64) {
        Scope::Private
    } else {
        Scope::Public
    }
}

fn scope_of_six(address: Ipv6Addr) -> Scope {
    if address.is_unicast_link_local() {
        Scope::Forbidden("a link-local address")
    } else if address.is_unspecified() {
        Scope::Forbidden("which is no address of a machine")
    } else if address.is_multicast() {
        Scope::Forbidden("an address of many machines")
    } else if address.is_loopback() || address.is_unique_local() || address.segments()[0] & 0xffc0 == 0xfec0 {
        Scope::Private
    } else {
        Scope::Public
    }
}

/// Returns the IPv4 address inside an IPv6 address: mapped, compatible, translated (NAT64) or tunnelled (6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(four(high, low)),
        [0x2002, high, low, ..] => Some(four(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 443)).collect()
    }

    fn admitted(names: &Names, host: &str, texts: &[&str]) -> Result<Vec<String>, NotAdmitted> {
        let admitted = names.admit(host, at(texts))?;
        Ok(admitted.iter().map(|address| address.ip().to_string()).collect())
    }

    #[test]
    fn n04_addresses_that_no_server_has_are_refused() {
        for address in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ] {
            let why = admitted(&Names::new(), "a.test", &[address]).unwrap_err().to_string();
            assert!(
                why.starts_with("the name a.test leads to ") && why.contains("nothing is sent"),
                "{address}: {why}"
            );
        }
        // Another address of the name is used.
        let other = admitted(&Names::new(), "a.test", &["fe80::1", "192.0.2.1", "169.254.1.1"]);
        assert_eq!(other.unwrap(), ["192.0.2.1"]);
    }

    #[test]
    fn n04_public_name_that_turns_private_is_refused() {
        for private in
            ["127.0.0.1", "10.0.0.7", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd12::1", "::ffff:10.0.0.7"]
        {
            let names = Names::new();
            assert_eq!(admitted(&names, "a.test", &["192.0.2.1"]).unwrap(), ["192.0.2.1"]);
            assert_eq!(admitted(&names, "a.test", &["2001:db8::1"]).unwrap(), ["2001:db8::1"], "another public one");
            for spelling in ["a.test", "A.Test", "a.test."] {
                let why = admitted(&names, spelling, &[private]).unwrap_err().to_string();
                assert!(why.contains("led to a public address before and now leads to"), "{private}: {why}");
            }
            assert_eq!(admitted(&names, "a.test", &[private, "192.0.2.2"]).unwrap(), ["192.0.2.2"]);
            assert_eq!(admitted(&names, "b.test", &[private]).unwrap().len(), 1, "another name");
        }
    }

    #[test]
    fn n04_name_that_is_private_from_start_stays_allowed() {
        let names = Names::new();
        for addresses in [&["10.0.0.7"][..], &["10.0.0.8"], &["192.0.2.1"], &["127.0.0.1", "192.0.2.1"], &["10.0.0.7"]]
        {
            assert_eq!(admitted(&names, "intranet.test", addresses).unwrap(), addresses);
        }
        assert_eq!(admitted(&names, "localhost", &["::1", "127.0.0.1"]).unwrap(), ["::1", "127.0.0.1"]);
    }

    #[test]
    fn n04_policy_for_foreign_urls_refuses_private_addresses() {
        let checked = |policy: AddressPolicy, texts: &[&str]| -> Result<Vec<String>, String> {
            let admitted = policy.check("idp.test", at(texts)).map_err(|why| why.to_string())?;
            Ok(admitted.iter().map(|address| address.ip().to_string()).collect())
        };
        for private in ["127.0.0.1", "10.0.0.7", "192.168.1.1", "100.64.0.1", "::1", "fd12::1", "::ffff:10.0.0.7"] {
            let why = checked(AddressPolicy::Public, &[private]).unwrap_err();
            assert!(why.contains("which is private; nothing is sent there"), "{private}: {why}");
            assert_eq!(checked(AddressPolicy::Any, &[private]).unwrap(), [private]);
            assert_eq!(checked(AddressPolicy::Public, &[private, "192.0.2.1"]).unwrap(), ["192.0.2.1"]);
        }
        for forbidden in ["169.254.169.254", "fd00:ec2::254", "fe80::1", "0.0.0.0", "::ffff:169.254.169.254"] {
            for policy in [AddressPolicy::Public, AddressPolicy::Any] {
                assert!(checked(policy, &[forbidden]).unwrap_err().contains("nothing is sent there"), "{forbidden}");
            }
        }
    }

    #[test]
    fn n04_only_an_address_is_a_literal() {
        for literal in ["127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0"] {
            assert!(is_literal(literal), "{literal}");
        }
        for name in ["localhost", "a.test", "2130706433", "0x7f.1", "127.1", ""] {
            assert!(!is_literal(name), "{name}");
        }
    }
}
