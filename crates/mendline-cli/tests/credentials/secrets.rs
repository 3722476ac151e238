//! Tokens, codes and secrets appear in no output, no log, no status and no argument.

use std::fs;
use std::path::Path;

use mendline_faults::AuthorizationSettings;
use serde_json::json;

use crate::stage::{NOTES, Stage};

/// Everything that the authorization server issues contains this word.
const CANARY: &str = "canary";

/// Returns the files under a folder, without the stored logins.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| !path.ends_with("credentials"))
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

#[test]
fn i12_tokens_appear_nowhere() {
    let stage = Stage::with(AuthorizationSettings { client_secrets: true, ..AuthorizationSettings::default() });
    let login = stage.log_in();
    let mut seen = vec![login.stdout, login.stderr];
    let mut client = stage.client(&["--log-level", "debug", "--record-wire"]);
    client.initialize();
    client.result("a", "create_note", &json!({ "key": "a" }));
    stage.authorization.expire_access_tokens();
    client.result("b", "create_note", &json!({ "key": "b" }));
    let command_line = fs::read_to_string(format!("/proc/{}/cmdline", client.process.id())).unwrap();
    seen.push(command_line);
    for line in [&["status"][..], &["status", "--json"], &["status", NOTES], &["doctor", NOTES], &["check"], &["logs"]]
    {
        let ended = stage.run(line);
        seen.extend([ended.stdout, ended.stderr]);
    }
    seen.push(client.whole_log());
    let logout = stage.run(&["logout", NOTES]);
    seen.extend([logout.stdout, logout.stderr]);
    for file in files(&stage.path().join("state")) {
        seen.push(String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned());
    }
    for text in &seen {
        // The id of a client is public.
        let secrets = text.replace("client-canary", "client");
        assert!(!secrets.contains(CANARY), "{text}");
    }
}

#[test]
fn stored_login_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    stage.log_in();
    let folder = stage.path().join("state/credentials");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in &files {
        assert_eq!(mode(path), 0o600, "{}", path.display());
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let refused = stage.run(&["token", NOTES]);
    assert!(refused.code == Some(1) && refused.stderr.contains("chmod 600"), "{refused:?}");
    for arguments in [&["status"][..], &["logout", "--all"]] {
        let ended = stage.run(arguments);
        assert!(ended.stderr.contains("chmod 600"), "{arguments:?}: {ended:?}");
        assert!(!ended.stdout.contains("There are no logins."), "{ended:?}");
    }
    assert_eq!(stage.run(&["logout", "--all"]).code, Some(1));
}

#[test]
fn damaged_login_is_named_by_login_status_and_doctor() {
    let stage = Stage::new();
    stage.log_in();
    let folder = stage.path().join("state/credentials");
    let is_login = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("login-") && name.ends_with(".json")
    };
    let login = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(is_login).unwrap();
    fs::write(&login, "{").unwrap();
    assert_eq!(stage.run(&["token", NOTES]).code, Some(6));
    assert!(stage.run(&["status"]).stderr.contains("was set aside"));
    let doctor = stage.run(&["doctor", NOTES]);
    assert!(doctor.stdout.contains("was set aside"), "{doctor:?}");
    let again = stage.log_in();
    assert!(again.stderr.contains("was set aside"), "{again:?}");
}

#[test]
fn logout_of_all_goes_on_after_a_login_that_cannot_be_ended() {
    let stage = Stage::new();
    stage.log_in();
    let other = stage.start_login(&["--account", "other", NOTES]);
    stage.browser.follow(1);
    assert_eq!(crate::stage::finish(other).code, Some(0));
    // A lock that cannot be opened: a directory has its name.
    let folder = stage.path().join("state/credentials");
    let mut locks: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    locks.retain(|path| path.to_string_lossy().contains("login-") && path.extension().is_some_and(|it| it == "lock"));
    locks.sort();
    fs::remove_file(&locks[0]).unwrap();
    fs::create_dir(&locks[0]).unwrap();
    let ended = stage.run(&["logout", "--all"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("cannot log out of") && ended.stdout.contains("Logged out of"), "{ended:?}");
}
