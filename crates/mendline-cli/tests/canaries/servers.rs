//! Servers at a URL that repeat their headers, their URL and their session.

use serde_json::json;

use crate::canary::{COOKIE, HEADER, PASSWORD, PATH, QUERY, SESSION, USER, basic, search};
use crate::client::MENDLINE;
use crate::home::{Home, search_arguments, search_to_the_end};
use crate::peers::{ServerMode, server};

const SECRETS: &[&str] = &[HEADER, COOKIE, PASSWORD, QUERY, PATH, SESSION];

/// Returns the variables that hold the secrets. `FLAGS` names them.
fn variables(url: &str) -> Vec<(String, String)> {
    let variables = [
        ("FAR_URL", url.to_owned()),
        ("FAR_KEY", HEADER.to_owned()),
        ("FAR_COOKIE", format!("theme=dark; sid={COOKIE}; lang=en")),
        ("FAR_LOGIN", format!("Basic {}", basic(PASSWORD))),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

const FLAGS: [&str; 10] = [
    "--name",
    "far",
    "--url-env",
    "FAR_URL",
    "--header-env",
    "X-Api-Key=FAR_KEY",
    "--header-env",
    "Cookie=FAR_COOKIE",
    "--header-env",
    "Authorization=FAR_LOGIN",
];

fn borrowed(variables: &[(String, String)]) -> Vec<(&str, &str)> {
    variables.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn s01_s10_refusal_by_server_leaks_no_secret() {
    for mode in [
        ServerMode::Refuses(400),
        ServerMode::Refuses(500),
        ServerMode::Shows(404),
        ServerMode::Shows(500),
        ServerMode::Redirects,
    ] {
        let home = Home::new();
        let address = server(mode, SECRETS);
        let variables = variables(&format!("http://{address}/{PATH}/mcp?key={QUERY}"));
        let variables = borrowed(&variables);
        let mut client = home.bridge(&FLAGS, &variables);
        client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let answer = client.answer("init").to_string();
        search("the answer to initialize", answer.as_bytes());
        search_arguments(client.process.id());
        let headers = json!({
            "X-Api-Key": HEADER,
            "Cookie": format!("theme=dark; sid={COOKIE}; lang=en"),
            "Authorization": format!("Basic {}", basic(PASSWORD)),
        });
        // In a file the URL itself is visible. Only a path segment that looks like a key is redacted.
        let entry = json!({ "url": format!("http://{address}/mcp?key={QUERY}&path={PATH}"), "headers": headers });
        let file = home.give("servers.json", &json!({ "mcpServers": { "filed": entry } }).to_string());
        let lines: [&[&str]; 11] = [
            &["status"],
            &["status", "--json"],
            &["status", "far"],
            &["logs", "far", "--level", "debug"],
            &["tools", "--config", &file, "filed"],
            &["call", "--config", &file, "filed", "pay"],
            &["doctor", "--config", &file, "filed"],
            &["doctor", "--json", "--config", &file, "filed"],
            &["status", "--probe", "--within", "5s", "--config", &file],
            &["check", &file],
            &["wrap", "--dry-run", "--binary", MENDLINE, "--file", &file],
        ];
        home.search_commands(&lines, &variables);
        search_to_the_end(client);
        home.search_files();
    }
}

#[test]
fn s01_s10_secrets_echoed_by_server_are_in_no_file() {
    let home = Home::new();
    let address = server(ServerMode::Works, SECRETS);
    let variables = variables(&format!("http://{address}/{PATH}/mcp?key={QUERY}"));
    let variables = borrowed(&variables);
    let mut client = home.bridge(&FLAGS, &variables);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    search("the answer to initialize", client.answer("init").to_string().as_bytes());
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    // This answer comes from the server.
    assert!(client.answer("list")["result"]["tools"].is_array());
    for number in 0..24 {
        let id = format!("call{number}");
        client.call(&id, "pay", &json!({ "number": number * 5 }));
        let answer = client.answer(&id).to_string();
        search("the answer to a call", answer.as_bytes());
        assert!(answer.contains("-32000"), "{answer}");
    }
    home.search_commands(&[&["status"], &["status", "--json"], &["logs", "far"], &["logs", "--json"]], &variables);
    let log = search_to_the_end(client);
    assert!(log.contains("the server repeats a credential"), "{log}");
    let files = home.search_files();
    assert!(files.contains("\"kind\":\"wire\"") && files.contains("‹secret›"), "{files}");
}

#[test]
fn s10_user_in_url_is_shown_by_no_command() {
    let home = Home::new();
    let url = format!("http://me:{USER}@127.0.0.1:9/mcp");
    let variables = [("FAR_URL", &*url)];
    let entry = json!({ "mcpServers": { "filed": { "url": url } } });
    let file = home.give("servers.json", &entry.to_string());
    let lines: [&[&str]; 6] = [
        &["run", "--url-env", "FAR_URL"],
        &["tools", "--url-env", "FAR_URL"],
        &["tools", "--config", &file, "filed"],
        &["doctor", "--config", &file],
        &["status", "--probe", "--within", "5s", "--config", &file],
        &["check", &file],
    ];
    home.search_commands(&lines, &variables);
    home.search_files();
}
