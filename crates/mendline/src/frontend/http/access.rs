//! Who may use the gateway: hosts, origins and tokens.
//!
//! A web page can make a browser send requests to a loopback address, under a host name of the page's choice. So the
//! `Host` of every request must be known, and an `Origin`, which only browsers send, must be named in the
//! configuration or be the gateway itself. Off loopback every request needs a token.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use ring::digest::{SHA256, digest};

/// The principal of requests without a token.
const LOCAL: &str = "local";

/// A token that opens the gateway. Only its hash is kept.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// Its name, which is the principal of its requests.
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: [u8; 32],
    /// The servers that it opens; all if there is no list.
    pub servers: Option<Vec<String>>,
}

impl AccessToken {
    /// Creates a token with all servers.
    pub fn new(name: &str, token: &str) -> AccessToken {
        AccessToken { name: name.to_owned(), hash: hash(token), servers: None }
    }
}

/// The rules of access.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Host names under which the gateway may be addressed, besides loopback.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use it, such as `http://localhost:6274`.
    pub origins: Vec<String>,
    /// Tokens. If there are any, every request needs one.
    pub tokens: Vec<AccessToken>,
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The `Host` is missing or not known.
    Host(String),
    /// The `Origin` is not known.
    Origin(String),
    /// There is no token, or a wrong one.
    Token,
    /// The token does not open this server.
    Server,
}

impl Denied {
    /// The HTTP status.
    pub fn status(&self) -> http::StatusCode {
        match self {
            Denied::Host(_) => http::StatusCode::MISDIRECTED_REQUEST,
            Denied::Origin(_) | Denied::Server => http::StatusCode::FORBIDDEN,
            Denied::Token => http::StatusCode::UNAUTHORIZED,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Host(host) => write!(
                f,
                "the host {host:?} is not allowed; add it to the configuration: \"mendline\": {{ \"access\": {{ \"hosts\": \
                 [{host:?}] }} }}"
            ),
            Denied::Origin(origin) => write!(
                f,
                "the origin {origin:?} is not allowed; add it to the configuration: \"mendline\": {{ \"access\": {{ \
                 \"origins\": [{origin:?}] }} }}"
            ),
            Denied::Token => f.write_str("a token is required: send it as 'Authorization: Bearer TOKEN'"),
            Denied::Server => f.write_str("this token does not open this server"),
        }
    }
}

impl Access {
    /// Checks the headers of a request. Returns its principal.
    pub fn check(&self, headers: &HeaderMap, authority: Option<&Authority>) -> Result<Arc<str>, Denied> {
        let host = self.check_host(headers, authority)?;
        self.check_origin(headers, &host)?;
        self.principal(headers)
    }

    /// Returns whether a principal may use a server.
    pub fn may_use(&self, principal: &str, server: &str) -> bool {
        let token = self.tokens.iter().find(|token| token.name == principal);
        token.and_then(|token| token.servers.as_ref()).is_none_or(|servers| servers.iter().any(|name| name == server))
    }

    /// Returns whether a web page of this origin may use the gateway.
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }

    fn check_host(&self, headers: &HeaderMap, authority: Option<&Authority>) -> Result<String, Denied> {
        let header = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        // HTTP/2 has it in the request line.
        let host = header.or_else(|| authority.map(ToString::to_string)).unwrap_or_default();
        let name = host.parse::<Authority>().map(|host| host.host().to_ascii_lowercase()).unwrap_or_default();
        let is_known = is_loopback(&name) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(&name));
        if is_known { Ok(host) } else { Err(Denied::Host(if name.is_empty() { host } else { name })) }
    }

    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), Denied> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = String::from_utf8_lossy(origin.as_bytes());
        let is_own = origin.split_once("://").is_some_and(|(_, of_page)| of_page.eq_ignore_ascii_case(host));
        if is_own || self.allows_origin(&origin) { Ok(()) } else { Err(Denied::Origin(origin.into_owned())) }
    }

    fn principal(&self, headers: &HeaderMap) -> Result<Arc<str>, Denied> {
        if self.tokens.is_empty() {
            return Ok(Arc::from(LOCAL));
        }
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = header.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let given = hash(given.ok_or(Denied::Token)?);
        // All hashes are compared, and each in constant time.
        let mut found = None;
        for token in &self.tokens {
            if is_equal(&token.hash, &given) {
                found = Some(Arc::from(token.name.as_str()));
            }
        }
        found.ok_or(Denied::Token)
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Compares two hashes in constant time.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other));
    std::hint::black_box(difference) == 0
}

fn is_loopback(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn loopback_and_named_hosts_are_allowed() {
        let access = Access { hosts: vec!["mcp.example.com".to_owned()], ..Access::default() };
        for host in ["localhost:7337", "127.0.0.1", "127.0.0.1:80", "[::1]:7337", "MCP.example.com:443"] {
            assert!(access.check(&headers(&[("host", host)]), None).is_ok(), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a@localhost:1/x"]
        {
            let denied = access.check(&headers(&[("host", host)]), None).unwrap_err();
            assert!(matches!(denied, Denied::Host(_)), "{host}: {denied:?}");
        }
        assert!(access.check(&HeaderMap::new(), None).is_err(), "no host at all");
        assert!(access.check(&HeaderMap::new(), Some(&Authority::from_static("localhost:7337"))).is_ok());
    }

    #[test]
    fn foreign_origin_is_refused() {
        let access = Access { origins: vec!["http://localhost:6274".to_owned()], ..Access::default() };
        let check = |origin| access.check(&headers(&[("host", "localhost:7337"), ("origin", origin)]), None);
        assert!(check("http://localhost:7337").is_ok(), "its own page");
        assert!(check("http://localhost:6274").is_ok());
        for origin in ["http://localhost:6275", "https://evil.example", "null", "http://localhost:7337.evil.example"] {
            assert_eq!(check(origin), Err(Denied::Origin(origin.to_owned())));
        }
    }

    #[test]
    fn token_names_the_principal() {
        let mut narrow = AccessToken::new("ci", "second");
        narrow.servers = Some(vec!["notes".to_owned()]);
        let access = Access { tokens: vec![AccessToken::new("ann", "first"), narrow], ..Access::default() };
        let check = |value: &str| access.check(&headers(&[("host", "localhost"), ("authorization", value)]), None);
        assert_eq!(&*check("Bearer first").unwrap(), "ann");
        assert_eq!(&*check("bearer second").unwrap(), "ci");
        for wrong in ["Bearer third", "Basic first", "first", "Bearer", "Bearer "] {
            assert_eq!(check(wrong), Err(Denied::Token), "{wrong}");
        }
        assert_eq!(access.check(&headers(&[("host", "localhost")]), None), Err(Denied::Token));
        assert!(access.may_use("ann", "mail") && access.may_use("ci", "notes") && !access.may_use("ci", "mail"));
    }
}
