//! Logins with real processes: `mendline login` and `mendline run` against authorization servers.
//!
//! The authorization servers are that of the fault server, npm `oidc-provider` with its pages clicked in Chromium, and
//! PyPI `oidc-provider-mock`. The figures that users lost logins to are counted by the servers: how often a person had to
//! log in, how often a refresh token was used, how often a rotated one was used again.
//! `cargo xtask logins` installs the peers and runs these tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its figures")]

mod programs;

use std::collections::BTreeSet;
use std::fs;
use std::future::pending;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use mendline_faults::{AuthorizationServer, AuthorizationSettings, Consent, Server, Settings, TokenFault};
use mendline_peers::caller::Caller;
use mendline_peers::logins::{Browser, Home, node};
use mendline_peers::processes::eventually;
use mendline_peers::stage::installed;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
const NEEDS_LOGIN: i64 = -31008;

/// The variable with which `cargo xtask soak` sets the number of expiries.
const EXPIRIES: &str = "MENDLINE_SOAK_EXPIRIES";

/// Returns a runtime that a thread of its own drives.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        std::thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}

/// Runs a future on the runtime and waits for it.
fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime().spawn(async move {
        let _ = sender.send(work.await);
    });
    receiver.recv_timeout(2 * SOON).unwrap()
}

/// A protected MCP server, its authorization server and a home with a login to it.
struct Stage {
    server: Server,
    authorization: AuthorizationServer,
    home: Home,
    _folder: TempDir,
}

impl Stage {
    fn new(settings: AuthorizationSettings) -> Stage {
        let (server, authorization) = wait_for(async move {
            let server = Server::start(Settings::default()).await.unwrap();
            let authorization = AuthorizationServer::start(settings).await.unwrap();
            server.protect(&authorization);
            (server, authorization)
        });
        let folder = TempDir::new().unwrap();
        let home = Home::new(folder.path(), &programs::built(), Browser::Redirects).unwrap();
        home.configure(&server.url(), &Value::Null).unwrap();
        Stage { server, authorization, home, _folder: folder }
    }

    /// A stage after a login.
    fn logged_in(settings: AuthorizationSettings) -> Stage {
        let stage = Stage::new(settings);
        stage.home.login().unwrap();
        assert_eq!(stage.authorization.counts().logins, 1);
        stage
    }

    /// Starts `mendline run`, which never opens the browser by itself.
    fn start(&self, number: usize) -> Caller {
        let mut caller = self.home.start(number, &["--login", "never"]).unwrap();
        caller.initialize(SOON).unwrap();
        caller
    }

    fn executions_of(&self, key: &str) -> u64 {
        self.server.oracle().counts().executions_of(key)
    }
}

/// Calls a tool and returns its answer. The id is the key of the execution.
fn call(caller: &mut Caller, tool: &str, id: &str) -> Value {
    caller.call(id, tool, &json!({ "key": id })).unwrap();
    caller.answer(id, SOON).unwrap()
}

fn succeeded(answer: &Value) -> bool {
    answer["result"]["content"].is_array() && answer["result"]["isError"] != true
}

fn needs_login(answer: &Value) -> bool {
    answer["error"]["code"] == NEEDS_LOGIN
        || answer["result"]["_meta"]["dev.mendline/failure"]["cause"] == "needs_login"
}

/// Calls until the call succeeds. Returns the other answers.
fn until_it_works(caller: &mut Caller, key: &str) -> Vec<Value> {
    let mut others = Vec::new();
    for attempt in 0.. {
        let answer = call(caller, "lookup", &format!("{key}-{attempt}"));
        if succeeded(&answer) {
            break;
        }
        others.push(answer);
        assert!(attempt < 200, "it never worked: {:?}; log:\n{}", others.last(), caller.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    others
}

// ---- one login ----

#[test]
fn login_is_used_by_calls_and_by_later_processes() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    for number in 0..2 {
        let mut caller = stage.start(number);
        let answer = call(&mut caller, "create_note", &format!("n{number}"));
        assert!(succeeded(&answer), "{answer}");
        assert_eq!(stage.executions_of(&format!("n{number}")), 1);
    }
    let counts = stage.authorization.counts();
    assert_eq!(
        (counts.logins, counts.registrations, counts.refreshes, counts.refused_token),
        (1, 1, 0, 0),
        "{counts:?}"
    );
    assert_eq!(stage.home.visits(), 1);
}

#[test]
fn refused_token_is_refreshed_once_and_unsafe_call_runs_once() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    // After more refusals of fresh tokens Mendline would pause.
    for round in 1..=3 {
        stage.authorization.expire_access_tokens();
        let key = format!("n{round}");
        let answer = call(&mut caller, "create_note", &key);
        assert!(succeeded(&answer), "{answer}\n{}", caller.log());
        assert_eq!((stage.executions_of(&key), stage.authorization.counts().refreshes), (1, round));
    }
    drop(caller);
    let mut caller = stage.start(1);
    assert!(succeeded(&call(&mut caller, "create_note", "after a restart")));
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, counts.refreshes), (1, 0, 3), "{counts:?}");
}

#[test]
fn server_works_after_a_login_without_a_restart_of_the_client() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut caller = stage.home.start(0, &["--login", "never"]).unwrap();
    let who = json!({ "name": "caller", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    caller.request("handshake", "initialize", &hello).unwrap();
    let answer = caller.answer("handshake", SOON).unwrap();
    let instructions = answer["result"]["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(instructions.contains("mendline login"), "{answer}");
    caller.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    let answer = call(&mut caller, "lookup", "early");
    assert!(needs_login(&answer), "{answer}");
    assert!(answer.to_string().contains("mendline login"), "{answer}");
    stage.home.login().unwrap();
    let others = until_it_works(&mut caller, "late");
    assert!(others.iter().all(needs_login), "{others:?}");
    assert_eq!((stage.authorization.counts().logins, stage.home.visits()), (1, 1));
}

/// Performs the handshake, whose answer may be a provisional one.
fn shake_hands(caller: &mut Caller) {
    let who = json!({ "name": "caller", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    caller.request("handshake", "initialize", &hello).unwrap();
    caller.answer("handshake", SOON).unwrap();
    caller.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
}

#[test]
fn automatic_login_opens_the_browser_once_for_all_processes() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut callers: Vec<Caller> = Vec::new();
    for number in 0..3 {
        let mut caller = stage.home.start(number, &[]).unwrap();
        shake_hands(&mut caller);
        until_it_works(&mut caller, "k");
        callers.push(caller);
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.registrations, stage.home.visits()), (1, 1, 1), "{counts:?}");
    // The login is revoked soon after: no other page opens, however often the clients call.
    let denied = AuthorizationSettings { consent: Consent::Denied, ..stage.authorization.settings() };
    stage.authorization.change_settings(denied);
    stage.authorization.revoke_all();
    for number in 0..20 {
        for caller in &mut callers {
            let answer = call(caller, "lookup", &format!("revoked-{number}"));
            assert!(needs_login(&answer), "{answer}");
        }
    }
    assert_eq!(stage.home.visits(), 1);
}

#[test]
fn automatic_login_opens_the_browser_once_for_processes_that_start_together() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut callers: Vec<Caller> = (0..3).map(|number| stage.home.start(number, &[]).unwrap()).collect();
    callers.iter_mut().for_each(shake_hands);
    for caller in &mut callers {
        until_it_works(caller, "k");
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.registrations, stage.home.visits()), (1, 1, 1), "{counts:?}");
}

// ---- many users of one login ----

#[test]
fn thousand_calls_meet_an_expired_token_with_one_refresh() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    assert!(succeeded(&call(&mut caller, "create_note", "first")));
    stage.authorization.expire_access_tokens();
    let begun = Instant::now();
    let mut open: BTreeSet<String> = (0..1000).map(|number| format!("c{number}")).collect();
    for key in &open {
        caller.call(key, "create_note", &json!({ "key": key })).unwrap();
    }
    while !open.is_empty() {
        let (_, message) = caller.next(2 * SOON).unwrap();
        let Some(id) = message["id"].as_str().filter(|_| message.get("method").is_none()) else { continue };
        assert!(succeeded(&message), "{message}");
        assert!(open.remove(id), "answered twice: {message}");
    }
    let counts = stage.authorization.counts();
    println!(
        "1,000 calls after an expiry: {:?}, {} refused, {} refreshes",
        begun.elapsed(),
        counts.refused(),
        counts.refreshes
    );
    assert_eq!((counts.refreshes, counts.reuses, counts.logins), (1, 0, 1), "{counts:?}");
    assert!((0..1000).all(|number| stage.executions_of(&format!("c{number}")) == 1));
}

#[test]
fn eight_processes_share_a_rotating_refresh_token() {
    const PROCESSES: usize = 8;
    let expiries: u64 = std::env::var(EXPIRIES).ok().map_or(50, |text| text.parse().unwrap());
    let stage = Stage::logged_in(AuthorizationSettings { access_seconds: 2, ..AuthorizationSettings::default() });
    let mut callers: Vec<Caller> = (0..PROCESSES).map(|number| stage.start(number)).collect();
    let (begun, mut rounds) = (Instant::now(), 0);
    while stage.authorization.counts().refreshes < expiries {
        rounds += 1;
        let key = format!("e{rounds}");
        for caller in &mut callers {
            caller.call(&key, "lookup", &json!({ "key": key })).unwrap();
        }
        for caller in &mut callers {
            let answer = caller.answer(&key, SOON).unwrap();
            assert!(succeeded(&answer), "round {rounds}: {answer}\n{}", caller.log());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let counts = stage.authorization.counts();
    let calls = rounds * PROCESSES;
    println!("{PROCESSES} processes, {calls} calls in {:?}: {} refreshes", begun.elapsed(), counts.refreshes);
    assert_eq!((counts.logins, counts.reuses, stage.home.visits()), (1, 0, 1), "{counts:?}");
    // Every token lives two seconds and is renewed at half of that at the earliest.
    assert!(counts.refreshes <= begun.elapsed().as_secs() + 3, "{counts:?} in {:?}", begun.elapsed());
}

// ---- faults of the token endpoint ----

#[test]
fn passing_faults_of_the_token_endpoint_end_no_login() {
    let stage = Stage::logged_in(AuthorizationSettings { access_seconds: 3, ..AuthorizationSettings::default() });
    let mut caller = stage.start(0);
    let faults = [
        TokenFault::Status { status: 503, retry_after: None },
        TokenFault::Status { status: 500, retry_after: None },
        TokenFault::Status { status: 429, retry_after: Some(1) },
        TokenFault::Html,
        TokenFault::WrongJson,
        TokenFault::ErrorInSuccess("temporarily_unavailable".to_owned()),
        TokenFault::Cut,
        // One wrong refusal is not the end of a login.
        TokenFault::Error("invalid_grant".to_owned()),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let met = stage.authorization.counts().token_faults;
        stage.authorization.fail_token(fault.clone(), 1);
        // Calls go on until a renewal has met the fault.
        for attempt in 0.. {
            let answer = call(&mut caller, "lookup", &format!("w{number}-{attempt}"));
            assert!(!needs_login(&answer), "{fault:?}: {answer}\n{}", caller.log());
            if stage.authorization.counts().token_faults > met {
                break;
            }
            assert!(attempt < 200, "no renewal\n{}", caller.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        let others = until_it_works(&mut caller, &format!("f{number}"));
        assert!(others.iter().all(|answer| !needs_login(answer)), "{fault:?}: {others:?}");
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, stage.home.visits()), (1, 0, 1), "{counts:?}");
}

#[test]
fn revoked_login_needs_a_login_and_makes_few_requests() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    stage.authorization.revoke_all();
    let answer = call(&mut caller, "lookup", "k");
    assert!(needs_login(&answer), "{answer}\n{}", caller.log());
    // Calls are sent until a probe is refused, too.
    let is_known = eventually(SOON, || {
        let before = stage.authorization.counts().refused();
        assert!(needs_login(&call(&mut caller, "lookup", "probed")));
        stage.authorization.counts().refused() == before
    });
    assert!(is_known, "{}", caller.log());
    let before = stage.authorization.counts();
    for number in 0..50 {
        assert!(needs_login(&call(&mut caller, "lookup", &format!("k{number}"))));
    }
    let after = stage.authorization.counts();
    assert!(after.token_requests - before.token_requests <= 2, "{before:?} {after:?}");
    assert!(after.refused() - before.refused() <= 4, "{before:?} {after:?}");
    stage.home.login().unwrap();
    until_it_works(&mut caller, "again");
    assert_eq!(stage.authorization.counts().logins, 2);
}

// ---- kill -9 ----

/// Makes a call that needs a refresh and kills Mendline when the condition holds.
fn killed_during_refresh(stage: &Stage, number: usize, is_time: impl Fn(&Stage) -> bool) {
    let mut caller = stage.start(number);
    stage.authorization.expire_access_tokens();
    let _ = caller.call("killed", "lookup", &json!({ "key": "killed" }));
    assert!(eventually(SOON, || is_time(stage)), "the moment never came\n{}", caller.log());
    caller.kill();
}

#[test]
fn kill_before_the_rotation_loses_no_login() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    for round in 0..3 {
        let faults = stage.authorization.counts().token_faults;
        stage.authorization.fail_token(TokenFault::Hang, 1);
        killed_during_refresh(&stage, round, |stage| stage.authorization.counts().token_faults > faults);
        let mut caller = stage.start(100 + round);
        let answer = call(&mut caller, "lookup", "k");
        assert!(succeeded(&answer), "{answer}\n{}", caller.log());
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, counts.refreshes), (1, 0, 3), "{counts:?}");
}

#[test]
fn kill_between_rotation_and_receipt_needs_one_login() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    stage.authorization.fail_token(TokenFault::HangAfterProcessing, 1);
    killed_during_refresh(&stage, 0, |stage| stage.authorization.counts().refreshes == 1);
    let mut caller = stage.home.start(1, &["--login", "never"]).unwrap();
    shake_hands(&mut caller);
    let answer = call(&mut caller, "lookup", "k");
    assert!(needs_login(&answer), "{answer}\n{}", caller.log());
    stage.home.login().unwrap();
    until_it_works(&mut caller, "again");
    assert_eq!(stage.authorization.counts().logins, 2);
}

#[test]
fn kill_at_any_time_after_receipt_loses_no_login() {
    // The server accepts a rotated token again, so that only a damaged store can lose the login.
    let stage = Stage::logged_in(AuthorizationSettings { reuse_grace_ms: 60_000, ..AuthorizationSettings::default() });
    let rounds: u64 = 20;
    for round in 0..rounds {
        let mut caller = stage.start(usize::try_from(round).unwrap());
        stage.authorization.expire_access_tokens();
        let requests = stage.authorization.counts().token_requests;
        let _ = caller.call("killed", "lookup", &json!({ "key": "killed" }));
        assert!(eventually(SOON, || stage.authorization.counts().token_requests > requests), "{}", caller.log());
        std::thread::sleep(Duration::from_micros(500 * round));
        caller.kill();
    }
    let mut caller = stage.start(1000);
    let answer = call(&mut caller, "create_note", "k");
    assert!(succeeded(&answer), "{answer}\n{}", caller.log());
    let counts = stage.authorization.counts();
    println!("killed {rounds} times during a refresh: {} refreshes, {} reuses", counts.refreshes, counts.reuses);
    assert_eq!((counts.logins, counts.reuses), (1, 0), "{counts:?}");
}

// ---- nothing leaks ----

#[test]
fn issued_secrets_are_in_no_log_and_no_output() {
    let stage = Stage::new(AuthorizationSettings { client_secrets: true, ..AuthorizationSettings::default() });
    let shown = stage.home.login().unwrap();
    assert!(!shown.contains("canary"), "{shown}");
    let mut caller = stage.start(0);
    stage.authorization.expire_access_tokens();
    assert!(succeeded(&call(&mut caller, "lookup", "k")));
    stage.authorization.fail_token(TokenFault::Error("invalid_scope".to_owned()), 2);
    stage.authorization.expire_access_tokens();
    let _ = call(&mut caller, "lookup", "k2");
    for arguments in [&["status", "--json"][..], &["doctor", "notes"]] {
        let [subcommand, rest @ ..] = arguments else { continue };
        let command = stage.home.command(&[&[*subcommand], rest].concat());
        let output = Command::new(&command[0]).args(&command[1..]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&text).contains("canary"), "{arguments:?}");
    }
    drop(caller);
    // The store of logins is the one place for secrets.
    let found = stage.home.files_with("canary", &["login", "credential"]);
    assert!(found.is_empty(), "{found:?}");
}

// ---- authorization servers of others ----

/// A peer process that prints its addresses as one JSON line and ends with its stdin.
struct Peer {
    process: Child,
    _stdin: Option<ChildStdin>,
    addresses: Value,
}

impl Peer {
    fn start(command: &mut Command, log: &Path) -> Peer {
        let log = fs::File::create(log).unwrap();
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdin = process.stdin.take();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addresses = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{line:?}: {why}"));
        Peer { process, _stdin: stdin, addresses }
    }

    fn url(&self) -> &str {
        self.addresses["url"].as_str().unwrap()
    }

    /// Returns the counts of the peer.
    fn counts(&self) -> Value {
        let url = self.addresses["counts"].as_str().unwrap().trim_start_matches("http://");
        let (authority, path) = url.split_once('/').unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        serde_json::from_str(&text[start..=end]).unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn oidc_provider_login_in_chromium_survives_ten_expiries_and_a_restart() {
    let folder = TempDir::new().unwrap();
    let provider = installed("login/provider.mjs").unwrap();
    let peer = Peer::start(Command::new(node().unwrap()).arg(provider).arg("2"), &folder.path().join("provider.log"));
    let home = Home::new(folder.path(), &programs::built(), Browser::Chromium).unwrap();
    home.configure(peer.url(), &json!({ "type": "oauth" })).unwrap();
    let shown = home.login().unwrap_or_else(|why| panic!("{why}\n{}", texts(folder.path())));
    println!("{shown}\n{}", texts(folder.path()));
    assert!(eventually(SOON, || folder.path().join("page.png").exists()), "{}", texts(folder.path()));
    let visited = texts(folder.path());
    assert!(visited.contains("ended ") && !visited.contains("failed "), "{visited}");
    if let Some(path) = std::env::var_os("MENDLINE_SCREENSHOT") {
        fs::copy(folder.path().join("page.png"), path).unwrap();
    }
    let mut made = 0;
    for restart in 0..2 {
        let mut caller = home.start(restart, &["--login", "never"]).unwrap();
        caller.initialize(SOON).unwrap();
        let wanted = peer.counts()["refreshes"].as_u64().unwrap() + 5;
        // Every token lives two seconds. Calls go on until five of them have expired.
        let begun = Instant::now();
        while peer.counts()["refreshes"].as_u64().unwrap() < wanted {
            made += 1;
            let answer = call(&mut caller, "create_note", &format!("n{made}"));
            assert!(succeeded(&answer), "{answer}\n{}", caller.log());
            assert!(begun.elapsed() < 2 * SOON, "{}", peer.counts());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let counts = peer.counts();
    println!("oidc-provider: {counts}");
    assert_eq!(
        (&counts["logins"], &counts["registrations"], &counts["revokedGrants"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let executions = counts["executions"].as_object().unwrap();
    assert!((1..=made).all(|number| executions[&format!("n{number}")] == 1), "{counts}");
}

#[test]
fn oidc_provider_mock_without_pkce_is_used_only_if_its_endpoints_are_configured() {
    let folder = TempDir::new().unwrap();
    let python = installed("python-login/bin/python").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/provider.py");
    let peer = Peer::start(Command::new(python).arg(script), &folder.path().join("provider.log"));
    let home = Home::new(folder.path(), &programs::built(), Browser::Chromium).unwrap();
    home.configure(peer.url(), &Value::Null).unwrap();
    let why = home.login().unwrap_err();
    assert!(why.contains("PKCE") && why.contains("auth.tokenEndpoint"), "{why}");
    assert_eq!(home.visits(), 0);
    let issuer = peer.addresses["issuer"].as_str().unwrap();
    let auth = json!({
        "type": "oauth",
        "authorizationEndpoint": format!("{issuer}/oauth2/authorize"),
        "tokenEndpoint": format!("{issuer}/oauth2/token"),
        // It accepts any client.
        "clientId": "mendline",
        "clientSecret": "secret-canary",
        "scopes": ["openid"],
    });
    home.configure(peer.url(), &auth).unwrap();
    let shown = home.login().unwrap_or_else(|why| panic!("{why}\n{}", texts(folder.path())));
    println!("{shown}");
    for restart in 0..2 {
        let mut caller = home.start(restart, &["--login", "never"]).unwrap();
        caller.initialize(SOON).unwrap();
        let answer = call(&mut caller, "lookup", "k");
        assert!(succeeded(&answer), "{answer}\n{}", caller.log());
    }
    assert_eq!((&peer.counts()["executions"], home.visits()), (&json!(2), 1));
}

fn texts(folder: &Path) -> String {
    ["visits", "provider.log"].map(|name| fs::read_to_string(folder.join(name)).unwrap_or_default()).concat()
}
