//! The clients, the servers, and a conversation between two of them with taps on the pipes.
//!
//! `cargo xtask peers` installs the peers below `target/peers/`; an error about a missing peer names that command. The
//! logs of each conversation stay in `target/peers/runs/`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::gateway::Gateway;
use crate::listening_server::ListeningServer;
use crate::relay::Relay;
use crate::requests::Request;
use crate::transcript::Transcript;
use crate::{nondeterminism, script};

/// The file with the output of a listening server, in the directory of its conversation.
const SERVER_LOG: &str = "server.txt";

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
    /// `rmcp` 3.8, as published.
    Rust,
}

/// The servers, each with a script for its features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A test server on PyPI `mcp` 2.3, in both eras.
    Fixture,
    /// npm `@modelcontextprotocol/server-everything`, legacy only.
    Everything,
    /// A test server on npm `@modelcontextprotocol/server` 2.4, modern only.
    TypeScript,
}

/// The era in which the client starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize`.
    Legacy,
    /// `server/discover`, revision 2026-07-28.
    Modern,
    /// `server/discover`, and `initialize` if the server does not support it.
    Probing,
}

/// The transport to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Stdio pipes to a child.
    Stdio,
    /// Streamable HTTP; in the legacy era with a session.
    Http,
    /// Streamable HTTP without a session in the legacy era.
    Stateless,
    /// The 2024-11-05 transport: one stream for all messages of the server.
    Sse,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 4] = [Self::Stdio, Self::Http, Self::Stateless, Self::Sse];

    /// Returns the name in the scripts and in the arguments of the fixture.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Stateless => "stateless",
            Self::Sse => "sse",
        }
    }

    /// Returns the path at which both servers offer it.
    pub fn path(self) -> &'static str {
        if self == Self::Sse { "/sse" } else { "/mcp" }
    }
}

/// The programs of this workspace that take part.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The tap.
    pub tap: PathBuf,
    /// The client on rmcp.
    pub rmcp_client: PathBuf,
    /// The `mendline` binary.
    pub mendline: PathBuf,
    /// The fault server.
    pub faults: PathBuf,
}

/// A conversation over stdio.
#[derive(Debug)]
pub struct StdioRun {
    /// The results of the client's API, without nondeterministic values.
    pub report: Value,
    /// The lines on the client's pipes.
    pub client_side: Transcript,
    /// The lines on the server's pipes: equal to `client_side` without Mendline.
    pub server_side: Transcript,
}

/// A direct conversation of a client with a server at a URL.
#[derive(Debug)]
pub struct DirectRun {
    /// The results of the client's API, without nondeterministic values.
    pub report: Value,
    /// The requests to the server.
    pub requests: Vec<Request>,
}

/// A conversation through Mendline with a server at a URL, without a pipe on the server's side.
#[derive(Debug)]
pub struct BridgedRun {
    /// The results of the client's API, without nondeterministic values.
    pub report: Value,
    /// The lines on the client's pipes.
    pub client_side: Transcript,
    /// The requests to the server.
    pub requests: Vec<Request>,
    /// The output of the server.
    pub server_log: String,
}

/// One pair of peers.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The client.
    pub client: Client,
    /// The server.
    pub server: Server,
    /// The era.
    pub era: Era,
    /// The transport to a server that is not a child. It also selects the skipped steps, so that conversations over
    /// stdio remain comparable.
    pub transport: Transport,
    /// The programs of this workspace.
    pub programs: Programs,
}

impl Stage {
    /// Runs the script without Mendline: client, tap, server.
    ///
    /// # Errors
    ///
    /// Fails if a program is not installed, the client fails, or its report or the log of the tap cannot be read.
    pub fn run_directly(&self, name: &str) -> Result<StdioRun, String> {
        let folder = self.folder(name)?;
        let log = folder.join("pipe.log");
        let report = self.run_script(&folder, &self.tapped(&log, self.server_command(Transport::Stdio)?))?;
        let transcript = read(&log)?;
        Ok(StdioRun { report, client_side: transcript.clone(), server_side: transcript })
    }

    /// Runs the script through Mendline: client, tap, `mendline run`, tap, server.
    ///
    /// # Errors
    ///
    /// As [`Self::run_directly`].
    pub fn run_bridged(&self, name: &str) -> Result<StdioRun, String> {
        let folder = self.folder(name)?;
        let (outer, inner) = (folder.join("client-side.log"), folder.join("server-side.log"));
        let mut bridged = self.bridge()?;
        bridged.push("--".into());
        bridged.extend(self.tapped(&inner, self.server_command(Transport::Stdio)?));
        let report = self.run_script(&folder, &self.tapped(&outer, bridged))?;
        Ok(StdioRun { report, client_side: read(&outer)?, server_side: read(&inner)? })
    }

    /// Returns the command of Mendline. It waits for the server, because a provisional answer would differ.
    fn bridge(&self) -> Result<Vec<OsString>, String> {
        let arguments = ["run", "--no-log-files", "--no-catalogue", "--startup", "wait"];
        Ok(std::iter::once(present(&self.programs.mendline)?.into()).chain(arguments.map(OsString::from)).collect())
    }

    /// Runs the script with a client that dials the server itself. Returns `None` if it cannot: the workspace has rmcp
    /// without its HTTP client, which would add a second HTTP stack to every build.
    ///
    /// # Errors
    ///
    /// As [`Self::run_directly`], and if the server does not listen in time.
    pub fn run_dialed(&self, name: &str) -> Result<Option<DirectRun>, String> {
        if self.client == Client::Rust {
            return Ok(None);
        }
        let folder = self.folder(name)?;
        let (_server, relay) = self.listening(&folder)?;
        let report = self.run_script(&folder, &[self.url(&relay).into()])?;
        Ok(Some(DirectRun { report, requests: relay.requests()? }))
    }

    /// Runs the script through Mendline with a server at a URL: client, tap, `mendline run URL`, relay, server.
    ///
    /// # Errors
    ///
    /// As [`Self::run_dialed`].
    pub fn run_remote(&self, name: &str) -> Result<BridgedRun, String> {
        let folder = self.folder(name)?;
        let log = folder.join("client-side.log");
        let (_server, relay) = self.listening(&folder)?;
        let mut bridged = self.bridge()?;
        bridged.push(self.url(&relay).into());
        let report = self.run_script(&folder, &self.tapped(&log, bridged))?;
        let server_log = fs::read_to_string(folder.join(SERVER_LOG)).map_err(|why| why.to_string())?;
        Ok(BridgedRun { report, client_side: read(&log)?, requests: relay.requests()?, server_log })
    }

    /// Runs the script with a client that dials `mendline serve URL`: client, gateway, relay, server.
    ///
    /// # Errors
    ///
    /// As [`Self::run_dialed`].
    pub fn run_through_gateway(&self, name: &str) -> Result<DirectRun, String> {
        let folder = self.folder(name)?;
        let (_server, relay) = self.listening(&folder)?;
        let gateway = Gateway::start(&self.programs, &folder, &[self.url(&relay).into()])?;
        let report = self.run_script(&folder, &[gateway.url().into()])?;
        Ok(DirectRun { report, requests: relay.requests()? })
    }

    /// Starts a listening server and the tap before it.
    fn listening(&self, folder: &Path) -> Result<(ListeningServer, Relay), String> {
        let server = ListeningServer::start(&self.server_command(self.transport)?, &folder.join(SERVER_LOG))?;
        let relay = Relay::before(server.port()).map_err(|why| why.to_string())?;
        Ok((server, relay))
    }

    fn url(&self, relay: &Relay) -> String {
        format!("http://127.0.0.1:{}{}", relay.port(), self.transport.path())
    }

    fn run_script(&self, folder: &Path, command: &[OsString]) -> Result<Value, String> {
        let (out, err, script) = (folder.join("report.json"), folder.join("stderr.txt"), folder.join("script.json"));
        let [client, client_args @ ..] = &self.client_command()?[..] else { return Err("no client".into()) };
        script::write(self.server, self.transport, &script)?;
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
            let output = fs::read_to_string(&err).unwrap_or_default();
            let last: Vec<_> = output.lines().rev().take(30).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            return Err(format!("{:?} failed ({status}) in {}:\n{}", self.client, folder.display(), last.join("\n")));
        }
        let report = fs::read(&out).map_err(|why| why.to_string())?;
        let mut report = serde_json::from_slice(&report).map_err(|why| format!("{}: {why}", out.display()))?;
        nondeterminism::remove_from_report(&mut report);
        Ok(report)
    }

    pub(crate) fn client_command(&self) -> Result<Vec<OsString>, String> {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/client.py");
        Ok(match self.client {
            Client::Python1 => vec![installed("python-1/bin/python")?.into(), python.into()],
            Client::Python2 => vec![installed("python-2/bin/python")?.into(), python.into()],
            Client::TypeScript1 => vec!["node".into(), installed("node/client-v1.mjs")?.into()],
            Client::TypeScript2 => vec!["node".into(), installed("node/client-v2.mjs")?.into()],
            Client::Rust => vec![present(&self.programs.rmcp_client)?.into()],
        })
    }

    /// Returns the command of the server.
    ///
    /// # Errors
    ///
    /// Fails if it is not installed.
    pub fn server_command(&self, transport: Transport) -> Result<Vec<OsString>, String> {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/server.py");
        let everything = || -> Result<Vec<OsString>, String> {
            let server = installed("node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")?;
            Ok(vec!["node".into(), "--import".into(), installed("node/everything.mjs")?.into(), server.into()])
        };
        Ok(match (self.server, transport) {
            (Server::Fixture, transport) => {
                vec![installed("python-2/bin/python")?.into(), fixture.into(), transport.name().into()]
            }
            (Server::TypeScript, transport) => {
                vec!["node".into(), installed("node/server-v2.mjs")?.into(), transport.name().into()]
            }
            (Server::Everything, transport) => {
                let mode = match transport {
                    Transport::Stdio => "stdio",
                    Transport::Sse => "sse",
                    Transport::Http => "streamableHttp",
                    _ => return Err(format!("server-everything is not {}", transport.name())),
                };
                let mut command = everything()?;
                command.push(mode.into());
                command
            }
        })
    }

    /// Returns a command with a tap on its pipes.
    pub fn tapped(&self, log: &Path, command: Vec<OsString>) -> Vec<OsString> {
        let mut tapped = vec![self.programs.tap.clone().into(), log.into(), "--".into()];
        tapped.extend(command);
        tapped
    }

    /// Creates an empty directory for the logs of one conversation.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let peers = format!("{:?}-{:?}-{:?}-{}", self.client, self.era, self.server, self.transport.name());
        let folder = home().join("runs").join(peers).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(folder)
    }
}

/// Returns the directory of the installed peers.
fn home() -> PathBuf {
    std::env::var_os("MENDLINE_PEERS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers"), PathBuf::from)
}

/// Returns the path of a file that `cargo xtask peers` installs.
///
/// # Errors
///
/// Fails if it does not exist.
pub fn installed(path: &str) -> Result<PathBuf, String> {
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
