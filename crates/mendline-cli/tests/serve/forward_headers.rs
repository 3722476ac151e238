//! Headers of clients that go to a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::gateway::{Gateway, eventually};
use super::{call, initialize};

/// An MCP server over HTTP that records the heads of its requests.
struct Upstream {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Starts a server. With a target, every request is redirected there.
    fn start(redirect: Option<String>) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let recorded = Arc::clone(&heads);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (recorded, redirect) = (Arc::clone(&recorded), redirect.clone());
                thread::spawn(move || serve(connection, &recorded, redirect.as_deref()));
            }
        });
        Upstream { address, heads }
    }

    /// The values of a header, in the order of the requests.
    fn values(&self, name: &str) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        let of = |head: &String| {
            head.lines().find_map(|line| {
                let (its, value) = line.split_once(':')?;
                its.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        heads.iter().filter_map(of).collect()
    }

    fn text(&self) -> String {
        self.heads.lock().unwrap().join("\n")
    }
}

fn serve(connection: TcpStream, recorded: &Mutex<Vec<String>>, redirect: Option<&str>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut writer = connection;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let is_post = head.starts_with("POST");
        recorded.lock().unwrap().push(head);
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = match (redirect, message["method"].as_str()) {
            (Some(to), _) => format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
            (_, Some(method)) if is_post && !message["id"].is_null() => {
                let result = match method {
                    "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                        "serverInfo": { "name": "upstream", "version": "1" } }),
                    "tools/list" => json!({ "tools": [] }),
                    _ => json!({ "content": [{ "type": "text", "text": "done" }] }),
                };
                let text = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
                    text.len()
                )
            }
            _ if is_post => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn gateway(upstream: &Upstream, keys: &str) -> Gateway {
    let servers: Value =
        serde_json::from_str(&format!(r#"{{ "demo": {{ "url": "http://{}/mcp"{keys} }} }}"#, upstream.address))
            .unwrap();
    Gateway::with_servers(&servers)
}

const JIRA: &str = r#", "forwardHeaders": [{ "from": "X-Jira-Token", "to": "Authorization", "format": "Bearer {}" }]"#;

/// Opens a session and makes a call, with these headers.
fn use_server(gateway: &Gateway, headers: &[(&str, &str)]) -> String {
    let opened = gateway.post(headers, &initialize("2025-11-25"));
    assert_eq!(opened.status, 200);
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let answer = gateway.post(&[headers, &[("Mcp-Session-Id", session.as_str())]].concat(), &call(2, "x", &json!({})));
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(text.contains("done"), "{text}");
    session
}

#[test]
fn headers_of_a_client_do_not_reach_the_server() {
    let upstream = Upstream::start(None);
    let gateway = gateway(&upstream, "");
    use_server(
        &gateway,
        &[("Authorization", "Bearer canary-authorization"), ("Cookie", "canary=1"), ("X-Jira-Token", "canary-jira")],
    );
    assert!(!upstream.heads.lock().unwrap().is_empty());
    assert!(!upstream.text().contains("canary"), "{}", upstream.text());
}

#[test]
fn named_header_reaches_its_server_alone() {
    let (jira, other) = (Upstream::start(None), Upstream::start(None));
    let text = format!(
        r#"{{ "demo": {{ "url": "http://{}/mcp"{JIRA} }}, "other": {{ "url": "http://{}/mcp" }} }}"#,
        jira.address, other.address
    );
    let gateway = Gateway::with_servers(&serde_json::from_str(&text).unwrap());
    let headers = [("X-Jira-Token", "canary-jira-0123456789"), ("Authorization", "Bearer canary-authorization")];
    use_server(&gateway, &headers);
    assert!(
        jira.values("authorization").iter().all(|value| value == "Bearer canary-jira-0123456789"),
        "{}",
        jira.text()
    );
    assert!(jira.values("authorization").len() >= 2 && !jira.text().contains("canary-authorization"));
    gateway.send("POST", "/mcp/other", &headers, &call(2, "x", &json!({})));
    eventually("the other server is asked", || !other.heads.lock().unwrap().is_empty());
    assert!(!other.text().contains("canary"), "{}", other.text());
    let log = gateway.lines().join("\n");
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn clients_with_different_values_have_different_sessions() {
    let upstream = Upstream::start(None);
    let gateway = gateway(&upstream, &format!(r#", "sharing": "shared"{JIRA}"#));
    let first = use_server(&gateway, &[("X-Jira-Token", "first-0123456789")]);
    use_server(&gateway, &[("X-Jira-Token", "second-0123456789")]);
    use_server(&gateway, &[("X-Jira-Token", "first-0123456789")]);
    let values = upstream.values("authorization");
    assert!(values.contains(&"Bearer first-0123456789".to_owned()), "{values:?}");
    assert!(values.contains(&"Bearer second-0123456789".to_owned()), "{values:?}");
    // The first session is shared by two clients, so another value cannot replace theirs.
    let other = [("X-Jira-Token", "third-0123456789"), ("Mcp-Session-Id", first.as_str())];
    assert_eq!(gateway.post(&other, &call(3, "x", &json!({}))).status, 404);
    assert!(!upstream.text().contains("third"));
}

#[test]
fn renewed_value_of_a_client_goes_on_with_its_session() {
    let upstream = Upstream::start(None);
    let gateway = gateway(&upstream, JIRA);
    let session = use_server(&gateway, &[("X-Jira-Token", "old-0123456789")]);
    let renewed = [("X-Jira-Token", "new-0123456789"), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(gateway.post(&renewed, &call(3, "x", &json!({}))).status, 200);
    assert_eq!(upstream.values("authorization").last().unwrap(), "Bearer new-0123456789");
}

#[test]
fn redirect_to_another_origin_does_not_get_the_header() {
    let thief = Upstream::start(None);
    let upstream = Upstream::start(Some(format!("http://{}/mcp", thief.address)));
    let gateway = gateway(&upstream, &format!(r#", "timeouts": {{ "recovery": "1s", "handshake": "1s" }}{JIRA}"#));
    let answer = gateway.post(&[("X-Jira-Token", "canary-0123456789")], &initialize("2025-11-25"));
    drop(answer.text());
    eventually("the header is sent", || upstream.text().contains("canary-0123456789"));
    assert!(!thief.text().contains("canary"), "{}", thief.text());
}
