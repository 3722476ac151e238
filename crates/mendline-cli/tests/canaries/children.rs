//! Children that print secrets: on stderr, as noise on stdout, and before they crash.

use std::thread;

use serde_json::{Value, json};

use crate::canary::{VARIABLE, across, across_limits, forms, search};
use crate::client::{MENDLINE, SOON, eventually};
use crate::home::{Home, search_arguments, search_to_the_end};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

fn entry(script: &str) -> Value {
    let env = json!({ "SVC_TOKEN": VARIABLE, "NOTES": "open" });
    json!({ "command": "sh", "args": ["-c", script], "env": env, "timeouts": { "recovery": "2s" } })
}

#[test]
fn s01_s06_stderr_of_crashing_child_leaks_no_secret() {
    let home = Home::new();
    let secrets: Vec<String> = forms(VARIABLE).into_iter().chain(across_limits(VARIABLE)).collect();
    let secrets = home.give("said", &(secrets.join("\n") + "\n"));
    let mut servers = serde_json::Map::new();
    let last = [
        format!("starting with {VARIABLE}"),
        format!("Error: {}", forms(VARIABLE)[2]),
        across(200, 12, VARIABLE),
        across(300, 20, VARIABLE),
        across(300, 9, VARIABLE),
        across(4 << 10, 12, VARIABLE),
    ];
    for (number, line) in last.iter().enumerate() {
        let last = home.give(&format!("last{number}"), &format!("{line}\n"));
        servers.insert(format!("crash{number}"), entry(&format!("cat {secrets} {last} >&2; exit 3")));
    }
    let names: Vec<String> = servers.keys().cloned().collect();
    let file = home.give("servers.json", &json!({ "mcpServers": servers }).to_string());
    let tried = |name: &str| {
        let mut client = home.bridge(&["--config", &file, name], &[]);
        client.send(HELLO);
        let answer = client.answer("init").to_string();
        search("the answer to initialize", answer.as_bytes());
        assert!(answer.contains("exit code 3"), "{answer}");
        assert!(name != "crash0" || answer.contains("starting with ‹secret›"), "{answer}");
        search_arguments(client.process.id());
        let lines: [&[&str]; 6] = [
            &["tools", "--config", &file, name],
            &["call", "--config", &file, name, "lookup"],
            &["status"],
            &["status", "--json"],
            &["status", name],
            &["logs", name],
        ];
        let printed = home.search_commands(&lines, &[]);
        search_to_the_end(client);
        printed
    };
    let mut printed: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = names.iter().map(|name| scope.spawn(|| tried(name))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let probe = ["status", "--probe", "--within", "5s", "--config", &file];
    let lines: [&[&str]; 6] = [
        &probe,
        &["status", "--json", "--probe", "--within", "5s", "--config", &file],
        &["doctor", "--config", &file],
        &["doctor", "--json", "--config", &file],
        &["check", &file],
        &["wrap", "--dry-run", "--binary", MENDLINE, "--file", &file],
    ];
    printed.extend(home.search_commands(&lines, &[]));
    assert!(printed.iter().filter(|text| text.contains("exit code 3")).count() > names.len(), "{printed:#?}");
    let files = home.search_files();
    assert!(files.contains("exit code 3") && files.contains("‹secret›"), "{files}");
}

#[test]
fn s01_s06_noise_on_stdout_leaks_no_secret() {
    let home = Home::new();
    let noise: Vec<String> = forms(VARIABLE).into_iter().chain(across_limits(VARIABLE)).collect();
    let noise = home.give("noise", &(noise.join("\n") + "\nthe end of the noise\n"));
    // More text than any buffer keeps.
    let endless = home.give("endless", &format!("{}\n", across(64 << 10, 12, VARIABLE).repeat(4)));
    let script = format!("cat {noise}; cat {endless} {noise} >&2; exec '{MENDLINE}' demo-server");
    let file = home.give("servers.json", &json!({ "mcpServers": { "notes": entry(&script) } }).to_string());
    let mut client = home.bridge(&["--config", &file, "notes"], &[]);
    client.send(HELLO);
    search("the answer to initialize", client.answer("init").to_string().as_bytes());
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    search("the list of tools", client.answer("list").to_string().as_bytes());
    eventually("stderr is read", SOON, || client.log().matches("the end of the noise").count() >= 2);
    eventually("status and logs are available", SOON, || home.is_observable("‹secret›"));
    // The client sends the secret itself. Its own output may repeat it; the wire records may not.
    for (number, text) in across_limits(VARIABLE).iter().chain(&forms(VARIABLE)).enumerate() {
        let id = format!("call{number}");
        client.call(&id, "lookup", &json!({ "key": text }));
        client.answer(&id);
    }
    search_arguments(client.process.id());
    let lines: [&[&str]; 8] = [
        &["status"],
        &["status", "--json"],
        &["status", "notes"],
        &["logs", "notes", "--level", "debug", "--wire", "--full"],
        &["logs", "notes", "--json"],
        &["tools", "--config", &file, "notes"],
        &["doctor", "--config", &file, "notes"],
        &["doctor", "--json", "--config", &file, "notes"],
    ];
    let printed = home.search_commands(&lines, &[]);
    assert!(printed[3].contains("‹secret›") && printed[5].contains("lookup"), "{printed:#?}");
    search_to_the_end(client);
    let files = home.search_files();
    assert!(files.contains("\"kind\":\"wire\"") && files.contains("\"kind\":\"output_skipped\""), "{files}");
}
