//! Where the files of clients are.

use super::*;

fn directories(platform: Platform, home: &Path, variables: &[(&str, &str)]) -> ClientDirectories {
    let variable = |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into());
    ClientDirectories::new(platform, home, home.join("garden"), variable)
}

/// The locations of all clients, a line for each.
fn listed(directories: &ClientDirectories) -> String {
    let line = |location: &ConfigLocation| {
        let ConfigLocation { client, scope, path, section } = location;
        format!("{} {} {} {}\n", client.word(), scope.word(), path.display(), section.join("."))
    };
    directories.locations().iter().map(line).collect()
}

#[test]
fn every_client_has_its_locations_on_linux() {
    insta::assert_snapshot!(listed(&directories(Platform::Linux, Path::new("/home/me"), &[])));
}

#[test]
fn every_client_has_its_locations_on_macos() {
    insta::assert_snapshot!(listed(&directories(Platform::MacOs, Path::new("/Users/me"), &[])));
}

#[test]
fn every_client_has_its_locations_on_windows() {
    let variables = [("APPDATA", "C:/Users/me/AppData/Roaming")];
    insta::assert_snapshot!(listed(&directories(Platform::Windows, Path::new("C:/Users/me"), &variables)));
}

#[test]
fn directories_from_the_environment_are_used() {
    let variables = [
        ("CLAUDE_CONFIG_DIR", "/c"),
        ("CODEX_HOME", "/x"),
        ("OPENCODE_CONFIG", "/o/my.json"),
        ("XDG_CONFIG_HOME", "/g"),
    ];
    let moved = listed(&directories(Platform::Linux, Path::new("/home/me"), &variables));
    for line in [
        "claude-code user /c/.claude.json mcpServers\n",
        "codex user /x/config.toml mcp_servers\n",
        "opencode user /o/my.json mcp\n",
        "opencode user /g/opencode/opencode.json mcp\n",
        "zed user /g/zed/settings.json context_servers\n",
        "goose user /g/goose/config.yaml extensions\n",
        "vscode user /g/Code/User/mcp.json servers\n",
    ] {
        assert!(moved.contains(line), "{line}{moved}");
    }
}

#[test]
fn files_that_exist_beside_the_usual_ones_are_found() {
    let home = tempfile::tempdir().unwrap();
    let files = [
        ".config/Code/User/profiles/-1a/mcp.json",
        ".config/Code - Insiders/User/mcp.json",
        ".config/Code - Insiders/User/profiles/x/mcp.json",
        ".vscode-server/data/User/mcp.json",
        ".config/Cursor/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/cline_mcp_settings.json",
        ".cline/data/settings/cline_mcp_settings.json",
        ".config/opencode/opencode.jsonc",
        ".continue/config.json",
        ".continue/mcpServers/a.yaml",
        "garden/.continue/mcpServers/b.json",
        "garden/opencode.json",
        "garden/.opencode/opencode.jsonc",
    ];
    for file in files {
        let path = home.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
    }
    std::fs::write(home.path().join(".continue/mcpServers/readme.md"), "").unwrap();
    let mut found = directories(Platform::Linux, home.path(), &[]);
    let listed = listed(&found);
    for file in files {
        assert!(listed.contains(&format!("/{file} ")), "{file}\n{listed}");
    }
    assert!(!listed.contains("readme") && !listed.contains("/.config/opencode/opencode.json "), "{listed}");
    found.here = home.path().to_owned();
    let locations = found.locations();
    assert_eq!(locations.iter().filter(|location| location.path.ends_with(".cursor/mcp.json")).count(), 1);
}

#[test]
fn client_is_found_by_its_names() {
    for (word, client) in
        [("Claude-Code", Client::ClaudeCode), ("gemini-cli", Client::GeminiCli), ("Roo Code", Client::Roo)]
    {
        assert_eq!(Client::named(word), Ok(client));
    }
    let unknown = Client::named("cursr").unwrap_err();
    assert!(unknown.contains("did you mean \"cursor\"?") && unknown.contains("opencode, windsurf"), "{unknown}");
    let unknown = Client::named("emacs-lisp").unwrap_err();
    assert!(!unknown.contains("did you mean") && unknown.contains("--file FILE"), "{unknown}");
    for client in Client::ALL {
        assert_eq!(Client::named(client.word()), Ok(client));
        assert_eq!(Client::named(client.title()).unwrap_or(client), client);
    }
}
