//! Sealed logins with a real keyring: GNOME Keyring on a session bus of its own.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mendline_faults::AuthorizationSettings;
use mendline_peers::caller::Caller;
use mendline_peers::logins::{Browser, Home};
use mendline_peers::processes::{eventually, is_stopped};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::programs;
use crate::stage::{SOON, Stage, call, needs_login, shake_hands, succeeded, until_it_works};

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const COLLECTION: &str = "/org/freedesktop/secrets/collection/login";

/// A session bus, and a keyring on it that is unlocked with an empty password.
struct Session {
    folder: TempDir,
    bus: Child,
    keyring: Option<Child>,
}

impl Session {
    fn new() -> Session {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("bus");
        let config = format!(
            "<busconfig><type>session</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow send_destination=\"*\"/><allow receive_sender=\"*\"/>\
             <allow own=\"*\"/></policy></busconfig>",
            socket.display()
        );
        fs::write(folder.path().join("bus.conf"), config).unwrap();
        let bus = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", folder.path().join("bus.conf").display()))
            .args(["--nofork", "--nopidfile"])
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is installed by `cargo xtask logins --install`");
        assert!(eventually(SOON, || socket.exists()), "the bus never listened");
        Session { folder, bus, keyring: None }
    }

    /// A session with a keyring that is unlocked.
    fn with_keyring() -> Session {
        let mut session = Session::new();
        session.start_keyring();
        session
    }

    fn start_keyring(&mut self) {
        let folder = self.folder.path();
        let mut keyring = Command::new("gnome-keyring-daemon")
            .args(["--foreground", "--components=secrets", "--unlock"])
            .arg(format!("--control-directory={}", folder.join("control").display()))
            .env("DBUS_SESSION_BUS_ADDRESS", self.address())
            .env("HOME", folder)
            .env("XDG_DATA_HOME", folder.join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("gnome-keyring-daemon is installed by `cargo xtask logins --install`");
        keyring.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.keyring = Some(keyring);
        let is_ready = || {
            let answer = self.ask(ROOT, "org.freedesktop.Secret.Service.ReadAlias", &["string:default"]);
            answer.contains(COLLECTION)
        };
        assert!(eventually(SOON, is_ready), "the keyring never came");
    }

    fn stop_keyring(&mut self) {
        if let Some(mut keyring) = self.keyring.take() {
            let _ = keyring.kill();
            let _ = keyring.wait();
        }
    }

    fn signal_keyring(&self, signal: Signal) {
        let pid = i32::try_from(self.keyring.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        let stops = signal == Signal::STOP;
        assert!(eventually(SOON, || is_stopped(pid) == stops));
    }

    fn lock(&self) {
        let collection = format!("array:objpath:{COLLECTION}");
        let answer = self.ask(ROOT, "org.freedesktop.Secret.Service.Lock", &[&collection]);
        assert!(answer.contains(COLLECTION), "{answer}");
    }

    fn ask(&self, path: &str, method: &str, arguments: &[&str]) -> String {
        let output = Command::new("dbus-send")
            .args(["--print-reply", &format!("--dest={SERVICE}"), path, method])
            .args(arguments)
            .env("DBUS_SESSION_BUS_ADDRESS", self.address())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn address(&self) -> String {
        format!("unix:path={}", self.folder.path().join("bus").display())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop_keyring();
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

/// A stage whose home has the bus of a session.
fn stage(session: &Session) -> Stage {
    let mut stage = Stage::new(AuthorizationSettings::default());
    let folder = stage.folder().to_owned();
    stage.home = Home::new(&folder, &programs::built(), Browser::Redirects).unwrap().with_bus(session.address());
    stage
}

/// Returns the files of logins.
fn login_files(stage: &Stage) -> Vec<PathBuf> {
    let folder = stage.folder().join(".local/state/mendline/credentials");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
}

/// Returns whether the stored secrets are sealed. The authorization server marks every secret.
fn is_sealed(stage: &Stage) -> bool {
    let texts: Vec<String> = login_files(stage).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let has_seal = texts.iter().any(|text| text.contains("\"sealed\""));
    let has_secret = texts.iter().any(|text| text.contains("canary"));
    assert_ne!(has_seal, has_secret, "{texts:?}");
    has_seal
}

fn start(stage: &Stage, number: usize, flags: &[&str]) -> Caller {
    let mut caller = stage.home.start(number, &[&["--login", "never"], flags].concat()).unwrap();
    shake_hands(&mut caller);
    caller
}

#[test]
fn login_is_sealed_and_survives_expiries_and_restarts_of_everything() {
    let mut session = Session::with_keyring();
    let stage = stage(&session);
    let shown = stage.home.login().unwrap();
    assert!(shown.contains("sealed, with a key in the system keyring"), "{shown}");
    assert!(is_sealed(&stage));
    for number in 0..3 {
        let mut caller = start(&stage, number, &[]);
        stage.authorization.expire_access_tokens();
        until_it_works(&mut caller, &format!("k{number}"));
        assert!(is_sealed(&stage));
        session.stop_keyring();
        assert!(succeeded(&call(&mut caller, "lookup", "without")), "the key stays in memory");
        session.start_keyring();
    }
    let status = stage.home.run(&["token", "notes"]).unwrap();
    assert!(status.status.success(), "{status:?}");
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, stage.home.visits()), (1, 0, 1), "{counts:?}");
}

#[test]
fn locked_keyring_is_said_at_once_and_unlocking_helps() {
    let mut session = Session::with_keyring();
    let stage = stage(&session);
    stage.home.login().unwrap();
    session.lock();
    let begun = Instant::now();
    let mut caller = start(&stage, 0, &[]);
    let answer = call(&mut caller, "lookup", "locked");
    assert!(needs_login(&answer) && answer.to_string().contains("the system keyring is locked"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let token = stage.home.run(&["token", "notes"]).unwrap();
    assert!(String::from_utf8_lossy(&token.stderr).contains("unlock the keyring"), "{token:?}");
    // A keyring that starts again is unlocked.
    session.stop_keyring();
    session.start_keyring();
    until_it_works(&mut caller, "unlocked");
    assert!(is_sealed(&stage));
    assert_eq!(stage.authorization.counts().logins, 1);
}

#[test]
fn keyring_that_hangs_blocks_no_start_and_loses_no_login() {
    let session = Session::with_keyring();
    let stage = stage(&session);
    stage.home.login().unwrap();
    session.signal_keyring(Signal::STOP);
    let mut caller = start(&stage, 0, &[]);
    let token = stage.home.run(&["token", "notes"]).unwrap();
    assert!(String::from_utf8_lossy(&token.stderr).contains("did not answer within 5 s"), "{token:?}");
    session.signal_keyring(Signal::CONT);
    until_it_works(&mut caller, "continued");
    assert_eq!(stage.authorization.counts().logins, 1);
}

#[test]
fn lost_key_is_said_and_a_new_login_works() {
    let mut session = Session::with_keyring();
    let stage = stage(&session);
    stage.home.login().unwrap();
    session.stop_keyring();
    fs::remove_dir_all(session.folder.path().join("data")).unwrap();
    session.start_keyring();
    let mut caller = start(&stage, 0, &[]);
    let answer = call(&mut caller, "lookup", "lost");
    assert!(needs_login(&answer) && answer.to_string().contains("does not have any more"), "{answer}");
    assert!(login_files(&stage).iter().any(|path| path.to_string_lossy().contains("login-")), "the file stays");
    stage.home.login().unwrap();
    until_it_works(&mut caller, "again");
    assert!(is_sealed(&stage));
    assert_eq!(stage.authorization.counts().logins, 2);
}

#[test]
fn login_moves_into_the_keyring_and_back() {
    let mut session = Session::new();
    let stage = stage(&session);
    let shown = stage.home.login().unwrap();
    assert!(shown.contains("only you can read, without a seal: no keyring service"), "{shown}");
    assert!(!is_sealed(&stage));
    let refused = stage.home.run(&["login", "--keyring", "always", "notes"]).unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("--keyring auto"), "{words}");
    assert_eq!(stage.home.visits(), 1, "it is known before the browser opens");
    session.start_keyring();
    for (number, (flag, sealed)) in [("auto", true), ("never", false), ("always", true)].into_iter().enumerate() {
        let mut caller = start(&stage, number, &["--keyring", flag]);
        assert!(eventually(SOON, || is_sealed_or_between(&stage) == Some(sealed)), "{flag}\n{}", caller.log());
        assert!(succeeded(&call(&mut caller, "lookup", flag)), "{flag}");
    }
    assert_eq!(stage.authorization.counts().logins, 1);
}

/// Returns whether all secrets are sealed; `None` while some are.
fn is_sealed_or_between(stage: &Stage) -> Option<bool> {
    let sealed: Vec<bool> = login_files(stage)
        .iter()
        .filter(|path| !path.ends_with("counters.json"))
        .map(|path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap().get("sealed").is_some())
        .collect();
    sealed.iter().all(|it| *it == sealed[0]).then(|| sealed[0])
}
