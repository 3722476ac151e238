//! Tests of the files.

use std::os::unix::fs::PermissionsExt;

use mendline::decisions::Secret;

use super::counters::Demand;
use super::*;
use crate::testing::server::{MCP, Server, logged_in, stored};
use crate::testing::{block_on, now};

fn files(store: &Store) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(&store.folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn login_file(store: &Store) -> PathBuf {
    store.folder.join(format!("{}.json", Store::key(MCP, None).0))
}

fn with_login() -> (Server, Store) {
    let server = Server::new();
    block_on(logged_in(&server));
    let store = Store::new(server.folder());
    (server, store)
}

#[test]
fn files_are_for_their_owner_alone() {
    let (_server, store) = with_login();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.folder), 0o700);
    for name in files(&store) {
        assert_eq!(mode(&store.folder.join(&name)), 0o600, "{name}");
        assert!(!name.ends_with(".new"), "{name}");
    }
}

#[test]
fn readable_file_is_refused_with_the_command_to_run() {
    let (_server, store) = with_login();
    let path = login_file(&store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = now(store.load(&Store::key(MCP, None))).unwrap_err().to_string();
    assert!(error.contains(&format!("chmod 600 '{}'", path.display())), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(store.logins().unwrap_err().to_string().contains("chmod 700"));
}

#[test]
fn damaged_file_is_set_aside_and_never_deleted() {
    let (_server, store) = with_login();
    let path = login_file(&store);
    for (number, content) in ["", "{", "[]", r#"{"version":1}"#, "\0\0\0"].into_iter().enumerate() {
        fs::write(&path, content).unwrap();
        assert_eq!(now(store.load(&Store::key(MCP, None))).unwrap(), None);
        let aside = format!("{}.corrupt-{}", path.display(), number + 1);
        assert_eq!(fs::read_to_string(aside).unwrap(), content);
        make_private(&path);
    }
    assert_eq!(store.damaged().len(), 5);
    assert!(store.logins().unwrap().is_empty());
}

/// Creates the file again with the permissions that it must have.
fn make_private(path: &Path) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn file_of_a_newer_version_is_left_alone() {
    let (_server, store) = with_login();
    let path = login_file(&store);
    let content = fs::read_to_string(&path).unwrap().replace(r#""version":1"#, r#""version":3"#);
    fs::write(&path, &content).unwrap();
    assert!(now(store.load(&Store::key(MCP, None))).unwrap_err().to_string().contains("update Mendline"));
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
}

#[test]
fn link_in_place_of_a_file_is_refused() {
    let (_server, store) = with_login();
    let path = login_file(&store);
    let elsewhere = store.folder.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(now(store.load(&Store::key(MCP, None))).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn remains_of_an_interrupted_write_do_no_harm() {
    let (server, store) = with_login();
    let before = stored(&server);
    fs::write(format!("{}.1-0.new", login_file(&store).display()), "half of a fi").unwrap();
    assert_eq!(stored(&server), before);
    assert_eq!(store.logins().unwrap().len(), 1);
}

#[test]
fn accounts_have_logins_of_their_own() {
    let key = |account| Store::key(MCP, account);
    assert_ne!(key(None), key(Some("work")));
    assert_ne!(key(Some("work")), key(Some("home")));
    assert_ne!(Store::key("a", Some("bc")), Store::key("ab", Some("c")));
}

#[test]
fn list_of_logins_has_no_secret() {
    let (server, store) = with_login();
    let login = stored(&server);
    let text = format!("{:?} {login:?}", store.logins().unwrap());
    for secret in [&login.access_token, login.refresh_token.as_ref().unwrap()] {
        assert!(!text.contains(secret.expose()), "{text}");
    }
    let info = &store.logins().unwrap()[0];
    assert!(info.has_refresh && !info.ended && info.server == MCP && info.scopes == ["read"]);
    assert!(Store::new(Path::new("/nonexistent-state")).logins().unwrap().is_empty());
}

#[test]
fn lock_is_exclusive_and_waited_for() {
    block_on(async {
        let server = Server::new();
        let (store, key) = (Store::new(server.folder()), Store::key(MCP, None));
        let lock = store.lock(&key, Duration::ZERO).await.unwrap();
        let error = store.lock(&key, Duration::from_secs(1)).await.unwrap_err();
        assert!(error.can_pass() && matches!(error, OAuthError::Locked { .. }));
        let waiting = tokio::spawn({
            let (store, key) = (store.clone(), key.clone());
            async move { store.lock(&key, Duration::from_secs(60)).await.is_ok() }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        drop(lock);
        assert!(waiting.await.unwrap());
        assert!(store.try_flow_lock(&key).unwrap().is_some(), "logins have a lock of their own");
    });
}

#[test]
fn browser_is_opened_once_per_cool_down() {
    let server = Server::new();
    let (store, key) = (Store::new(server.folder()), Store::key(MCP, None));
    let start = SystemTime::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    block_on(async {
        assert!(store.may_open_browser(&key, Demand::Login, start).await);
        // Another process has the same file.
        assert!(!Store::new(server.folder()).may_open_browser(&key, Demand::New, after(599)).await);
        assert!(
            store.may_open_browser(&Store::key(MCP, Some("work")), Demand::Login, after(599)).await,
            "another login"
        );
        assert!(store.may_open_browser(&key, Demand::Login, after(600)).await);
        for at in [601, 602, 603] {
            store.login_succeeded(&key, after(at)).await;
            assert!(!store.may_open_browser(&key, Demand::Login, after(at)).await, "{at}: a login that ended");
            assert!(store.may_open_browser(&key, Demand::New, after(at)).await, "{at}");
        }
        store.login_succeeded(&key, after(604)).await;
        assert!(!store.may_open_browser(&key, Demand::New, after(604)).await, "not in a loop, even with success");
    });
}

#[test]
fn fruitless_requests_are_counted_by_day_and_origin() {
    let server = Server::new();
    let store = Store::new(server.folder());
    let now = SystemTime::now();
    block_on(async {
        for _ in 0..3 {
            store.count_fruitless("https://a.example", 1, now).await;
        }
        assert_eq!(store.fruitless_today("https://a.example"), 3);
        assert_eq!(store.fruitless_today("https://b.example"), 0);
        store.count_fruitless("https://b.example", 1, now + Duration::from_secs(48 * 60 * 60)).await;
        assert!(store.check_ceiling("https://a.example", now).is_ok());
        store.forgive("https://a.example", now).await;
        assert_eq!(store.fruitless_today("https://a.example"), 0);
    });
}

#[test]
fn secret_of_a_stored_login_is_not_in_errors() {
    let (_server, store) = with_login();
    let path = login_file(&store);
    let content = fs::read_to_string(&path).unwrap().replace(r#""version":1"#, r#""version":9"#);
    fs::write(&path, content).unwrap();
    let error = now(store.load(&Store::key(MCP, None))).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("access-"), "{error}");
    let _ = Secret::new("");
}

#[test]
fn clock_that_is_set_back_ends_a_pause() {
    let server = Server::new();
    let store = Store::new(server.folder());
    let now = SystemTime::now();
    block_on(async {
        store.set_pause("https://a.example", Duration::from_secs(600), now).await;
        let left = store.pause("https://a.example", now + Duration::from_secs(300)).unwrap();
        assert!((290..=300).contains(&left.as_secs()), "{left:?}");
        assert_eq!(store.pause("https://a.example", now + Duration::from_secs(600)), None);
        assert_eq!(store.pause("https://a.example", now - Duration::from_secs(24 * 60 * 60)), None);
    });
}

#[test]
fn remains_of_a_killed_process_are_deleted_with_the_next_lock() {
    let (_server, store) = with_login();
    let remains = format!("{}.1-0.new", login_file(&store).display());
    let other = store.folder.join("issuer-1.json.1-0.new");
    for path in [Path::new(&remains), &other] {
        fs::write(path, "half of a fi").unwrap();
    }
    block_on(async { store.lock(&Store::key(MCP, None), Duration::ZERO).await.unwrap() });
    assert!(!Path::new(&remains).exists());
    assert!(other.exists(), "another process may be writing it");
    let old = SystemTime::now() - REMAINS_AFTER - Duration::from_secs(1);
    File::options().write(true).open(&other).unwrap().set_modified(old).unwrap();
    block_on(async { store.lock(&Store::key(MCP, None), Duration::ZERO).await.unwrap() });
    assert!(!other.exists());
}

#[test]
fn unusable_files_are_named_with_the_next_step() {
    let (_server, store) = with_login();
    assert!(store.troubles().is_empty());
    let path = login_file(&store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let troubles = store.troubles();
    assert!(troubles.len() == 1 && troubles[0].contains("chmod 600"), "{troubles:?}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "{").unwrap();
    assert!(store.troubles()[0].contains("is damaged"));
    assert_eq!(now(store.load(&Store::key(MCP, None))).unwrap(), None);
    let troubles = store.troubles();
    assert!(troubles.len() == 1 && troubles[0].contains(".corrupt-1"), "{troubles:?}");
}
