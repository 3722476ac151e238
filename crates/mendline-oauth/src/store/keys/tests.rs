//! Sealed logins with a keyring in memory. `tests/tests/keyring.rs` uses a real one.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::record::Login;
use super::super::{Key, Store};
use super::*;
use crate::testing::block_on;
use crate::testing::server::{MCP, Server, logged_in, settings, stored};
use crate::{LoggedOut, OAuthSource};
use mendline::credential::{CredentialSource as _, Occasion};
use mendline::decisions::reason::CredentialError;

/// A keyring in memory, which several processes may share.
#[derive(Clone, Default)]
struct Memory(Arc<Shared>);

#[derive(Default)]
struct Shared {
    keys: Mutex<Vec<Secret>>,
    trouble: Mutex<Option<KeyringError>>,
    calls: AtomicUsize,
}

impl Memory {
    fn fail(&self, trouble: impl Into<Option<KeyringError>>) {
        *self.0.trouble.lock().unwrap() = trouble.into();
    }

    fn lose_keys(&self) {
        self.0.keys.lock().unwrap().clear();
    }

    fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), KeyringError> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.trouble.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

impl Keyring for Memory {
    fn keys(&self) -> Result<Vec<Secret>, KeyringError> {
        self.check()?;
        Ok(self.0.keys.lock().unwrap().clone())
    }

    fn add(&self, key: &Secret) -> Result<(), KeyringError> {
        self.check()?;
        self.0.keys.lock().unwrap().push(key.clone());
        Ok(())
    }
}

fn no_keyring() -> KeyringError {
    KeyringError::NoKeyring { why: "there is no session bus here".to_owned() }
}

/// A stored login, and a keyring.
struct Stage {
    server: Server,
    login: Login,
    memory: Memory,
    key: Key,
}

impl Stage {
    fn new() -> Stage {
        let server = Server::new();
        block_on(logged_in(&server));
        let login = stored(&server);
        Stage { server, login, memory: Memory::default(), key: Store::key(MCP, None) }
    }

    /// The store of a process that has just started.
    fn store(&self, sealing: Sealing) -> Store {
        Store::new(self.server.folder()).keyring(self.memory.clone(), sealing)
    }

    fn file(&self) -> PathBuf {
        Store::new(self.server.folder()).folder().join(format!("{}.json", self.key.0))
    }

    fn is_sealed(&self) -> bool {
        let text = fs::read_to_string(self.file()).unwrap();
        let has_token = text.contains(self.login.access_token.expose());
        assert_eq!(has_token, !text.contains(r#""sealed""#), "{text}");
        !has_token
    }

    fn loaded(&self, store: &Store) -> Result<Option<Login>, OAuthError> {
        block_on(store.load(&self.key))
    }
}

#[test]
fn login_is_sealed_and_read_by_later_processes() {
    let stage = Stage::new();
    block_on(stage.store(Sealing::Auto).convert(&stage.key)).unwrap();
    assert!(stage.is_sealed());
    let text = fs::read_to_string(stage.file()).unwrap();
    assert!(!text.contains(stage.login.refresh_token.as_ref().unwrap().expose()), "{text}");
    let later = stage.store(Sealing::Auto);
    assert_eq!(stage.loaded(&later).unwrap(), Some(stage.login.clone()));
    let calls = stage.memory.calls();
    stage.loaded(&later).unwrap();
    assert_eq!(stage.memory.calls(), calls, "a process fetches the key once");
    // Status needs no keyring.
    let plain = Store::new(stage.server.folder());
    let info = &plain.logins().unwrap()[0];
    assert!(info.sealed && info.has_refresh && info.server == MCP);
}

#[test]
fn login_moves_between_sealed_and_plain_files() {
    let stage = Stage::new();
    for (sealing, is_sealed) in [(Sealing::Always, true), (Sealing::Never, false), (Sealing::Auto, true)] {
        let store = stage.store(sealing);
        block_on(store.convert(&stage.key)).unwrap();
        assert_eq!(stage.is_sealed(), is_sealed, "{sealing:?}");
        assert_eq!(stage.loaded(&store).unwrap().as_ref(), Some(&stage.login), "{sealing:?}");
    }
    let issuer = block_on(stage.store(Sealing::Never).known(&stage.login.issuer)).unwrap();
    assert!(issuer.registration.is_some());
}

#[test]
fn keyring_is_left_alone_while_there_is_no_login() {
    let (server, memory) = (Server::new(), Memory::default());
    let store = Store::new(server.folder()).keyring(memory.clone(), Sealing::Auto);
    let mut source = OAuthSource::new(crate::OAuth { store, ..server.oauth() }, settings());
    block_on(async {
        assert_eq!(source.read(&Occasion::Start).await, Ok(None));
        let _ = tokio::time::timeout(Duration::from_secs(60), source.changed()).await;
    });
    assert_eq!(memory.calls(), 0);
}

#[test]
fn without_a_keyring_auto_stores_plain_files_and_always_refuses() {
    for trouble in [no_keyring(), KeyringError::Locked, KeyringError::TimedOut] {
        let stage = Stage::new();
        stage.memory.fail(trouble.clone());
        let auto = stage.store(Sealing::Auto);
        block_on(auto.save(&stage.key, &stage.login)).unwrap();
        assert!(!stage.is_sealed());
        assert_eq!(auto.unsealed_because(), Some(trouble.clone()));
        let calls = stage.memory.calls();
        block_on(auto.save(&stage.key, &stage.login)).unwrap();
        assert_eq!(stage.memory.calls(), calls, "a keyring that failed is left alone");
        let error = block_on(stage.store(Sealing::Always).save(&stage.key, &stage.login)).unwrap_err();
        assert_eq!(error, OAuthError::NoSeal { why: trouble });
        assert!(error.to_string().contains("--keyring auto"), "{error}");
    }
}

#[test]
fn refresh_token_is_not_sent_before_its_successor_can_be_stored() {
    let stage = Stage::new();
    stage.memory.fail(KeyringError::Locked);
    let oauth = crate::OAuth { store: stage.store(Sealing::Always), ..stage.server.oauth() };
    let renewed = block_on(crate::renew::renew(&oauth, &settings(), &stage.login.access_token));
    assert_eq!(renewed.unwrap_err(), OAuthError::NoSeal { why: KeyringError::Locked });
    assert_eq!(stage.server.state().refreshes, 0);
    assert_eq!(stored(&stage.server), stage.login);
}

#[test]
fn sealed_login_without_its_key_is_kept_and_explained() {
    let stage = Stage::new();
    block_on(stage.store(Sealing::Auto).convert(&stage.key)).unwrap();
    let sealed = fs::read(stage.file()).unwrap();
    let cases = [
        (Some(no_keyring()), "mendline login --keyring never", false),
        (Some(KeyringError::Locked), "unlock the keyring", false),
        (Some(KeyringError::TimedOut), "did not answer within", true),
        (None, "run: mendline login", false),
    ];
    for (trouble, words, can_pass) in cases {
        let is_lost = trouble.is_none();
        stage.memory.fail(trouble);
        if is_lost {
            stage.memory.lose_keys();
        }
        let error = stage.loaded(&stage.store(Sealing::Auto)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!((error.can_pass(), error.for_engine().can_pass()), (can_pass, can_pass), "{error}");
        assert_eq!(fs::read(stage.file()).unwrap(), sealed, "the file stays");
    }
}

#[test]
fn source_uses_a_sealed_login_as_soon_as_the_keyring_is_unlocked() {
    let stage = Stage::new();
    block_on(stage.store(Sealing::Auto).convert(&stage.key)).unwrap();
    stage.memory.fail(KeyringError::Locked);
    let oauth = crate::OAuth { store: stage.store(Sealing::Auto), ..stage.server.oauth() };
    let mut source = OAuthSource::new(oauth, settings());
    block_on(async {
        let error = source.read(&Occasion::Start).await.unwrap_err();
        assert!(matches!(&error, CredentialError::File { why, .. } if why.contains("unlock")), "{error}");
        let waited = tokio::time::timeout(Duration::from_secs(60), source.changed()).await;
        assert!(waited.is_err(), "it is still locked");
        stage.memory.fail(None);
        source.changed().await;
        let credential = source.read(&Occasion::Changed).await.unwrap().unwrap();
        assert!(credential.headers[0].1.expose().contains(stage.login.access_token.expose()));
    });
}

#[test]
fn new_login_replaces_one_whose_key_is_lost() {
    let stage = Stage::new();
    block_on(stage.store(Sealing::Auto).convert(&stage.key)).unwrap();
    stage.memory.lose_keys();
    let oauth = crate::OAuth { store: stage.store(Sealing::Auto), ..stage.server.oauth() };
    let person = crate::testing::Person::pasting({
        let server = stage.server.clone();
        move |url| server.authorize(url)
    });
    let options = crate::LoginOptions { way: crate::Way::Paste, ..crate::LoginOptions::default() };
    let logged_in = block_on(crate::login(&oauth, &settings(), &options, &person)).unwrap();
    assert!(logged_in.info.sealed);
    assert!(stage.loaded(&stage.store(Sealing::Auto)).unwrap().is_some());
}

#[test]
fn logout_deletes_a_login_whose_key_is_lost() {
    let stage = Stage::new();
    block_on(stage.store(Sealing::Auto).convert(&stage.key)).unwrap();
    let oauth = |store| crate::OAuth { store, ..stage.server.oauth() };
    stage.memory.fail(KeyringError::Locked);
    assert!(block_on(crate::logout(&oauth(stage.store(Sealing::Auto)), &settings())).is_err(), "unlock it first");
    stage.memory.fail(None);
    stage.memory.lose_keys();
    let ended = block_on(crate::logout(&oauth(stage.store(Sealing::Auto)), &settings())).unwrap();
    assert!(matches!(ended, LoggedOut::DeletedOnly { why: Some(_) }), "{ended:?}");
    assert!(!stage.file().exists());
}

#[test]
fn processes_that_start_together_create_one_key() {
    let stage = Stage::new();
    block_on(async {
        let saves = (0..8).map(|_| {
            let (store, key, login) = (stage.store(Sealing::Auto), stage.key.clone(), stage.login.clone());
            tokio::spawn(async move { store.save(&key, &login).await })
        });
        for save in saves.collect::<Vec<_>>() {
            save.await.unwrap().unwrap();
        }
    });
    assert_eq!(stage.memory.0.keys.lock().unwrap().len(), 1);
    assert!(stage.is_sealed());
}
