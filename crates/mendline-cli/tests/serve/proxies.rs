//! Proxies in front of the gateway.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use super::gateway::Gateway;
use super::request;

const ANN: (&str, &str) = ("Authorization", "Bearer ann-0123456789abcdef");
const TOKENS: &str = r#""tokens": ["ann-0123456789abcdef"]"#;

fn list() -> String {
    request(1, "tools/list", &json!({}))
}

/// A proxy of the same user that serves one connection and adds headers. Returns the status line.
fn through_proxy(gateway: &Gateway, added: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, target, added) = (listener.local_addr().unwrap(), gateway.address, added.to_owned());
    let proxy = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let length = client.read(&mut request).unwrap();
        let text = String::from_utf8(request[..length].to_vec()).unwrap();
        let mut server = TcpStream::connect(target).unwrap();
        server.write_all(text.replacen("\r\n", &format!("\r\n{added}"), 1).as_bytes()).unwrap();
        let mut response = Vec::new();
        server.read_to_end(&mut response).unwrap();
        client.write_all(&response).unwrap();
    });
    let body = list();
    let mut client = TcpStream::connect(address).unwrap();
    let text = format!(
        "POST /mcp/demo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: \
         application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(text.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    proxy.join().unwrap();
    response
}

#[test]
fn client_of_a_proxy_of_the_same_user_needs_a_token() {
    let gateway = Gateway::start(&[]);
    assert_eq!(gateway.post(&[], &list()).status, 200, "the local user");
    for header in
        ["X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "Via: 1.1 proxy", "X-Forwarded-Proto: https"]
    {
        let response = through_proxy(&gateway, &format!("{header}\r\n"));
        assert!(response.starts_with("HTTP/1.1 401 "), "{header}: {response}");
        assert!(response.contains("came through a proxy") && response.contains("tokens"), "{response}");
    }
    let open = Gateway::start(&["--danger-allow-anyone"]);
    let response = through_proxy(&open, "X-Forwarded-For: 203.0.113.9\r\n");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let named = Gateway::configured(&format!(r#""access": {{ {TOKENS} }}"#), "", &[]);
    let response =
        through_proxy(&named, "X-Forwarded-For: 203.0.113.9\r\nAuthorization: Bearer ann-0123456789abcdef\r\n");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[test]
fn forwarded_host_counts_only_from_a_named_proxy() {
    let access = |proxies: &str| format!(r#""access": {{ {TOKENS}, "hosts": ["mcp.example.com"]{proxies} }}"#);
    let backend = [ANN, ("Host", "backend.test"), ("X-Forwarded-Host", "mcp.example.com")];
    let unnamed = Gateway::configured(&access(""), "", &[]);
    assert_eq!(unnamed.post(&backend, &list()).status, 421);
    let named = Gateway::configured(&access(r#", "proxies": ["127.0.0.0/8"]"#), "", &[]);
    assert_eq!(named.post(&backend, &list()).status, 200);
    let evil = [ANN, ("Host", "mcp.example.com"), ("X-Forwarded-Host", "evil.example")];
    let refused = named.post(&evil, &list());
    assert_eq!(refused.status, 421);
    assert!(refused.text().contains("evil.example"));
    assert_eq!(named.post(&[("Host", "mcp.example.com")], &list()).status, 401);
}

#[test]
fn request_of_a_named_proxy_is_not_one_of_the_local_user() {
    let gateway = Gateway::start(&["--proxy", "127.0.0.1"]);
    let refused = gateway.post(&[], &list());
    assert_eq!(refused.status, 401);
    let words = refused.text();
    assert!(words.contains("access.proxies") && words.contains("tokens"), "{words}");
}
