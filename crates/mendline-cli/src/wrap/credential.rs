//! Credentials of an entry, and names of secrets.
//!
//! A server at a URL without a credential in its headers either needs none, or the client logs in by itself: the file
//! does not tell. A login of the client is not one of Mendline, so the difference matters.

use crate::plan::exposure::{host, is_this_machine};

/// Returns whether one of these headers looks like a credential.
pub(crate) fn any<'a>(mut headers: impl Iterator<Item = &'a str>) -> bool {
    headers.any(is_secret)
}

/// Returns whether something of this name is likely to be a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password", "credential", "bearer"]
        .iter()
        .any(|part| name.contains(part))
}

/// Returns whether a URL is on this machine, where no login is needed.
pub(crate) fn is_local(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host_and_port)| host_and_port);
    is_this_machine(host(host_and_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_urls_are_recognized() {
        for url in [
            "http://localhost:80/x",
            "http://LOCALHOST./",
            "http://app.localhost/",
            "http://127.0.0.1",
            "https://[::1]:1/",
            "http://127.9.9.9/",
            "http://[::ffff:127.0.0.1]/",
            "http://me:x@localhost/",
        ] {
            assert!(is_local(url), "{url}");
        }
    }

    #[test]
    fn host_that_only_begins_like_a_local_one_is_remote() {
        for url in [
            "http://127.evil.test/",
            "http://127.0.0.1.evil.test/",
            "http://localhost.example.com",
            "http://notlocalhost/",
            "http://localhost@evil.test/",
            "http://127.0.0.1:80@evil.test/",
            "https://example.com/127.0.0.1",
            "https://evil.test?http://localhost/",
            "http://[::2]/",
            "localhost",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn credentials_are_recognized_by_name() {
        assert!(any(["X-Region", "x-api-KEY"].into_iter()) && any(["Authorization"].into_iter()));
        assert!(!any(["X-Region", "Accept"].into_iter()));
    }
}
