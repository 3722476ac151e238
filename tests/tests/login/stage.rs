//! A protected server, its authorization server, and a home with a login to it.

use std::future::pending;
use std::path::Path;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use mendline_faults::{AuthorizationServer, AuthorizationSettings, Server, Settings};
use mendline_peers::caller::Caller;
use mendline_peers::logins::{Browser, Home};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::programs;

/// The deadline for anything that should happen at once, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
pub const NEEDS_LOGIN: i64 = -31008;

/// Returns a runtime that a thread of its own drives.
pub fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        std::thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}

/// Runs a future on the runtime and waits for it.
pub fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime().spawn(async move {
        let _ = sender.send(work.await);
    });
    receiver.recv_timeout(2 * SOON).unwrap()
}

/// A protected MCP server, its authorization server and a home with a login to it.
pub struct Stage {
    pub server: Server,
    pub authorization: AuthorizationServer,
    pub home: Home,
    folder: TempDir,
}

impl Stage {
    pub fn new(settings: AuthorizationSettings) -> Stage {
        let (server, authorization) = wait_for(async move {
            let server = Server::start(Settings::default()).await.unwrap();
            let authorization = AuthorizationServer::start(settings).await.unwrap();
            server.protect(&authorization);
            (server, authorization)
        });
        let folder = TempDir::new().unwrap();
        let home = Home::new(folder.path(), &programs::built(), Browser::Redirects).unwrap();
        home.configure(&server.url(), &Value::Null).unwrap();
        Stage { server, authorization, home, folder }
    }

    /// A stage after a login.
    pub fn logged_in(settings: AuthorizationSettings) -> Stage {
        let stage = Stage::new(settings);
        stage.home.login().unwrap();
        assert_eq!(stage.authorization.counts().logins, 1);
        stage
    }

    /// Starts `mendline run`, which never opens the browser by itself.
    pub fn start(&self, number: usize) -> Caller {
        let mut caller = self.home.start(number, &["--login", "never"]).unwrap();
        caller.initialize(SOON).unwrap();
        caller
    }

    /// The folder of the home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn executions_of(&self, key: &str) -> u64 {
        self.server.oracle().counts().executions_of(key)
    }
}

/// Calls a tool and returns its answer. The id is the key of the execution.
pub fn call(caller: &mut Caller, tool: &str, id: &str) -> Value {
    caller.call(id, tool, &json!({ "key": id })).unwrap();
    caller.answer(id, SOON).unwrap()
}

pub fn succeeded(answer: &Value) -> bool {
    answer["result"]["content"].is_array() && answer["result"]["isError"] != true
}

pub fn needs_login(answer: &Value) -> bool {
    answer["error"]["code"] == NEEDS_LOGIN
        || answer["result"]["_meta"]["dev.mendline/failure"]["cause"] == "needs_login"
}

/// Calls until the call succeeds. Returns the other answers.
pub fn until_it_works(caller: &mut Caller, key: &str) -> Vec<Value> {
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

/// Performs the handshake, whose answer may be a provisional one.
pub fn shake_hands(caller: &mut Caller) {
    let who = json!({ "name": "caller", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    caller.request("handshake", "initialize", &hello).unwrap();
    caller.answer("handshake", SOON).unwrap();
    caller.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
}
