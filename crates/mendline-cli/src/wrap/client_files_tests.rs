//! Entries of clients' files, and the file for a new one.

use std::fs;

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

fn placed(directories: &ClientDirectories, client: Client) -> (PathBuf, Section) {
    place(directories, client).map(|location| (location.path, location.section)).unwrap()
}

#[test]
fn new_entry_goes_to_the_file_in_use() {
    let (home, directories) = home();
    let at = |name: &str| home.path().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    };
    let mcp = || vec!["mcp".to_owned()];
    assert_eq!(placed(&directories, Client::OpenCode), (at(".config/opencode/opencode.json"), mcp()));
    write(".config/opencode/opencode.jsonc", "{\"theme\": \"x\"}");
    assert_eq!(placed(&directories, Client::OpenCode), (at(".config/opencode/opencode.jsonc"), mcp()));
    write(".config/opencode/config.json", "{\"mcp\": {\"servers\": {}}}");
    let newer = vec!["mcp".to_owned(), "servers".to_owned()];
    assert_eq!(placed(&directories, Client::OpenCode), (at(".config/opencode/config.json"), newer));
    assert_eq!(placed(&directories, Client::Windsurf).0, at(".codeium/windsurf/mcp_config.json"));
    write(".codeium/mcp_config.json", "{}");
    assert_eq!(placed(&directories, Client::Windsurf).0, at(".codeium/mcp_config.json"));
}

#[test]
fn continue_with_its_older_file_alone_gets_no_new_file() {
    let (home, directories) = home();
    let folder = home.path().join(".continue");
    assert_eq!(placed(&directories, Client::Continue).0, folder.join("config.yaml"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), "{\"models\": []}").unwrap();
    assert!(place(&directories, Client::Continue).is_none());
    fs::write(folder.join("config.yaml"), "name: x\n").unwrap();
    assert_eq!(placed(&directories, Client::Continue).0, folder.join("config.yaml"));
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
