//! Proxy settings and tunnels.
//!
//! `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, have the same meaning as for curl: the
//! lower-case name has priority, `NO_PROXY` is a list of names that include their subdomains, and `*` means every host.
//! A server on this machine is never reached through a proxy. The caller reads the environment.
//!
//! `hyper_util::client::proxy::matcher` is not used: its exceptions have no ports (`host:81`) and no `*.name`, and it
//! ignores a value that names no usable proxy, which is an error here. It would also add a crate for networks.
//!
//! An HTTPS server is reached through a tunnel (`CONNECT`), so that the proxy sees a host name and encrypted bytes. For
//! an HTTP server, the proxy gets the request with the full URL.

use mendline_core::reason::ProxyError;
use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::origin::{Location, Origin};

/// The longest response to `CONNECT` that is read.
const MAX_RESPONSE: usize = 8 * 1024;

/// The proxies for HTTP and HTTPS, and the exceptions.
#[derive(Clone, Debug, Default)]
pub struct ProxyRules {
    plain: Option<Proxy>,
    secure: Option<Proxy>,
    none: Vec<Exception>,
}

/// One proxy.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) authorization: Option<HeaderValue>,
}

/// One entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    /// A host and its subdomains, perhaps only at one port.
    Host {
        name: String,
        port: Option<u16>,
    },
}

/// A variable that does not name a usable proxy, and the reason. Never shows its value, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyFault {
    /// The variable.
    pub variable: String,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.why)
    }
}

impl std::error::Error for ProxyFault {}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl ProxyRules {
    /// Reads the proxy variables of an environment.
    pub fn from_variables<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<ProxyRules, ProxyFault>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut rules = ProxyRules::default();
        // The lower-case name has priority, whatever the order.
        let mut is_set = [false; 3];
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref().trim());
            let which = match name {
                "http_proxy" | "HTTP_PROXY" => 0,
                "https_proxy" | "HTTPS_PROXY" => 1,
                "no_proxy" | "NO_PROXY" => 2,
                _ => continue,
            };
            let lower = name.starts_with(|first: char| first.is_ascii_lowercase());
            if is_set[which] && !lower {
                continue;
            }
            is_set[which] |= lower;
            match which {
                0 => rules.plain = Proxy::parse(name, value)?,
                1 => rules.secure = Proxy::parse(name, value)?,
                _ => rules.none = value.split([',', ' ']).filter_map(Exception::parse).collect(),
            }
        }
        Ok(rules)
    }

    /// Returns the proxy for this origin, if any.
    pub(super) fn proxy_for(&self, origin: &Origin) -> Option<&Proxy> {
        if is_this_machine(&origin.host) || self.none.iter().any(|exception| exception.covers(origin)) {
            return None;
        }
        if origin.secure { self.secure.as_ref() } else { self.plain.as_ref() }
    }
}

/// Returns whether a host is this machine by its name or address.
pub(super) fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Exception {
    fn parse(entry: &str) -> Option<Exception> {
        let entry = entry.trim().to_ascii_lowercase();
        if entry.is_empty() {
            return None;
        }
        if entry == "*" {
            return Some(Exception::Everything);
        }
        // An IPv6 address contains colons; it has a port only after brackets.
        let (name, port) = match entry.strip_prefix('[').and_then(|entry| entry.split_once(']')) {
            Some((address, rest)) => (address.to_owned(), rest.strip_prefix(':').and_then(|port| port.parse().ok())),
            None if entry.parse::<IpAddr>().is_ok() => (entry, None),
            None => match entry.split_once(':') {
                Some((name, port)) => (name.to_owned(), Some(port.parse().ok()?)),
                None => (entry, None),
            },
        };
        let name = name.trim_start_matches("*.").trim_start_matches('.').to_owned();
        Some(Exception::Host { name, port })
    }

    fn covers(&self, origin: &Origin) -> bool {
        match self {
            Exception::Everything => true,
            Exception::Host { name, port } => {
                let below =
                    origin.host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                below && port.is_none_or(|port| port == origin.port)
            }
        }
    }
}

impl Proxy {
    /// An empty value means no proxy.
    fn parse(variable: &str, value: &str) -> Result<Option<Proxy>, ProxyFault> {
        let fault = |why| ProxyFault { variable: variable.to_owned(), why };
        if value.is_empty() {
            return Ok(None);
        }
        let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(fault("only proxies that are spoken to over plain HTTP (http://…) are supported"));
        }
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, authority) =
            rest.rsplit_once('@').map_or((None, rest), |(before, after)| (Some(before), after));
        let location = Location::parse(&format!("http://{authority}/"))
            .map_err(|_| fault("it does not name a host and a port"))?;
        let authorization =
            credentials.map(basic).transpose().map_err(|()| fault("its user name or password cannot be sent"))?;
        Ok(Some(Proxy { host: location.origin.host, port: location.origin.port, authorization }))
    }
}

/// Turns a percent-encoded `user:password` into a header value.
fn basic(credentials: &str) -> Result<HeaderValue, ()> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let mut plain = percent_decoded(user)?;
    plain.push(b':');
    plain.extend(percent_decoded(password)?);
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(plain))).map_err(drop)?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, ()> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(drop)?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    Ok(bytes)
}

/// Requests a tunnel from the proxy at the other end of `io`.
pub(super) async fn tunnel<Io>(io: &mut Io, proxy: &Proxy, origin: &Origin) -> Result<(), ProxyError>
where
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let authority = origin.host_and_port();
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    io.write_all(&request).await.map_err(|error| ProxyError::Broken { error: error.to_string() })?;
    io.flush().await.map_err(|error| ProxyError::Broken { error: error.to_string() })?;
    // Read byte by byte up to the blank line: the bytes after it belong to the tunnel. This happens once per
    // connection.
    let mut response = Vec::with_capacity(256);
    while !response.ends_with(b"\r\n\r\n") {
        if response.len() == MAX_RESPONSE {
            return Err(ProxyError::TooLong);
        }
        match io.read_u8().await {
            Ok(byte) => response.push(byte),
            Err(_) => return Err(ProxyError::Closed),
        }
    }
    let line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
    // Only the three digits are quoted: the rest may repeat the credentials.
    let status = match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', status @ ..] => status.split(|byte| *byte == b' ').next(),
        _ => None,
    };
    let status = status.filter(|status| status.len() == 3 && status.iter().all(u8::is_ascii_digit));
    match status.and_then(|status| str::from_utf8(status).ok()) {
        Some("200") => Ok(()),
        Some("407") => Err(ProxyError::Credentials),
        Some("403") => Err(ProxyError::Forbidden { target: authority }),
        None => Err(ProxyError::NotHttp),
        Some(status) => Err(ProxyError::Status { target: authority, status: status.parse().unwrap_or_default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Location::parse(url).unwrap().origin
    }

    fn rules(variables: &[(&str, &str)]) -> ProxyRules {
        ProxyRules::from_variables(variables.iter().copied()).unwrap()
    }

    #[test]
    fn scheme_selects_proxy_and_lower_case_has_priority() {
        for order in [["HTTP_PROXY", "http_proxy"], ["http_proxy", "HTTP_PROXY"]] {
            let value = |name: &str| if name == "http_proxy" { "lower:1" } else { "upper:1" };
            let rules =
                rules(&[(order[0], value(order[0])), (order[1], value(order[1])), ("HTTPS_PROXY", "http://s:2/")]);
            assert_eq!(rules.proxy_for(&origin("http://x.test")).unwrap().host, "lower");
            let secure = rules.proxy_for(&origin("https://x.test")).unwrap();
            assert_eq!((&*secure.host, secure.port), ("s", 2));
        }
        assert!(rules(&[("PATH", "/bin")]).proxy_for(&origin("http://x.test")).is_none());
        assert!(rules(&[("http_proxy", ""), ("HTTP_PROXY", "x:1")]).proxy_for(&origin("http://x.test")).is_none());
    }

    #[test]
    fn exceptions_include_subdomains() {
        let rules =
            rules(&[("http_proxy", "p:1"), ("NO_PROXY", "example.com, .corp, *.lan,10.0.0.1,h:81,[2001:db8::1]:80")]);
        for (url, proxied) in [
            ("http://example.com", false),
            ("http://a.b.example.com", false),
            ("http://badexample.com", true),
            ("http://x.corp", false),
            ("http://x.lan", false),
            ("http://10.0.0.1:99", false),
            ("http://10.0.0.11", true),
            ("http://h:81", false),
            ("http://h:82", true),
            ("http://[2001:db8::1]", false),
            ("http://[2001:db8::1]:81", true),
        ] {
            assert_eq!(rules.proxy_for(&origin(url)).is_some(), proxied, "{url}");
        }
    }

    #[test]
    fn star_excludes_all_and_local_hosts_are_never_proxied() {
        let starred = rules(&[("http_proxy", "p:1"), ("no_proxy", "*")]);
        assert!(starred.proxy_for(&origin("http://x.test")).is_none());
        let bare = rules(&[("http_proxy", "p:1")]);
        for here in ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:9", "http://a.localhost"] {
            assert!(bare.proxy_for(&origin(here)).is_none(), "{here}");
        }
    }

    #[test]
    fn credentials_become_a_header_that_is_not_printed() {
        let rules = rules(&[("https_proxy", "http://me:p%40ss@proxy.test:3128")]);
        let proxy = rules.proxy_for(&origin("https://x.test")).unwrap();
        assert_eq!(proxy.authorization.as_ref().unwrap(), &format!("Basic {}", STANDARD.encode("me:p@ss")));
        let shown = format!("{rules:?} {:?}", proxy.authorization);
        assert!(!shown.contains("ss") && !shown.contains(&STANDARD.encode("me:p@ss")), "{shown}");
    }

    #[test]
    fn unusable_proxy_is_reported_without_its_value() {
        for value in ["socks5://hunter2@x", "http://", "http://a:b:hunter2", "http://%zz:hunter2@x:1"] {
            let fault = ProxyRules::from_variables([("HTTPS_PROXY", value)]).unwrap_err();
            assert_eq!(fault.variable, "HTTPS_PROXY");
            assert!(!fault.to_string().contains("hunter2"));
        }
    }

    async fn tunnel_with(response: &'static [u8]) -> (Result<(), ProxyError>, String) {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        let proxy = Proxy::parse("x", "http://u:p@proxy.test:3128").unwrap().unwrap();
        let serve = async move {
            let mut request = vec![0; 1024];
            let count = theirs.read(&mut request).await.unwrap();
            theirs.write_all(response).await.unwrap();
            drop(theirs);
            String::from_utf8_lossy(&request[..count]).into_owned()
        };
        let secure = origin("https://x.test");
        tokio::join!(tunnel(&mut ours, &proxy, &secure), serve)
    }

    #[tokio::test]
    async fn tunnel_request_names_host_and_refusals_are_reported() {
        let (made, request) = tunnel_with(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n").await;
        assert_eq!(made, Ok(()));
        assert_eq!(
            request,
            "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        );
        let target = || "x.test:443".to_owned();
        for (response, error) in [
            (&b"HTTP/1.1 407 x\r\n\r\n"[..], ProxyError::Credentials),
            (b"HTTP/1.0 403 x\r\n\r\n", ProxyError::Forbidden { target: target() }),
            (b"HTTP/1.1 502 x\r\n\r\n", ProxyError::Status { target: target(), status: 502 }),
            (b"SSH-2.0\r\n\r\n", ProxyError::NotHttp),
            (b"HTTP/1.1 503\r\n\r\n", ProxyError::Status { target: target(), status: 503 }),
            (b"HTTP/1.1 \x1b[2Jdenied\r\n\r\n", ProxyError::NotHttp),
            (b"HTTP/1.1 200", ProxyError::Closed),
        ] {
            assert_eq!(tunnel_with(response).await.0, Err(error));
        }
    }

    #[tokio::test]
    async fn s01_status_text_of_a_proxy_is_not_quoted() {
        let failed = Err(ProxyError::NotHttp);
        for response in [
            &b"HTTP/1.1 Basic_dTpw x\r\n\r\n"[..],
            b"HTTP/1.1 5022 x\r\n\r\n",
            b"HTTP/1.1 5\x1b[2J x\r\n\r\n",
            b"HTTP/1.1  502 x\r\n\r\n",
            b"HTTP/1.123 dTpw\r\n\r\n",
        ] {
            assert_eq!(tunnel_with(response).await.0, failed, "{response:?}");
        }
    }
}
