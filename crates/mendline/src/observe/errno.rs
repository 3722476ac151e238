//! Finds system errors and HTTP statuses in texts.
//!
//! Node prints `ECONNREFUSED`, Python `[Errno 111]`, Rust `os error 111`, Go and libc `connection refused`, and
//! Mendline prints a sentence. A log line has the name of the error, so that one search finds all of these.

use crate::os::errors::ERRORS;
pub use crate::os::errors::SystemError;

/// The words of Mendline for system errors, where they do not contain the system's message.
const OUR_WORDS: &[(&str, &[&str])] = &[
    ("ECONNRESET", &["connection was reset"]),
    ("ENOENT", &["was not found; is it installed", "was not started: its directory"]),
    ("EACCES", &["may not be run; is it a program"]),
    ("ENOEXEC", &["is no program for this machine"]),
    ("EHOSTUNREACH", &["there is no route to"]),
    (
        "ETIMEDOUT",
        &[
            "did not answer within",
            "no answer after",
            "handshake within",
            "handshake in time",
            "made no tunnel within",
            "could not be looked up within",
        ],
    ),
];

impl SystemError {
    /// Returns whether a text mentions the error, in the words of the system, of a programming language or of Mendline.
    pub fn is_in(self, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        let ours = OUR_WORDS.iter().filter(|(name, _)| *name == self.name).flat_map(|(_, words)| *words);
        SystemError::find_in(text) == Some(self)
            || has_word(&text.to_ascii_uppercase(), self.name)
            || ours.into_iter().any(|words| lower.contains(words))
    }

    /// Returns the error of this name.
    pub fn named(name: &str) -> Option<SystemError> {
        ERRORS.iter().find(|error| error.name.eq_ignore_ascii_case(name)).copied()
    }

    /// Returns the first error that a text mentions.
    pub(crate) fn find_in(text: &str) -> Option<SystemError> {
        let lower = text.to_ascii_lowercase();
        let numbered = ["os error ", "errno ", "errno: "].iter().find_map(|prefix| {
            let rest = &lower[lower.find(prefix)? + prefix.len()..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number = rest[..digits].parse::<i32>().ok()?;
            ERRORS.iter().find(|error| error.number == number)
        });
        let matches = |error: &&SystemError| lower.contains(error.message) || has_word(text, error.name);
        numbered.or_else(|| ERRORS.iter().find(matches)).copied()
    }
}

/// Returns the HTTP status that a text mentions: `HTTP 503`, `HTTP/1.1 503`, `status 503`, `status code: 503`.
pub fn find_http_status(text: &str) -> Option<u16> {
    let lower = text.to_ascii_lowercase();
    let prefixes =
        ["http ", "http/1.1 ", "http/1.0 ", "http/2 ", "status ", "status: ", "status=", "status code ", "code: "];
    prefixes.iter().find_map(|prefix| {
        lower.match_indices(prefix).find_map(|(at, _)| {
            let rest = &lower.as_bytes()[at + prefix.len()..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let status = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
            (digits == 3 && (100..600).contains(&status)).then_some(status)
        })
    })
}

/// Returns whether a text contains a word that is not part of a longer one.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).any(|(at, _)| {
        let bytes = text.as_bytes();
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before))) && !is_part(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn system_error_is_found_in_every_spelling() {
        for text in [
            "connect ECONNREFUSED 127.0.0.1:1",
            "[Errno 111] Connection refused",
            "tcp connect error (os error 111)",
            "dial tcp 127.0.0.1:1: connect: connection refused",
            "nothing listens on 127.0.0.1:1 (connection refused)",
        ] {
            assert_eq!(SystemError::find_in(text).unwrap().name, "ECONNREFUSED", "{text}");
        }
        assert_eq!(SystemError::find_in("timed out (os error 110)").unwrap().name, "ETIMEDOUT");
        assert_eq!(SystemError::find_in("all is well, PIPELINE 32"), None);
        assert_eq!(SystemError::find_in("os error 99999"), None);
        assert_eq!(SystemError::named("etimedout").unwrap().number, Errno::TIMEDOUT.raw_os_error());
    }

    #[test]
    fn system_error_is_found_in_words_of_mendline() {
        let missing = SystemError::named("ENOENT").unwrap();
        assert!(missing.is_in("`x` was not found; is it installed and on PATH?") && missing.is_in("errno 2"));
        assert!(!missing.is_in("the tool was not found") && !missing.is_in("timed out"));
        assert!(SystemError::named("ETIMEDOUT").unwrap().is_in("x:80 did not answer within 5 s"));
        for (name, _) in OUR_WORDS {
            assert!(SystemError::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn http_status_is_found_only_after_a_keyword() {
        for text in
            ["the server answered HTTP 503", "HTTP/1.1 503 Service Unavailable", "status code 503", "status=503"]
        {
            assert_eq!(find_http_status(text), Some(503), "{text}");
        }
        for text in ["call 503 answered", "HTTP 5031", "http 99", "status unknown"] {
            assert_eq!(find_http_status(text), None, "{text}");
        }
    }
}
