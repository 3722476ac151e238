//! Authorization servers of other authors.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use mendline_peers::logins::{Browser, Home, node};
use mendline_peers::processes::eventually;
use mendline_peers::stage::installed;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::programs;
use crate::stage::{SOON, call, succeeded};

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
