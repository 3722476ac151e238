//! PKCE (RFC 7636) with S256, and random texts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mendline::decisions::Secret;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::OAuthError;

/// The verifier of one login. Its challenge goes to the authorization endpoint, the verifier to the token endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Verifier(Secret);

impl Verifier {
    /// A new random verifier.
    pub(crate) fn new() -> Result<Verifier, OAuthError> {
        random_text().map(Verifier)
    }

    /// The S256 challenge.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.0.expose().as_bytes()))
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0
    }
}

/// Returns a random text of 256 bits, for a state or a verifier.
pub(crate) fn random_text() -> Result<Secret, OAuthError> {
    let mut bytes = [0u8; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OAuthError::Key { why: "the system gave no random numbers".to_owned() })?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_is_that_of_the_specification() {
        // Appendix B of RFC 7636.
        let verifier = Verifier(Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn verifiers_differ_and_have_the_required_length() {
        let (one, other) = (Verifier::new().unwrap(), Verifier::new().unwrap());
        assert_ne!(one.secret(), other.secret());
        assert_eq!(one.secret().expose().len(), 43);
    }
}
