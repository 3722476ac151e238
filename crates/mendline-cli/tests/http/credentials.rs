//! Configured headers: they are sent with every request and never shown.

use mendline_faults::Rule;
use serde_json::json;

use crate::client::{MENDLINE, SOON, failure};
use crate::namespace::{inside, ip};
use crate::recording_proxy::RecordingProxy;
use crate::site::{Site, json_answers, run};

const CANARY: &str = "canary-77ab10";

#[test]
fn headers_with_variables_are_sent_with_every_request() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let options = ["--header", "Authorization: Bearer ${API_TOKEN}", "--header", "X-Team: ${TEAM:-none}"];
    let mut client = run(&proxy.url(), &options, &[("API_TOKEN", CANARY)]);
    client.initialize();
    client.result("a", "create_note", &json!({ "key": "k" }));
    site.until("the GET stream is open", |counts| counts.gets == 1);
    client.stdin = None;
    assert_eq!(client.exit_code(SOON), Some(0));
    let (recorded, counts) = (proxy.recorded(), site.counts());
    let requests = usize::try_from(counts.posts + counts.gets + counts.deletes).unwrap();
    assert!(counts.deletes == 1 && requests >= 6, "{counts:?}");
    assert_eq!(
        recorded.to_lowercase().matches(&format!("authorization: bearer {CANARY}\r\n")).count(),
        requests,
        "{recorded}"
    );
    assert_eq!(recorded.to_lowercase().matches("x-team: none\r\n").count(), requests, "{recorded}");
}

#[test]
fn a73_call_that_needs_login_fails_and_is_not_resent() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("a73_token_expired_401"));
    for (id, tool) in [("a", "create_note"), ("b", "lookup")] {
        let result = client.result(id, tool, &json!({ "key": id }));
        let failure = failure(&result);
        assert_eq!((&failure["cause"], &failure["outcome"]), (&json!("needs_login"), &json!("refused")), "{result}");
        let words = result["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("needs a login"), "{words}");
        assert_eq!(
            (site.executions(id), site.counts().struck_by("a73_token_expired_401")),
            (0, if id == "a" { 1 } else { 2 })
        );
    }
    site.clear();
    let result = client.result("c", "create_note", &json!({ "key": "c" }));
    assert_eq!(result["content"][0]["text"], "wrote c", "with a valid login calls run again: {result}");
}

#[test]
fn a73_server_without_login_is_reported_and_rarely_tried() {
    let site = Site::start(json_answers());
    site.add_fault(Rule::new("a73_token_expired_401").verb("POST"));
    site.add_fault(Rule::new("a73_token_expired_401").verb("GET"));
    let mut client = run(&site.url(), &[], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let handshake = client.answer("init")["result"].clone();
    assert!(handshake["instructions"].as_str().unwrap().contains("needs a login"), "{handshake}");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert!(site.counts().posts <= 5, "{:?}", site.oracle().seen());
    client.stdin = None;
    assert_eq!(client.exit_code(SOON), Some(6));
}

#[test]
fn i12_secret_in_header_appears_nowhere() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let options = ["--log-level", "debug", "--header", "Authorization: Bearer ${API_TOKEN}"];
    let mut client = run(&proxy.url(), &options, &[("API_TOKEN", CANARY)]);
    client.initialize();
    let command_line = std::fs::read_to_string(format!("/proc/{}/cmdline", client.process.id())).unwrap();
    assert!(command_line.contains("${API_TOKEN}") && !command_line.contains(CANARY), "{command_line}");
    let faults = [
        "h26_500",
        "h34_404_session_expired",
        "h37_html_instead_of_json",
        "h39_redirect_elsewhere",
        "t13_reset_before_headers",
    ];
    for fault in faults {
        site.add_fault(Rule::new(fault).tool("create_note").nth(1));
        client.call(fault, "create_note", &json!({ "key": fault }));
        assert!(!client.answer(fault).to_string().contains(CANARY));
        site.clear();
    }
    client.stdin = None;
    assert!(client.rest().iter().all(|line| !line.contains(CANARY)));
    let log = client.whole_log();
    assert!(log.contains("DEBUG") && !log.contains(CANARY), "{log}");
    assert!(proxy.recorded().contains(CANARY), "it was sent, not dropped");
}

/// A reserved address (RFC 5737).
const ELSEWHERE: &str = "198.51.100.7";

/// Runs a command with its own files and variables. Returns its exit code and its output.
fn run_to_end(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(MENDLINE);
    command.args(arguments).env("MENDLINE_STATE_DIR", folder.path()).env("MENDLINE_RUNTIME_DIR", folder.path());
    command.env("XDG_CONFIG_HOME", folder.path()).env_remove("MENDLINE_CONFIG").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

fn assert_refused(arguments: &[&str], what: &str) {
    let (code, text) = run_to_end(arguments);
    assert!(code.is_some_and(|code| code != 0), "{arguments:?}: {text}");
    let words =
        format!("{what} would go to http://{ELSEWHERE} unencrypted; use https://, or --allow-http if the network");
    assert!(text.contains(&words), "{arguments:?}: {text}");
    assert!(!text.contains(CANARY), "{arguments:?}: {text}");
}

#[test]
fn s10_credential_over_http_to_another_host_needs_flag() {
    let (url, bearer) = (format!("http://{ELSEWHERE}/mcp"), format!("Authorization: Bearer {CANARY}"));
    let with_key = format!("{url}?api_key={CANARY}");
    for verb in [&["run"][..], &["tools"], &["doctor"]] {
        assert_refused(&[verb, &["--header", &bearer, &url]].concat(), "the header Authorization");
        assert_refused(&[verb, &[&with_key]].concat(), "the query of the URL");
    }
    assert_refused(&["call", "--header", &format!("Cookie: sid={CANARY}"), &url, "lookup"], "the header Cookie");
}

#[test]
fn s10_credential_over_http_in_file_needs_key_or_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = |more: &str| {
        let path = folder.path().join("mcp.json");
        let headers = format!(r#""headers": {{ "X-Api-Key": "{CANARY}" }}"#);
        let entry = format!(r#"{{ "url": "http://{ELSEWHERE}/mcp", {headers}{more} }}"#);
        std::fs::write(&path, format!(r#"{{ "mcpServers": {{ "notes": {entry} }} }}"#)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let path = file("");
    assert_refused(&["check", &path], "the header X-Api-Key");
    assert_refused(&["run", "--config", &path, "notes"], "the header X-Api-Key");
    assert_refused(&["doctor", "--config", &path], "the header X-Api-Key");
    let allowed = file(r#", "allowHttp": true"#);
    let (code, text) = run_to_end(&["check", &allowed]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn s10_credential_is_sent_over_http_when_allowed() {
    inside("credentials::s10_credential_is_sent_over_http_when_allowed", || {
        ip(&["address", "add", &format!("{ELSEWHERE}/32"), "dev", "lo"]);
        let site = Site::start(json_answers());
        let proxy = site.proxy_on(format!("{ELSEWHERE}:0").parse().unwrap());
        let url = format!("http://{}/mcp", proxy.address());
        let options = ["--allow-http", "--header", "Authorization: Bearer ${API_TOKEN}"];
        let mut client = run(&url, &options, &[("API_TOKEN", CANARY)]);
        assert_eq!(client.initialize(), "mendline-faults");
        assert!(proxy.counts().accepted > 0);
        // The flag overrides the file.
        let file = tempfile::NamedTempFile::new().unwrap();
        let entry = json!({ "url": url, "headers": { "X-Api-Key": CANARY } });
        std::fs::write(file.path(), json!({ "mcpServers": { "notes": entry } }).to_string()).unwrap();
        let mut client = run("notes", &["--allow-http", "--config", file.path().to_str().unwrap()], &[]);
        assert_eq!(client.initialize(), "mendline-faults");
    });
}
