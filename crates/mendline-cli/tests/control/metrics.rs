//! Metrics of running bridges: at their own address, and gathered by `mendline metrics`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use mendline_faults::Rule;
use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, MENDLINE, SOON, eventually, kill};
use crate::site::{Site, json_answers};
use crate::stage::{Stage, child, kind};

/// The samples of a text by name and labels.
type Samples = BTreeMap<String, f64>;

/// Waits until the log names the address of the metrics.
fn address(client: &Client) -> String {
    let found = || client.log().split_once("serving metrics at http://").map(|(_, rest)| rest.to_owned());
    eventually("the address is logged", SOON, || found().is_some_and(|rest| rest.contains("/metrics")));
    found().unwrap().split('/').next().unwrap().to_owned()
}

/// Sends a request and returns the response.
fn request(address: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn scrape(address: &str) -> Samples {
    let response = request(address, &format!("GET /metrics HTTP/1.1\r\nHost: {address}"));
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{response}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    parse(text)
}

fn parse(text: &str) -> Samples {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The sum of the samples whose name begins and contains these texts.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let is_wanted =
        |sample: &str| sample.starts_with(&format!("{name}{{")) && labels.iter().all(|label| sample.contains(label));
    samples.iter().filter(|(sample, _)| is_wanted(sample)).map(|(_, value)| value).sum()
}

#[test]
fn metrics_agree_with_status_after_mixed_faults() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let options = ["--name", "notes", "--metrics", "127.0.0.1:0", "--breaker-threshold", "2", "--breaker-reset", "60s"];
    let mut client = stage.run(&[&options[..], &[&site.url()]].concat());
    client.initialize();
    let address = address(&client);
    for number in 0..20 {
        client.result(&format!("ok{number}"), "lookup", &json!({ "key": "k" }));
    }
    client.call("error", "no_such_tool", &json!({}));
    client.answer("error");
    site.add_fault(Rule::new("h26_500").tool("create_note"));
    for id in ["a", "b"] {
        client.result(id, "create_note", &json!({ "key": id }));
    }
    stage.until("notes", "the breaker of the tool is open", |server| server["breaker"]["tools"][0]["state"] == "open");
    client.result("c", "create_note", &json!({ "key": "c" }));
    let server = stage.until("notes", "one was rejected", |server| server["calls"]["tools"]["rejected"] == 1);
    let samples = scrape(&address);
    let tools = &server["calls"]["tools"];
    for (outcome, member) in [
        ("ok", "ok"),
        ("tool_error", "toolErrors"),
        ("error", "errors"),
        ("unknown", "unknown"),
        ("rejected", "rejected"),
    ] {
        let labels = [r#"method="tools/call""#, &format!("outcome=\"{outcome}\"")];
        let counted = sum(&samples, "mendline_calls_total", &labels);
        assert_eq!(counted, tools[member].as_f64().unwrap(), "{outcome}: {samples:#?}");
    }
    let calls = |labels: &[&str]| sum(&samples, "mendline_calls_total", labels);
    assert_eq!(calls(&[r#"tool="lookup""#, r#"outcome="ok""#]), 20.0);
    assert_eq!(calls(&[r#"tool="create_note""#, r#"outcome="unknown""#, r#"reason="http_status""#]), 2.0);
    let durations = [r#"mcp_method_name="tools/call""#, r#"gen_ai_tool_name="lookup""#];
    for name in ["mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds"] {
        assert_eq!(sum(&samples, &format!("{name}_count"), &durations), 20.0, "{name}");
    }
    assert_eq!(sum(&samples, "mendline_breaker_state", &[r#"tool="create_note""#, r#"state="open""#]), 1.0);
    assert_eq!(sum(&samples, "mendline_breaker_changes_total", &[r#"state="open""#]), 1.0);
    assert_eq!((samples[r#"mendline_up{server="notes"}"#], sum(&samples, "mendline_calls_open", &[])), (1.0, 0.0));
    assert!(samples["process_resident_memory_bytes"] > 100_000.0);
}

#[test]
fn killed_server_is_counted_as_loss_restart_and_recovery() {
    let stage = Stage::new();
    let arguments = ["--name", "notes", "--startup", "wait", "--metrics", "127.0.0.1:0", "--", MENDLINE, "demo-server"];
    let mut client = stage.run(&arguments);
    client.initialize();
    let address = address(&client);
    let before = stage.until("notes", "it is ready", |server| kind(server) == "ready");
    kill(child(&before), Signal::KILL);
    client.result("read", "lookup", &json!({ "key": "k" }));
    stage.until("notes", "it is back", |server| server["connection"]["losses"] == 1 && kind(server) == "ready");
    let samples = scrape(&address);
    assert_eq!(sum(&samples, "mendline_losses_total", &[]), 1.0, "{samples:#?}");
    assert_eq!(samples[r#"mendline_restarts_total{server="notes"}"#], 1.0);
    assert_eq!(samples[r#"mendline_recovery_duration_seconds_count{server="notes"}"#], 1.0);
    assert_eq!(samples[r#"mendline_connections_total{server="notes"}"#], 2.0);
}

#[test]
fn metrics_of_all_processes_are_gathered_with_their_ids() {
    let stage = Stage::new();
    let mut clients = [stage.bridge("notes"), stage.bridge("notes")];
    clients[0].result("a", "lookup", &json!({ "key": "k" }));
    let printed = stage.query_until(&["metrics"], |printed| printed.stdout.matches("mendline_up{").count() == 2);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let samples = parse(&printed.stdout);
    for (client, calls) in clients.iter().zip([1.0, 0.0]) {
        let process = format!("process=\"{}\"", client.process.id());
        assert_eq!(sum(&samples, "mendline_up", &[&process]), 1.0, "{samples:#?}");
        assert_eq!(sum(&samples, "mendline_calls_total", &[&process, r#"tool="lookup""#]), calls);
    }
    assert_eq!(printed.stdout.matches("# TYPE mendline_up gauge").count(), 1, "{}", printed.stdout);
}

#[test]
fn metrics_without_a_running_process_exit_with_3() {
    let printed = Stage::new().query(&["metrics"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(3), ""), "{printed:?}");
    assert!(printed.stderr.contains("no Mendline is running"), "{printed:?}");
}

#[test]
fn foreign_host_wrong_path_and_method_are_refused() {
    let stage = Stage::new();
    let client = stage.run(&["--name", "notes", "--metrics", "127.0.0.1:0", "--", MENDLINE, "demo-server"]);
    let address = address(&client);
    for (head, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: evil.example".to_owned(), "421"),
        (format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example"), "403"),
        (format!("GET / HTTP/1.1\r\nHost: {address}"), "404"),
        (format!("POST /metrics HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0"), "405"),
    ] {
        let response = request(&address, &head);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {response}");
        assert!(!response.contains("mendline_up"), "{response}");
    }
}

#[test]
fn token_is_required_and_never_printed() {
    let stage = Stage::new();
    let mut command = stage.command(&["run", "--name", "notes", "--metrics", "127.0.0.1:0"]);
    command.args(["--metrics-token-env", "SCRAPE_TOKEN", "--", MENDLINE, "demo-server"]);
    command.env("SCRAPE_TOKEN", "canary-of-the-scraper").stdin(std::process::Stdio::piped());
    let mut client = Client::start(&mut command);
    client.read_log();
    let address = address(&client);
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}");
    let denied = request(&address, &head);
    assert!(denied.starts_with("HTTP/1.1 401 ") && denied.to_lowercase().contains("www-authenticate"), "{denied}");
    assert!(request(&address, &format!("{head}\r\nAuthorization: Bearer wrong")).starts_with("HTTP/1.1 401 "));
    let allowed = request(&address, &format!("{head}\r\nAuthorization: Bearer canary-of-the-scraper"));
    assert!(allowed.starts_with("HTTP/1.1 200 "), "{allowed}");
    assert!(!client.log().contains("canary"), "{}", client.log());
}

#[test]
fn unusable_metrics_options_end_with_advice() {
    let stage = Stage::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, code, words) in [
        (&["run", "--metrics", "0.0.0.0:9464", "--", "true"][..], 1, "--metrics-token-env"),
        (&["run", "--metrics", &taken, "--", "true"], 1, "choose another address"),
        (&["metrics", "--listen", "0.0.0.0:9464"], 1, "the metrics need a token"),
        (&["metrics", "--listen", &taken], 1, "choose another address"),
        (&["metrics", "--listen", &taken, "--metrics-token-env", "s3cret"], 2, "names no variable"),
        (&["metrics", "--listen", "9464"], 2, "invalid socket address"),
    ] {
        let printed = stage.query(arguments);
        assert_eq!(printed.code, Some(code), "{arguments:?}: {printed:?}");
        assert!(printed.stderr.contains(words) && !printed.stderr.contains("s3cret"), "{arguments:?}: {printed:?}");
    }
}
