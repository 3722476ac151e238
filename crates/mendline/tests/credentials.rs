//! Renewable credentials, with engines that the builder starts and a server on a loopback socket.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mendline::Builder;
use mendline::builder::Running;
use mendline::credential::{
    CommandSource, Credential, CredentialSource, FileSource, HeaderForm, Occasion, SourceFuture, VariableSource,
};
use mendline::decisions::config::{Catalogue, CredentialKind, Dialect, Startup};
use mendline::decisions::reason::CredentialError;
use mendline::decisions::{Event, Secret, UpstreamConfig, UpstreamId};
use mendline::driver::{At, Observer};
use mendline::frontend::{ClientChannel, channel};
use mendline::os::files::make_private;
use mendline::transport::Endpoint;
use mendline::transport::child::ChildCommand;
use mendline::transport::http::Target;
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

const FIRST: &str = "CANARY-first-token";
const SECOND: &str = "CANARY-second-token";

/// A server that accepts one token.
#[derive(Clone)]
struct Notes(Arc<Mutex<State>>);

struct State {
    accepted: String,
    /// The `Authorization` of each request, and how often it came.
    seen: BTreeMap<String, usize>,
    /// How often each call ran, by its number.
    ran: BTreeMap<u64, usize>,
    /// The target of a redirect of every request.
    redirect: Option<String>,
}

impl Notes {
    async fn start(accepted: &str) -> (Notes, String) {
        let state = State { accepted: bearer(accepted), seen: BTreeMap::new(), ran: BTreeMap::new(), redirect: None };
        let notes = Notes(Arc::new(Mutex::new(state)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let served = notes.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(served.clone().serve(stream));
            }
        });
        (notes, url)
    }

    fn accept(&self, token: &str) {
        self.0.lock().unwrap().accepted = bearer(token);
    }

    fn seen(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap().seen.clone()
    }

    async fn serve(self, stream: TcpStream) {
        let mut io = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if io.read_line(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let value = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
            };
            let length = value("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            if io.read_exact(&mut body).await.is_err() {
                return;
            }
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let answer = self.answer(head.starts_with("POST"), value("authorization").unwrap_or_default(), &message);
            if io.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, is_post: bool, authorization: &str, message: &Value) -> String {
        let mut state = self.0.lock().unwrap();
        *state.seen.entry(authorization.to_owned()).or_default() += 1;
        let respond = |status: &str, headers: &str, body: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
            )
        };
        if let Some(to) = &state.redirect {
            return respond("307 Temporary Redirect", &format!("Location: {to}\r\n"), "");
        }
        if authorization != state.accepted {
            return respond("401 Unauthorized", "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n", "");
        }
        let method = message["method"].as_str().unwrap_or_default();
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "notes", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [] }),
            "tools/call" => {
                let number = message["params"]["arguments"]["number"].as_u64().unwrap();
                *state.ran.entry(number).or_default() += 1;
                json!({ "content": [{ "type": "text", "text": format!("done {number}") }] })
            }
            _ => json!({}),
        };
        match (is_post, message.get("id")) {
            (true, Some(id)) => {
                respond("200 OK", "", &json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
            }
            (true, None) => respond("202 Accepted", "", ""),
            (false, _) => respond("405 Method Not Allowed", "", ""),
        }
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Records every event, as text and in debug notation.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<String>>);

impl Observer for EventLog {
    fn on_event(&mut self, event: &Event, _: At) {
        let line = format!("{event} {event:?}\n");
        self.0.lock().unwrap().push_str(&line);
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}

/// A running engine with one client.
struct Harness {
    client: ClientChannel,
    events: EventLog,
    /// Ends the engine when it is dropped with the client.
    _running: Running,
}

fn config(url: &str) -> UpstreamConfig {
    let mut config = UpstreamConfig::http("notes", url, Dialect::Streamable);
    config.credential = CredentialKind::Source;
    config.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    config
}

fn start(url: &str, config: UpstreamConfig, source: impl CredentialSource) -> Harness {
    let events = EventLog::default();
    let mut builder = Builder::new(Limits::default()).observer(events.clone());
    let target = Box::new(Target::parse(url).unwrap());
    let server = builder.server(config, Endpoint::Remote(target));
    builder.credential(server.id, Box::new(source));
    let (frontend, client) = channel(&Limits::default());
    let running = builder.start([(server.id, frontend)]);
    Harness { client, events, _running: running }
}

impl Harness {
    async fn request(&mut self, id: u64, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.client.send(request.to_string()).await.unwrap();
    }

    async fn response(&mut self) -> Value {
        loop {
            let message: Value = serde_json::from_slice(&self.client.recv().await.unwrap()).unwrap();
            if message.get("id").is_some() && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Calls a tool. The call is unsafe: nothing says that it may run twice.
    async fn send_call(&mut self, number: u64) {
        self.request(number, "tools/call", json!({ "name": "create_note", "arguments": { "number": number } })).await;
    }

    async fn call(&mut self, number: u64) -> Value {
        self.send_call(number).await;
        self.response().await
    }

    /// Calls a tool until it succeeds, with other numbers from this one on.
    async fn call_until_success(&mut self, mut number: u64) {
        while !is_done(&self.call(number).await, number) {
            number += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn assert_no_secrets(&self) {
        let events = self.events.0.lock().unwrap();
        assert!(!events.is_empty() && !events.contains("CANARY"), "{events}");
    }
}

fn is_done(response: &Value, number: u64) -> bool {
    response["result"]["content"][0]["text"] == format!("done {number}")
}

/// A source that counts its reads.
#[derive(Clone)]
struct CountingSource {
    token: Arc<Mutex<String>>,
    reads: Arc<Mutex<Vec<String>>>,
}

impl CountingSource {
    fn new(token: &str) -> CountingSource {
        CountingSource { token: Arc::new(Mutex::new(token.to_owned())), reads: Arc::default() }
    }
}

impl CredentialSource for CountingSource {
    fn read<'a>(&'a mut self, occasion: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        self.reads.lock().unwrap().push(format!("{occasion:?}"));
        let credential = Credential::bearer(&Secret::new(self.token.lock().unwrap().clone()));
        Box::pin(async {
            // Refusals arrive meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(Some(credential))
        })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a73_thousand_calls_that_meet_401_share_one_read() {
    let (notes, url) = Notes::start(FIRST).await;
    let source = CountingSource::new(FIRST);
    let mut harness = start(&url, config(&url), source.clone());
    assert!(is_done(&harness.call(5000).await, 5000));
    assert_eq!(notes.seen().into_keys().collect::<Vec<_>>(), [bearer(FIRST)], "no request without the credential");
    notes.accept(SECOND);
    SECOND.clone_into(&mut source.token.lock().unwrap());
    for number in 0..1000 {
        harness.send_call(number).await;
    }
    for _ in 0..1000 {
        let response = harness.response().await;
        let number = response["id"].as_u64().unwrap();
        assert!(is_done(&response, number), "{response}");
    }
    let reads = source.reads.lock().unwrap().clone();
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert!(reads[1].contains("Refused") && reads[1].contains("invalid_token"), "{reads:?}");
    let ran = notes.0.lock().unwrap().ran.clone();
    assert_eq!((ran.len(), ran.values().max()), (1001, Some(&1)), "each call ran once");
    harness.assert_no_secrets();
}

fn write_token(path: &Path, token: &str) {
    let new = path.with_extension("new");
    fs::write(&new, format!("{token}\n")).unwrap();
    make_private(&new).unwrap();
    fs::rename(new, path).unwrap();
}

#[tokio::test]
async fn changed_file_ends_need_for_login() {
    let (notes, url) = Notes::start(SECOND).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, FIRST);
    let mut harness = start(&url, config(&url), FileSource::new(&path, HeaderForm::default()));
    let refused = harness.call(1).await;
    assert!(refused.to_string().contains("needs_login"), "{refused}");
    assert_eq!(notes.seen().keys().collect::<Vec<_>>(), [&bearer(FIRST)]);
    write_token(&path, SECOND);
    harness.call_until_success(2).await;
    harness.assert_no_secrets();
}

#[tokio::test]
async fn missing_variable_and_file_are_named() {
    let (_notes, url) = Notes::start(SECOND).await;
    let source = VariableSource::new("NOTES_TOKEN", None, &HeaderForm::default()).unwrap();
    let refused = start(&url, config(&url), source).call(1).await.to_string();
    assert!(refused.contains("needs_login") && refused.contains("NOTES_TOKEN is not set"), "{refused}");
    let source = FileSource::new("/nonexistent/token", HeaderForm::default());
    let refused = start(&url, config(&url), source).call(1).await.to_string();
    assert!(refused.contains("/nonexistent/token") && refused.contains("there is no such file"), "{refused}");
}

#[tokio::test]
async fn a80_hanging_command_delays_calls_and_recovers() {
    let (notes, url) = Notes::start(SECOND).await;
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let script = format!("[ -e '{}' ] || sleep 1000; echo {SECOND}", flag.display());
    let command = ChildCommand::new("sh", ["-c".into(), script.into()]);
    let source = CommandSource::new(command, HeaderForm::default()).time_limit(Duration::from_millis(200));
    let mut config = config(&url);
    config.timeouts.recovery = Duration::from_secs(1);
    let mut harness = start(&url, config, source);
    let failed = harness.call(1).await.to_string();
    assert!(failed.contains("the command for the credential did not end within"), "{failed}");
    assert!(!failed.contains("needs_login"), "{failed}");
    fs::write(&flag, "").unwrap();
    harness.call_until_success(2).await;
    assert_eq!(notes.0.lock().unwrap().ran.get(&1), None, "a failed call did not run");
    harness.assert_no_secrets();
}

#[tokio::test]
async fn redirect_to_another_origin_gets_no_credential() {
    let (notes, url) = Notes::start(FIRST).await;
    let (other, elsewhere) = Notes::start(FIRST).await;
    notes.0.lock().unwrap().redirect = Some(elsewhere);
    let mut config = config(&url);
    config.timeouts.recovery = Duration::from_secs(1);
    let mut harness = start(&url, config, CountingSource::new(FIRST));
    let refused = harness.call(1).await;
    assert!(refused.to_string().contains("where nothing may be sent"), "{refused}");
    assert!(other.seen().is_empty());
    harness.assert_no_secrets();
}
