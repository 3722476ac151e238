//! Session ids of the gateway: sealed, so that they carry what a session needs.
//!
//! An id holds the principal, the server and the `initialize` parameters of its session. A gateway that was restarted
//! opens the session again from the id alone: there is no table on disk to lose. The seal (AEAD with a key of the
//! gateway) keeps the content secret and proves that the gateway made it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// The length of a key.
pub const KEY_LEN: usize = 32;

/// The purpose of the seal, so that no other text sealed with the key is taken for an id.
const PURPOSE: &[u8] = b"mendline session 1";

/// The limit of the `initialize` parameters in an id. Proxies limit a header line to about 8 KiB.
const PARAMS_LIMIT: usize = 3 * 1024;

/// The content of a session id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The principal that opened the session. The session serves no other.
    pub principal: String,
    /// The name of the server.
    pub server: String,
    /// A random number that makes the id unique.
    pub number: u64,
    /// The text of the `initialize` parameters, as the client sent them. Empty if they are too long for an id.
    pub params: Bytes,
}

/// Seals and opens session ids.
pub struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealer {
    /// Creates a sealer with this key.
    pub fn new(key: &[u8; KEY_LEN]) -> Option<Sealer> {
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
        Some(Sealer { key, random: SystemRandom::new() })
    }

    /// Creates a key.
    pub fn generate_key() -> Option<[u8; KEY_LEN]> {
        let mut key = [0; KEY_LEN];
        SystemRandom::new().fill(&mut key).ok()?;
        Some(key)
    }

    /// Returns a random number for a ticket.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        // Without randomness the ids would not be unique; the seal would not be safe either.
        self.random.fill(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// Seals a ticket. Fails without randomness, and for a name longer than 255 bytes.
    pub fn seal(&self, ticket: &Ticket) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut content = ticket.number.to_le_bytes().to_vec();
        for name in [&ticket.principal, &ticket.server] {
            content.push(u8::try_from(name.len()).ok()?);
            content.extend_from_slice(name.as_bytes());
        }
        if ticket.params.len() <= PARAMS_LIMIT {
            content.extend_from_slice(&ticket.params);
        }
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_value, Aad::from(PURPOSE), &mut content).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &content[..]].concat()))
    }

    /// Opens an id. Returns nothing for an id that this key did not seal.
    pub fn open(&self, id: &str) -> Option<Ticket> {
        let mut sealed = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (nonce, content) = sealed.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let content = self.key.open_in_place(nonce, Aad::from(PURPOSE), content).ok()?;
        let (number, rest) = content.split_at_checked(8)?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        let (principal, rest) = take_name(rest)?;
        let (server, params) = take_name(rest)?;
        Some(Ticket { principal, server, number, params: Bytes::copy_from_slice(params) })
    }
}

fn take_name(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((String::from_utf8(name.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        let params = Bytes::from_static(br#"{"protocolVersion":"2025-11-25"}"#);
        Ticket { principal: "local".to_owned(), server: "notes".to_owned(), number: 7, params }
    }

    #[test]
    fn opened_id_has_the_sealed_content() {
        let sealer = Sealer::new(&[1; KEY_LEN]).unwrap();
        let id = sealer.seal(&ticket()).unwrap();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        assert!(!id.contains("notes"));
        assert_eq!(sealer.open(&id), Some(ticket()));
        assert_ne!(sealer.seal(&ticket()).unwrap(), id, "no two ids are equal");
    }

    #[test]
    fn changed_or_foreign_id_does_not_open() {
        let sealer = Sealer::new(&[1; KEY_LEN]).unwrap();
        let id = sealer.seal(&ticket()).unwrap();
        assert_eq!(Sealer::new(&[2; KEY_LEN]).unwrap().open(&id), None);
        for at in 0..id.len() {
            let mut changed = id.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(sealer.open(&String::from_utf8(changed).unwrap()), None, "byte {at}");
            assert_eq!(sealer.open(&id[..at]), None);
        }
        for text in ["", "x", "../../etc/passwd", "\u{1f600}"] {
            assert_eq!(sealer.open(text), None);
        }
    }

    #[test]
    fn long_parameters_are_left_out() {
        let sealer = Sealer::new(&[1; KEY_LEN]).unwrap();
        let long = Ticket { params: Bytes::from(vec![b'x'; PARAMS_LIMIT + 1]), ..ticket() };
        let id = sealer.seal(&long).unwrap();
        assert_eq!(sealer.open(&id), Some(Ticket { params: Bytes::new(), ..ticket() }));
        let name = Ticket { server: "x".repeat(256), ..ticket() };
        assert_eq!(sealer.seal(&name), None);
    }
}
