//! Signed assertions that authenticate a client (RFC 7523).

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mendline::decisions::Secret;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;

use crate::error::OAuthError;
use crate::pkce::random_text;
use crate::settings::Algorithm;
use crate::store::record::seconds;

/// The lifetime of an assertion in seconds: enough for clocks that differ a little.
const LIFETIME: u64 = 300;

/// Signs assertions with a private key.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pem: Secret,
    algorithm: Algorithm,
    key_id: Option<String>,
    audience: String,
}

impl Signer {
    /// A signer for an authorization server. Fails if the key cannot be used.
    pub(crate) fn new(
        pem: Secret,
        algorithm: Algorithm,
        key_id: Option<String>,
        audience: String,
    ) -> Result<Signer, OAuthError> {
        let signer = Signer { pem, algorithm, key_id, audience };
        signer.sign(b"")?;
        Ok(signer)
    }

    /// Returns an assertion of a client.
    pub(crate) fn assertion(&self, client: &str, now: SystemTime) -> Result<Secret, OAuthError> {
        let mut header = json!({"alg": self.algorithm.as_str(), "typ": "JWT"});
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let now = seconds(now);
        let claims = json!({
            "iss": client, "sub": client, "aud": self.audience, "jti": random_text()?.expose(),
            "iat": now, "exp": now + LIFETIME,
        });
        let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(text.as_bytes())?);
        Ok(Secret::new(format!("{text}.{signature}")))
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, OAuthError> {
        let key = der(self.pem.expose())?;
        let rng = SystemRandom::new();
        let refused = |error: ring::error::KeyRejected| OAuthError::Key {
            why: format!("it is no key for {}: {error}; give a PKCS#8 key in PEM", self.algorithm.as_str()),
        };
        let failed = |_| OAuthError::Key { why: "the signature failed".to_owned() };
        match self.algorithm {
            Algorithm::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &rng).map_err(refused)?;
                Ok(pair.sign(&rng, bytes).map_err(failed)?.as_ref().to_vec())
            }
            Algorithm::EdDsa => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key).map_err(refused)?;
                Ok(pair.sign(bytes).as_ref().to_vec())
            }
            Algorithm::Rs256 => {
                let pair = RsaKeyPair::from_pkcs8(&key).map_err(refused)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, bytes, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

/// Returns the bytes of a PKCS#8 key in PEM.
fn der(pem: &str) -> Result<Vec<u8>, OAuthError> {
    let wrong = |why: &str| OAuthError::Key { why: why.to_owned() };
    let pem = pem.trim();
    if pem.starts_with("-----BEGIN ENCRYPTED") {
        return Err(wrong("it is encrypted; decrypt it first"));
    }
    if pem.starts_with("-----BEGIN") && !pem.starts_with("-----BEGIN PRIVATE KEY-----") {
        return Err(wrong("it is not PKCS#8; convert it with: openssl pkcs8 -topk8 -nocrypt"));
    }
    let inner = pem
        .strip_prefix("-----BEGIN PRIVATE KEY-----")
        .and_then(|rest| rest.split_once("-----END PRIVATE KEY-----"))
        .map(|(inner, _)| inner)
        .ok_or_else(|| wrong("it is not PEM with BEGIN PRIVATE KEY"))?;
    let text: String = inner.chars().filter(|character| !character.is_whitespace()).collect();
    STANDARD.decode(text).map_err(|_| wrong("it is damaged: not base64"))
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ED25519, KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };

    use super::*;

    fn pem(der: &[u8]) -> Secret {
        Secret::new(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der)))
    }

    fn verify(algorithm: &'static dyn VerificationAlgorithm, public: &[u8], assertion: &Secret) {
        let (text, signature) = assertion.expose().rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(algorithm, public).verify(text.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn assertions_have_valid_signatures() {
        let rng = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &rng).unwrap();
        let signer =
            Signer::new(pem(document.as_ref()), Algorithm::Es256, Some("k1".into()), "https://a".into()).unwrap();
        let assertion = signer.assertion("client", SystemTime::UNIX_EPOCH).unwrap();
        verify(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref(), &assertion);

        let document = Ed25519KeyPair::generate_pkcs8(&rng).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let signer = Signer::new(pem(document.as_ref()), Algorithm::EdDsa, None, "https://a".into()).unwrap();
        let assertion = signer.assertion("client", SystemTime::UNIX_EPOCH).unwrap();
        verify(&ED25519, pair.public_key().as_ref(), &assertion);

        let key = include_str!("assertion/test-key.pem");
        let pair = RsaKeyPair::from_pkcs8(&der(key).unwrap()).unwrap();
        let signer = Signer::new(Secret::new(key), Algorithm::Rs256, None, "https://a".into()).unwrap();
        let assertion = signer.assertion("client", SystemTime::UNIX_EPOCH).unwrap();
        verify(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref(), &assertion);

        let parts: Vec<&str> = assertion.expose().split('.').collect();
        let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("client"), &json!("client"), &json!("https://a"))
        );
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(0), &json!(LIFETIME)));
    }

    #[test]
    fn key_that_cannot_be_used_is_refused_with_a_reason() {
        let with =
            |text: &str| Signer::new(Secret::new(text), Algorithm::Rs256, None, String::new()).unwrap_err().to_string();
        assert!(with("-----BEGIN RSA PRIVATE KEY-----\nAA==\n-----END RSA PRIVATE KEY-----").contains("openssl pkcs8"));
        assert!(with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n").contains("encrypted"));
        assert!(with("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----").contains("no key for RS256"));
        assert!(with("hunter2canary").contains("not PEM") && !with("hunter2canary").contains("canary"));
    }
}
