//! Access tokens of an authorization server: JSON Web Tokens that it has signed.
//!
//! Three algorithms are known: RS256, ES256 and EdDSA. The algorithm of a token must be that of the key with its id, so a
//! token cannot choose how it is checked: there is no `none`, and no HMAC with a public key as its secret. A fault never
//! quotes the token.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// The longest token. Those of large companies have a few kilobytes.
const LONGEST: usize = 16 * 1024;

/// The most keys of an issuer. It has one or two, and more while it changes them.
const MOST_KEYS: usize = 64;

/// The difference between two clocks that is allowed.
const LEEWAY: Duration = Duration::from_secs(60);

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtFault {
    /// It is longer than any token should be.
    TooLong,
    /// It is not a signed JSON Web Token.
    Form,
    /// It is signed by an algorithm that is not known, or not that of its key.
    Algorithm,
    /// The issuer has no key with its id.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// It is of another issuer.
    Issuer,
    /// It is for another audience.
    Audience,
    /// It has expired, or has no expiry.
    Expired,
    /// It is not valid yet.
    NotYet,
    /// It does not name its principal.
    NoPrincipal,
    /// The keys of the issuer cannot be read.
    NoKeys,
}

impl fmt::Display for JwtFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JwtFault::TooLong => "the access token is too long",
            JwtFault::Form => "the access token is not a signed JSON Web Token",
            JwtFault::Algorithm => {
                "the access token is signed by another algorithm than RS256, ES256 or EdDSA, or than that of its key"
            }
            JwtFault::UnknownKey => "the access token is signed with a key that the issuer does not publish",
            JwtFault::Signature => "the signature of the access token is wrong",
            JwtFault::Issuer => "the access token is of another issuer",
            JwtFault::Audience => "the access token is for another audience",
            JwtFault::Expired => "the access token has expired",
            JwtFault::NotYet => "the access token is not valid yet",
            JwtFault::NoPrincipal => "the access token does not name its principal",
            JwtFault::NoKeys => "the keys of the issuer of access tokens cannot be read; try again later",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    fn of(name: &str) -> Option<Algorithm> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" | "Ed25519" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }
}

/// The public keys of an issuer.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Keys {
    /// Reads a set of keys (RFC 7517). Keys of other kinds are skipped. A text without a usable key is not a set.
    pub(super) fn parse(text: &[u8]) -> Option<Keys> {
        let set: Value = serde_json::from_slice(text).ok()?;
        let keys: Vec<Key> = set.get("keys")?.as_array()?.iter().take(MOST_KEYS).filter_map(Key::parse).collect();
        (!keys.is_empty()).then_some(Keys(keys))
    }

    /// Returns whether a token with this head may be signed with one of the keys.
    pub(super) fn has(&self, head: &Head) -> bool {
        self.candidates(head).next().is_some()
    }

    fn candidates<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = &'a Key> {
        self.0.iter().filter(|key| head.kid.is_none() || key.id == head.kid)
    }
}

impl Key {
    fn parse(key: &Value) -> Option<Key> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                // The form without compression.
                (x.len() == 32 && y.len() == 32).then(|| Material::P256([&[4_u8][..], &x, &y].concat()))?
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let key = Key { id: text("kid").map(str::to_owned), material };
        let is_own = text("alg").is_none_or(|name| Algorithm::of(name) == Some(key.algorithm()));
        is_own.then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Material::P256(key) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature),
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// The head of a token, which names its key.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand. None are known.
    crit: Option<Value>,
}

/// A token whose parts are decoded, and nothing is checked.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    pub(super) head: Head,
    /// The part that is signed.
    signed: &'a str,
    claims: Value,
    signature: Vec<u8>,
}

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) audiences: &'a [String],
    /// The claim that names the principal.
    pub(super) principal_claim: &'a str,
}

/// Returns whether a bearer token has the form of a JSON Web Token.
pub(super) fn is_jwt(token: &str) -> bool {
    token.starts_with("ey") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> Jwt<'a> {
    /// Decodes a token.
    pub(super) fn parse(token: &'a str) -> Result<Jwt<'a>, JwtFault> {
        if token.len() > LONGEST {
            return Err(JwtFault::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtFault::Form)?;
        let (head, claims) = signed.split_once('.').ok_or(JwtFault::Form)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtFault::Form);
        let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| JwtFault::Form)?;
        let claims: Value = serde_json::from_slice(&decode(claims)?).map_err(|_| JwtFault::Form)?;
        if head.crit.is_some() || !claims.is_object() {
            return Err(JwtFault::Form);
        }
        Ok(Jwt { head, signed, claims, signature: decode(signature)? })
    }

    /// Checks the signature and what the token says. Returns the name of its principal.
    pub(super) fn verify(&self, keys: &Keys, expected: Expected<'_>, now: SystemTime) -> Result<String, JwtFault> {
        let algorithm = Algorithm::of(&self.head.alg).ok_or(JwtFault::Algorithm)?;
        if !keys.has(&self.head) {
            return Err(JwtFault::UnknownKey);
        }
        let mut usable = keys.candidates(&self.head).filter(|key| key.algorithm() == algorithm).peekable();
        usable.peek().ok_or(JwtFault::Algorithm)?;
        if !usable.any(|key| key.has_signed(self.signed.as_bytes(), &self.signature)) {
            return Err(JwtFault::Signature);
        }
        self.check_claims(expected, now)
    }

    fn check_claims(&self, expected: Expected<'_>, now: SystemTime) -> Result<String, JwtFault> {
        let text = |name: &str| self.claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(expected.issuer) {
            return Err(JwtFault::Issuer);
        }
        let is_ours = |audience: &str| expected.audiences.iter().any(|known| known == audience);
        let is_for_us = match self.claims.get("aud") {
            Some(Value::String(one)) => is_ours(one),
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).any(is_ours),
            _ => false,
        };
        if !is_for_us {
            return Err(JwtFault::Audience);
        }
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = LEEWAY.as_secs_f64();
        // A time that is not a number refuses the token.
        let end = self.claims.get("exp").and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY);
        if seconds >= end + leeway {
            return Err(JwtFault::Expired);
        }
        let begin = self.claims.get("nbf").map(|begin| begin.as_f64().unwrap_or(f64::INFINITY));
        if begin.is_some_and(|begin| seconds < begin - leeway) {
            return Err(JwtFault::NotYet);
        }
        text(expected.principal_claim).filter(|name| !name.is_empty()).map(str::to_owned).ok_or(JwtFault::NoPrincipal)
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://issuer.test";
    const AUDIENCE: &str = "https://gateway.test";

    /// A key of 2048 bits that was made for this test, and a token that it has signed: valid from 1000 to 2000.
    const RSA_N: &str = "qkGWkxkAtferr2uQMtjYaWOn-tAj1Web7k1zDOmPehFrwhbIjfPFJkIQKxVg-HcOnJx2ehpvEoeBRiM87YXCRASd3q\
         xeP-6zDB6jTVXRvREZhoegUHW6_2Qnki7lNgF50yAqm2alalTMGA4xCkviFi2uZU6eRXoFj3vMKMgyrfrHNmAWmEAT\
         hn3horILAvSK_XDQ7hW8N_PjrIr9qA_kMUNnjgn-g9L-to3IxQ8juXkoN-DVGMNBn9m2ETk-FPpkA8mdJKZf1AY5kd\
         chAI0AZBZqMPzxcE6u76WM-IGgahOlokIxifPUvYb2Zo_wGXD1uSD3AVHcrVe-jJQG5O67Sw";
    const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci50Z\
         XN0IiwiYXVkIjoiaHR0cHM6Ly9nYXRld2F5LnRlc3QiLCJzdWIiOiJhbm4iLCJleHAiOjIwMDAsIm5iZiI6MTAwMH0\
         .K56-EGbGsrLpq7h1P9tLuOeU3yAHvIaMldjiKcoOwV91m_MdmMKXATEorbsvtSNtZx16uVCbMI5kHvXspnKNR2gwC\
         zxIJbf6MKk2ThtDhZ6vUFKjdJDxnGbJTbP4S-QxJnzwEzvJ8c17XAI4iwstlqs80mn0m3v13jwNGOrN62zCubFfJxe\
         wlXeTFJicROlyCaIUUd3UfQi7wioM6ujyoDcbk8_2ZRJzPdpjw8NwxFKw8R52Z5811FlGamIcyJwXs3WJCeFJVa5mu\
         qZeD5Drog_p2C6m6snhJyl_C46SjQoyjl6ub6ZpPvMb6IGQ_Uf6V6Ns8H0UtYzxX4AaITgQfw";

    fn encode(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn claims() -> Value {
        json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": 2000, "nbf": 1000 })
    }

    /// An issuer with a key of each kind that can be made here.
    struct Issuer {
        ec: EcdsaKeyPair,
        ed: Ed25519KeyPair,
        rng: SystemRandom,
    }

    impl Issuer {
        fn new() -> Issuer {
            let rng = SystemRandom::new();
            let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
            let ed = Ed25519KeyPair::generate_pkcs8(&rng).unwrap();
            let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &rng).unwrap();
            Issuer { ec, ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(), rng }
        }

        fn keys(&self) -> Keys {
            let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let point = self.ec.public_key().as_ref();
            let set = json!({ "keys": [
                { "kty": "EC", "crv": "P-256", "kid": "ec", "x": part(&point[1..33]), "y": part(&point[33..]) },
                { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": part(self.ed.public_key().as_ref()), "use": "sig" },
                { "kty": "RSA", "kid": "rsa", "alg": "RS256", "n": RSA_N, "e": "AQAB" },
                { "kty": "oct", "kid": "secret", "k": "AAAA" }, { "kty": "EC", "crv": "P-521" }, 5,
            ] });
            Keys::parse(set.to_string().as_bytes()).unwrap()
        }

        fn sign(&self, head: &Value, claims: &Value) -> String {
            let signed = format!("{}.{}", encode(head), encode(claims));
            let signature = match head["alg"].as_str() {
                Some("ES256") => self.ec.sign(&self.rng, signed.as_bytes()).unwrap().as_ref().to_vec(),
                _ => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
            };
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    fn verify(token: &str, keys: &Keys, now: u64) -> Result<String, JwtFault> {
        let audiences = [AUDIENCE.to_owned()];
        let expected = Expected { issuer: ISSUER, audiences: &audiences, principal_claim: "sub" };
        Jwt::parse(token)?.verify(keys, expected, at(now))
    }

    #[test]
    fn token_of_each_algorithm_names_its_principal() {
        let issuer = Issuer::new();
        let keys = issuer.keys();
        for head in
            [json!({ "alg": "ES256", "kid": "ec" }), json!({ "alg": "EdDSA", "kid": "ed" }), json!({ "alg": "EdDSA" })]
        {
            assert_eq!(verify(&issuer.sign(&head, &claims()), &keys, 1500).as_deref(), Ok("ann"), "{head}");
        }
        assert_eq!(verify(RSA_TOKEN, &keys, 1500).as_deref(), Ok("ann"));
    }

    #[test]
    fn algorithm_must_be_that_of_the_key() {
        let issuer = Issuer::new();
        let keys = issuer.keys();
        let unsigned = format!("{}.{}.", encode(&json!({ "alg": "none" })), encode(&claims()));
        assert_eq!(verify(&unsigned, &keys, 1500), Err(JwtFault::Algorithm));
        for (alg, kid) in [("HS256", "rsa"), ("none", "ed"), ("RS256", "ed"), ("EdDSA", "ec"), ("RS512", "rsa")] {
            let token = issuer.sign(&json!({ "alg": alg, "kid": kid }), &claims());
            assert_eq!(verify(&token, &keys, 1500), Err(JwtFault::Algorithm), "{alg} {kid}");
        }
        let token = issuer.sign(&json!({ "alg": "EdDSA", "kid": "new" }), &claims());
        assert_eq!(verify(&token, &keys, 1500), Err(JwtFault::UnknownKey));
    }

    #[test]
    fn changed_token_is_refused() {
        let (issuer, other) = (Issuer::new(), Issuer::new());
        let head = json!({ "alg": "EdDSA", "kid": "ed" });
        let token = issuer.sign(&head, &claims());
        assert_eq!(verify(&token, &other.keys(), 1500), Err(JwtFault::Signature));
        let (_, rest) = token.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let mut forged = claims();
        forged["sub"] = "root".into();
        let forged = format!("{}.{}.{signature}", encode(&head), encode(&forged));
        assert_eq!(verify(&forged, &issuer.keys(), 1500), Err(JwtFault::Signature));
    }

    #[test]
    fn claims_are_checked_with_leeway() {
        let issuer = Issuer::new();
        let keys = issuer.keys();
        let of = |change: Value, now: u64| {
            let mut claims = claims();
            for (name, value) in change.as_object().unwrap() {
                claims[name] = value.clone();
            }
            verify(&issuer.sign(&json!({ "alg": "EdDSA", "kid": "ed" }), &claims), &keys, now).map(drop)
        };
        assert_eq!((of(json!({}), 2059), of(json!({}), 2060)), (Ok(()), Err(JwtFault::Expired)));
        assert_eq!((of(json!({}), 940), of(json!({}), 939)), (Ok(()), Err(JwtFault::NotYet)));
        assert_eq!(of(json!({ "exp": null }), 1500), Err(JwtFault::Expired));
        assert_eq!(of(json!({ "exp": "2000" }), 1500), Err(JwtFault::Expired));
        assert_eq!(of(json!({ "nbf": "soon" }), 1500), Err(JwtFault::NotYet));
        assert_eq!(of(json!({ "iss": "https://issuer.test/" }), 1500), Err(JwtFault::Issuer));
        assert_eq!(of(json!({ "aud": "other" }), 1500), Err(JwtFault::Audience));
        assert_eq!(of(json!({ "aud": null }), 1500), Err(JwtFault::Audience));
        assert_eq!(of(json!({ "aud": ["other", AUDIENCE] }), 1500), Ok(()));
        assert_eq!(of(json!({ "sub": "" }), 1500), Err(JwtFault::NoPrincipal));
        assert_eq!(of(json!({ "sub": 5 }), 1500), Err(JwtFault::NoPrincipal));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let keys = Issuer::new().keys();
        let long = format!("ey.{}.x", "a".repeat(LONGEST));
        assert_eq!(verify(&long, &keys, 0), Err(JwtFault::TooLong));
        let object = encode(&json!({ "alg": "EdDSA", "crit": ["b64"] }));
        for text in [
            "",
            "a.b.c",
            "..",
            "eyJ9.e30.",
            &format!("{object}.e30.AA"),
            &format!("{}.W10.AA", encode(&json!({ "alg": "EdDSA" }))),
        ] {
            assert_eq!(verify(text, &keys, 0), Err(JwtFault::Form), "{text}");
        }
        for text in ["", "<html>", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
            assert!(Keys::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
