//! Sealed files: the secrets of a file are encrypted with a key that the system keyring holds.
//!
//! Only the members with secrets are sealed, so that status needs no keyring. The other members are authenticated: a
//! changed token endpoint would lead a refresh token elsewhere. A key is 32 random bytes; its id is in the file, so that
//! a missing key is told from a damaged file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mendline::decisions::Secret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value, json};

/// The member of a sealed file that holds the secrets.
const SEALED: &str = "sealed";

const KEY_BYTES: usize = 32;

/// A key of the store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SealKey {
    id: String,
    key: Secret,
}

/// Data that cannot be opened: it was changed, or the key is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsealable;

impl SealKey {
    /// A new random key.
    pub(super) fn random() -> Option<SealKey> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let key = Secret::new(STANDARD_NO_PAD.encode(bytes));
        bytes.fill(0);
        SealKey::parse(key)
    }

    /// Reads a key as the keyring stores it. Other secrets are no keys.
    pub(super) fn parse(key: Secret) -> Option<SealKey> {
        let mut bytes = STANDARD_NO_PAD.decode(key.expose()).ok()?;
        let is_key = bytes.len() == KEY_BYTES;
        // The id tells nothing about the key.
        let id = digest(&SHA256, &[b"mendline key id:", bytes.as_slice()].concat());
        bytes.fill(0);
        let id = id.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        is_key.then_some(SealKey { id, key })
    }

    /// The id, which files name.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The key as the keyring stores it.
    pub(super) fn secret(&self) -> &Secret {
        &self.key
    }

    /// Seals the members of a file at these pointers.
    pub(super) fn seal(&self, name: &str, file: &mut Value, pointers: &[&str]) -> Result<(), Unsealable> {
        let mut secrets = Map::new();
        for pointer in pointers {
            if let Some(member) = file.pointer_mut(pointer).filter(|member| member.is_string()) {
                // An empty text tells status that there is one.
                secrets.insert((*pointer).to_owned(), std::mem::replace(member, Value::from("")));
            }
        }
        let mut bytes = serde_json::to_vec(&secrets).map_err(|_| Unsealable)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| Unsealable)?;
        let sealed = self.aead()?.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context(name, file)),
            &mut bytes,
        );
        sealed.map_err(|_| Unsealable)?;
        let text = STANDARD_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        file[SEALED] = json!({ "key": self.id, "secrets": text });
        Ok(())
    }

    /// Puts the sealed members of a file back.
    pub(super) fn open(&self, name: &str, file: &mut Value) -> Result<(), Unsealable> {
        let sealed = file.as_object_mut().and_then(|members| members.remove(SEALED)).ok_or(Unsealable)?;
        let text = sealed["secrets"].as_str().ok_or(Unsealable)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| Unsealable)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN).ok_or(Unsealable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unsealable)?;
        let mut sealed = sealed.to_vec();
        let plain = self.aead()?.open_in_place(nonce, Aad::from(context(name, file)), &mut sealed);
        let secrets: Map<String, Value> =
            plain.ok().and_then(|plain| serde_json::from_slice(plain).ok()).ok_or(Unsealable)?;
        sealed.fill(0);
        for (pointer, secret) in secrets {
            *file.pointer_mut(&pointer).ok_or(Unsealable)? = secret;
        }
        Ok(())
    }

    fn aead(&self) -> Result<LessSafeKey, Unsealable> {
        let mut bytes = STANDARD_NO_PAD.decode(self.key.expose()).map_err(|_| Unsealable)?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map(LessSafeKey::new).map_err(|_| Unsealable);
        bytes.fill(0);
        key
    }
}

/// Returns the id of the key with which a file is sealed.
pub(super) fn key_id(file: &Value) -> Option<&str> {
    file.get(SEALED).map(|sealed| sealed["key"].as_str().unwrap_or_default())
}

/// The authenticated data: the name of the file, and its other members in the order of their names.
fn context(name: &str, file: &Value) -> Vec<u8> {
    format!("{name}\n{file}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTERS: &[&str] = &["/token", "/client/secret", "/none"];

    fn file() -> Value {
        json!({ "version": 2, "token": "canary-1", "client": { "id": "x", "secret": "canary-2" }, "none": null })
    }

    fn sealed(key: &SealKey) -> Value {
        let mut value = file();
        key.seal("a.json", &mut value, POINTERS).unwrap();
        value
    }

    #[test]
    fn sealed_file_has_no_secret_and_is_opened_again() {
        let key = SealKey::random().unwrap();
        let mut value = sealed(&key);
        assert!(!value.to_string().contains("canary"), "{value}");
        assert_eq!((key_id(&value), &value["client"]["id"]), (Some(key.id()), &json!("x")));
        assert_ne!(sealed(&key), value, "each file has its own nonce");
        let key = SealKey::parse(key.secret().clone()).unwrap();
        key.open("a.json", &mut value).unwrap();
        assert_eq!(value, file());
    }

    #[test]
    fn changed_file_or_other_key_is_refused() {
        let key = SealKey::random().unwrap();
        let mut original = sealed(&key);
        let mut moved = original.clone();
        assert_eq!(key.open("b.json", &mut moved), Err(Unsealable));
        let mut changed = original.clone();
        changed["client"]["id"] = json!("y");
        assert_eq!(key.open("a.json", &mut changed), Err(Unsealable));
        for secrets in ["", "AAAA", "!"] {
            let mut changed = original.clone();
            changed["sealed"]["secrets"] = json!(secrets);
            assert_eq!(key.open("a.json", &mut changed), Err(Unsealable), "{secrets}");
        }
        assert_eq!(SealKey::random().unwrap().open("a.json", &mut original), Err(Unsealable));
        assert_eq!(key.open("a.json", &mut file()), Err(Unsealable));
    }

    #[test]
    fn only_32_bytes_are_a_key() {
        for text in ["", "AAAA", "not base64!"] {
            assert!(SealKey::parse(Secret::new(text)).is_none(), "{text}");
        }
    }
}
