//! Access tokens of an authorization server, with keys that are made here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::{initialize, request};

const AUDIENCE: &str = "https://gateway.test";

/// A key with its id.
struct Key {
    id: &'static str,
    pair: Ed25519KeyPair,
}

impl Key {
    fn new(id: &'static str) -> Key {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Key { id, pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap() }
    }

    fn public(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": x })
    }

    /// Returns a token of this issuer, with changed claims.
    fn token(&self, issuer: &Issuer, change: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({ "iss": issuer.name(), "aud": AUDIENCE, "sub": "ann", "exp": now + 3600 });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": self.id, "typ": "at+jwt" })), part(&claims));
        format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes())))
    }
}

/// An authorization server with metadata and keys.
struct Issuer {
    address: SocketAddr,
    /// The document with the keys; none while the server is down.
    keys: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicUsize>,
}

impl Issuer {
    fn start(keys: &[&Key]) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let issuer = Issuer { address, keys: Arc::default(), requests: Arc::default() };
        issuer.publish(keys);
        let (published, requests) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.requests));
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut head = vec![0; 8192];
                let length = connection.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let metadata =
                    json!({ "issuer": format!("http://{address}"), "jwks_uri": format!("http://{address}/keys") });
                let body = match head.split(' ').nth(1) {
                    Some("/.well-known/openid-configuration") => Some(metadata.to_string()),
                    Some("/keys") => {
                        requests.fetch_add(1, Ordering::SeqCst);
                        published.lock().unwrap().clone()
                    }
                    _ => None,
                };
                let (status, body) = body.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
                let text =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
                let _ = connection.write_all(text.as_bytes());
            }
        });
        issuer
    }

    fn publish(&self, keys: &[&Key]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.publish_text(&json!({ "keys": keys }).to_string());
    }

    fn publish_text(&self, text: &str) {
        *self.keys.lock().unwrap() = Some(text.to_owned());
    }

    fn name(&self) -> String {
        format!("http://{}", self.address)
    }

    fn gateway(&self, more: &str) -> Gateway {
        let jwt = format!(r#""jwt": {{ "issuer": "{}", "audience": "{AUDIENCE}"{more} }}"#, self.name());
        Gateway::configured(&format!(r#""access": {{ {jwt}, "tokens": ["ann-0123456789abcdef"] }}"#), "", &[])
    }
}

fn list() -> String {
    request(1, "tools/list", &json!({}))
}

fn status(gateway: &Gateway, token: &str) -> u16 {
    gateway.post(&[("Authorization", token)], &list()).status
}

#[test]
fn token_of_the_issuer_opens_the_gateway() {
    let key = Key::new("one");
    let issuer = Issuer::start(&[&key]);
    let gateway = issuer.gateway(r#", "servers": ["demo"]"#);
    let token = key.token(&issuer, &json!({}));
    assert_eq!(status(&gateway, &token), 200);
    assert_eq!(gateway.send("POST", "/mcp/other", &[("Authorization", &token)], &list()).status, 403);
    assert_eq!(status(&gateway, "Bearer ann-0123456789abcdef"), 200, "configured tokens count, too");
    let opened = gateway.post(&[("Authorization", &token)], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let with = |token: &str| gateway.post(&[("Authorization", token), ("Mcp-Session-Id", &session)], &list()).status;
    assert_eq!(
        with(&key.token(&issuer, &json!({ "exp": 4_000_000_000_u64 }))),
        200,
        "another token of the same person"
    );
    assert_eq!(with(&key.token(&issuer, &json!({ "sub": "bob" }))), 404, "the session of another person");
    assert_eq!(issuer.requests.load(Ordering::SeqCst), 1, "the keys are kept");
}

#[test]
fn wrong_token_is_refused_with_the_reason_and_without_its_text() {
    let (key, foreign) = (Key::new("one"), Key::new("one"));
    let issuer = Issuer::start(&[&key]);
    let gateway = issuer.gateway("");
    let unsigned = format!("Bearer {}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode("{}"));
    for (token, words) in [
        (key.token(&issuer, &json!({ "aud": "https://other.test" })), "for another audience"),
        (key.token(&issuer, &json!({ "iss": "https://other.test" })), "of another issuer"),
        (key.token(&issuer, &json!({ "exp": 1000 })), "has expired"),
        (key.token(&issuer, &json!({ "nbf": 4_000_000_000_u64 })), "not valid yet"),
        (foreign.token(&issuer, &json!({})), "signature"),
        (Key::new("two").token(&issuer, &json!({})), "does not publish"),
        (unsigned, "another algorithm"),
        (format!("Bearer ey{}.a.b", "a".repeat(20_000)), "too long"),
    ] {
        let refused = gateway.post(&[("Authorization", &token)], &list());
        assert_eq!(refused.status, 401, "{words}");
        let challenge = refused.header("www-authenticate").unwrap().to_owned();
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words) && challenge.contains("error=\"invalid_token\""), "{message} {challenge}");
        let secret = token.rsplit('.').next().unwrap();
        assert!(secret.len() < 8 || !message.contains(secret));
    }
    assert_eq!(status(&gateway, &key.token(&issuer, &json!({}))), 200);
}

#[test]
fn challenge_names_the_metadata_of_the_resource() {
    let key = Key::new("one");
    let issuer = Issuer::start(&[&key]);
    let gateway = issuer.gateway("");
    let refused = gateway.post(&[], &list());
    assert_eq!(refused.status, 401);
    let base = format!("http://{}", gateway.address);
    let url = format!("{base}/.well-known/oauth-protected-resource/mcp/demo");
    assert_eq!(refused.header("www-authenticate"), Some(&*format!("Bearer resource_metadata=\"{url}\"")));
    let document = gateway.send("GET", "/.well-known/oauth-protected-resource/mcp/demo", &[], "").json();
    assert_eq!(document["resource"], format!("{base}/mcp/demo"));
    assert_eq!(document["authorization_servers"], json!([issuer.name()]));
    let foreign = gateway.send("GET", "/.well-known/oauth-protected-resource", &[("Host", "evil.example")], "");
    assert_eq!(foreign.status, 421);
}

#[test]
fn issuer_that_is_down_ends_no_access() {
    let (key, next) = (Key::new("one"), Key::new("two"));
    let issuer = Issuer::start(&[&key]);
    let gateway = issuer.gateway("");
    assert_eq!(status(&gateway, &key.token(&issuer, &json!({}))), 200);
    issuer.publish_text("<html>down for maintenance</html>");
    for _ in 0..3 {
        assert_eq!(status(&gateway, &next.token(&issuer, &json!({}))), 401, "an unknown key");
        assert_eq!(status(&gateway, &key.token(&issuer, &json!({}))), 200, "the kept key");
    }
    assert!(issuer.requests.load(Ordering::SeqCst) <= 2, "the keys are read at most once a minute");
}

#[test]
fn keys_that_were_never_read_are_named_as_the_reason() {
    let key = Key::new("one");
    let issuer = Issuer::start(&[&key]);
    issuer.publish_text("<html>");
    let gateway = issuer.gateway(&format!(r#", "jwksUrl": "{}/keys""#, issuer.name()));
    let refused = gateway.post(&[("Authorization", &key.token(&issuer, &json!({})))], &list());
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("keys of the issuer"));
}
