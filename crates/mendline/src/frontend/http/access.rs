//! Who may use the gateway: hosts, origins, tokens and users of this machine.
//!
//! A web page can make a browser send requests to a loopback address, under a host name of the page's choice. So the
//! `Host` of every request must be known, and an `Origin`, which only browsers send, must be named in the
//! configuration or be the gateway itself. On loopback, a request without a token must come from a process of the user
//! who runs the gateway, or of the administrator, and not through a proxy. Off loopback every request needs a token.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use mendline_core::defaults;
use mendline_core::policy::tool_filter::ToolFilter;

pub use super::denied::Denied;
use super::forwarded::{Network, Through};
use super::issuer::{JWT_PREFIX, JwtIssuer};
use super::jwt::is_jwt;
use super::token::{AccessToken, PrincipalLimits, TokenHash};

/// The principal of requests without a token.
pub const LOCAL: &str = "local";

/// What a request without a token needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutToken {
    /// A connection from a process of the own user, or of the administrator.
    #[default]
    OwnUser,
    /// Nothing is enough: it is refused.
    Refused,
    /// Nothing: every client that reaches the address may use the gateway.
    Anyone,
}

/// The user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The user who runs the gateway, or the administrator.
    Own,
    /// Another user of this machine, with this number.
    Other(u32),
    /// Not known: another machine, or the system does not say.
    Unknown,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The user, if it is on this machine.
    pub peer: Peer,
    /// The address, which may be that of a proxy.
    pub address: Option<IpAddr>,
    /// The connection has TLS.
    pub is_tls: bool,
}

impl From<Peer> for Connection {
    fn from(peer: Peer) -> Connection {
        Connection { peer, address: None, is_tls: false }
    }
}

/// The rules of access.
#[derive(Clone, Debug)]
pub struct Access {
    /// Host names under which the gateway may be addressed, besides loopback.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use it, such as `http://localhost:6274`.
    pub origins: Vec<String>,
    /// Addresses of proxies, whose headers about their clients count.
    pub proxies: Vec<Network>,
    /// Tokens.
    pub tokens: Vec<AccessToken>,
    /// The authorization server whose access tokens count, too.
    pub jwt: Option<Arc<JwtIssuer>>,
    /// The rule for requests without a token.
    pub without_token: WithoutToken,
    /// The limit of open connections.
    pub connections: usize,
    /// The limit of sessions of one principal.
    pub sessions: usize,
}

impl Default for Access {
    fn default() -> Access {
        Access {
            hosts: Vec::new(),
            origins: Vec::new(),
            proxies: Vec::new(),
            tokens: Vec::new(),
            jwt: None,
            without_token: WithoutToken::default(),
            connections: defaults::GATEWAY_CONNECTIONS,
            sessions: defaults::GATEWAY_SESSIONS,
        }
    }
}

impl Access {
    /// Checks the headers of a request. Returns its principal.
    pub fn check(
        &self,
        headers: &HeaderMap,
        authority: Option<&Authority>,
        from: impl Into<Connection>,
        now: SystemTime,
    ) -> Result<Arc<str>, Denied> {
        let Connection { peer, address, .. } = from.into();
        let through = Through::of(headers, address, &self.proxies);
        let host = self.check_hosts(headers, authority, &through)?;
        self.check_origin(headers, &host)?;
        self.principal(headers, peer, through, now)
    }

    /// Checks a request as [`Access::check`] does, and asks the authorization server about a token that is not known.
    pub(super) async fn check_all(
        &self,
        headers: &HeaderMap,
        authority: Option<&Authority>,
        from: Connection,
        now: SystemTime,
    ) -> Result<Arc<str>, Denied> {
        let checked = self.check(headers, authority, from, now);
        match (checked, &self.jwt, bearer(headers)) {
            (Err(Denied::Token), Some(jwt), Some(token)) if is_jwt(token) => {
                jwt.principal(token, now).await.map_err(Denied::Jwt)
            }
            (checked, ..) => checked,
        }
    }

    /// Returns the URL under which a client has addressed the gateway.
    pub(super) fn base_url(&self, headers: &HeaderMap, authority: Option<&Authority>, from: Connection) -> String {
        let through = Through::of(headers, from.address, &self.proxies);
        let scheme = match &through {
            Through::Named { is_https: Some(is_https), .. } => *is_https,
            _ => from.is_tls,
        };
        let host = self.check_hosts(headers, authority, &through).unwrap_or_default();
        format!("{}://{host}", if scheme { "https" } else { "http" })
    }

    /// Returns the address of the client of a request.
    pub fn client_address(&self, headers: &HeaderMap, address: Option<IpAddr>) -> Option<IpAddr> {
        match Through::of(headers, address, &self.proxies) {
            Through::Named { client: Some(client), .. } => Some(client),
            _ => address,
        }
    }

    /// Returns whether there is such a principal.
    pub fn knows(&self, principal: &str) -> bool {
        match principal {
            LOCAL => self.without_token != WithoutToken::Refused,
            name if name.starts_with(JWT_PREFIX) => self.jwt.is_some(),
            name => self.token_of(name).is_some(),
        }
    }

    /// Returns whether a principal may use a server.
    pub fn may_use(&self, principal: &str, server: &str) -> bool {
        let servers = match self.jwt_of(principal) {
            Some(jwt) => jwt.settings().servers.as_ref(),
            None => self.token_of(principal).and_then(|token| token.servers.as_ref()),
        };
        servers.is_none_or(|servers| servers.iter().any(|name| name == server))
    }

    /// Returns the tools that a principal may use; all if it has no filter.
    pub fn tools_of(&self, principal: &str) -> Option<&ToolFilter> {
        let of_jwt = self.jwt_of(principal).map(|jwt| &jwt.settings().tools);
        of_jwt.or_else(|| self.token_of(principal).map(|token| &token.tools))
    }

    /// Returns the limits of a principal.
    pub fn limits_of(&self, principal: &str) -> PrincipalLimits {
        let of_jwt = self.jwt_of(principal).map(|jwt| jwt.settings().limits);
        of_jwt.or_else(|| self.token_of(principal).map(|token| token.limits)).unwrap_or_default()
    }

    /// Returns whether a web page of this origin may use the gateway.
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }

    /// Returns whether the user at the other end of a connection matters.
    pub fn asks_for_user(&self) -> bool {
        self.without_token == WithoutToken::OwnUser
    }

    fn jwt_of(&self, principal: &str) -> Option<&JwtIssuer> {
        self.jwt.as_deref().filter(|_| principal.starts_with(JWT_PREFIX))
    }

    fn token_of(&self, principal: &str) -> Option<&AccessToken> {
        self.tokens.iter().find(|token| token.name == principal)
    }

    /// Checks the host that the client has asked for. Returns it.
    fn check_hosts(
        &self,
        headers: &HeaderMap,
        authority: Option<&Authority>,
        through: &Through,
    ) -> Result<String, Denied> {
        if let Through::Named { hosts, .. } = through
            && let Some(first) = hosts.first()
        {
            hosts.iter().try_for_each(|host| self.check_host(host))?;
            return Ok(first.clone());
        }
        let header = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        // HTTP/2 has it in the request line.
        let host = header.or_else(|| authority.map(ToString::to_string)).unwrap_or_default();
        self.check_host(&host)?;
        Ok(host)
    }

    fn check_host(&self, host: &str) -> Result<(), Denied> {
        let authority = host.parse::<Authority>().ok();
        let name = authority.as_ref().map(|host| host.host().to_ascii_lowercase()).unwrap_or_default();
        // A page reaches an address under a name of its own, and not under the address itself.
        let is_address = self.without_token != WithoutToken::OwnUser && address_of(&name).is_some();
        let is_named = authority.is_some_and(|host| self.hosts.iter().any(|known| is_host(known, &host)));
        if is_loopback(&name) || is_address || is_named {
            return Ok(());
        }
        Err(Denied::Host(if name.is_empty() { host.to_owned() } else { name }))
    }

    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), Denied> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = String::from_utf8_lossy(origin.as_bytes());
        let is_own = origin.split_once("://").is_some_and(|(_, of_page)| of_page.eq_ignore_ascii_case(host));
        if is_own || self.allows_origin(&origin) { Ok(()) } else { Err(Denied::Origin(origin.into_owned())) }
    }

    fn principal(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        through: Through,
        now: SystemTime,
    ) -> Result<Arc<str>, Denied> {
        let denied = match self.by_token(headers, now) {
            Ok(principal) => return Ok(principal),
            Err(denied) => denied,
        };
        match (self.without_token, through, peer) {
            (WithoutToken::Anyone, ..) | (WithoutToken::OwnUser, Through::Direct, Peer::Own) => Ok(Arc::from(LOCAL)),
            (WithoutToken::Refused, ..) => Err(denied),
            // The proxy may run as the own user; its clients are others.
            (WithoutToken::OwnUser, Through::Unnamed(header), _) => Err(Denied::Forwarded(header)),
            (WithoutToken::OwnUser, Through::Named { .. }, _) => Err(Denied::Proxied),
            (WithoutToken::OwnUser, Through::Direct, Peer::Other(uid)) => Err(Denied::User(uid)),
            (WithoutToken::OwnUser, Through::Direct, Peer::Unknown) => Err(Denied::UnknownUser),
        }
    }

    fn by_token(&self, headers: &HeaderMap, now: SystemTime) -> Result<Arc<str>, Denied> {
        let given = TokenHash::of(bearer(headers).ok_or(Denied::Token)?);
        // All hashes are compared, and each in constant time.
        let found = self.tokens.iter().fold(None, |found, token| if token.hash == given { Some(token) } else { found });
        match found {
            Some(token) if token.expires.is_some_and(|expires| expires <= now) => {
                Err(Denied::Expired(token.name.clone()))
            }
            Some(token) => Ok(Arc::from(token.name.as_str())),
            None => Err(Denied::Token),
        }
    }
}

/// The rules of a running gateway, which can be replaced.
#[derive(Debug)]
pub(super) struct SharedAccess(RwLock<Arc<Access>>);

impl SharedAccess {
    pub(super) fn new(access: Access) -> SharedAccess {
        SharedAccess(RwLock::new(Arc::new(access)))
    }

    pub(super) fn get(&self) -> Arc<Access> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, access: Access) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns whether a configured host is this one. Without a port it stands for all ports.
fn is_host(known: &str, host: &Authority) -> bool {
    let Ok(known) = known.parse::<Authority>() else { return false };
    let is_default = |port: u16| matches!(port, 80 | 443);
    let is_port = known.port_u16().is_none_or(|port| host.port_u16().map_or(is_default(port), |its| its == port));
    is_port && known.host().eq_ignore_ascii_case(host.host())
}

fn address_of(name: &str) -> Option<IpAddr> {
    name.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || address_of(name).is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn check(access: &Access, pairs: &[(&'static str, &str)], peer: Peer) -> Result<Arc<str>, Denied> {
        access.check(&headers(pairs), None, peer, NOW)
    }

    fn token(name: &str, text: &str) -> AccessToken {
        AccessToken::new(name, TokenHash::of(text))
    }

    #[test]
    fn loopback_and_named_hosts_are_allowed() {
        let access = Access { hosts: vec!["mcp.example.com".to_owned()], ..Access::default() };
        for host in ["localhost:7337", "127.0.0.1", "127.0.0.1:80", "[::1]:7337", "MCP.example.com:443"] {
            assert!(check(&access, &[("host", host)], Peer::Own).is_ok(), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a@localhost:1/x"]
        {
            let denied = check(&access, &[("host", host)], Peer::Own).unwrap_err();
            assert!(matches!(denied, Denied::Host(_)), "{host}: {denied:?}");
        }
        assert!(check(&access, &[], Peer::Own).is_err(), "no host at all");
        let authority = Authority::from_static("localhost:7337");
        assert!(access.check(&HeaderMap::new(), Some(&authority), Peer::Own, NOW).is_ok());
    }

    #[test]
    fn host_with_a_port_is_allowed_at_that_port_only() {
        let access =
            Access { hosts: vec!["mcp.example.com:8443".to_owned(), "a.test:443".to_owned()], ..Access::default() };
        let of = |host| check(&access, &[("host", host)], Peer::Own).is_ok();
        assert!(of("mcp.example.com:8443") && !of("mcp.example.com:8444") && !of("mcp.example.com"));
        assert!(of("a.test") && of("a.test:443") && !of("a.test:80"));
    }

    #[test]
    fn request_through_a_proxy_is_not_one_of_the_local_user() {
        let tokens = vec![token("ann", "first")];
        let access = Access { tokens, proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Access::default() };
        let (host, through) = (("host", "localhost"), ("x-forwarded-for", "203.0.113.9"));
        let denied = check(&access, &[host, through], Peer::Own).unwrap_err();
        assert_eq!(denied, Denied::Forwarded("x-forwarded-for".to_owned()));
        assert!(denied.to_string().contains("\"tokens\": ["), "{denied}");
        assert!(check(&access, &[host, through, ("authorization", "Bearer first")], Peer::Own).is_ok());
        let named = Connection { address: Some("10.0.0.1".parse().unwrap()), ..Connection::from(Peer::Own) };
        assert_eq!(access.check(&headers(&[host]), None, named, NOW), Err(Denied::Proxied));
        let open = Access { without_token: WithoutToken::Anyone, ..Access::default() };
        assert!(check(&open, &[host, through], Peer::Own).is_ok());
    }

    #[test]
    fn forwarded_host_of_a_named_proxy_replaces_the_host() {
        let (hosts, proxies) = (vec!["mcp.example.com".to_owned()], vec!["10.0.0.1".parse().unwrap()]);
        let access = Access { hosts, proxies, without_token: WithoutToken::Anyone, ..Access::default() };
        let of = |address: &str, pairs: &[(&'static str, &str)]| {
            let from = Connection { address: Some(address.parse().unwrap()), ..Connection::from(Peer::Unknown) };
            access.check(&headers(pairs), None, from, NOW).is_ok()
        };
        let (backend, forwarded) = (("host", "backend"), ("x-forwarded-host", "mcp.example.com"));
        assert!(of("10.0.0.1", &[backend, forwarded]) && !of("10.0.0.2", &[backend, forwarded]));
        assert!(!of("10.0.0.1", &[("host", "mcp.example.com"), ("x-forwarded-host", "evil.example")]));
        assert!(!of("10.0.0.1", &[backend, forwarded, ("forwarded", "host=evil.example")]), "all must be allowed");
        assert!(of("10.0.0.1", &[backend, forwarded, ("origin", "https://mcp.example.com")]), "its own page");
    }

    #[test]
    fn off_loopback_the_host_may_be_an_address() {
        let tokens = vec![token("ann", "first")];
        let access = Access { tokens, without_token: WithoutToken::Refused, ..Access::default() };
        let of = |host: &str| {
            check(&access, &[("host", host), ("authorization", "Bearer first")], Peer::Unknown)
                .map_err(|why| why.status())
        };
        assert!(of("10.0.0.1:7337").is_ok() && of("[fd00::1]:7337").is_ok());
        assert_eq!(of("evil.example"), Err(http::StatusCode::MISDIRECTED_REQUEST));
    }

    #[test]
    fn foreign_origin_is_refused() {
        let access = Access { origins: vec!["http://localhost:6274".to_owned()], ..Access::default() };
        let of = |origin| check(&access, &[("host", "localhost:7337"), ("origin", origin)], Peer::Own);
        assert!(of("http://localhost:7337").is_ok(), "its own page");
        assert!(of("http://localhost:6274").is_ok());
        for origin in ["http://localhost:6275", "https://evil.example", "null", "http://localhost:7337.evil.example"] {
            assert_eq!(of(origin), Err(Denied::Origin(origin.to_owned())));
        }
    }

    #[test]
    fn token_names_the_principal() {
        let mut narrow = token("ci", "second");
        narrow.servers = Some(vec!["notes".to_owned()]);
        let tokens = vec![token("ann", "first"), narrow];
        let access = Access { tokens, without_token: WithoutToken::Refused, ..Access::default() };
        let of = |value: &str| check(&access, &[("host", "localhost"), ("authorization", value)], Peer::Own);
        assert_eq!(&*of("Bearer first").unwrap(), "ann");
        assert_eq!(&*of("bearer second").unwrap(), "ci");
        for wrong in ["Bearer third", "Basic first", "first", "Bearer", "Bearer "] {
            assert_eq!(of(wrong), Err(Denied::Token), "{wrong}");
        }
        assert_eq!(check(&access, &[("host", "localhost")], Peer::Own), Err(Denied::Token));
        assert!(access.may_use("ann", "mail") && access.may_use("ci", "notes") && !access.may_use("ci", "mail"));
    }

    #[test]
    fn expired_token_opens_nothing() {
        let mut short = token("ci", "first");
        short.expires = Some(NOW + Duration::from_secs(10));
        let access = Access { tokens: vec![short], without_token: WithoutToken::Refused, ..Access::default() };
        let headers = headers(&[("host", "localhost"), ("authorization", "Bearer first")]);
        let at = |seconds| access.check(&headers, None, Peer::Own, NOW + Duration::from_secs(seconds));
        assert!(at(9).is_ok());
        assert_eq!(at(10), Err(Denied::Expired("ci".to_owned())));
    }

    #[test]
    fn other_user_needs_a_token() {
        let access = Access { tokens: vec![token("ann", "first")], ..Access::default() };
        let host = ("host", "localhost");
        assert_eq!(check(&access, &[host], Peer::Own).as_deref(), Ok(LOCAL));
        assert_eq!(check(&access, &[host], Peer::Other(1000)), Err(Denied::User(1000)));
        assert_eq!(check(&access, &[host], Peer::Unknown), Err(Denied::UnknownUser));
        let with_token = [host, ("authorization", "Bearer first")];
        assert_eq!(check(&access, &with_token, Peer::Other(1000)).as_deref(), Ok("ann"));
        let open = Access { without_token: WithoutToken::Anyone, ..Access::default() };
        assert_eq!(check(&open, &[host], Peer::Unknown).as_deref(), Ok(LOCAL));
    }
}
