//! The time from nothing to a client that recovers from a killed server: install, wrap, call, kill, call.
//!
//! The client is the official TypeScript SDK and reads the wrapped configuration file as a client does; the server is
//! the official everything server.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Trial, bare};
use crate::command::CommandLine;
use crate::dist::files;

/// The largest allowed time.
const MOST: Duration = Duration::from_secs(60);

const SERVER: &str = "server-everything/dist/index.js";

/// Measures pip and npm.
pub(crate) fn all(trial: &Trial) -> Result<(), String> {
    let pip = |folder: &Path| bare::pip(trial, folder);
    let npm = |folder: &Path| bare::npm_install(trial, folder);
    measure(trial, "pip", &pip)?;
    measure(trial, "npm", &npm)
}

fn measure(trial: &Trial, name: &str, install: &dyn Fn(&Path) -> Result<String, String>) -> Result<(), String> {
    let folder = trial.fresh(&format!("minute-{name}"))?;
    let begin = Instant::now();
    let program = install(&folder)?;
    let configuration = folder.join("home/.cursor/mcp.json");
    let server = trial.peers.join("node_modules/@modelcontextprotocol").join(SERVER);
    let entry = json!({ "mcpServers": { "everything": { "command": "node", "args": [server, "stdio"] } } });
    files::write(&configuration, &format!("{entry:#}\n"))?;
    let home = folder.join("home").to_string_lossy().into_owned();
    let mut wrap = vec!["wrap", "--client", "cursor", "--yes"];
    // `wrap` refuses programs in temporary folders, where this repository may be.
    if folder.starts_with(std::env::temp_dir()) {
        wrap.extend(["--binary", &program]);
    }
    CommandLine::new(&program, &wrap).env("HOME", &home).output()?;
    let client = trial.peers.join("recover.mjs");
    let args = [&*client.to_string_lossy(), &*configuration.to_string_lossy(), "everything", SERVER].map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let printed = CommandLine::new("node", &args).env("HOME", &home).output()?;
    let took = begin.elapsed();
    println!("   {name}: {} after {:.1} s", printed.trim(), took.as_secs_f64());
    if took < MOST { Ok(()) } else { Err(format!("{name} took {took:?}, more than {MOST:?}")) }
}
