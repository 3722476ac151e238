//! Credentials that would leave this machine unencrypted.
//!
//! Data sent to an `http://` URL on another machine can be read by every machine on the path, so a credential goes
//! there only with `--allow-http` (`allowHttp` in a file). A credential is a header with such a name or form, such a
//! parameter of the query, or a key in the query or in the path. In case of doubt, a value counts as a credential.

use std::net::IpAddr;

use crate::wrap::credential;

/// The beginnings of header values that are credentials, whatever the name of the header.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "digest ", "token "];

/// Minimum length at which a word with digits looks like a key.
const KEY: usize = 16;

/// Returns the credential that a request with these headers would expose on the network, without its value.
pub(crate) fn exposed<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let rest = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &url[7..])?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (user, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    if is_this_machine(host(host_and_port)) {
        return None;
    }
    let is_header = |(name, value): &(&str, &str)| {
        let value = value.trim_start().to_ascii_lowercase();
        credential::is_secret(name) || SCHEMES.iter().any(|scheme| value.starts_with(scheme))
    };
    let is_parameter = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        !value.is_empty() && (credential::is_secret(name) || looks_like_a_key(value))
    };
    let what = if let Some((name, _)) = headers.into_iter().find(is_header) {
        format!("the header {name}")
    } else if !user.is_empty() {
        "the user in the URL".to_owned()
    } else if query.split('&').any(is_parameter) {
        "the query of the URL".to_owned()
    } else if path.split('/').any(looks_like_a_key) {
        "the path of the URL".to_owned()
    } else {
        return None;
    };
    Some(format!("{what} would go to http://{host_and_port} unencrypted"))
}

/// Returns the host without its port; an IPv6 address without its brackets.
pub(crate) fn host(host_and_port: &str) -> &str {
    match host_and_port.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host_and_port.split(':').next().unwrap_or_default(),
    }
}

/// Returns whether requests to this host stay on this machine.
pub(crate) fn is_this_machine(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        // A connection to the unspecified address stays on this machine.
        return address.is_loopback() || address.is_unspecified();
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn looks_like_a_key(word: &str) -> bool {
    word.len() >= KEY && word.contains(|c: char| c.is_ascii_digit()) && !word.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEARER: (&str, &str) = ("Authorization", "Bearer CANARY");

    #[test]
    fn s10_credential_over_http_to_another_host_is_found() {
        for (url, header, what) in [
            ("http://mcp.test/mcp", BEARER, "the header Authorization"),
            ("HTTP://mcp.test:8080/mcp", ("cookie", "CANARY"), "the header cookie"),
            ("http://10.0.0.7/", ("X-Api-Key", "CANARY"), "the header X-Api-Key"),
            ("http://[fd12::1]:80/", ("X-Any", "basic CANARY"), "the header X-Any"),
            ("http://127.0.0.1.evil.test/", BEARER, "the header Authorization"),
            ("http://127.evil.test/", BEARER, "the header Authorization"),
            ("http://localhost.evil.test/", BEARER, "the header Authorization"),
            ("http://localhost@evil.test/", BEARER, "the header Authorization"),
            ("http://me:CANARY@mcp.test/", ("Accept", "x"), "the user in the URL"),
            ("http://mcp.test/mcp?api_key=CANARY", ("Accept", "x"), "the query of the URL"),
            ("http://mcp.test?CANARY0123456789abc", ("Accept", "x"), "the query of the URL"),
            ("http://mcp.test/s/CANARY0123456789abc/mcp", ("Accept", "x"), "the path of the URL"),
        ] {
            let found = exposed(url, [("Accept", "x"), header]).unwrap_or_else(|| panic!("{url}"));
            assert!(found.starts_with(&format!("{what} would go to http://")), "{url}: {found}");
            assert!(!found.contains("CANARY"), "{url}: {found}");
        }
    }

    #[test]
    fn s10_credential_that_stays_here_or_is_encrypted_is_not_found() {
        for url in [
            "https://mcp.test/s/CANARY0123456789abc?key=CANARY",
            "http://localhost:3000/mcp?key=CANARY",
            "http://LOCALHOST./",
            "http://app.localhost/",
            "http://127.0.0.1/",
            "http://127.9.9.9:80/",
            "http://[::1]:80/mcp",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0:8000/",
        ] {
            assert_eq!(exposed(url, [BEARER]), None, "{url}");
        }
        let open = [("Accept", "x"), ("X-Region", "eu"), ("User-Agent", "a")];
        for url in
            ["http://mcp.test/mcp", "http://mcp.test/a/b?team=blue&page=2", "http://mcp.test/docs/v1.2.3.4.5.6.7.8"]
        {
            assert_eq!(exposed(url, open), None, "{url}");
        }
    }
}
