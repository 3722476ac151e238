//! A server that only a running process knows, for the commands that reach a server: `tools`, `call` and `run`.
//!
//! A process tells the file that it was started from, or the address of its gateway; both lead to the server. A process
//! that was started from a command line tells only the program or the host, because the rest may hold secrets. Such a
//! server is not reached by its name, and the error says what to do.

use std::path::PathBuf;
use std::time::Duration;

use mendline::control::Registry;
use mendline::control::snapshot::{Snapshot, StateKind};

use crate::cli::UNKNOWN;
use crate::joined_gateway;
use crate::named::{Named, NamedFile, Refusal, locate, own_entry, read, resolve};
use crate::plan::Plan;
use crate::server_flags::Line;

/// A server that a command line selects.
pub(crate) struct Reached {
    pub(crate) plan: Plan,
    /// Its entry, if it comes from a file.
    pub(crate) named: Option<Named>,
    /// Its URL at a running gateway, if it is reached there.
    pub(crate) gateway: Option<String>,
}

/// Returns the server that a command line selects: of a file, of the line itself, or of a running process.
pub(crate) fn reach(line: &Line<'_>) -> Result<Reached, Refusal> {
    let refusal = match resolve(line) {
        Ok((plan, named)) => return Ok(Reached { plan, named, gateway: None }),
        Err(refusal) => refusal,
    };
    let name = line.by_name().filter(|_| refusal.code == UNKNOWN && line.server.config.is_none());
    match name.and_then(|name| Some((name, find(name)?))) {
        Some((name, Place::Gateway(url))) => {
            let plan = joined_gateway::plan(name, Some(&url), line)?;
            Ok(Reached { plan, named: None, gateway: Some(url) })
        }
        Some((_, Place::File { path, entry })) => {
            let found = locate(Some(&path))?;
            let loaded = read(&found)?;
            let plan = own_entry(&loaded, &entry, line)?;
            let named = Named { plan: plan.clone(), loaded, file: NamedFile { found, section: None }, name: entry };
            Ok(Reached { plan, named: Some(named), gateway: None })
        }
        None => Err(refusal),
    }
}

/// Returns the names of running servers that [`reach`] finds.
pub(crate) fn names(within: Duration) -> Vec<String> {
    let snapshots = Registry::of_user().snapshots_within(within);
    let mut names = Vec::new();
    for snapshot in snapshots.into_iter().filter_map(|status| status.snapshot.ok()) {
        let servers = snapshot.servers.iter().map(|server| server.name.clone());
        names.extend(servers.filter(|name| place(&snapshot, name).is_some()));
    }
    names
}

/// The place where the server of a running process is found.
enum Place {
    /// An entry of a file.
    File { path: PathBuf, entry: String },
    /// A URL at a gateway.
    Gateway(String),
}

fn find(name: &str) -> Option<Place> {
    let snapshots = Registry::of_user().snapshots();
    snapshots.into_iter().find_map(|status| place(&status.snapshot.ok()?, name))
}

fn place(snapshot: &Snapshot, name: &str) -> Option<Place> {
    let is_it =
        |server: &&mendline::control::snapshot::Server| server.name == name && server.state.kind != StateKind::Stopping;
    snapshot.servers.iter().find(is_it)?;
    if let Some(gateway) = &snapshot.process.gateway {
        return Some(Place::Gateway(format!("{gateway}/mcp/{name}")));
    }
    let path = PathBuf::from(snapshot.process.configuration.as_ref()?);
    let loaded = locate(Some(&path)).and_then(|found| read(&found)).ok()?;
    // A server may run under another name than that of its entry.
    let server = loaded.servers.iter().find(|server| server.policies.name == name && !server.is_disabled)?;
    Some(Place::File { path, entry: server.name.clone() })
}
