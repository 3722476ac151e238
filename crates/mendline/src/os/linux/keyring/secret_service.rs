//! The Secret Service of a desktop: the interface of GNOME Keyring, KWallet and KeePassXC on the message bus.
//!
//! Secrets cross the socket of this user's session as they are (`plain`): a program that could read them there could
//! call the service itself. Nothing here asks the person to unlock a keyring.

use mendline_core::Secret;

use super::KeyringError;
use super::bus::{Bus, BusError, Method};
use super::value::Value;

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const NONE: &str = "/";

/// The attributes by which the keys of Mendline are found.
const ATTRIBUTES: [(&str, &str); 2] = [("xdg:schema", "dev.mendline.StoreKey"), ("application", "mendline")];
const LABEL: &str = "Mendline: key of the stored logins";

/// A session with the service.
pub(super) struct SecretService {
    bus: Bus,
    session: String,
}

impl SecretService {
    pub(super) fn open(bus: Bus) -> Result<SecretService, KeyringError> {
        let mut service = SecretService { bus, session: String::new() };
        let plain = [Value::text("plain"), Value::variant(Value::text(""))];
        let answer = service.service("OpenSession", &plain)?;
        service.session = path(answer.get(1))?;
        Ok(service)
    }

    /// Returns the keys that are stored. Several exist if two machines share a keyring.
    pub(super) fn keys(&mut self) -> Result<Vec<Secret>, KeyringError> {
        let answer = self.service("SearchItems", &[Value::pairs(&ATTRIBUTES)])?;
        let [Value::List(open), Value::List(locked)] = answer.as_slice() else { return Err(KeyringError::Malformed) };
        if open.is_empty() && !locked.is_empty() {
            return Err(KeyringError::Locked);
        }
        let items = open.iter().map(|item| path(Some(item))).collect::<Result<Vec<_>, _>>()?;
        items.iter().map(|item| self.secret(item)).collect()
    }

    /// Stores a key in the default keyring.
    pub(super) fn add(&mut self, key: &Secret) -> Result<(), KeyringError> {
        let answer = self.service("ReadAlias", &[Value::text("default")])?;
        let collection = path(answer.first())?;
        if collection == NONE {
            return Err(KeyringError::NoKeyring { why: "there is no default keyring".to_owned() });
        }
        if self.is_locked(&collection)? {
            return Err(KeyringError::Locked);
        }
        let property = |name: &str, value: Value| Value::Entry(Box::new((Value::text(name), Value::variant(value))));
        let properties = vec![
            property("org.freedesktop.Secret.Item.Label", Value::text(LABEL)),
            property("org.freedesktop.Secret.Item.Attributes", Value::pairs(&ATTRIBUTES)),
        ];
        let secret = Value::Struct(vec![
            Value::Path(self.session.clone()),
            Value::Bytes(Vec::new()),
            Value::Bytes(key.expose().as_bytes().to_vec()),
            Value::text("text/plain"),
        ]);
        let arguments = [Value::Array("{sv}", properties), secret, Value::Bool(false)];
        let answer = self.call(&collection, "org.freedesktop.Secret.Collection", "CreateItem", &arguments)?;
        // The service wants to ask the person first.
        match path(answer.first())?.as_str() {
            NONE => Err(KeyringError::Locked),
            _ => Ok(()),
        }
    }

    fn is_locked(&mut self, collection: &str) -> Result<bool, KeyringError> {
        let property = [Value::text("org.freedesktop.Secret.Collection"), Value::text("Locked")];
        let answer = self.call(collection, "org.freedesktop.DBus.Properties", "Get", &property)?;
        match answer.first() {
            Some(Value::Variant(value)) => Ok(**value == Value::Bool(true)),
            _ => Err(KeyringError::Malformed),
        }
    }

    fn secret(&mut self, item: &str) -> Result<Secret, KeyringError> {
        let session = [Value::Path(self.session.clone())];
        let mut answer = self.call(item, "org.freedesktop.Secret.Item", "GetSecret", &session)?;
        let Some(Value::Struct(members)) = answer.first_mut() else { return Err(KeyringError::Malformed) };
        let Some(Value::Bytes(bytes)) = members.get_mut(2) else { return Err(KeyringError::Malformed) };
        String::from_utf8(std::mem::take(bytes)).map(Secret::new).map_err(|_| KeyringError::Malformed)
    }

    fn service(&mut self, name: &str, body: &[Value]) -> Result<Vec<Value>, KeyringError> {
        self.call(ROOT, "org.freedesktop.Secret.Service", name, body)
    }

    fn call(&mut self, path: &str, interface: &str, name: &str, body: &[Value]) -> Result<Vec<Value>, KeyringError> {
        let called = self.bus.call(Method { destination: SERVICE, path, interface, name }, body);
        called.map_err(KeyringError::from)
    }
}

impl From<BusError> for KeyringError {
    fn from(error: BusError) -> KeyringError {
        match error {
            BusError::TimedOut => KeyringError::TimedOut,
            BusError::Malformed => KeyringError::Malformed,
            BusError::Io(error) => KeyringError::NoKeyring { why: format!("the session bus failed: {error}") },
            BusError::Refused { name } if name.ends_with(".IsLocked") => KeyringError::Locked,
            BusError::Refused { name } => match name.rsplit('.').next().unwrap_or_default() {
                "ServiceUnknown" | "NameHasNoOwner" => {
                    KeyringError::NoKeyring { why: "no keyring service runs in this session".to_owned() }
                }
                "NoReply" | "Timeout" | "TimedOut" => KeyringError::TimedOut,
                last => KeyringError::NoKeyring { why: format!("the keyring service answered {last:?}") },
            },
        }
    }
}

fn path(value: Option<&Value>) -> Result<String, KeyringError> {
    match value {
        Some(Value::Path(path)) => Ok(path.clone()),
        _ => Err(KeyringError::Malformed),
    }
}
