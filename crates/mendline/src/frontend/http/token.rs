//! Tokens that open the gateway.
//!
//! Only the SHA-256 of a token is kept. A fast hash is enough, because tokens are long and random: a short one is
//! refused by the configuration.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mendline_core::config::RateLimit;
use mendline_core::defaults;
use mendline_core::policy::tool_filter::ToolFilter;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// The beginning of a token that Mendline made, so that scanners for leaked secrets can find it.
const PREFIX: &str = "mdl_";

/// The random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// The scheme of a hash in text form.
const SCHEME: &str = "sha256:";

/// The SHA-256 of a token. Its text form is `sha256:` and hexadecimal digits.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    pub fn of(token: &str) -> TokenHash {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        TokenHash(bytes)
    }
}

/// Compares in constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |difference, (one, other)| difference | (one ^ other));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for TokenHash {}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHash;

impl FromStr for TokenHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<TokenHash, NoHash> {
        let digits =
            text.strip_prefix(SCHEME).filter(|digits| digits.len() == 64 && digits.is_ascii()).ok_or(NoHash)?;
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(2 * at..2 * at + 2).filter(|pair| !pair.starts_with('+')).ok_or(NoHash)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NoHash)?;
        }
        Ok(TokenHash(bytes))
    }
}

/// The limits of a principal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrincipalLimits {
    /// The rate of its requests; `None`: unlimited.
    pub rate: Option<RateLimit>,
    /// Its requests that wait for their answers.
    pub in_flight: u32,
}

impl Default for PrincipalLimits {
    fn default() -> PrincipalLimits {
        PrincipalLimits { rate: None, in_flight: defaults::PRINCIPAL_IN_FLIGHT }
    }
}

/// A token that opens the gateway.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// Its name, which is the principal of its requests.
    pub name: String,
    /// The hash of the token.
    pub hash: TokenHash,
    /// The servers that it opens; all if there is no list.
    pub servers: Option<Vec<String>>,
    /// The tools that it may list and call.
    pub tools: ToolFilter,
    /// The time from which on it opens nothing.
    pub expires: Option<SystemTime>,
    /// The limits of its owner.
    pub limits: PrincipalLimits,
}

impl AccessToken {
    /// Creates a token for all servers and tools, with the default limits.
    pub fn new(name: &str, hash: TokenHash) -> AccessToken {
        AccessToken {
            name: name.to_owned(),
            hash,
            servers: None,
            tools: ToolFilter::default(),
            expires: None,
            limits: PrincipalLimits::default(),
        }
    }
}

/// Makes a token. Fails if the system has no random numbers.
pub fn generate() -> Option<String> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let mut token = PREFIX.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(token, "{}", URL_SAFE_NO_PAD.encode(bytes));
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_has_a_text_form_that_is_read_again() {
        let hash = TokenHash::of("first");
        assert!(hash.to_string().starts_with("sha256:a7937b64b8caa58f"), "{hash}");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_ne!(hash, TokenHash::of("second"));
        let digits = "0".repeat(64);
        for text in
            ["", "sha256:", &digits, &format!("sha256:{}", "0".repeat(63)), &format!("sha256:+{}", "0".repeat(63))]
        {
            assert_eq!(text.parse::<TokenHash>(), Err(NoHash), "{text}");
        }
    }

    #[test]
    fn generated_tokens_are_long_and_differ() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert!(one.starts_with("mdl_") && one.len() >= 46 && one != other, "{one} {other}");
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{one}");
    }
}
