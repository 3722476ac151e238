//! A home directory, a protected MCP server, its authorization server, and commands in that home.

use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Once, OnceLock};
use std::thread;

use mendline_faults::{Answers, AuthorizationServer, AuthorizationSettings, Era, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::browser::Browser;
use crate::client::{Client, MENDLINE, SOON, eventually};

/// The name of the server in the configuration file.
pub(crate) const NOTES: &str = "notes";

/// Variables of the machine that a test must not see.
const HIDDEN: [&str; 16] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "BROWSER",
    "CI",
    "SSH_CONNECTION",
    "SSH_TTY",
    "MENDLINE_CONFIG",
    "MENDLINE_LOG",
];

pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) server: Server,
    pub(crate) authorization: AuthorizationServer,
    pub(crate) browser: Browser,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with(AuthorizationSettings::default())
    }

    /// A stage with these settings of the authorization server.
    pub(crate) fn with(settings: AuthorizationSettings) -> Stage {
        Stage::of(Settings { era: Era::Legacy, answers: Answers::Json, ..Settings::default() }, settings)
    }

    /// A stage with a valid token, which a login gave, and this `auth`.
    pub(crate) fn with_token(auth: impl Fn(&Stage) -> Value) -> (Stage, String) {
        let stage = Stage::new();
        stage.log_in();
        let token = stage.run(&["token", NOTES]);
        assert_eq!(token.code, Some(0), "{token:?}");
        stage.configure_auth(&auth(&stage));
        (stage, token.stdout.trim().to_owned())
    }

    /// A stage with these settings of the server and of the authorization server.
    pub(crate) fn of(kind: Settings, settings: AuthorizationSettings) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let server = runtime().block_on(Server::start(kind)).unwrap();
        let authorization = runtime().block_on(AuthorizationServer::start(settings)).unwrap();
        server.protect(&authorization);
        let browser = Browser::new(folder.path());
        let stage = Stage { folder, server, authorization, browser };
        stage.configure(&json!({ NOTES: { "url": stage.server.url() } }));
        stage
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the configuration file.
    pub(crate) fn configure(&self, servers: &Value) {
        fs::create_dir_all(self.path().join("mendline")).unwrap();
        let text = json!({ "mcpServers": servers }).to_string();
        fs::write(self.path().join("mendline/config.json"), text).unwrap();
    }

    /// Writes the configuration file with this `auth`.
    pub(crate) fn configure_auth(&self, auth: &Value) {
        self.configure(&json!({ NOTES: { "url": self.server.url(), "auth": auth } }));
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        for name in HIDDEN {
            command.env_remove(name);
        }
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path()).env("RUST_BACKTRACE", "0");
        command.env("MENDLINE_STATE_DIR", self.path().join("state"));
        command.env("MENDLINE_RUNTIME_DIR", self.path().join("run"));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        finish(self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts `mendline login` with the browser of the test.
    pub(crate) fn start_login(&self, arguments: &[&str]) -> Child {
        let words = [&["login"], arguments].concat();
        let mut command = self.command(&words);
        command.env("BROWSER", &self.browser.program).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Logs in to the server, as a person would. The browser must not have been opened before.
    pub(crate) fn log_in(&self) -> Ended {
        let index = self.browser.opened().len();
        let login = self.start_login(&[NOTES]);
        self.browser.follow(index);
        let ended = finish(login);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    }

    /// Starts `mendline run notes` without a handshake.
    pub(crate) fn client(&self, options: &[&str]) -> Client {
        let words = [&["run"], options, &[NOTES]].concat();
        self.start(&mut self.command(&words))
    }

    /// The same with the browser of the test.
    pub(crate) fn client_with_browser(&self) -> Client {
        let mut command = self.command(&["run", NOTES]);
        command.env("BROWSER", &self.browser.program);
        self.start(&mut command)
    }

    fn start(&self, command: &mut Command) -> Client {
        let mut client = Client::start(command.stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Performs the handshake of a client, whose answer may be a provisional one. Returns the answer.
    pub(crate) fn begin(&self, client: &mut Client) -> Value {
        client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let handshake = client.answer("init")["result"].clone();
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        handshake
    }

    /// Calls until a call succeeds.
    pub(crate) fn until_calls_work(&self, client: &mut Client) {
        let mut number = 0;
        eventually("calls work", SOON, || {
            number += 1;
            let key = format!("until{number}");
            let result = client.result(&key, "create_note", &json!({ "key": key }));
            result["content"][0]["text"] == format!("wrote {key}")
        });
    }

    /// Returns how often a tool ran with this key.
    pub(crate) fn executions(&self, key: &str) -> u64 {
        self.server.oracle().counts().executions_of(key)
    }
}

/// Replaces a file by one with this mode.
pub(crate) fn write_private(path: &Path, text: &str, mode: u32) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&new, path).unwrap();
}

/// Waits for the end of a command and reads its output.
pub(crate) fn finish(mut process: Child) -> Ended {
    let mut is_ended = || process.try_wait().unwrap().is_some();
    eventually("the command ends", SOON, &mut is_ended);
    let output = process.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Returns the runtime of the servers, which a thread of its own drives.
pub(crate) fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}
