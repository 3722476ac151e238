//! The configuration files of clients.
//!
//! Each client has a file of the user, and most have one in a project, which is shared. Missing files are listed, too,
//! for the error message if none is found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mendline::os::directories;

use super::document::Section;

/// A supported client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    VsCode,
    Codex,
}

impl Client {
    pub(crate) const ALL: [Client; 5] =
        [Client::ClaudeCode, Client::ClaudeDesktop, Client::Cursor, Client::VsCode, Client::Codex];

    /// Returns the name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Client::ClaudeCode => "claude-code",
            Client::ClaudeDesktop => "claude-desktop",
            Client::Cursor => "cursor",
            Client::VsCode => "vscode",
            Client::Codex => "codex",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Client::ClaudeCode => "Claude Code",
            Client::ClaudeDesktop => "Claude Desktop",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::Codex => "Codex",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Client> {
        Client::ALL.into_iter().find(|client| client.word() == word)
    }
}

/// Scope of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// For this user, everywhere.
    User,
    /// For all who work on the project in this directory: the file is shared.
    Project,
    /// For this user, in this directory (Claude Code).
    Local,
}

impl Scope {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
        }
    }
}

/// A file, and a section of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigLocation {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
    pub(crate) section: Section,
}

/// The directories that determine where files are.
pub(crate) struct ClientDirectories {
    pub(crate) home: PathBuf,
    /// The directory in which programs keep their settings.
    pub(crate) settings: PathBuf,
    pub(crate) here: PathBuf,
    pub(crate) claude: Option<PathBuf>,
    pub(crate) codex: Option<PathBuf>,
}

impl ClientDirectories {
    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Result<ClientDirectories, String> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        let home = variable(directories::HOME)
            .ok_or("there is no home directory: HOME is not set; name a file with --file")?;
        let settings = directories::settings(&home, variable);
        let here = std::env::current_dir().map_err(|error| format!("there is no working directory: {error}"))?;
        let (claude, codex) = (variable("CLAUDE_CONFIG_DIR"), variable("CODEX_HOME"));
        Ok(ClientDirectories { home, settings, here, claude, codex })
    }

    /// Returns the directory that files of a scope belong to.
    pub(crate) fn root(&self, scope: Scope) -> &Path {
        match scope {
            Scope::User | Scope::Local => &self.home,
            Scope::Project => &self.here,
        }
    }

    /// Returns every location of every client, existing or not.
    pub(crate) fn locations(&self) -> Vec<ConfigLocation> {
        let ClientDirectories { home, settings, here, .. } = self;
        let claude = self.claude.as_ref().unwrap_or(home).join(".claude.json");
        let codex = self.codex.clone().unwrap_or_else(|| home.join(".codex")).join("config.toml");
        let local = ["projects", &here.to_string_lossy(), "mcpServers"].map(str::to_owned).to_vec();
        let location = |client, scope, path: PathBuf, section: &str| ConfigLocation {
            client,
            scope,
            path,
            section: vec![section.to_owned()],
        };
        let mut locations = vec![
            location(Client::ClaudeCode, Scope::User, claude.clone(), "mcpServers"),
            ConfigLocation { client: Client::ClaudeCode, scope: Scope::Local, path: claude, section: local },
            location(Client::ClaudeCode, Scope::Project, here.join(".mcp.json"), "mcpServers"),
            location(
                Client::ClaudeDesktop,
                Scope::User,
                settings.join("Claude/claude_desktop_config.json"),
                "mcpServers",
            ),
            location(Client::Cursor, Scope::User, home.join(".cursor/mcp.json"), "mcpServers"),
            location(Client::Cursor, Scope::Project, here.join(".cursor/mcp.json"), "mcpServers"),
        ];
        locations
            .extend(self.vscode_files().into_iter().map(|path| location(Client::VsCode, Scope::User, path, "servers")));
        locations.push(location(Client::VsCode, Scope::Project, here.join(".vscode/mcp.json"), "servers"));
        locations.push(location(Client::Codex, Scope::User, codex, "mcp_servers"));
        locations.push(location(Client::Codex, Scope::Project, here.join(".codex/config.toml"), "mcp_servers"));
        // In the home directory, a project's file and the user's file may be the same.
        let mut seen: Vec<ConfigLocation> = Vec::new();
        for location in locations {
            if !seen.iter().any(|other| other.path == location.path && other.section == location.section) {
                seen.push(location);
            }
        }
        seen
    }

    /// Returns the file of VS Code, those of its profiles, and those of its variants if they exist.
    fn vscode_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.settings.join("Code/User/mcp.json")];
        for sibling in ["Code - Insiders", "VSCodium"] {
            files.extend(Some(self.settings.join(sibling).join("User/mcp.json")).filter(|path| path.exists()));
        }
        files.extend(profiles(&self.settings.join("Code/User/profiles")));
        files
    }
}

/// Maximum number of profiles.
const MOST_PROFILES: usize = 100;

fn profiles(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST_PROFILES);
    let files = entries.filter_map(|entry| Some(entry.ok()?.path().join("mcp.json")));
    let mut files: Vec<PathBuf> = files.filter(|path| path.exists()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(home: &Path) -> ClientDirectories {
        let here = home.join("garden");
        ClientDirectories { home: home.to_owned(), settings: home.join(".config"), here, claude: None, codex: None }
    }

    #[test]
    fn every_client_has_its_locations() {
        let locations = directories(Path::new("/home/me")).locations();
        let told: Vec<String> = locations
            .iter()
            .map(|location| {
                format!(
                    "{} {} {} {:?}",
                    location.client.word(),
                    location.scope.word(),
                    location.path.display(),
                    location.section
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "claude-code user /home/me/.claude.json [\"mcpServers\"]",
                "claude-code local /home/me/.claude.json [\"projects\", \"/home/me/garden\", \"mcpServers\"]",
                "claude-code project /home/me/garden/.mcp.json [\"mcpServers\"]",
                "claude-desktop user /home/me/.config/Claude/claude_desktop_config.json [\"mcpServers\"]",
                "cursor user /home/me/.cursor/mcp.json [\"mcpServers\"]",
                "cursor project /home/me/garden/.cursor/mcp.json [\"mcpServers\"]",
                "vscode user /home/me/.config/Code/User/mcp.json [\"servers\"]",
                "vscode project /home/me/garden/.vscode/mcp.json [\"servers\"]",
                "codex user /home/me/.codex/config.toml [\"mcp_servers\"]",
                "codex project /home/me/garden/.codex/config.toml [\"mcp_servers\"]",
            ]
        );
    }

    #[test]
    fn directories_from_the_environment_are_used() {
        let mut moved = directories(Path::new("/home/me"));
        moved.claude = Some("/c".into());
        moved.codex = Some("/x".into());
        let paths: Vec<PathBuf> = moved.locations().into_iter().map(|location| location.path).collect();
        assert!(paths.contains(&"/c/.claude.json".into()) && paths.contains(&"/x/config.toml".into()), "{paths:?}");
    }

    #[test]
    fn editor_profiles_are_found_and_locations_are_unique() {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().join(".config/Code/User/profiles/-1a/mcp.json");
        std::fs::create_dir_all(profile.parent().unwrap()).unwrap();
        std::fs::write(&profile, "{}").unwrap();
        let mut at_home = directories(home.path());
        at_home.here = home.path().to_owned();
        let locations = at_home.locations();
        assert!(locations.iter().any(|location| location.path == profile));
        assert_eq!(locations.iter().filter(|location| location.path.ends_with(".cursor/mcp.json")).count(), 1);
    }
}
