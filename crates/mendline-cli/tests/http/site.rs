//! The fault server of one story, and clients before it.

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

/// What a machine may have set and a story must not see.
const PROXY_VARIABLES: [&str; 8] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// The server itself answers the greeting, however busy the machine is: only then is it known by its name.
pub(crate) const WAITING: [&str; 2] = ["--startup", "wait"];

/// A fault server, and what it has seen.
pub(crate) struct Site(Server);

impl Site {
    pub(crate) fn start(settings: Settings) -> Site {
        Site(runtime().block_on(Server::start(settings)).unwrap())
    }

    /// Behind TLS, as whom this identity says.
    pub(crate) fn start_secure(settings: Settings, identity: Identity) -> Site {
        Site(runtime().block_on(Server::start_secure(settings, identity)).unwrap())
    }

    /// A proxy before this server.
    pub(crate) fn proxy(&self) -> Proxy {
        runtime().block_on(Proxy::start(self.address())).unwrap()
    }

    /// A proxy before this server, at this address.
    pub(crate) fn proxy_on(&self, address: SocketAddr) -> Proxy {
        runtime().block_on(Proxy::start_on(address, self.address())).unwrap()
    }

    /// A client of the legacy era at the Streamable HTTP of this server, greeted.
    pub(crate) fn client(&self, options: &[&str]) -> Client {
        initialized(&self.url(), options)
    }

    pub(crate) fn breaks(&self, rule: Rule) {
        self.add(rule).unwrap();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.oracle().counts()
    }

    /// How often a tool really ran with this key.
    pub(crate) fn executions(&self, key: &str) -> u64 {
        self.counts().executions_of(key)
    }

    /// Waits until the server has seen it.
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

/// Legacy, with sessions, one JSON text per answer.
pub(crate) fn json_answers() -> Settings {
    Settings { era: Era::Legacy, answers: Answers::Json, ..Settings::default() }
}

/// Legacy, with sessions, a primed stream of events per answer.
pub(crate) fn event_answers() -> Settings {
    Settings { era: Era::Legacy, answers: Answers::Events, ..Settings::default() }
}

/// Modern.
pub(crate) fn modern(answers: Answers) -> Settings {
    Settings { era: Era::Modern, answers, ..Settings::default() }
}

/// The parameters of a modern request, which says all about itself.
pub(crate) fn with_modern_meta(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
    params
}

/// A modern client that knows its server and the tools.
pub(crate) fn discovered(site: &Site, options: &[&str]) -> Client {
    let mut client = run(&site.url(), options, &[]);
    client.request("discover", "server/discover", &with_modern_meta(json!({})));
    let discovered = client.answer("discover");
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]), "{discovered}");
    client.request("list", "tools/list", &with_modern_meta(json!({})));
    assert!(client.answer("list")["result"]["tools"].is_array());
    client
}

/// The first calls of this tool run, and no answer to them ever comes; those after them are answered.
pub(crate) fn never_answered(tool: &str, count: u64) -> Rule {
    Rule::new("m64_late_response").tool(tool).first(count).value(600_000)
}

/// A client whose connections go through a proxy.
pub(crate) fn through_a_proxy(site: &Site, options: &[&str]) -> (Proxy, Client) {
    let proxy = site.proxy();
    let client = initialized(&format!("http://{}/mcp", proxy.address()), options);
    (proxy, client)
}

/// `mendline run URL`, greeted in the legacy era.
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

/// Where the servers of all stories run: one thread, for as long as the process lives.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}
