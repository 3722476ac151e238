//! Redaction: finds secrets in texts and replaces them by `‹secret›`.
//!
//! A server may print its token to stderr, a URL with a password in an error, or a header in a trace. Such text is
//! redacted where it enters, and again before it is written to a file or a terminal. The redactor hides the secrets
//! that it knows (headers, variables, arguments, sessions) in all their encodings (`forms`, `decoded`), and text that
//! looks like a credential (`patterns`). [`Secret`] itself is also shown as `‹secret›`.
//!
//! False positives are acceptable, missed secrets are not. A text is redacted before it is cut. A text that was cut
//! earlier ([`Redactor::redact_cut`]) may end within a secret, and that part is hidden as well. The time is linear in
//! the length of the text, whatever its content is.

mod decoded;
mod forms;
mod patterns;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use memchr::memmem::Finder;
use mendline_core::{Quote, Secret};

use self::decoded::Decoded;
use self::forms::forms;
pub use self::forms::{secrets_of_hidden_url, secrets_of_url};
use super::escaped::Escaped;
use crate::catalogue::is_credential;

/// The minimum length of a secret. Shorter ones would match too many texts.
const MIN_LENGTH: usize = 6;

/// The minimum length from which a secret is also hidden inside of words.
const MIN_SUBSTRING: usize = 8;

/// The minimum length of the beginning of a secret that is hidden at the end of a cut text.
const MIN_PREFIX: usize = 3;

/// The minimum length of a session id that is secret. Shorter ids are counters.
const MIN_SESSION_LENGTH: usize = 16;

/// The limit of known session ids. A server that opens many sessions has ended the older ones.
const MAX_SESSIONS: usize = 32;

/// The limit of known forms of renewed credentials. Older credentials have expired.
const MAX_RENEWED: usize = 256;

/// The replacement of a secret.
const HIDDEN: &str = "‹secret›";

/// The minimum input of a quotation, in bytes: a secret that begins in the quoted part is seen whole.
const QUOTE_INPUT_BYTES: usize = 4 * 1024;

/// Hides secrets. Clones share the known secrets, including those that are learnt later.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Known>>,
}

#[derive(Default)]
struct Known {
    needles: Vec<Needle>,
    /// Session ids, the newest last.
    sessions: VecDeque<Needle>,
    /// Renewed credentials, the newest last.
    renewed: VecDeque<Needle>,
}

/// One form of a secret.
struct Needle {
    finder: Finder<'static>,
    /// Short forms are hidden only as whole words.
    whole_word: bool,
}

impl Needle {
    fn new(form: &str) -> Needle {
        Needle { finder: Finder::new(form.as_bytes()).into_owned(), whole_word: form.len() < MIN_SUBSTRING }
    }

    fn is(&self, form: &str) -> bool {
        self.finder.needle() == form.as_bytes()
    }

    /// Returns its ranges in a text. In a truncated text, this includes its beginning at the end.
    fn ranges(&self, text: &[u8], is_truncated: bool) -> impl Iterator<Item = Range<usize>> {
        let needle = self.finder.needle();
        let whole = self.finder.find_iter(text).map(|at| at..at + needle.len());
        let whole = whole.filter(|range| !self.whole_word || is_whole_word(text, range));
        let lengths = (MIN_PREFIX..needle.len()).rev().filter(move |_| is_truncated);
        let partial = lengths.filter(|length| text.ends_with(&needle[..*length])).take(1);
        whole.chain(partial.map(|length| text.len() - length..text.len()))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Adds secrets.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for form in secrets.into_iter().flat_map(|secret| forms(secret.expose())) {
            if form.len() >= MIN_LENGTH && !known.needles.iter().any(|needle| needle.is(&form)) {
                known.needles.push(Needle::new(&form));
            }
        }
    }

    /// Adds credentials that will be renewed. Forgets the oldest ones above a limit, which have expired.
    pub fn learn_renewed<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for form in secrets.into_iter().flat_map(|secret| forms(secret.expose())) {
            let is_known = known.needles.iter().chain(&known.renewed).any(|needle| needle.is(&form));
            if form.len() >= MIN_LENGTH && !is_known {
                known.renewed.push_back(Needle::new(&form));
            }
        }
        while known.renewed.len() > MAX_RENEWED {
            known.renewed.pop_front();
        }
    }

    /// Adds the id of a session, unless it is so short that it is a counter. Forgets the oldest id above the limit.
    pub fn learn_session(&self, id: &str) {
        let is_known = |known: &Known| known.sessions.iter().rev().any(|needle| needle.is(id));
        if id.len() < MIN_SESSION_LENGTH || is_known(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.sessions.push_back(Needle::new(id));
        if known.sessions.len() > MAX_SESSIONS {
            known.sessions.pop_front();
        }
    }

    /// Returns the text without secrets.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.hide(text, false)
    }

    /// Returns the beginning of a cut text without secrets. Hides the beginning of a secret at its end as well.
    pub fn redact_cut<'a>(&self, beginning: &'a [u8]) -> Cow<'a, [u8]> {
        self.hide(beginning, true)
    }

    /// Returns whether a text contains a known secret in any form.
    pub(crate) fn contains_secret(&self, text: &[u8]) -> bool {
        let mut found = Vec::new();
        self.find_known(text, false, &mut found);
        !found.is_empty()
    }

    fn hide<'a>(&self, text: &'a [u8], is_truncated: bool) -> Cow<'a, [u8]> {
        let mut found = Vec::new();
        self.find_known(text, is_truncated, &mut found);
        patterns::find(text, is_truncated, &mut found);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|range| range.start);
        let mut redacted = Vec::with_capacity(text.len());
        let mut at = 0;
        for range in found {
            // Overlapping ranges become one replacement.
            if range.start >= at {
                redacted.extend_from_slice(&text[at..range.start]);
                redacted.extend_from_slice(HIDDEN.as_bytes());
            }
            at = at.max(range.end);
        }
        redacted.extend_from_slice(&text[at..]);
        Cow::Owned(redacted)
    }

    fn find_known(&self, text: &[u8], is_truncated: bool, found: &mut Vec<Range<usize>>) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.needles.is_empty() && known.sessions.is_empty() && known.renewed.is_empty() {
            return;
        }
        let readings = Decoded::readings(text, is_truncated);
        for needle in known.needles.iter().chain(&known.sessions).chain(&known.renewed) {
            found.extend(needle.ranges(text, is_truncated));
            for reading in &readings {
                found.extend(needle.ranges(&reading.bytes, is_truncated).map(|range| reading.origin(&range)));
                if !needle.whole_word {
                    found.extend(reading.ranges_inside_escapes(needle.finder.needle(), MIN_PREFIX));
                }
            }
        }
    }
}

impl Quote for Redactor {
    fn quote(&self, text: &[u8], longest: usize) -> String {
        let text = match text.get(..longest.max(QUOTE_INPUT_BYTES)) {
            Some(beginning) if beginning.len() < text.len() => self.redact_cut(beginning),
            _ => self.redact(text),
        };
        let mut quoted = Escaped(text.trim_ascii()).to_string();
        quoted.truncate(quoted.floor_char_boundary(longest));
        quoted
    }
}

/// Returns the number of bytes that this thread has scanned since the last call.
#[cfg(test)]
pub(crate) fn bytes_scanned() -> u64 {
    patterns::scan_count::take()
}

/// Returns whether a variable of this name holds a secret. Names of accounts and profiles are not secret, and are often
/// common words.
pub fn holds_a_secret(name: &str) -> bool {
    let identity_words = ["ACCOUNT", "PROFILE", "TENANT"];
    let name = name.to_ascii_uppercase();
    is_credential(&name) && !name.split('_').next_back().is_some_and(|word| identity_words.contains(&word))
}

fn is_whole_word(text: &[u8], range: &Range<usize>) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    !(is_word(range.end) || range.start.checked_sub(1).is_some_and(is_word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn knowing(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::default();
        let secrets: Vec<Secret> = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        redactor.learn(&secrets);
        redactor
    }

    fn shown(redactor: &Redactor, text: &str) -> String {
        String::from_utf8(redactor.redact(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn renewed_credentials_are_hidden_up_to_a_limit() {
        let redactor = Redactor::default();
        for number in 0..1000 {
            redactor.learn_renewed(&[Secret::new(format!("Bearer renewed-token-{number:04}"))]);
        }
        assert_eq!(redactor.known.read().unwrap().renewed.len(), MAX_RENEWED);
        assert_eq!(shown(&redactor, "x renewed-token-0999 y"), format!("x {HIDDEN} y"));
        assert_eq!(shown(&redactor, "x renewed-token-0990 y"), format!("x {HIDDEN} y"));
    }

    #[test]
    fn known_secret_is_hidden_in_every_encoding() {
        let redactor = knowing(&["Bearer s3cr3t/w\"ord", "Basic bWU6b3BlbiBzZXNhbWU="]);
        for text in [
            "said s3cr3t/w\"ord!",
            "xs3cr3t/w\"ordx",
            r#"{"a":"s3cr3t/w\"ord"}"#,
            "http://x/?a=s3cr3t%2Fw%22ord&b=1",
            "open sesame",
            "bWU6b3BlbiBzZXNhbWU=",
        ] {
            let seen = shown(&redactor, text);
            assert!(seen.contains(HIDDEN), "{text}: {seen}");
            assert!(!seen.contains("s3cr3t") && !seen.contains("sesame"), "{text}: {seen}");
        }
        assert_eq!(shown(&redactor, "Bearer of good news"), "Bearer of good news");
    }

    #[test]
    fn short_secret_is_hidden_only_as_a_whole_word() {
        let redactor = knowing(&["hunter2", "abc"]);
        assert_eq!(shown(&redactor, "password is 'hunter2', abc"), "password is '‹secret›', abc");
        assert_eq!(shown(&redactor, "xhunter22"), "xhunter22");
    }

    #[test]
    fn key_of_several_lines_is_hidden_line_by_line() {
        let redactor = knowing(&["-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----"]);
        assert_eq!(shown(&redactor, "  BgkqhkiG9w0B"), "  ‹secret›");
        assert_eq!(shown(&redactor, r"x MIIEvQIBADAN\nBgkqhkiG9w0B"), r"x ‹secret›\n‹secret›");
    }

    #[test]
    fn clones_hide_secrets_that_are_learnt_later() {
        let redactor = Redactor::default();
        let clone = redactor.clone();
        redactor.learn(&[Secret::new("a-new-secret")]);
        assert_eq!(shown(&clone, "it is a-new-secret."), "it is ‹secret›.");
    }

    #[test]
    fn names_of_accounts_are_not_secret() {
        assert!(holds_a_secret("GITHUB_TOKEN") && holds_a_secret("db_password"));
        assert!(!holds_a_secret("AWS_PROFILE") && !holds_a_secret("PATH"));
    }

    #[test]
    fn s06_text_that_was_cut_shows_no_part_of_a_secret() {
        let redactor = knowing(&["a-\"rather/long-secret"]);
        for written in [
            "a-\"rather/long-secret",
            r#"a-\"rather\/long-secret"#,
            r#"\u0061-\\\"\u0072ather/\u006cong-secret"#,
            "a-%22rather%2Flong-secret",
            "Bearer 0123456789abcdef",
            "Basic dXNlcjpwYXNzd29yZA==",
            "ghp_0123456789abcdefghij",
            "eyJhbGciOiJ.eyJzdWIiOiI.c2lnbmF0",
            "password: abcdefghijkl1",
            "https://me:passw0rd-123@host",
            "--token abcdefghijklm",
            "Cookie: a=abcdefghijk",
            "Authorization: Bearer abcdefgh",
        ] {
            let text = format!("some words before {written} and after");
            let end = text.find(" and").unwrap();
            for cut in 0..end {
                let seen = String::from_utf8_lossy(&redactor.redact_cut(&text.as_bytes()[..cut])).into_owned();
                for part in
                    ["a-\"ra", "rath", "long", "0123456", "dXNl", "abcd", "hbGci", "passw0", "me:p", "u0072", "%22"]
                {
                    assert!(!seen.contains(part), "{written} cut at {cut}: {seen}");
                }
            }
        }
        let plain = b"a text that was cut in the midd";
        assert_eq!(redactor.redact_cut(plain), Cow::Borrowed(plain));
    }

    #[test]
    fn s06_quotation_is_redacted_and_escaped_before_it_is_cut() {
        let redactor = knowing(&["CANARYsecretABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]);
        for limit in [200, 300] {
            for before in (limit - 60..=limit + 2).chain(QUOTE_INPUT_BYTES - 60..=QUOTE_INPUT_BYTES) {
                let secret = "CANARYsecretABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
                let text = format!("{}\u{1b}{secret}\n{}", "x".repeat(before), "y".repeat(5_000));
                let quoted = redactor.quote(text.as_bytes(), limit);
                assert!(quoted.len() <= limit && !quoted.contains("CANARY"), "{before}: {quoted}");
                assert!(!quoted.contains(char::is_control), "{before}: {quoted}");
            }
        }
    }

    #[test]
    fn s10_escaped_secret_is_hidden() {
        let redactor = knowing(&["s3cr3t/w\"ord\\x", "key&of<mine>"]);
        for text in [
            r#"{"a":"s3cr3t\/w\"ord\\x"}"#,
            r#"{"a":"\u0073\u0033cr3t\u002fw\u0022ord\u005cx"}"#,
            r#"{"text":"{\"a\":\"s3cr3t/w\\\"ord\\\\x\"}"}"#,
            "GET /?a=s3cr3t%2fw%22ord%5Cx&b=1",
            r#"{"url":"http:\/\/h\/?a=%73%33cr3t%2Fw%22ord%5cx"}"#,
            "<p>key&amp;of&lt;mine&gt;</p>",
        ] {
            let seen = shown(&redactor, text);
            assert!(seen.contains(HIDDEN), "{text}: {seen}");
            assert!(!seen.contains("cr3t") && !seen.contains("ord") && !seen.contains("mine"), "{text}: {seen}");
        }
    }

    #[test]
    fn s10_secret_after_a_stray_escape_sign_is_hidden() {
        let redactor = knowing(&["r\\0+00AA\"z", "0041/abc\"def"]);
        for text in [
            r#"\r\\0+00AA\"z"#,
            r#"{"a":"\\r\\\\0+00AA\\\"z"}"#,
            r#"\u0041/abc\"def"#,
            r#"\\u0041\/abc\u0022def"#,
            "%0041%2Fabc%22def",
            r"\x0041%2fabc%22def",
        ] {
            let seen = shown(&redactor, text);
            assert!(seen.contains(HIDDEN) && !seen.contains("00AA") && !seen.contains("0041"), "{text}: {seen}");
        }
        for (text, cut) in [(r#"\r\\0+00AA\"z"#, 6..13), ("%0041%2Fabc%22def", 6..17)] {
            for cut in cut {
                let seen = String::from_utf8_lossy(&redactor.redact_cut(&text.as_bytes()[..cut])).into_owned();
                assert!(!seen.contains("0+0") && !seen.contains("004"), "{text} cut at {cut}: {seen}");
            }
        }
    }

    #[test]
    fn s10_session_ids_are_hidden_unless_they_are_counters() {
        let redactor = Redactor::default();
        for id in ["1", "session-7", "0d8c1f5e-6b0a-4f6e"] {
            redactor.learn_session(id);
        }
        assert_eq!(shown(&redactor, "session-7 of 1: 0d8c1f5e-6b0a-4f6e"), "session-7 of 1: ‹secret›");
        for number in 0..MAX_SESSIONS {
            redactor.learn_session(&format!("another-session-{number:04}"));
        }
        assert_eq!(redactor.known.read().unwrap().sessions.len(), MAX_SESSIONS);
        assert_eq!(shown(&redactor, "another-session-0031"), HIDDEN);
    }

    proptest! {
        #[test]
        fn known_secret_is_hidden_in_any_text(
            secret in "[A-Za-z0-9/+=\"\\\\@:%. -]{8,40}",
            before in "\\PC{0,40}",
            after in "\\PC{0,40}",
            encoding in 0..3usize,
        ) {
            let secret = secret.trim().to_owned();
            prop_assume!(secret.len() >= MIN_SUBSTRING);
            let json = serde_json::to_string(&secret).unwrap();
            let url: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let written = [secret.clone(), json[1..json.len() - 1].to_owned(), url][encoding].clone();
            let text = format!("{before}{written}{after}");
            let seen = shown(&knowing(&[&secret]), &text);
            prop_assert!(!seen.contains(&written), "{} → {}", text, seen);
        }

        #[test]
        fn redacting_twice_changes_nothing(text in "\\PC{0,200}", secret in "[a-z0-9]{8,20}") {
            let redactor = knowing(&[&secret]);
            let once = shown(&redactor, &text);
            prop_assert_eq!(shown(&redactor, &once), once);
        }

        #[test]
        fn any_bytes_can_be_redacted(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let redactor = knowing(&["some secret"]);
            prop_assert!(redactor.redact(&text).len() <= text.len() * HIDDEN.len() + HIDDEN.len());
            redactor.redact_cut(&text);
            prop_assert!(redactor.quote(&text, 50).len() <= 50);
        }
    }
}
