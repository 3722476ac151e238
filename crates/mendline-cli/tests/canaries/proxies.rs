//! Proxies that repeat their credentials.

use std::thread;

use serde_json::json;

use crate::canary::{PROXY, VARIABLE, search};
use crate::home::{Home, search_to_the_end};
use crate::peers::proxy;

const URL: &str = "https://far.test/mcp";

/// Connects to a server through a proxy that answers like this.
fn try_through(answer: &'static str, scheme: &str) {
    let home = Home::new();
    let value = format!("{scheme}me:{PROXY}@{}", proxy(answer));
    let variables = [("HTTPS_PROXY", &*value), ("SVC_TOKEN", VARIABLE)];
    let mut client = home.bridge(&["--name", "far", URL], &variables);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let lines: [&[&str]; 3] =
        [&["tools", "--timeout", "3s", URL], &["doctor", "--timeout", "3s", URL], &["doctor", "--json", URL]];
    let printed = home.search_commands(&lines, &variables);
    assert!(printed.iter().all(|text| text.contains("far.test")), "{printed:#?}");
    home.search_commands(&[&["status"], &["status", "--json"], &["logs", "far"]], &variables);
    client.lines.as_ref().unwrap().try_iter().for_each(|line| search("an answer", line.as_bytes()));
    search_to_the_end(client);
    home.search_files();
}

#[test]
fn s01_s10_credentials_echoed_by_proxy_are_redacted() {
    let answers = [
        ("HTTP/1.1 {} x\r\n\r\n", "http://"),
        ("HTTP/1.1 502 {}\r\nX: {}\r\n\r\n", "http://"),
        ("HTTP/1.1 407 {}\r\n\r\n", "http://"),
        ("{}\r\n\r\n", ""),
        ("HTTP/1.1 200 {}\r\n\r\n{} is no TLS, and never was, whatever was asked of it\r\n", ""),
    ];
    thread::scope(|scope| {
        let running: Vec<_> =
            answers.into_iter().map(|(answer, scheme)| scope.spawn(move || try_through(answer, scheme))).collect();
        running.into_iter().for_each(|one| one.join().unwrap());
    });
}
