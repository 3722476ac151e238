//! The forms in which a secret may appear: whole, in parts, and as headers and URLs encode it.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE};
use mendline_core::Secret;

use super::MIN_SUBSTRING;

/// Base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the secrets of a URL: its user info, the values of its query, and parts of its path that look like keys.
pub fn secrets_of_url(url: &str) -> Vec<Secret> {
    let parts = Parts::of(url);
    let is_random = |part: &&str| {
        let has = |is_it: fn(&u8) -> bool| part.bytes().any(|byte| is_it(&byte));
        let is_mixed = has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
        part.len() >= 16 && is_mixed && !part.contains('.')
    };
    parts.secrets(is_random)
}

/// Returns the secrets of a URL that a variable holds and that is never shown: every part of its path may be a key.
pub fn secrets_of_hidden_url(url: &str) -> Vec<Secret> {
    Parts::of(url).secrets(|part| part.len() >= MIN_SUBSTRING)
}

struct Parts<'a> {
    user: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Parts<'a> {
        let (_, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, query) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Parts { user: authority.rsplit_once('@').map_or("", |(user, _)| user), path, query }
    }

    fn secrets(&self, is_key: impl Fn(&&str) -> bool) -> Vec<Secret> {
        let values =
            self.query.split(['&', '#', '?']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let parts = values.chain(self.path.split('/').filter(is_key)).filter(|part| !part.is_empty());
        let mut secrets: Vec<Secret> = self.credentials();
        for part in parts {
            secrets.push(Secret::new(part));
            // The value without the escapes of a URL.
            secrets.extend(decoded(part).filter(|plain| plain != part).map(Secret::new));
        }
        secrets
    }

    /// Returns the password, or the user if there is none, and the header made from both.
    fn credentials(&self) -> Vec<Secret> {
        if self.user.is_empty() {
            return Vec::new();
        }
        let (name, password) = self.user.split_once(':').unwrap_or((self.user, ""));
        let secret = if password.is_empty() { name } else { password };
        let plain = |text: &str| decoded(text).unwrap_or_else(|| text.to_owned());
        let header = STANDARD.encode(format!("{}:{}", plain(name), plain(password)));
        [secret.to_owned(), plain(secret), format!("Basic {header}")].into_iter().map(Secret::new).collect()
    }
}

fn decoded(text: &str) -> Option<String> {
    let read = super::decoded::Decoded::readings(text.as_bytes(), false).into_iter().next()?;
    String::from_utf8(read.bytes).ok()
}

/// Returns the forms of a secret: itself, its lines, the credential without its scheme, the values of its parameters,
/// the content of a Basic credential, and as a host in lower case. Escaped forms are not included: `decoded` handles
/// them.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let mut forms = vec![secret.to_owned()];
    if secret.lines().nth(1).is_some() {
        forms.extend(secret.lines().map(|line| line.trim().to_owned()));
    }
    let scheme = secret.split_once(' ').filter(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let credential = scheme.map_or(secret, |(_, credential)| credential.trim_start());
    if scheme.is_some() && !credential.contains(' ') {
        forms.push(credential.to_owned());
        forms.extend(inside_basic(credential));
    }
    forms.extend(parameters(credential));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let hosts: Vec<String> =
        forms.iter().filter(|form| form.bytes().all(is_host)).map(|form| form.to_ascii_lowercase()).collect();
    let pages: Vec<String> = forms.iter().map(|form| in_html(form)).collect();
    forms.into_iter().chain(hosts).chain(pages).collect()
}

/// Returns the content of a Basic credential: user and password, the password alone, and both in base64.
fn inside_basic(credential: &str) -> Vec<String> {
    let bytes = LENIENT.decode(credential).or_else(|_| URL_SAFE.decode(credential));
    let pair = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some((pair, password)) = pair.as_deref().and_then(|pair| Some((pair, pair.split_once(':')?.1))) else {
        return Vec::new();
    };
    // A response may repeat it without padding, or in the URL-safe alphabet.
    let encoded = [STANDARD.encode(pair), URL_SAFE.encode(pair), STANDARD.encode(password), URL_SAFE.encode(password)];
    let encoded = encoded.map(|text| text.trim_end_matches('=').to_owned());
    [pair.to_owned(), password.to_owned()].into_iter().chain(encoded).collect()
}

/// Returns the values in `sid=…; theme=…` and `token="…", realm="…"`.
fn parameters(text: &str) -> Vec<String> {
    let value = |part: &str| Some(part.split_once('=')?.1.trim().trim_matches('"').to_owned());
    let values = text.split([';', ',']).filter_map(value);
    values.filter(|value| value.len() >= MIN_SUBSTRING).collect()
}

fn in_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(secrets: &[Secret]) -> Vec<&str> {
        secrets.iter().map(Secret::expose).collect()
    }

    #[test]
    fn secrets_of_a_url_are_found() {
        let secrets = secrets_of_url("https://me:pass-word@h.example/v1/s/a1b2c3d4e5f6g7h8/mcp?key=sesame-open&x=#end");
        let header = format!("Basic {}", STANDARD.encode("me:pass-word"));
        assert_eq!(exposed(&secrets), ["pass-word", "pass-word", &header, "sesame-open", "end", "a1b2c3d4e5f6g7h8"]);
        assert!(secrets_of_url("https://h.example/mcp").is_empty());
        assert!(secrets_of_url("https://h.example/some-long-words-in-a-path/mcp").is_empty());
        assert_eq!(exposed(&secrets_of_url("https://h.example/aBcDeFgHiJkLmNoP/x")), ["aBcDeFgHiJkLmNoP"]);
    }

    #[test]
    fn s10_user_of_a_proxy_is_known_without_escapes_and_as_header() {
        let header = format!("Basic {}", STANDARD.encode("me:p@ss"));
        assert_eq!(exposed(&secrets_of_url("me:p%40ss@proxy.test:3128")), ["p%40ss", "p@ss", &header]);
        let header = format!("Basic {}", STANDARD.encode("t0ken:"));
        assert_eq!(exposed(&secrets_of_url("http://t0ken@proxy.test")), ["t0ken", "t0ken", &header]);
    }

    #[test]
    fn s10_every_part_of_a_hidden_path_is_secret() {
        let secrets = secrets_of_hidden_url("https://h.example/api/some-words-only/mcp?key=a%2Fb");
        assert_eq!(exposed(&secrets), ["a%2Fb", "a/b", "some-words-only"]);
    }

    #[test]
    fn s10_cookies_and_parameters_are_secrets_by_themselves() {
        let cookies = forms("sid=abcdefgh1; theme=dark; csrf=\"ijklmnop2\"");
        assert!(cookies.iter().any(|form| form == "abcdefgh1") && cookies.iter().any(|form| form == "ijklmnop2"));
        let token = forms("Token token=\"qrstuvwx3\", realm=x");
        assert!(token.iter().any(|form| form == "qrstuvwx3"), "{token:?}");
    }

    #[test]
    fn s10_basic_gives_pair_password_and_base64() {
        let credential = STANDARD.encode("me:open sesame");
        let forms = forms(&format!("Basic {}", credential.trim_end_matches('=')));
        for form in ["me:open sesame", "open sesame", credential.trim_end_matches('='), "b3BlbiBzZXNhbWU"] {
            assert!(forms.iter().any(|it| it == form), "{form}: {forms:?}");
        }
    }

    #[test]
    fn s10_secret_that_became_a_host_has_no_capitals() {
        assert!(forms("KeyOfMine-42").iter().any(|form| form == "keyofmine-42"));
    }
}
