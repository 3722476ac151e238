//! Engines that the builder starts, with real processes.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mendline::Builder;
use mendline::builder::{ControlSocket, Problem};
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{Catalogue, Dialect, Startup};
use mendline::decisions::port::Ending;
use mendline::frontend::{ClientChannel, channel};
use mendline::transport::Endpoint;
use mendline::transport::child::ChildCommand;
use mendline::transport::http::Target;
use mendline_wire::Limits;
use serde_json::{Value, json};

/// A server that answers every request with the value of `NAME`.
const SERVER: &str = r#"while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$NAME"
done"#;

fn command(name: &str) -> (UpstreamConfig, Endpoint) {
    let mut command = ChildCommand::new("sh", ["-c".into(), SERVER.into()]);
    command.environment = vec![("NAME".into(), name.into())];
    let mut config = UpstreamConfig::child(name, "sh");
    config.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    (config, Endpoint::Child(command))
}

async fn call(client: &mut ClientChannel) -> Value {
    let params = json!({ "name": "read_note", "arguments": {} });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    client.send(request.to_string()).await.unwrap();
    serde_json::from_slice(&client.recv().await.unwrap()).unwrap()
}

#[tokio::test]
async fn each_client_reaches_its_own_server() {
    let limits = Limits::default();
    let mut builder = Builder::new(limits.clone());
    let (mut clients, mut frontends) = (Vec::new(), Vec::new());
    for name in ["notes", "files"] {
        let (config, endpoint) = command(name);
        let (frontend, client) = channel(&limits);
        frontends.push((builder.server(config, endpoint).id, frontend));
        clients.push((name, client));
    }
    let mut running = builder.start(frontends);
    for (name, client) in &mut clients {
        let answer = call(client).await;
        assert_eq!(answer["result"]["content"][0]["text"], *name, "{answer}");
    }
    running.stop();
    assert_eq!(running.ended().await.unwrap(), Ending::Ready);
    let (_, mut client) = clients.remove(0);
    assert_eq!(client.recv().await, None);
}

#[tokio::test]
async fn engine_runs_without_parts_that_cannot_start() {
    let mut builder = Builder::new(Limits::default());
    let (config, endpoint) = command("notes");
    let server = builder.server(config, endpoint);
    builder.guard(|| Err(io::Error::other("there is none")));
    builder.control_socket(ControlSocket { directories: Vec::new(), configuration: None });
    let (frontend, mut client) = channel(&Limits::default());
    let mut running = builder.start([(server.id, frontend)]);
    assert!(
        matches!(running.problems(), [Problem::NoGuard(_), Problem::NoControlSocket(_)]),
        "{:?}",
        running.problems()
    );
    assert_eq!(call(&mut client).await["result"]["content"][0]["text"], "notes");
    drop(client);
    assert_eq!(running.ended().await.unwrap(), Ending::Ready);
}

#[tokio::test]
async fn guard_is_not_started_for_urls() {
    let mut builder = Builder::new(Limits::default());
    let url = "http://127.0.0.1:1/mcp";
    let target = Box::new(Target::parse(url).unwrap());
    let server = builder.server(UpstreamConfig::http("far", url, Dialect::Auto), Endpoint::Remote(target));
    let is_started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_started);
    builder.guard(move || {
        flag.store(true, Ordering::Relaxed);
        Err(io::Error::other("there is none"))
    });
    let (frontend, client) = channel(&Limits::default());
    let mut running = builder.start([(server.id, frontend)]);
    drop(client);
    running.ended().await.unwrap();
    assert!(!is_started.load(Ordering::Relaxed));
    assert!(running.problems().is_empty());
}
