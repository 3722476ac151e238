//! What must not be written, found in what is about to be.
//!
//! A server prints its own token into its stderr, a URL with a password into an error, a whole header into a trace. Two
//! things are hidden before a line reaches a file or a terminal: the secrets that we were given ourselves (headers,
//! variables, arguments), wherever they stand and however they are written, and what by its looks is a credential
//! (`shapes`). What is hidden reads `‹secret›`, as [`Secret`] itself does.
//!
//! Hiding too much costs a reader a word; hiding too little costs somebody an account. In doubt it is hidden. This runs on
//! the threads that write, never on the one that carries calls.

mod shapes;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem::Finder;
use mendline_core::Secret;

use crate::catalogue::is_credential;

/// A secret shorter than this is found in too many places to mean anything.
const SHORTEST: usize = 6;

/// From this length on a secret is hidden inside of words, too.
const UNMISTAKABLE: usize = 8;

/// What stands in place of what is hidden.
const HIDDEN: &str = "‹secret›";

/// How much of a text is looked at, when only its beginning is kept anyway.
const LOOKED_AT: usize = 64 * 1024;

/// Hides secrets. Clones know the same ones, also those that are learnt later.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Vec<Needle>>>,
}

/// One way in which a secret may be written.
struct Needle {
    finder: Finder<'static>,
    /// Short ones are hidden only where they stand alone.
    alone: bool,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// From now on these are hidden, too.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for form in secrets.into_iter().flat_map(|secret| forms(secret.expose())) {
            let is_known = |needle: &Needle| needle.finder.needle() == form.as_bytes();
            if form.len() >= SHORTEST && !known.iter().any(is_known) {
                let alone = form.len() < UNMISTAKABLE;
                known.push(Needle { finder: Finder::new(form.as_bytes()).into_owned(), alone });
            }
        }
    }

    /// The text without what must not be seen.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut found = Vec::new();
        for needle in self.known.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let length = needle.finder.needle().len();
            let places = needle.finder.find_iter(text).map(|at| at..at + length);
            found.extend(places.filter(|place| !needle.alone || stands_alone(text, place)));
        }
        shapes::find(text, &mut found);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|place| place.start);
        let mut redacted = Vec::with_capacity(text.len());
        let mut at = 0;
        for place in found {
            // What overlaps something hidden is hidden with it, under one sign.
            if place.start >= at {
                redacted.extend_from_slice(&text[at..place.start]);
                redacted.extend_from_slice(HIDDEN.as_bytes());
            }
            at = at.max(place.end);
        }
        redacted.extend_from_slice(&text[at..]);
        Cow::Owned(redacted)
    }

    /// The beginning of a text that is longer than `longest`, redacted before it is cut: half a secret is one, too.
    pub fn beginning<'a>(&self, text: &'a [u8], longest: usize) -> Cow<'a, [u8]> {
        if text.len() <= longest {
            return Cow::Borrowed(text);
        }
        let mut looked_at = &text[..text.len().min(LOOKED_AT)];
        if looked_at.len() < text.len() {
            // A word that we see only half of could be a secret that we do not recognise.
            let words_end = looked_at.iter().rposition(u8::is_ascii_whitespace);
            looked_at = &looked_at[..words_end.unwrap_or(longest.min(looked_at.len()))];
        }
        let mut redacted = self.redact(looked_at).into_owned();
        redacted.truncate(longest);
        Cow::Owned(redacted)
    }
}

/// Whether a variable of this name holds something that nobody may see. Names of accounts and profiles are no secrets, and
/// often words that stand everywhere.
pub fn holds_a_secret(name: &str) -> bool {
    let tells_who = ["ACCOUNT", "PROFILE", "TENANT"];
    let name = name.to_ascii_uppercase();
    is_credential(&name) && !name.split('_').next_back().is_some_and(|word| tells_who.contains(&word))
}

/// What is secret in a URL: the password before its host, the values of its query, and what looks like a key in its path.
pub fn secrets_of_url(url: &str) -> Vec<Secret> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let values = query.split(['&', '#']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let is_random =
        |part: &&str| part.len() >= 16 && part.contains(|c: char| c.is_ascii_digit()) && !part.contains('.');
    let secrets = user.split(':').skip(usize::from(user.contains(':'))).chain(values);
    secrets.chain(path.split('/').filter(is_random)).filter(|it| !it.is_empty()).map(Secret::new).collect()
}

/// The ways in which a secret may turn up: as it is, line by line, without the scheme before it, inside of JSON, inside of
/// a URL, and as the password of a Basic credential.
fn forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let mut plain = vec![secret.to_owned()];
    if secret.lines().nth(1).is_some() {
        plain.extend(secret.lines().map(|line| line.trim().to_owned()));
    }
    if let Some((scheme, credential)) = secret.split_once(' ')
        && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !credential.contains(' ')
    {
        plain.push(credential.to_owned());
        let decoded = STANDARD.decode(credential).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((_, password)) = decoded.as_deref().and_then(|pair| pair.split_once(':')) {
            plain.push(password.to_owned());
        }
    }
    let escaped: Vec<String> = plain.iter().flat_map(|form| [in_json(form), in_url(form)]).collect();
    plain.into_iter().chain(escaped).collect()
}

fn in_json(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn in_url(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn stands_alone(text: &[u8], place: &Range<usize>) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    !(is_word(place.end) || place.start.checked_sub(1).is_some_and(is_word))
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
    fn a_known_secret_is_hidden_wherever_and_however_it_stands() {
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
    fn a_short_secret_is_hidden_where_it_stands_alone_and_a_tiny_one_never() {
        let redactor = knowing(&["hunter2", "abc"]);
        assert_eq!(shown(&redactor, "password is 'hunter2', abc"), "password is '‹secret›', abc");
        assert_eq!(shown(&redactor, "xhunter22"), "xhunter22");
    }

    #[test]
    fn a_key_of_several_lines_is_hidden_line_by_line() {
        let redactor = knowing(&["-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----"]);
        assert_eq!(shown(&redactor, "  BgkqhkiG9w0B"), "  ‹secret›");
        assert_eq!(shown(&redactor, r"x MIIEvQIBADAN\nBgkqhkiG9w0B"), r"x ‹secret›\n‹secret›");
    }

    #[test]
    fn what_is_learnt_later_is_hidden_by_clones_too() {
        let redactor = Redactor::default();
        let clone = redactor.clone();
        redactor.learn(&[Secret::new("a-new-secret")]);
        assert_eq!(shown(&clone, "it is a-new-secret."), "it is ‹secret›.");
    }

    #[test]
    fn a_url_gives_its_secrets_away() {
        let secrets = secrets_of_url("https://me:pass-word@h.example/v1/s/a1b2c3d4e5f6g7h8/mcp?key=sesame-open&x=#end");
        let exposed: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        assert_eq!(exposed, ["pass-word", "sesame-open", "end", "a1b2c3d4e5f6g7h8"]);
        assert!(secrets_of_url("https://h.example/mcp").is_empty());
    }

    #[test]
    fn names_of_accounts_are_no_secrets() {
        assert!(holds_a_secret("GITHUB_TOKEN") && holds_a_secret("db_password"));
        assert!(!holds_a_secret("AWS_PROFILE") && !holds_a_secret("PATH"));
    }

    #[test]
    fn a_secret_at_the_cut_of_a_long_line_does_not_show_its_beginning() {
        let redactor = knowing(&["a-rather-long-secret"]);
        for before in 90..=130 {
            let text = format!("{}a-rather-long-secret{}", "x".repeat(before), " y".repeat(60_000));
            let begun = redactor.beginning(text.as_bytes(), 100);
            assert!(begun.len() <= 100);
            assert!(!String::from_utf8_lossy(&begun).contains("a-r"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn no_known_secret_survives_in_any_text(
            secret in "[A-Za-z0-9/+=\"\\\\@:%. -]{8,40}",
            before in "\\PC{0,40}",
            after in "\\PC{0,40}",
            how in 0..3usize,
        ) {
            let secret = secret.trim().to_owned();
            prop_assume!(secret.len() >= UNMISTAKABLE);
            let written = [secret.clone(), in_json(&secret), in_url(&secret)][how].clone();
            let text = format!("{before}{written}{after}");
            let seen = shown(&knowing(&[&secret]), &text);
            prop_assert!(!seen.contains(&written), "{} → {}", text, seen);
        }

        #[test]
        fn what_is_redacted_once_stays_as_it_is(text in "\\PC{0,200}", secret in "[a-z0-9]{8,20}") {
            let redactor = knowing(&[&secret]);
            let once = shown(&redactor, &text);
            prop_assert_eq!(shown(&redactor, &once), once);
        }

        #[test]
        fn any_bytes_at_all_are_taken(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let redactor = knowing(&["some secret"]);
            prop_assert!(redactor.redact(&text).len() <= text.len() * HIDDEN.len() + HIDDEN.len());
            prop_assert!(redactor.beginning(&text, 50).len() <= 50);
        }
    }
}
