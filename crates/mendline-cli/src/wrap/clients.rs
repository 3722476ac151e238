//! The configuration files of clients.
//!
//! Each client has a file of the user, and most have one in a project, which is shared. Missing files are listed, too,
//! for the error message if none is found. The paths of all systems are data, so that each can be tested on any.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mendline::os::directories::{self, Platform};
use mendline_config::nearest;

use super::document::Section;

/// A supported client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    VsCode,
    Codex,
    GeminiCli,
    OpenCode,
    Windsurf,
    Cline,
    Roo,
    Zed,
    Goose,
    Continue,
    Junie,
}

impl Client {
    pub(crate) const ALL: [Client; 14] = [
        Client::ClaudeCode,
        Client::ClaudeDesktop,
        Client::Cursor,
        Client::VsCode,
        Client::Codex,
        Client::GeminiCli,
        Client::OpenCode,
        Client::Windsurf,
        Client::Cline,
        Client::Roo,
        Client::Zed,
        Client::Goose,
        Client::Continue,
        Client::Junie,
    ];

    /// Returns the name on the command line.
    pub(crate) fn word(self) -> &'static str {
        self.names().0
    }

    pub(crate) fn title(self) -> &'static str {
        self.names().1
    }

    /// Returns the name on the command line, the title, and other names that people use.
    fn names(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Client::ClaudeCode => ("claude-code", "Claude Code", &["claude"]),
            Client::ClaudeDesktop => ("claude-desktop", "Claude Desktop", &[]),
            Client::Cursor => ("cursor", "Cursor", &[]),
            Client::VsCode => ("vscode", "VS Code", &["vs-code", "code", "copilot"]),
            Client::Codex => ("codex", "Codex", &[]),
            Client::GeminiCli => ("gemini", "Gemini CLI", &["gemini-cli"]),
            Client::OpenCode => ("opencode", "opencode", &["open-code"]),
            Client::Windsurf => ("windsurf", "Windsurf", &["codeium"]),
            Client::Cline => ("cline", "Cline", &[]),
            Client::Roo => ("roo", "Roo Code", &["roo-code", "roo-cline"]),
            Client::Zed => ("zed", "Zed", &[]),
            Client::Goose => ("goose", "Goose", &[]),
            Client::Continue => ("continue", "Continue", &[]),
            Client::Junie => ("junie", "JetBrains Junie", &["jetbrains", "intellij"]),
        }
    }

    /// Returns the client of this name. An error names the nearest one, and all.
    pub(crate) fn named(word: &str) -> Result<Client, String> {
        let wanted = word.to_lowercase().replace([' ', '_'], "-");
        let is_meant = |client: &Client| {
            let (name, _, others) = client.names();
            name == wanted || others.contains(&wanted.as_str())
        };
        Client::ALL.into_iter().find(is_meant).ok_or_else(|| {
            let known = Client::ALL.map(Client::word);
            let others = Client::ALL.iter().flat_map(|client| client.names().2.iter().copied());
            let meant = nearest(&wanted, known.into_iter().chain(others));
            let meant = meant.and_then(|near| Client::named(near).ok()).map(Client::word);
            let hint = meant.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
            format!("no client is called {word:?}; {hint}known are {}; any other file: --file FILE", known.join(", "))
        })
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
    pub(crate) platform: Platform,
    pub(crate) home: PathBuf,
    /// The directory in which desktop programs keep their settings.
    pub(crate) settings: PathBuf,
    /// The directory in which programs with XDG directories keep their settings, on every system.
    pub(crate) xdg_settings: PathBuf,
    pub(crate) here: PathBuf,
    pub(crate) claude: Option<PathBuf>,
    pub(crate) codex: Option<PathBuf>,
    /// The file that opencode reads besides its usual ones.
    pub(crate) opencode: Option<PathBuf>,
}

/// Editors of the family of VS Code, by the name of their directory.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];

/// Directories of VS Code for work on this machine from another one, below the home directory.
const EDITOR_SERVERS: [&str; 3] = [".vscode-server", ".vscode-server-insiders", ".cursor-server"];

impl ClientDirectories {
    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Result<ClientDirectories, String> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        let home = variable(directories::HOME)
            .ok_or("there is no home directory: HOME is not set; name a file with --file")?;
        let here = std::env::current_dir().map_err(|error| format!("there is no working directory: {error}"))?;
        Ok(ClientDirectories::new(Platform::CURRENT, &home, here, variable))
    }

    /// Returns the directories of a user with this home directory and these variables.
    pub(crate) fn new(
        platform: Platform,
        home: &Path,
        here: PathBuf,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> ClientDirectories {
        ClientDirectories {
            platform,
            home: home.to_owned(),
            settings: platform.settings(home, &variable),
            xdg_settings: directories::xdg_settings(home, &variable),
            here,
            claude: variable("CLAUDE_CONFIG_DIR"),
            codex: variable("CODEX_HOME"),
            opencode: variable("OPENCODE_CONFIG"),
        }
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
        // In the home directory, a project's file and the user's file may be the same.
        let mut seen: Vec<ConfigLocation> = Vec::new();
        for location in Client::ALL.into_iter().flat_map(|client| self.locations_of(client)) {
            if !seen.iter().any(|other| other.path == location.path && other.section == location.section) {
                seen.push(location);
            }
        }
        seen
    }

    /// Returns every location of a client, existing or not. The first one of a scope is its usual one.
    pub(crate) fn locations_of(&self, client: Client) -> Vec<ConfigLocation> {
        let sections = self.sections(client);
        let files = self.files(client);
        let mut locations = Vec::new();
        for (scope, path) in files {
            // The file of Claude Code has a section for each project besides that of the user.
            let local = (client == Client::ClaudeCode && scope == Scope::User).then(|| {
                (Scope::Local, ["projects", &self.here.to_string_lossy(), "mcpServers"].map(str::to_owned).to_vec())
            });
            let all = sections.iter().map(|section| (scope, section.clone())).chain(local);
            locations.extend(all.map(|(scope, section)| ConfigLocation { client, scope, path: path.clone(), section }));
        }
        locations
    }

    /// Returns the sections in which a client has its servers; the first is the usual one.
    fn sections(&self, client: Client) -> Vec<Section> {
        let paths: &[&[&str]] = match client {
            Client::VsCode => &[&["servers"]],
            Client::Codex => &[&["mcp_servers"]],
            Client::OpenCode => &[&["mcp"], &["mcp", "servers"]],
            Client::Zed => &[&["context_servers"]],
            Client::Goose => &[&["extensions"]],
            _ => &[&["mcpServers"]],
        };
        paths.iter().map(|path| path.iter().map(|key| (*key).to_owned()).collect()).collect()
    }

    /// Returns the files of a client.
    fn files(&self, client: Client) -> Vec<(Scope, PathBuf)> {
        let ClientDirectories { home, settings, xdg_settings, here, platform, .. } = self;
        let is_windows = *platform == Platform::Windows;
        let (mut user, project): (Vec<PathBuf>, Vec<PathBuf>) = match client {
            Client::ClaudeCode => {
                (vec![self.claude.as_ref().unwrap_or(home).join(".claude.json")], vec![here.join(".mcp.json")])
            }
            Client::ClaudeDesktop => (vec![settings.join("Claude/claude_desktop_config.json")], Vec::new()),
            Client::Cursor => (vec![home.join(".cursor/mcp.json")], vec![here.join(".cursor/mcp.json")]),
            Client::VsCode => (self.vscode_files(), vec![here.join(".vscode/mcp.json")]),
            Client::Codex => {
                let folder = self.codex.clone().unwrap_or_else(|| home.join(".codex"));
                (vec![folder.join("config.toml")], vec![here.join(".codex/config.toml")])
            }
            Client::GeminiCli => (vec![home.join(".gemini/settings.json")], vec![here.join(".gemini/settings.json")]),
            Client::OpenCode => (
                either(&xdg_settings.join("opencode"), &["opencode.json", "opencode.jsonc", "config.json"]),
                [either(here, OPENCODE), existing(&here.join(".opencode"), OPENCODE)].concat(),
            ),
            Client::Windsurf => {
                (either(&home.join(".codeium"), &["windsurf/mcp_config.json", "mcp_config.json"]), Vec::new())
            }
            Client::Cline => (self.cline_files(), Vec::new()),
            Client::Roo => (
                self.extension_files(
                    "rooveterinaryinc.roo-cline",
                    &["settings/mcp_settings.json", "settings/cline_mcp_settings.json"],
                ),
                vec![here.join(".roo/mcp.json")],
            ),
            Client::Zed => {
                let folder = if is_windows { settings.join("Zed") } else { xdg_settings.join("zed") };
                (vec![folder.join("settings.json")], vec![here.join(".zed/settings.json")])
            }
            Client::Goose => {
                let windows = settings.join("Block/goose/config/config.yaml");
                (vec![if is_windows { windows } else { xdg_settings.join("goose/config.yaml") }], Vec::new())
            }
            Client::Continue => (continue_files(home), blocks(&here.join(".continue/mcpServers"))),
            Client::Junie => (vec![home.join(".junie/mcp/mcp.json")], vec![here.join(".junie/mcp/mcp.json")]),
        };
        if client == Client::OpenCode {
            user.extend(self.opencode.clone().filter(|file| file.is_absolute()));
        }
        let scoped = |scope: Scope, files: Vec<PathBuf>| files.into_iter().map(move |file| (scope, file));
        scoped(Scope::User, user).chain(scoped(Scope::Project, project)).collect()
    }

    /// Returns the file of VS Code, those of its profiles, and those of its variants if they exist.
    fn vscode_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.settings.join("Code/User/mcp.json")];
        for editor in &EDITORS[..3] {
            let user = self.settings.join(editor).join("User");
            files.extend(existing(&user, &["mcp.json"]));
            files.extend(profiles(&user.join("profiles")));
        }
        for server in &EDITOR_SERVERS[..2] {
            files.extend(existing(&self.home.join(server).join("data/User"), &["mcp.json"]));
        }
        files
    }

    fn cline_files(&self) -> Vec<PathBuf> {
        let mut files = self.extension_files("saoudrizwan.claude-dev", &["settings/cline_mcp_settings.json"]);
        files.extend(existing(&self.home.join(".cline/data"), &["settings/cline_mcp_settings.json"]));
        files
    }

    /// Returns the files of an extension of VS Code, in every editor that has it.
    fn extension_files(&self, extension: &str, names: &[&str]) -> Vec<PathBuf> {
        let storage = |editor: &str| self.settings.join(editor).join("User/globalStorage").join(extension);
        let mut files = vec![storage("Code").join(names[0])];
        for editor in EDITORS {
            files.extend(existing(&storage(editor), names));
        }
        for server in EDITOR_SERVERS {
            files.extend(existing(&self.home.join(server).join("data/User/globalStorage").join(extension), names));
        }
        files
    }
}

const OPENCODE: &[&str] = &["opencode.json", "opencode.jsonc"];

/// Returns the files of Continue: its own, the older form of it, and the blocks beside it.
fn continue_files(home: &Path) -> Vec<PathBuf> {
    let folder = home.join(".continue");
    let mut files = vec![folder.join("config.yaml")];
    files.extend(existing(&folder, &["config.yml", "config.json"]));
    files.extend(blocks(&folder.join("mcpServers")));
    files
}

/// Returns the first of these files, and the others if they exist.
fn either(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let mut files = existing(folder, names);
    if files.is_empty() {
        files.push(folder.join(names[0]));
    }
    files
}

/// Returns those of these files that exist.
fn existing(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// Maximum number of files in a folder.
const MOST_FILES: usize = 100;

fn profiles(folder: &Path) -> Vec<PathBuf> {
    sorted(folder, |path| Some(path.join("mcp.json")).filter(|path| path.exists()))
}

/// Returns the files of a folder in which each file has servers.
fn blocks(folder: &Path) -> Vec<PathBuf> {
    let is_block = |path: &PathBuf| path.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
    sorted(folder, |path| Some(path).filter(is_block))
}

fn sorted(folder: &Path, file: impl Fn(PathBuf) -> Option<PathBuf>) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST_FILES);
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| file(entry.ok()?.path())).collect();
    files.sort();
    files
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
