//! Several clients and several upstreams in one driver.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mendline::decisions::config::{Catalogue, Dialect, Startup};
use mendline::decisions::port::{Change, Ending, Exit};
use mendline::decisions::{ClientId, Config, Engine, Input, ListCache, UpstreamConfig, UpstreamId};
use mendline::frontend::{ChannelFrontend, ClientChannel, channel};
use mendline::{CacheStore, Client, Driver, External};
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::peers::{EventLog, FakeServer, HttpLog, Stage, http_server, initialize_result};

const NOTES: UpstreamId = UpstreamId(0);
const FILES: UpstreamId = UpstreamId(1);

/// A running driver of several upstreams, to which clients connect.
struct Harness {
    external: UnboundedSender<External<ChannelFrontend>>,
    programs: UnboundedReceiver<FakeServer>,
    driver: JoinHandle<Ending>,
    last_client: u32,
}

/// A store that records what it stores.
#[derive(Clone, Default)]
struct RecordedStore(Arc<Mutex<Vec<String>>>);

impl CacheStore for RecordedStore {
    fn store(&mut self, cache: ListCache) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(&cache.write()).into_owned());
    }
}

/// The kind of an upstream.
enum Kind {
    Child,
    Http,
}

impl Harness {
    /// Starts a driver without clients. The HTTP servers have the names of their upstreams.
    fn new(upstreams: &[(&'static str, Kind)]) -> (Harness, Vec<HttpLog>) {
        Harness::with_stores(upstreams, Vec::new())
    }

    /// Starts a driver with these stores for the list caches of its upstreams.
    fn with_stores(upstreams: &[(&'static str, Kind)], stores: Vec<RecordedStore>) -> (Harness, Vec<HttpLog>) {
        let (programs, arriving) = unbounded_channel();
        let (external, mut inputs) = unbounded_channel();
        let (mut dialers, mut logs, mut configs) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (number, (name, kind)) in (0..).zip(upstreams) {
            let mut config = match kind {
                Kind::Child => UpstreamConfig::child(*name, *name),
                Kind::Http => {
                    let (dialer, log) = http_server(name);
                    dialers.insert(UpstreamId(number), dialer);
                    logs.push(log);
                    UpstreamConfig::http(*name, "http://server.test/mcp", Dialect::Auto)
                }
            };
            config.catalogue = Catalogue { cache: !stores.is_empty(), startup: Startup::Wait };
            configs.push(config);
        }
        let stage = Stage { stdin_capacities: VecDeque::new(), programs, dialers };
        let engine = Engine::new(Config::new(configs), 7);
        let mut driver = Driver::new(engine, Limits::default(), stage, EventLog::default());
        for (number, store) in (0..).zip(stores) {
            driver = driver.with_cache_store(UpstreamId(number), Box::new(store));
        }
        let driver = tokio::spawn(driver.run(move |cx| inputs.poll_recv(cx).map(|input| input.unwrap())));
        (Harness { external, programs: arriving, driver, last_client: 0 }, logs)
    }

    fn connect(&mut self, upstream: UpstreamId) -> Caller {
        self.last_client += 1;
        let (frontend, channel) = channel(&Limits::default());
        let client = Client { id: ClientId(self.last_client), upstream, frontend };
        assert!(self.external.send(External::Client(client)).is_ok());
        Caller { channel, last_id: 0 }
    }

    async fn program(&mut self) -> FakeServer {
        self.programs.recv().await.unwrap()
    }
}

/// A client.
struct Caller {
    channel: ClientChannel,
    last_id: u32,
}

impl Caller {
    async fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.channel.send(request.to_string()).await.unwrap();
    }

    async fn initialize(&mut self) {
        let info = json!({ "name": "client", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        self.send("initialize", &params).await;
    }

    async fn call(&mut self) {
        self.send("tools/call", &json!({ "name": "create_note", "arguments": {} })).await;
    }

    /// Returns the response to the last request, and skips notifications.
    async fn response(&mut self) -> Value {
        loop {
            let message: Value = serde_json::from_slice(&self.channel.recv().await.unwrap()).unwrap();
            if message.get("method").is_none() {
                assert_eq!(message["id"], self.last_id, "{message}");
                return message;
            }
        }
    }

    /// Returns the text of the result of the last call.
    async fn text(&mut self) -> String {
        let response = self.response().await;
        response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }
}

/// Answers the next request of this method with a text, or with the result of a handshake.
async fn serve(program: &mut FakeServer, method: &str, text: &str) {
    loop {
        let request = program.recv().await;
        if request.get("id").is_none() {
            continue;
        }
        assert_eq!(request["method"], method);
        let result = match method {
            "initialize" => initialize_result(text),
            _ => json!({ "content": [{ "type": "text", "text": text }] }),
        };
        return program.answer(&request, &result.to_string()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_goes_on_after_client_of_other_upstream_left() {
    let (mut harness, logs) = Harness::new(&[("notes", Kind::Child), ("files", Kind::Http)]);
    // The client of the second upstream comes first: no upstream is special.
    let mut files = harness.connect(FILES);
    files.initialize().await;
    assert_eq!(files.response().await["result"]["serverInfo"]["name"], "files");
    let mut notes = harness.connect(NOTES);
    let mut program = harness.program().await;
    assert_eq!(program.link.upstream, NOTES);
    notes.initialize().await;
    serve(&mut program, "initialize", "notes").await;
    assert_eq!(notes.response().await["result"]["serverInfo"]["name"], "notes");

    files.call().await;
    notes.call().await;
    serve(&mut program, "tools/call", "notes").await;
    assert_eq!((files.text().await, notes.text().await), ("files".to_owned(), "notes".to_owned()));
    assert!(logs[0].0.lock().unwrap().contains(&"tools/call".to_owned()));

    drop(files);
    tokio::time::sleep(Duration::from_secs(5)).await;
    notes.call().await;
    serve(&mut program, "tools/call", "still here").await;
    assert_eq!(notes.text().await, "still here");

    drop(notes);
    program.stdin_ended().await;
    program.exit_slot.set(Exit::Code(0));
    assert_eq!(harness.driver.await.unwrap(), Ending::Ready);
}

#[tokio::test(start_paused = true)]
async fn two_clients_share_one_child() {
    let (mut harness, _) = Harness::new(&[("notes", Kind::Child)]);
    let (mut one, mut two) = (harness.connect(NOTES), harness.connect(NOTES));
    let mut program = harness.program().await;
    one.initialize().await;
    serve(&mut program, "initialize", "notes").await;
    one.response().await;
    two.initialize().await;
    two.response().await;
    assert!(harness.programs.try_recv().is_err(), "one server is enough");

    // One leaves with a call in flight; the other gets its own answer.
    one.call().await;
    let lost = loop {
        let request = program.recv().await;
        if request["method"] == "tools/call" {
            break request;
        }
    };
    drop(one);
    two.call().await;
    serve(&mut program, "tools/call", "for two").await;
    assert_eq!(two.text().await, "for two");
    program.answer(&lost, "{}").await;
    two.call().await;
    serve(&mut program, "tools/call", "again").await;
    assert_eq!(two.text().await, "again");
    assert!(!harness.driver.is_finished());
}

#[tokio::test(start_paused = true)]
async fn each_upstream_with_url_has_its_own_transport() {
    let (mut harness, logs) = Harness::new(&[("left", Kind::Http), ("right", Kind::Http)]);
    let mut callers = [harness.connect(UpstreamId(0)), harness.connect(UpstreamId(1))];
    for (caller, name) in callers.iter_mut().zip(["left", "right"]) {
        caller.initialize().await;
        assert_eq!(caller.response().await["result"]["serverInfo"]["name"], name);
        caller.call().await;
        assert_eq!(caller.text().await, name);
    }
    // Idle connections of both are closed; both answer on new ones.
    assert!(harness.external.send(External::Input(Input::NetworkChanged)).is_ok());
    for (caller, name) in callers.iter_mut().zip(["left", "right"]) {
        caller.call().await;
        assert_eq!(caller.text().await, name);
    }
    for log in &logs {
        let calls = log.0.lock().unwrap().iter().filter(|method| *method == "tools/call").count();
        assert_eq!(calls, 2);
    }
    drop(callers);
    assert_eq!(harness.driver.await.unwrap(), Ending::Ready);
}

#[tokio::test(start_paused = true)]
async fn list_cache_of_each_upstream_has_its_own_store() {
    let stores = [RecordedStore::default(), RecordedStore::default()];
    let (mut harness, _) = Harness::with_stores(&[("left", Kind::Http), ("right", Kind::Http)], stores.to_vec());
    let mut callers = [harness.connect(UpstreamId(0)), harness.connect(UpstreamId(1))];
    for caller in &mut callers {
        caller.initialize().await;
        caller.response().await;
        caller.send("tools/list", &json!({})).await;
        caller.response().await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    for (store, name, other) in [(&stores[0], "left", "right"), (&stores[1], "right", "left")] {
        let stored = store.0.lock().unwrap();
        assert!(!stored.is_empty(), "{name}");
        assert!(stored.iter().all(|text| text.contains(name) && !text.contains(other)), "{name}: {stored:?}");
    }
    // Another target of one upstream ends its store, and only its store.
    let mut config = UpstreamConfig::http("left", "http://other.test/mcp", Dialect::Auto);
    config.catalogue = Catalogue { cache: true, startup: Startup::Wait };
    let change = Change::Transport;
    let input = Input::Reconfigure { upstream: UpstreamId(0), config: Box::new(config), change };
    assert!(harness.external.send(External::Input(input)).is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let in_use = |store: &RecordedStore| Arc::strong_count(&store.0) > 1;
    assert_eq!((in_use(&stores[0]), in_use(&stores[1])), (false, true));
}
