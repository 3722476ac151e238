//! Origins and locations: parsing URLs and resolving references.
//!
//! Credentials go to one origin only: scheme, host and port. A URL that the server names (the endpoint of a legacy SSE
//! stream, the target of a redirect) is resolved against the URL of the response and compared with that origin. The
//! resolver implements RFC 3986 and nothing more; text with characters that no URL may contain is refused, not
//! repaired.

use std::fmt;

use http::Uri;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub(super) secure: bool,
    /// Lower case; an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// An origin with a path and a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) origin: Origin,
    /// Path and query, beginning with a slash.
    pub(super) path: String,
}

/// The reason why a text is not the URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlFault {
    /// It is not a URL.
    NotAUrl,
    /// Its scheme is neither `http` nor `https`.
    Scheme(String),
    /// It contains a user name or password, which belong in a header.
    Credentials,
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlFault::NotAUrl => f.write_str("this is not a URL"),
            UrlFault::Scheme(scheme) => write!(f, "the scheme must be http or https, not {scheme}"),
            UrlFault::Credentials => {
                f.write_str("the URL holds a user name or password; send them in a header instead")
            }
        }
    }
}

impl std::error::Error for UrlFault {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host_header())
    }
}

impl Origin {
    /// The host, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// Host and port as in a URL and in the Host header: without the default port.
    pub(super) fn host_header(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { bracketed(&self.host) } else { self.host_and_port() }
    }

    /// Host and port, also the default port.
    pub(super) fn host_and_port(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl Location {
    /// Parses the URL of a server as an operator writes it.
    pub(super) fn parse(url: &str) -> Result<Location, UrlFault> {
        let url = url.split('#').next().unwrap_or_default();
        if !is_valid_text(url) {
            return Err(UrlFault::NotAUrl);
        }
        let uri: Uri = url.parse().map_err(|_| UrlFault::NotAUrl)?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(UrlFault::Scheme(other.to_owned())),
            None => return Err(UrlFault::NotAUrl),
        };
        let authority = uri.authority().ok_or(UrlFault::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(UrlFault::Credentials);
        }
        let host = host_of(authority.host()).ok_or(UrlFault::NotAUrl)?;
        // The parser drops a port that is not a number, which would lead to another server.
        let named_port = authority.as_str()[authority.host().len()..].trim_start_matches(':');
        if authority.port_u16().is_none() && !named_port.is_empty() {
            return Err(UrlFault::NotAUrl);
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Location { origin: Origin { secure, host, port }, path: rooted(path) })
    }

    /// Resolves a reference relative to this location.
    pub(super) fn resolve(&self, reference: &str) -> Result<Location, UrlFault> {
        let reference = reference.split('#').next().unwrap_or_default();
        if !is_valid_text(reference) {
            return Err(UrlFault::NotAUrl);
        }
        if has_scheme(reference) {
            return Location::parse(reference);
        }
        if reference.starts_with("//") {
            return Location::parse(&format!("{}:{reference}", self.origin.scheme()));
        }
        let (base, base_query) =
            self.path.split_once('?').map_or((&*self.path, None), |(path, query)| (path, Some(query)));
        let (path, query) = reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
        let (path, query) = if path.is_empty() {
            (base.to_owned(), query.or(base_query))
        } else if path.starts_with('/') {
            (without_dots(path), query)
        } else {
            let folder = base.rfind('/').map_or("/", |slash| &base[..=slash]);
            (without_dots(&format!("{folder}{path}")), query)
        };
        let path = query.map_or(path.clone(), |query| format!("{path}?{query}"));
        path.parse::<Uri>().map_err(|_| UrlFault::NotAUrl)?;
        Ok(Location { origin: self.origin.clone(), path })
    }
}

/// Removes the brackets, which are allowed only around an IPv6 address.
fn host_of(written: &str) -> Option<String> {
    let inside = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_valid =
        |host: &str| !host.is_empty() && !host.contains(['[', ']']) && host.contains(':') == inside.is_some();
    Some(inside.unwrap_or(written)).filter(|host| is_valid(host)).map(str::to_ascii_lowercase)
}

/// Returns whether a text has no character that a URL must not contain and that parsers treat differently.
fn is_valid_text(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Returns whether a reference begins with `name:` before any slash or question mark.
fn has_scheme(reference: &str) -> bool {
    let name = reference.split([':', '/', '?']).next().unwrap_or_default();
    reference[name.len()..].starts_with(':')
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Removes `.` and `..` segments, which never lead above the root.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: &str) -> Location {
        Location::parse(url).unwrap()
    }

    fn shown(location: &Location) -> String {
        format!("{}{}", location.origin, location.path)
    }

    #[test]
    fn url_is_parsed_into_origin_and_path() {
        for (url, expected) in [
            ("http://Example.COM", "http://example.com/"),
            ("https://example.com:443/mcp?a=1#part", "https://example.com/mcp?a=1"),
            ("http://[::1]:8080/mcp", "http://[::1]:8080/mcp"),
            ("https://example.com:80?q", "https://example.com:80/?q"),
        ] {
            assert_eq!(shown(&location(url)), expected);
        }
        assert_eq!(location("http://[::1]/").origin.host, "::1");
        assert_eq!(location("http://[::1]/").origin.host_and_port(), "[::1]:80");
    }

    #[test]
    fn invalid_urls_are_refused_with_their_fault() {
        assert_eq!(Location::parse("ftp://x/"), Err(UrlFault::Scheme("ftp".into())));
        assert_eq!(Location::parse("http://me:pw@x/"), Err(UrlFault::Credentials));
        for not in
            ["", "/mcp", "x", "http://", "http:///a", "http://x/a b", "http://x\\y/", "http://x:99999/", "http://ü/"]
        {
            assert_eq!(Location::parse(not), Err(UrlFault::NotAUrl), "{not}");
        }
    }

    #[test]
    fn s11_brackets_belong_around_an_address_and_nowhere_else() {
        for not in ["https://server.tes[::1]:80/", "http://[abc]/", "http://[]/", "http://[::1/", "http://a]/"] {
            assert_eq!(Location::parse(not), Err(UrlFault::NotAUrl), "{not}");
        }
    }

    #[test]
    fn references_are_resolved_by_rfc_3986() {
        let base = location("http://a.test/b/c/d?q");
        for (reference, expected) in [
            ("g", "http://a.test/b/c/g"),
            ("./g", "http://a.test/b/c/g"),
            ("g/", "http://a.test/b/c/g/"),
            ("/g", "http://a.test/g"),
            ("//g.test/x", "http://g.test/x"),
            ("?y", "http://a.test/b/c/d?y"),
            ("g?y", "http://a.test/b/c/g?y"),
            ("", "http://a.test/b/c/d?q"),
            ("#s", "http://a.test/b/c/d?q"),
            (".", "http://a.test/b/c/"),
            ("..", "http://a.test/b/"),
            ("../g", "http://a.test/b/g"),
            ("../../../g", "http://a.test/g"),
            ("/./g/../h", "http://a.test/h"),
            ("g?a=/../b", "http://a.test/b/c/g?a=/../b"),
            ("https://a.test/x", "https://a.test/x"),
            ("messages?id=a:b", "http://a.test/b/c/messages?id=a:b"),
        ] {
            assert_eq!(shown(&base.resolve(reference).unwrap()), expected, "{reference}");
        }
    }

    #[test]
    fn deceptive_references_are_refused_or_change_origin() {
        let base = location("http://a.test/sse");
        for reference in ["/a b", "\\\\evil.test/", "/a\r\nX: y", "javascript:alert(1)", "http://a.test@evil.test/"] {
            assert!(base.resolve(reference).is_err(), "{reference}");
        }
        assert_ne!(base.resolve("//evil.test/").unwrap().origin, base.origin);
        assert_ne!(base.resolve("http://a.test:81/").unwrap().origin, base.origin);
        assert_ne!(base.resolve("https://a.test/").unwrap().origin, base.origin);
        assert_eq!(base.resolve("http://A.test:80/x").unwrap().origin, base.origin);
    }
}
