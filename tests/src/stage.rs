//! Who plays: the clients, the servers, and a conversation between two of them with taps on the pipes.
//!
//! Everything that is not ours is installed by `cargo xtask peers` below `target/peers/`; what is missing is said together
//! with that command. The logs of each conversation stay in `target/peers/runs/` for whoever wants to read them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::chance;
use crate::transcript::Transcript;

/// The official clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// PyPI `mcp` 1.27.
    Python1,
    /// PyPI `mcp` 2.3.
    Python2,
    /// npm `@modelcontextprotocol/sdk` 1.32.
    TypeScript1,
    /// npm `@modelcontextprotocol/client` 2.4.
    TypeScript2,
    /// crates.io `rmcp` 3.8.
    Rust,
}

/// The servers, each with the script that provokes what it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A server of our own on PyPI `mcp` 2.3, in both eras.
    Fixture,
    /// npm `@modelcontextprotocol/server-everything`, legacy only.
    Everything,
}

/// The era that the client opens the conversation in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize`.
    Legacy,
    /// `server/discover`, revision 2026-07-28.
    Modern,
    /// `server/discover`, and `initialize` when the server does not know it.
    Probing,
}

/// The programs of this workspace that take part.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Our tap.
    pub tap: PathBuf,
    /// The client on rmcp.
    pub rmcp_client: PathBuf,
    /// Mendline's own command.
    pub mendline: PathBuf,
}

/// A conversation that was held.
#[derive(Debug)]
pub struct Played {
    /// What the client's API returned, without chance.
    pub report: Value,
    /// What went over the client's pipes.
    pub client_side: Transcript,
    /// What went over the server's pipes: the same as `client_side` when nothing stood between.
    pub server_side: Transcript,
}

/// One pair of peers.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Who asks.
    pub client: Client,
    /// Who answers.
    pub server: Server,
    /// How they speak.
    pub era: Era,
    /// What we bring along.
    pub programs: Programs,
}

impl Stage {
    /// Plays the script without Mendline: client, tap, server.
    ///
    /// # Errors
    ///
    /// When something is not installed, the client fails, or its report or the tap's log cannot be read.
    pub fn play_directly(&self, name: &str) -> Result<Played, String> {
        let folder = self.folder(name)?;
        let log = folder.join("pipe.log");
        let report = self.play(&folder, &self.tapped(&log, self.server_command()?))?;
        let transcript = read(&log)?;
        Ok(Played { report, client_side: transcript.clone(), server_side: transcript })
    }

    /// Plays the script through Mendline: client, tap, `mendline run`, tap, server.
    ///
    /// # Errors
    ///
    /// As [`Self::play_directly`].
    pub fn play_bridged(&self, name: &str) -> Result<Played, String> {
        let folder = self.folder(name)?;
        let (outer, inner) = (folder.join("client-side.log"), folder.join("server-side.log"));
        let mut bridged: Vec<OsString> = vec![present(&self.programs.mendline)?.into(), "run".into(), "--".into()];
        bridged.extend(self.tapped(&inner, self.server_command()?));
        let report = self.play(&folder, &self.tapped(&outer, bridged))?;
        Ok(Played { report, client_side: read(&outer)?, server_side: read(&inner)? })
    }

    fn play(&self, folder: &Path, command: &[OsString]) -> Result<Value, String> {
        let (out, err) = (folder.join("report.json"), folder.join("stderr.txt"));
        let [client, client_args @ ..] = &self.client_command()?[..] else { return Err("no client".into()) };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(match self.server {
            Server::Fixture => "fixture.json",
            Server::Everything => "everything.json",
        });
        let era = match self.era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
            Era::Probing => "probing",
        };
        let status = Command::new(client)
            .args(client_args)
            .arg(script)
            .arg(era)
            .args(command)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).map_err(|why| why.to_string())?)
            .stderr(fs::File::create(&err).map_err(|why| why.to_string())?)
            .status()
            .map_err(|why| format!("{}: {why}", client.display()))?;
        if !status.success() {
            let said = fs::read_to_string(&err).unwrap_or_default();
            let last: Vec<_> = said.lines().rev().take(30).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            return Err(format!("{:?} failed ({status}) in {}:\n{}", self.client, folder.display(), last.join("\n")));
        }
        let report = fs::read(&out).map_err(|why| why.to_string())?;
        let mut report = serde_json::from_slice(&report).map_err(|why| format!("{}: {why}", out.display()))?;
        chance::taken_out_of_report(&mut report);
        Ok(report)
    }

    fn client_command(&self) -> Result<Vec<OsString>, String> {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/client.py");
        Ok(match self.client {
            Client::Python1 => vec![installed("python-1/bin/python")?.into(), python.into()],
            Client::Python2 => vec![installed("python-2/bin/python")?.into(), python.into()],
            Client::TypeScript1 => vec!["node".into(), installed("node/client-v1.mjs")?.into()],
            Client::TypeScript2 => vec!["node".into(), installed("node/client-v2.mjs")?.into()],
            Client::Rust => vec![present(&self.programs.rmcp_client)?.into()],
        })
    }

    fn server_command(&self) -> Result<Vec<OsString>, String> {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/server.py");
        let everything = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        Ok(match self.server {
            Server::Fixture => vec![installed("python-2/bin/python")?.into(), fixture.into()],
            Server::Everything => vec!["node".into(), installed(everything)?.into(), "stdio".into()],
        })
    }

    fn tapped(&self, log: &Path, command: Vec<OsString>) -> Vec<OsString> {
        let mut tapped = vec![self.programs.tap.clone().into(), log.into(), "--".into()];
        tapped.extend(command);
        tapped
    }

    /// An empty folder for the logs of one conversation.
    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = home().join("runs").join(format!("{:?}-{:?}-{:?}", self.client, self.era, self.server)).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(folder)
    }
}

/// Where the peers are installed.
fn home() -> PathBuf {
    std::env::var_os("MENDLINE_PEERS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers"), PathBuf::from)
}

fn installed(path: &str) -> Result<PathBuf, String> {
    present(&home().join(path))
}

fn present(path: &Path) -> Result<PathBuf, String> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    Err(format!("{} is missing; `cargo xtask peers` installs and builds what these tests need", path.display()))
}

fn read(log: &Path) -> Result<Transcript, String> {
    Transcript::read(log).map_err(|why| why.to_string())
}
