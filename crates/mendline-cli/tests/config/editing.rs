//! `mendline add`, `set`, `unset`, `remove` and `list`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::MENDLINE;
use crate::stage::{SECRET, Stage, demo, file};

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The options that give a client an entry with this program.
fn with_cursor() -> [&'static str; 4] {
    ["--client", "cursor", "--binary", MENDLINE]
}

#[test]
fn added_server_runs_and_the_file_is_private() {
    let stage = Stage::empty();
    let (code, printed) = stage.output(&["add", "notes", "--env", "A=${STAGE_TOKEN}", "--", MENDLINE, "demo-server"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("Added notes in ~/mendline/config.json."), "{printed}");
    let entry: Value = serde_json::from_str(&text(&stage.path())).unwrap();
    let expected = json!({ "command": MENDLINE, "args": ["demo-server"], "env": { "A": "${STAGE_TOKEN}" } });
    assert_eq!(entry, json!({ "mcpServers": { "notes": expected } }));
    assert_eq!(stage.path().metadata().unwrap().mode() & 0o777, 0o600);
    let mut client = stage.client(&["notes"]);
    assert!(client.result("1", "lookup", &json!({ "key": "k" })).to_string().contains("k is 42"));
}

#[test]
fn edits_keep_comments_and_order() {
    let before = "// mine\n{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" }, // of a\n\t\t/* b */ \"b\": { \"url\": \"https://b.test/mcp\" },\n\t},\n}\n";
    let stage = Stage::with(before);
    assert_eq!(stage.output(&["add", "c", "https://c.test/mcp"]).0, 0);
    let added = text(&stage.path());
    assert!(
        added.starts_with("// mine\n{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" }, // of a\n"),
        "{added}"
    );
    assert!(added.contains("\n\t\t\"c\": {\n\t\t\t\"url\": \"https://c.test/mcp\",\n\t\t},\n\t},\n}\n"), "{added}");
    assert_eq!(stage.output(&["set", "b", "timeouts.call=2m"]).0, 0);
    assert!(text(&stage.path()).contains("\"call\": \"2m\""));
    assert_eq!(stage.output(&["unset", "b", "timeouts.call"]).0, 0);
    assert!(!text(&stage.path()).contains("timeouts"));
    assert_eq!(stage.output(&["remove", "c"]).0, 0);
    let after = text(&stage.path());
    for kept in ["// mine\n", "// of a\n", "/* b */ \"b\""] {
        assert!(after.contains(kept), "{after}");
    }
    assert!(!after.contains("c.test"), "{after}");
}

#[test]
fn repeated_name_is_removed_once() {
    let stage = Stage::with(&file(&json!({ "a": demo(), "b": demo(), "c": demo() })));
    let (code, printed) = stage.output(&["remove", "a", "b", "a"]);
    assert_eq!(
        (code, printed.matches("Removed a").count(), printed.matches("Removed b").count()),
        (0, 1, 1),
        "{printed}"
    );
    let (_, printed) = stage.output(&["list", "--json"]);
    let all: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(all["servers"].as_array().unwrap().len(), 1, "{printed}");
}

#[test]
fn dry_run_shows_the_difference_and_writes_nothing() {
    let before = file(&json!({ "a": demo() }));
    let stage = Stage::with(&before);
    let (code, printed) = stage.output(&["add", "c", "https://c.test/mcp", "--dry-run"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("+") && printed.contains("c.test") && printed.contains("this was a dry run"), "{printed}");
    for line in [&["set", "a", "timeouts.call=2m", "--dry-run"][..], &["remove", "a", "--dry-run"]] {
        let (code, printed) = stage.output(line);
        assert!(code == 0 && printed.contains("@@"), "{line:?}: {printed}");
    }
    assert_eq!(text(&stage.path()), before);
}

#[test]
fn dry_run_without_a_file_shows_the_new_one() {
    let stage = Stage::empty();
    let line = ["add", "c", "https://c.test/mcp", "--client", "codex", "--client", "goose", "--dry-run"];
    let (code, printed) = stage.output(&[&line[..], &["--binary", MENDLINE]].concat());
    assert_eq!(code, 0, "{printed}");
    for words in ["+    \"c\": {", "+[mcp_servers.c]", "+extensions:", "this was a dry run"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!stage.path().exists() && !stage.home().join(".codex").exists());
}

#[test]
fn wrong_edit_is_refused_and_nothing_is_written() {
    let before = file(&json!({ "a": demo(), "notes": demo() }));
    let stage = Stage::with(&before);
    for (line, code, words) in [
        (&["add", "a", "https://c.test/mcp"][..], 2, "has a server \"a\" already"),
        (&["add", "a b", "https://c.test/mcp"], 2, "a name is made of letters, digits"),
        (&["add", "c", "c.test"], 2, "does not begin with https://"),
        (&["add", "c"], 2, "<URL>"),
        (&["add", "c", "--header", "x", "https://c.test/"], 2, "--header takes 'Name: value'"),
        (&["add", "c", "--env", "x", "--", "y"], 2, "--env takes NAME=VALUE"),
        (&["add", "c", "--set", "timeouts.cal=2m", "--", "y"], 2, "did you mean `timeouts.call`?"),
        (&["add", "c", "--set", "timeouts.call=soon", "--", "y"], 2, "\"call\": \"soon\""),
        (&["add", "c", "https://c.test/", "--client", "curser"], 3, "did you mean \"cursor\"?"),
        (&["set", "a", "timeouts.call=soon"], 2, "nothing was written"),
        (&["set", "a", "timeouts.calls=1m"], 2, "did you mean `timeouts.call`?"),
        (&["set", "a", "autoReconnect.maxRetries=-7"], 2, "maxRetries"),
        (&["set", "nodes", "timeouts.call=1m"], 3, "did you mean \"notes\"?"),
        (&["unset", "a", "timeouts.call"], 3, "has no key `timeouts.call`"),
        (&["remove", "a", "nothing"], 3, "there is no server \"nothing\""),
    ] {
        let (found, printed) = stage.output(line);
        assert_eq!(found, code, "{line:?}: {printed}");
        assert!(printed.contains(words), "{line:?}: {printed}");
        assert_eq!(text(&stage.path()), before, "{line:?}");
    }
}

#[test]
fn wrong_value_is_underlined() {
    let stage = Stage::with("{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" }\n  }\n}\n");
    let (_, printed) = stage.output(&["set", "a", "timeouts.call=soon"]);
    assert!(printed.contains("HOME/mendline/config.json:6:17"), "{printed}");
    assert!(printed.contains("^^^^^^"), "{printed}");
}

#[test]
fn key_without_effect_is_named() {
    let stage = Stage::with(&file(&json!({ "a": demo() })));
    let (code, printed) = stage.output(&["set", "a", "timeout=2m"]);
    assert!(
        code == 0 && printed.contains("Mendline ignores `timeout`") && printed.contains("timeouts.call"),
        "{printed}"
    );
    let (_, printed) = stage.output(&["set", "a", "timeouts.call=2m"]);
    assert!(!printed.contains("note:"), "an old note is not repeated: {printed}");
}

#[test]
fn unwritable_file_of_client_names_the_next_step() {
    let stage = Stage::empty();
    let cursor = stage.client_file(".cursor/mcp.json", "{}");
    fs::set_permissions(&cursor, fs::Permissions::from_mode(0o444)).unwrap();
    let line = [&["add", "notes"][..], &with_cursor(), &["--", "server"]].concat();
    let (code, printed) = stage.output(&line);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("it is read-only") && printed.contains("The same command with --replace"), "{printed}");
    assert_eq!(text(&cursor), "{}");
    fs::set_permissions(&cursor, fs::Permissions::from_mode(0o644)).unwrap();
    let again = [&["add", "notes", "--replace"][..], &with_cursor(), &["--", "server"]].concat();
    assert_eq!(stage.output(&again).0, 0);
    assert!(text(&cursor).contains("\"notes\""));
}

#[test]
fn unparsable_file_is_left_and_its_position_shown() {
    let before = "{\n  \"mcpServers\": {\n    \"a\": }\n}\n";
    let stage = Stage::with(before);
    for line in [&["add", "c", "https://c.test/mcp"][..], &["set", "a", "cwd=/"], &["remove", "a"]] {
        let (code, printed) = stage.output(line);
        assert_eq!(code, 2, "{printed}");
        assert!(printed.contains("config.json:3:10") && printed.contains("nothing was written"), "{printed}");
        assert_eq!(text(&stage.path()), before);
    }
}

#[test]
fn old_mistake_of_another_server_does_not_prevent_an_edit() {
    let stage = Stage::with(&json!({ "mcpServers": { "a": { "comand": "x" } } }).to_string());
    let (code, printed) = stage.output(&["add", "c", "https://c.test/mcp"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(stage.output(&["set", "a", "command=x"]).0, 0, "the way to correct it");
}

#[test]
fn read_only_directory_is_reported() {
    let stage = Stage::with(&file(&json!({})));
    let folder = stage.path().parent().unwrap().to_owned();
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o444)).unwrap();
    let (code, printed) = stage.output(&["add", "c", "https://c.test/mcp"]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("was not changed: it cannot be written: it is read-only"), "{printed}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn literal_secret_gets_advice_and_closes_the_file() {
    let stage = Stage::with(&file(&json!({})));
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let key = format!("API_KEY={SECRET}");
    let (code, printed) = stage.output(&["add", "c", "--env", &key, "--", "server"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("mendline set c 'env.API_KEY=${API_KEY}'"), "{printed}");
    assert_eq!(stage.path().metadata().unwrap().mode() & 0o777, 0o600);
    assert!(text(&stage.path()).contains(SECRET));
}

#[test]
fn simultaneous_additions_are_all_kept() {
    let stage = Stage::empty();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let add = |name: &String| {
        stage.command(&["add", name, "https://c.test/mcp"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let running: Vec<_> = names.iter().map(add).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let all: Value = serde_json::from_str(&text(&stage.path())).unwrap();
    let found: Vec<&String> = all["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(found, names.iter().collect::<Vec<_>>());
}

#[test]
fn client_gets_an_entry_that_runs_the_server() {
    let stage = Stage::empty();
    let before = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // kept\n  }\n}\n";
    let cursor = stage.client_file(".cursor/mcp.json", before);
    let line = [&["add", "notes"][..], &with_cursor(), &["--", MENDLINE, "demo-server"]].concat();
    let (code, printed) = stage.output(&line);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("Cursor runs notes now: ~/.cursor/mcp.json."), "{printed}");
    let after = text(&cursor);
    assert!(after.contains("\"other\": { \"command\": \"x\" }, // kept"), "{after}");
    assert!(
        after.contains(&format!("\"command\": \"{MENDLINE}\"")) && after.contains("[\"run\", \"notes\"]"),
        "{after}"
    );
    // The entry of the client is an alias of the own one.
    let (code, printed) = stage.output(&["tools", "cursor/notes"]);
    assert!(code == 0 && printed.contains("lookup"), "{printed}");
    let (code, printed) = stage.output(&["remove", "notes", "--client", "cursor"]);
    assert!(code == 0 && printed.contains("Removed notes from Cursor"), "{printed}");
    assert_eq!(text(&cursor), before);
}

#[test]
fn entry_that_was_left_in_a_client_is_named_and_removed() {
    let stage = Stage::empty();
    let line = [&["add", "notes"][..], &with_cursor(), &["--", "server"]].concat();
    assert_eq!(stage.output(&line).0, 0);
    let (code, printed) = stage.output(&["remove", "notes"]);
    assert!(code == 0 && printed.contains("`mendline remove notes --client cursor` removes it"), "{printed}");
    let (code, printed) = stage.output(&["remove", "notes", "--client", "cursor"]);
    assert!(code == 0 && printed.contains("Removed notes from Cursor"), "{printed}");
    assert!(!text(&stage.home().join(".cursor/mcp.json")).contains("notes"));
    assert_eq!(stage.output(&["remove", "notes", "--client", "cursor"]).0, 3);
}

#[test]
fn codex_and_vscode_get_entries_in_their_form() {
    let stage = Stage::empty();
    let codex = stage.client_file(".codex/config.toml", "model = \"x\" # mine\n");
    let line = ["add", "n", "https://c.test/mcp", "--client", "codex", "--client", "vscode", "--binary", MENDLINE];
    let (code, printed) = stage.output(&line);
    assert_eq!(code, 0, "{printed}");
    let after = text(&codex);
    assert!(after.starts_with("model = \"x\" # mine\n") && after.contains("[mcp_servers.n]\ncommand = "), "{after}");
    let vscode: Value = serde_json::from_str(&text(&stage.home().join("Code/User/mcp.json"))).unwrap();
    assert_eq!(vscode["servers"]["n"], json!({ "type": "stdio", "command": MENDLINE, "args": ["run", "n"] }));
}

#[test]
fn another_entry_of_the_client_is_not_replaced() {
    let stage = Stage::empty();
    let before = json!({ "mcpServers": { "notes": { "command": "x" } } }).to_string();
    let cursor = stage.client_file(".cursor/mcp.json", &before);
    let line = [&["add", "notes"][..], &with_cursor(), &["--", "y"]].concat();
    let (code, printed) = stage.output(&line);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("Cursor has another server \"notes\""), "{printed}");
    assert_eq!((text(&cursor), stage.path().exists()), (before, false), "nothing was written at all");
}

#[test]
fn client_that_writes_its_file_at_the_same_time_loses_nothing() {
    let stage = Stage::with(&file(&json!({})));
    let cursor = stage.client_file(".cursor/mcp.json", "{\"round\": 0}");
    let line = |name: &str| {
        let line = ["add", name, "https://c.test/mcp", "--client", "cursor", "--binary", MENDLINE];
        stage.command(&line).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
    };
    for number in 0..6 {
        let name = format!("s{number}");
        let is_added = std::thread::scope(|scope| {
            let adding = scope.spawn(|| line(&name).success());
            // The client reads its file, changes a member of its own and replaces the file.
            let mut theirs: Value = serde_json::from_str(&text(&cursor)).unwrap();
            theirs["round"] = json!(number + 1);
            let seen = text(&cursor);
            if serde_json::from_str::<Value>(&seen).unwrap()["mcpServers"] == theirs["mcpServers"] {
                fs::write(cursor.with_extension("new"), theirs.to_string()).unwrap();
                fs::rename(cursor.with_extension("new"), &cursor).unwrap();
            }
            adding.join().unwrap()
        });
        let now: Value = serde_json::from_str(&text(&cursor)).expect("the file is always whole");
        assert!(is_added);
        assert_eq!(now["round"], json!(number + 1), "the client's change is there: {now}");
    }
}

#[test]
fn list_shows_all_servers_with_their_files() {
    let stage = Stage::with(&file(&json!({ "own": demo(), "off": { "command": "x", "disabled": true } })));
    let wrapped = json!({ "command": MENDLINE, "args": ["run", "--name", "w", "--", "x"] });
    stage.client_file(
        ".cursor/mcp.json",
        &json!({ "mcpServers": { "w": wrapped, "bare": { "command": "x" } } }).to_string(),
    );
    let (code, printed) = stage.output(&["list"]);
    assert_eq!(code, 0, "{printed}");
    for words in ["NAME", "own", "disabled", "not wrapped", "~/.cursor/mcp.json", "`mendline wrap`"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    let (code, printed) = stage.output(&["list", "--json"]);
    let all: Value = serde_json::from_str(&printed).unwrap();
    let names: Vec<&str> = all["servers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!((code, names), (0, vec!["off", "own", "bare", "w"]));
    assert_eq!((&all["servers"][3]["isWrapped"], &all["servers"][3]["client"]), (&json!(true), &json!("cursor")));
    let (_, empty) = Stage::empty().output(&["list"]);
    assert!(empty.contains("No servers are known.") && empty.contains("mendline add"), "{empty}");
}

#[test]
fn running_server_takes_over_a_set_key() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    assert_eq!(stage.output(&["set", "notes", "tools.lookup.timeout=300ms"]).0, 0);
    crate::client::eventually("the change is applied", crate::client::SOON, || {
        client.log().contains("new policies apply")
    });
    let result = client.result("1", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    assert!(result.to_string().contains("timed_out"), "{result}");
}
