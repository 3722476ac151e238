//! Answers while the server starts, at the first start and later.
//!
//! The server waits for a file before it starts. So the tests check the order of events and not their duration.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::STATE;
use crate::support::{Client, MENDLINE, eventually};

/// Longer than the grace of a server.
const AFTER_GRACE: Duration = Duration::from_secs(30);

/// A client that gives up early, so that its grace is short.
fn hasty_client() -> Value {
    let who = json!({ "name": "codex-test", "version": "1" });
    json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who })
}

/// One server that is started repeatedly, and its cache.
struct TestHome {
    folder: TempDir,
}

impl TestHome {
    fn new() -> TestHome {
        TestHome { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets the server start.
    fn allow_start(&self) {
        fs::write(self.path("gate"), "").unwrap();
    }

    fn block_start(&self) {
        fs::remove_file(self.path("gate")).unwrap();
    }

    fn run(&self, options: &[&str], environment: &[(&str, &str)]) -> Client {
        let mut command = Command::new(MENDLINE);
        command.arg("run").args(["--name", "notes"]).args(options).args(["--", MENDLINE, "demo-server"]);
        command.arg("--fault").arg(format!("wait-for={}", self.path("gate").display()));
        command.arg("--fault").arg(format!("tool-if={}", self.path("more").display()));
        command.env("MENDLINE_DEMO_LEDGER", self.path("ledger")).env(STATE, self.path("state"));
        command.env_remove("GITHUB_TOKEN").envs(environment.iter().copied());
        let mut client = Client::start(command.stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Returns how often a server has started to serve.
    fn start_count(&self) -> usize {
        let ledger = fs::read_to_string(self.path("ledger")).unwrap_or_default();
        ledger.lines().filter(|line| line.starts_with("serves")).count()
    }

    /// Returns the cache files.
    fn cache_files(&self, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("state/catalogue")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
    }

    /// Holds a conversation with a running server, which fills the cache. Returns the answers of the server.
    fn fill_cache(&self) -> (String, String) {
        self.allow_start();
        // A provisional answer must not replace the handshake of a slow server.
        let mut client = self.run(&["--startup", "wait"], &[]);
        let answers = initialize_and_list(&mut client);
        end(client);
        self.block_start();
        assert_eq!(self.cache_files("json").len(), 1);
        answers
    }
}

/// Performs the handshake and lists the tools. Returns both answers unchanged.
fn initialize_and_list(client: &mut Client) -> (String, String) {
    let who = json!({ "name": "test", "version": "1" });
    client.request(
        "init",
        "initialize",
        &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who }),
    );
    let handshake = client.line_within(AFTER_GRACE);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    (handshake, client.line())
}

/// Closes the client, which ends Mendline.
fn end(mut client: Client) {
    client.stdin = None;
    assert_eq!(client.exit_code(AFTER_GRACE), Some(0), "{}", client.log());
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn i22_t07_second_start_answers_handshake_and_tools_from_cache() {
    let home = TestHome::new();
    let answers = home.fill_cache();
    let start_count = home.start_count();
    let mut client = home.run(&[], &[]);
    assert_eq!(initialize_and_list(&mut client), answers, "byte for byte the first answer of the server");
    client.call("call", "create_note", &json!({ "key": "k" }));
    assert_eq!(home.start_count(), start_count, "and it has not even started");
    home.allow_start();
    assert_eq!(parsed(&client.line())["id"], "call", "no change is announced");
    assert_eq!(home.start_count(), start_count + 1);
    end(client);
}

#[test]
fn new_tool_is_announced_when_server_is_up() {
    let home = TestHome::new();
    let answers = home.fill_cache();
    fs::write(home.path("more"), "").unwrap();
    let mut client = home.run(&[], &[]);
    assert_eq!(initialize_and_list(&mut client), answers);
    home.allow_start();
    assert_eq!(parsed(&client.line())["method"], "notifications/tools/list_changed");
    client.request("again", "tools/list", &json!({}));
    assert_eq!(client.answer("again")["result"]["tools"].as_array().unwrap().len(), 5);
    end(client);
    home.block_start();
    let mut client = home.run(&[], &[]);
    assert_eq!(
        parsed(&initialize_and_list(&mut client).1)["result"]["tools"].as_array().unwrap().len(),
        5,
        "and known the third time"
    );
}

#[test]
fn t07_first_start_answers_handshake_provisionally_and_waits_for_tools() {
    let home = TestHome::new();
    let mut client = home.run(&[], &[]);
    client.request("init", "initialize", &hasty_client());
    let handshake = parsed(&client.line_within(AFTER_GRACE))["result"].clone();
    assert_eq!(
        (&handshake["protocolVersion"], &handshake["serverInfo"]["name"]),
        (&json!("2025-06-18"), &json!("notes"))
    );
    let lists = json!({ "listChanged": true });
    let offered = json!({ "prompts": lists, "resources": lists, "tools": lists });
    assert_eq!(handshake["capabilities"], offered, "only lists, which can turn out to be empty");
    assert_eq!(handshake["serverInfo"], json!({ "name": "notes", "version": "provisional" }), "no version is invented");
    assert_eq!(home.start_count(), 0);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    client.request("prompts", "prompts/list", &json!({}));
    home.allow_start();
    assert_eq!(client.answer("list")["result"]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(
        client.answer("prompts")["result"],
        json!({ "prompts": [] }),
        "the server has none, although it was announced"
    );
    end(client);
    assert_eq!(home.cache_files("json").len(), 1, "the next time it is known");
}

#[test]
fn cached_lists_are_separate_per_credential() {
    let home = TestHome::new();
    home.fill_cache();
    let mut client = home.run(&[], &[("GITHUB_TOKEN", "s3cr3t-canary")]);
    client.request("init", "initialize", &hasty_client());
    let handshake = parsed(&client.line_within(AFTER_GRACE));
    assert_eq!(
        handshake["result"]["serverInfo"]["version"], "provisional",
        "as if it were the first time: {handshake}"
    );
    home.allow_start();
    client.request("list", "tools/list", &json!({}));
    client.answer("list");
    end(client);
    assert_eq!(home.cache_files("json").len(), 2);
    for path in home.cache_files("json") {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("s3cr3t-canary"));
    }
}

#[test]
fn damaged_cache_is_set_aside_and_server_answers() {
    let home = TestHome::new();
    let answers = home.fill_cache();
    let start_count = home.start_count();
    let path = home.cache_files("json").remove(0);
    let mut text = fs::read(&path).unwrap();
    let at = text.len() / 2;
    text[at] ^= 1;
    fs::write(&path, text).unwrap();
    home.allow_start();
    let mut client = home.run(&[], &[]);
    eventually("the log reports it", AFTER_GRACE, || client.log().contains("is rejected: its HMAC is wrong"));
    eventually("it is there, within its grace", AFTER_GRACE, || home.start_count() > start_count);
    assert_eq!(initialize_and_list(&mut client), answers);
    assert_eq!(home.cache_files("bad").len(), 1);
    end(client);
    assert_eq!(home.cache_files("json").len(), 1, "a valid cache file replaces it");
}

#[test]
fn x94_unwritable_state_directory_is_reported_once_and_stops_nothing() {
    let home = TestHome::new();
    home.allow_start();
    fs::write(home.path("state"), "a file where a folder should be").unwrap();
    let mut client = home.run(&["--startup", "wait"], &[]);
    let (handshake, tools) = initialize_and_list(&mut client);
    assert_eq!(parsed(&handshake)["result"]["serverInfo"]["name"], "demo-server");
    assert_eq!(parsed(&tools)["result"]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(client.result("call", "create_note", &json!({ "key": "k" }))["isError"], false);
    eventually("the log reports it", AFTER_GRACE, || {
        client.log().matches("cannot open the catalogue of the server").count() == 1
    });
    end(client);
}

#[test]
fn without_catalogue_log_files_and_statistics_nothing_is_written() {
    let home = TestHome::new();
    home.allow_start();
    let mut client = home.run(&["--no-catalogue", "--no-log-files"], &[("MENDLINE_STATS", "off")]);
    initialize_and_list(&mut client);
    end(client);
    assert!(!home.path("state").exists());
}
