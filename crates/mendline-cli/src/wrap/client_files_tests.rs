//! Entries of clients' files, read and added.

use mendline::os::directories::Platform;
use tempfile::TempDir;

use super::*;

fn home() -> (TempDir, ClientDirectories) {
    let home = tempfile::tempdir().unwrap();
    let here = home.path().join("garden");
    let directories = ClientDirectories::new(Platform::Linux, home.path(), here, |_| None);
    (home, directories)
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn new_entry_is_read_back_for_every_client() {
    let (_home, directories) = home();
    for client in clients() {
        for name in ["notes", "my notes"] {
            let line = words("/usr/bin/mendline run notes");
            let new = insert_in(&directories, client, Scope::User, name, &line).unwrap();
            assert_eq!(new.write().unwrap().is_some(), name == "my notes", "{client:?}: backup of an existing file");
        }
        let found = entries_in(&directories, Some(client));
        assert_eq!(found.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["notes", "my notes"]);
        for entry in found {
            assert_eq!(entry.server, EntryServer::Named("notes".to_owned()), "{client:?}");
            assert_eq!((entry.run, entry.is_disabled), (Some(words("run notes")), false));
        }
        let again = insert_in(&directories, client, Scope::User, "notes", &words("x")).err().unwrap();
        assert!(again.contains("already"), "{again}");
    }
}

#[test]
fn new_entry_leaves_rest_of_the_file_unchanged() {
    let (home, directories) = home();
    let line = words("mendline run b");
    for (client, file, before, after) in [
        (
            Client::Cursor,
            ".cursor/mcp.json",
            "{\n    // mine\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"}, // why\n    },\n}\n",
            "{\n    // mine\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"},\n        \"b\": {\n            \"command\": \"mendline\",\n            \"args\": [\"run\", \"b\"]\n        }, // why\n    },\n}\n",
        ),
        (
            Client::GeminiCli,
            ".gemini/settings.json",
            "\u{feff}{\r\n  \"theme\": \"dark\"\r\n}\r\n",
            "\u{feff}{\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    \"b\": {\r\n      \"command\": \"mendline\",\r\n      \"args\": [\"run\", \"b\"]\r\n    }\r\n  }\r\n}\r\n",
        ),
        (
            Client::Codex,
            ".codex/config.toml",
            "model = \"o\"\n\n[mcp_servers.a]\ncommand = \"x\"",
            "model = \"o\"\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.b]\ncommand = \"mendline\"\nargs = [\"run\", \"b\"]\n",
        ),
        (
            Client::Continue,
            ".continue/config.yaml",
            "name: me\nmcpServers:\n- name: a # first\n  command: x\nmodels: []\n",
            "name: me\nmcpServers:\n- name: a # first\n  command: x\n- name: \"b\"\n  command: \"mendline\"\n  args: [\"run\", \"b\"]\nmodels: []\n",
        ),
    ] {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, before).unwrap();
        let new = insert_in(&directories, client, Scope::User, "b", &line).unwrap();
        assert!(new.diff(false).contains("mendline"), "{}", new.diff(false));
        new.write().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

#[test]
fn empty_sections_and_files_get_an_entry() {
    for (syntax, section, text) in [
        (Syntax::Json, "mcpServers", ""),
        (Syntax::Json, "mcpServers", "{}"),
        (Syntax::Json, "mcpServers", "{\n}\n"),
        (Syntax::Json, "mcpServers", "// nothing yet\n{\"mcpServers\": {}}\n"),
        (Syntax::Json, "mcpServers", "{\"mcpServers\": {\n  // none\n}}"),
        (Syntax::Toml, "mcp_servers", "\u{feff}"),
        (Syntax::Toml, "mcp_servers", "a = 1"),
        (Syntax::Yaml, "extensions", ""),
        (Syntax::Yaml, "extensions", "GOOSE_MODE: auto"),
        (Syntax::Yaml, "extensions", "extensions: {} # none\nGOOSE_MODE: auto\n"),
        (Syntax::Yaml, "extensions", "extensions:\nGOOSE_MODE: auto\n"),
        (Syntax::Yaml, "extensions", "extensions:\n  a:\n    type: builtin\n\n# end\nGOOSE_MODE: auto"),
        (Syntax::Yaml, "mcpServers", "mcpServers: []\n"),
        (Syntax::Yaml, "mcpServers", "name: x\n"),
    ] {
        let client = if section == "extensions" { Client::Goose } else { Client::Continue };
        let made = insertion::plan(text, syntax, client, &vec![section.to_owned()], "b", &words("mendline run b"));
        assert!(made.is_ok(), "{text:?}: {made:?}");
    }
}

#[test]
fn file_without_a_place_gets_no_entry() {
    for (syntax, section, text) in [
        (Syntax::Json, "mcpServers", "{\"mcpServers\": null}"),
        (Syntax::Toml, "mcp_servers", "mcp_servers = { a = { command = \"x\" } }\n"),
        (Syntax::Yaml, "extensions", "extensions: {a: {type: stdio}}\n"),
        (Syntax::Yaml, "extensions", "extensions: &all\n  a:\n    type: stdio\n"),
    ] {
        let section = vec![section.to_owned()];
        let made = insertion::plan(text, syntax, Client::Goose, &section, "b", &words("mendline run b"));
        let refused = made.unwrap_err();
        assert!(refused.contains("by hand") && refused.contains("mendline run b"), "{text:?}: {refused}");
    }
    let (_home, directories) = home();
    let refused = insert_in(&directories, Client::ClaudeDesktop, Scope::Project, "b", &words("x")).err().unwrap();
    assert_eq!(refused, "Claude Desktop has no file of the scope project; it has user");
}

#[test]
fn server_behind_a_wrapped_entry_is_found() {
    let (home, directories) = home();
    let path = home.path().join(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = r#"{"mcpServers": {
        "a": {"command": "uvx", "args": ["mendline@0.2.0", "run", "--name", "a", "--", "npx", "notes"], "env": {"K": "v"}},
        "b": {"command": "/bin/mendline", "args": ["run", "--transport", "sse", "--header-env", "X=H", "--url-env", "U"], "env": {"U": "https://e.test/?k", "H": "1"}},
        "c": {"httpUrl": "https://c.test/mcp", "headers": {"A": "b"}, "disabled": true},
        "d": 7
    }}"#;
    fs::write(&path, text).unwrap();
    let found = entries_in(&directories, Some(Client::Cursor));
    let servers: Vec<&EntryServer> = found.iter().map(|entry| &entry.server).collect();
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let url = |url: &str, transport: &str, headers| EntryServer::Url {
        url: url.to_owned(),
        transport: Some(transport.to_owned()),
        headers,
    };
    assert_eq!(
        servers,
        [
            &EntryServer::Command { words: words("npx notes"), environment: pair("K", "v") },
            &url("https://e.test/?k", "sse", pair("X", "1")),
            &url("https://c.test/mcp", "http", pair("A", "b")),
            &EntryServer::Unknown,
        ]
    );
    assert_eq!(found.iter().map(|entry| entry.is_disabled).collect::<Vec<_>>(), [false, false, true, false]);
}
