//! The fault server of one test, and its clients.

use std::future::pending;
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use std::thread;

use mendline_faults::{Answers, Counts, Era, Identity, Proxy, Rule, Server, Settings};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::client::{Client, MENDLINE, SOON, eventually};

/// Variables of the machine that a test must not see.
const PROXY_VARIABLES: [&str; 8] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// Makes the handshake wait for the server, however slow the machine is. Only then is the server known by its name.
pub(crate) const WAITING: [&str; 2] = ["--startup", "wait"];

/// A fault server and its counts.
pub(crate) struct Site(Server);

impl Site {
    pub(crate) fn start(settings: Settings) -> Site {
        Site(runtime().block_on(Server::start(settings)).unwrap())
    }

    /// Starts the server with TLS and this identity.
    pub(crate) fn start_secure(settings: Settings, identity: Identity) -> Site {
        Site(runtime().block_on(Server::start_secure(settings, identity)).unwrap())
    }

    /// Starts a proxy before this server.
    pub(crate) fn proxy(&self) -> Proxy {
        runtime().block_on(Proxy::start(self.address())).unwrap()
    }

    /// Starts a proxy before this server, at this address.
    pub(crate) fn proxy_on(&self, address: SocketAddr) -> Proxy {
        runtime().block_on(Proxy::start_on(address, self.address())).unwrap()
    }

    /// Starts a legacy client over Streamable HTTP and performs the handshake.
    pub(crate) fn client(&self, options: &[&str]) -> Client {
        initialized(&self.url(), options)
    }

    pub(crate) fn add_fault(&self, rule: Rule) {
        self.add(rule).unwrap();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.oracle().counts()
    }

    /// Returns how often a tool ran with this key.
    pub(crate) fn executions(&self, key: &str) -> u64 {
        self.counts().executions_of(key)
    }

    /// Waits until the counts of the server meet the condition.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Counts) -> bool) {
        eventually(what, SOON, || is_so(&self.counts()));
    }
}

impl Deref for Site {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

/// A legacy server with sessions and JSON answers.
pub(crate) fn json_answers() -> Settings {
    Settings { era: Era::Legacy, answers: Answers::Json, ..Settings::default() }
}

/// A legacy server with sessions, whose answers are primed event streams.
pub(crate) fn event_answers() -> Settings {
    Settings { era: Era::Legacy, answers: Answers::Events, ..Settings::default() }
}

/// A modern server.
pub(crate) fn modern(answers: Answers) -> Settings {
    Settings { era: Era::Modern, answers, ..Settings::default() }
}

/// Adds the `_meta` of the modern era to the parameters.
pub(crate) fn with_modern_meta(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
    params
}

/// Starts a modern client that has discovered the server and listed the tools.
pub(crate) fn discovered(site: &Site, options: &[&str]) -> Client {
    let mut client = run(&site.url(), options, &[]);
    client.request("discover", "server/discover", &with_modern_meta(json!({})));
    let discovered = client.answer("discover");
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]), "{discovered}");
    client.request("list", "tools/list", &with_modern_meta(json!({})));
    assert!(client.answer("list")["result"]["tools"].is_array());
    client
}

/// A rule that runs the first calls of this tool without ever answering them.
pub(crate) fn never_answered(tool: &str, count: u64) -> Rule {
    Rule::new("m64_late_response").tool(tool).first(count).value(600_000)
}

/// Starts a client whose connections go through a proxy.
pub(crate) fn through_a_proxy(site: &Site, options: &[&str]) -> (Proxy, Client) {
    let proxy = site.proxy();
    let client = initialized(&format!("http://{}/mcp", proxy.address()), options);
    (proxy, client)
}

/// Starts `mendline run URL` and performs the legacy handshake.
pub(crate) fn initialized(url: &str, options: &[&str]) -> Client {
    let mut client = run(url, &[&WAITING[..], options].concat(), &[]);
    assert_eq!(client.initialize(), "mendline-faults");
    client
}

/// `mendline run URL`.
pub(crate) fn run(url: &str, options: &[&str], environment: &[(&str, &str)]) -> Client {
    let mut command = Command::new(MENDLINE);
    command.arg("run").args(options).arg(url).stdin(Stdio::piped());
    for variable in PROXY_VARIABLES {
        command.env_remove(variable);
    }
    let mut client = Client::start(command.envs(environment.iter().copied()));
    client.read_log();
    client
}

/// Returns the runtime of all servers: one thread until the process ends.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}
