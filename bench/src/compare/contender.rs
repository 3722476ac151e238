//! The compared programs.
//!
//! A contender is a command in front of the upstream. A new one is a new entry of [`over_stdio`] or [`over_http`].
//! Helper processes of a command are counted with it.

use std::path::Path;

use crate::plan::{Over, URL};

/// The upstream alone, which is the baseline.
pub(crate) const DIRECT: &str = "direct";
/// The handwritten relay of the transport, which is the lower bound.
pub(crate) const RELAY: &str = "relay";
/// The HTTP relay on the same libraries as Mendline, which is the lower bound with them.
pub(crate) const STACK: &str = "stack relay";
/// The contender with targets.
pub(crate) const MENDLINE: &str = "mendline";

/// The relay that Mendline's targets refer to.
pub(crate) fn floor(over: Over) -> &'static str {
    match over {
        Over::Stdio => RELAY,
        Over::Http => STACK,
    }
}

/// A column of the table.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// True if the comparison fails without it.
    pub(crate) must_work: bool,
    state: State,
}

enum State {
    /// The command. An empty command over HTTP is the upstream alone.
    Runs(Vec<String>),
    Excluded(String),
}

/// The paths of contenders that are not part of the bench.
#[derive(Default)]
pub(crate) struct Paths<'a> {
    pub(crate) mendline: Option<&'a Path>,
    pub(crate) peers: Option<&'a Path>,
}

/// Returns all contenders in the order of their columns.
pub(crate) fn all(over: Over, paths: &Paths<'_>) -> Result<Vec<Contender>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let ours = ours.display().to_string();
    Ok(match over {
        Over::Stdio => over_stdio(&ours, paths),
        Over::Http => over_http(&ours, paths),
    })
}

fn over_stdio(ours: &str, paths: &Paths<'_>) -> Vec<Contender> {
    let upstream = [ours, "upstream"];
    vec![
        required(DIRECT, &upstream),
        required(RELAY, &[&[ours, "relay", "--"], &upstream[..]].concat()),
        mendline(paths, &[&["--"], &upstream[..]].concat()),
    ]
}

fn over_http(ours: &str, paths: &Paths<'_>) -> Vec<Contender> {
    let mut all = vec![
        required(DIRECT, &[]),
        required(RELAY, &[ours, "relay", "--http", URL]),
        required(STACK, &[ours, "relay", "--stack", URL]),
        mendline(paths, &[URL]),
    ];
    let Some(peers) = paths.peers else { return all };
    let within = |path: &str| peers.join(path).display().to_string();
    // Its file per server must not go into the user's home. `env` is replaced by node after the start.
    let folder = format!("MCP_REMOTE_CONFIG_DIR={}", within("mcp-remote"));
    let remote = within("node_modules/mcp-remote/dist/proxy.js");
    all.push(if_installed(
        "mcp-remote",
        Path::new(&remote),
        &["env", &folder, "node", &remote, URL, "--allow-http", "--transport", "http-only"],
    ));
    let gateway = within("node_modules/supergateway/dist/index.js");
    all.push(if_installed(
        "supergateway",
        Path::new(&gateway),
        &["node", &gateway, "--streamableHttp", URL, "--logLevel", "none"],
    ));
    let proxy = within("python/bin/mcp-proxy");
    all.push(if_installed("mcp-proxy", Path::new(&proxy), &[&proxy, "--transport", "streamablehttp", URL]));
    all
}

fn required(name: &'static str, command: &[&str]) -> Contender {
    Contender { name, must_work: true, state: runs(command) }
}

fn mendline(paths: &Paths<'_>, args: &[&str]) -> Contender {
    match paths.mendline {
        Some(path) => {
            if_installed(MENDLINE, path, &[&[&*path.display().to_string(), "run", "--no-catalogue"], args].concat())
        }
        None => Contender {
            name: MENDLINE,
            must_work: false,
            state: State::Excluded("no --mendline PATH was given".into()),
        },
    }
}

/// A contender that is excluded if this file does not exist.
fn if_installed(name: &'static str, file: &Path, command: &[&str]) -> Contender {
    let state = if file.is_file() { runs(command) } else { State::Excluded(format!("there is no {}", file.display())) };
    Contender { name, must_work: false, state }
}

fn runs(command: &[&str]) -> State {
    State::Runs(command.iter().map(|&arg| arg.to_owned()).collect())
}

impl Contender {
    pub(crate) fn command(&self) -> Option<&[String]> {
        match &self.state {
            State::Runs(command) => Some(command),
            State::Excluded(_) => None,
        }
    }

    pub(crate) fn why_excluded(&self) -> Option<&str> {
        match &self.state {
            State::Runs(_) => None,
            State::Excluded(why) => Some(why),
        }
    }

    pub(crate) fn exclude(&mut self, why: String) {
        self.state = State::Excluded(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_peers_are_excluded_with_the_missing_file() {
        let paths = Paths { mendline: None, peers: Some(Path::new("/nowhere")) };
        let contenders = all(Over::Http, &paths).unwrap();
        for name in ["mcp-remote", "supergateway", "mcp-proxy"] {
            let peer = contenders.iter().find(|contender| contender.name == name).unwrap();
            assert!(peer.why_excluded().unwrap().contains("/nowhere/"), "{name}");
        }
    }

    #[test]
    fn every_http_contender_but_direct_gets_the_url() {
        let contenders = all(Over::Http, &Paths { mendline: std::env::current_exe().ok().as_deref(), peers: None });
        for contender in contenders.unwrap() {
            let command = contender.command().unwrap();
            assert_eq!(contender.name == DIRECT, command.is_empty());
            assert!(command.is_empty() || command.iter().any(|arg| arg == URL), "{}", contender.name);
        }
    }
}
