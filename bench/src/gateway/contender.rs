//! The compared gateways.
//!
//! A contender is a command that listens on a port and serves MCP over HTTP, with the upstream behind it. Not every peer
//! can serve both kinds of upstreams.

use std::path::Path;

use crate::plan::URL;

/// The upstream without a gateway.
pub(super) const DIRECT: &str = "direct";
/// The smallest program that does the same.
pub(super) const FLOOR: &str = "floor";
/// The contender with targets.
pub(super) const MENDLINE: &str = "mendline";

/// The placeholder for the port in a command.
pub(super) const PORT: &str = "{port}";

/// The kind of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Http,
    Stdio,
}

impl Behind {
    pub(super) const ALL: [Self; 2] = [Self::Http, Self::Stdio];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

/// A program in front of the upstream.
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// Empty for the upstream alone.
    pub(super) command: Vec<String>,
    /// The path at which it serves MCP.
    pub(super) path: &'static str,
}

/// The paths of programs that are not part of the bench.
#[derive(Default)]
pub(super) struct Paths<'a> {
    pub(super) mendline: Option<&'a Path>,
    /// The folder of the packages from npm and of `mcp-proxy` from PyPI.
    pub(super) peers: Option<&'a Path>,
    /// The Python of FastMCP.
    pub(super) fastmcp: Option<&'a Path>,
}

/// Returns the contenders that are installed.
pub(super) fn all(behind: Behind, paths: &Paths<'_>) -> Result<Vec<Contender>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    let upstream = format!("{ours} upstream");
    // The last arguments of our own programs: the URL, or the command.
    let target: &[&str] = match behind {
        Behind::Http => &[URL],
        Behind::Stdio => &["--", &ours, "upstream"],
    };
    let listen = format!("127.0.0.1:{PORT}");
    let mut all = vec![contender(DIRECT, &[]), contender(FLOOR, &[&[&ours, "forward", PORT], target].concat())];
    if let Some(mendline) = paths.mendline {
        let mendline = mendline.display().to_string();
        all.push(contender(MENDLINE, &[&[&mendline, "serve", "--listen", &listen], target].concat()));
    }
    if let Some(peers) = paths.peers {
        all.extend(of_npm_and_pypi(behind, peers, &ours, &upstream));
    }
    if let Some(python) = paths.fastmcp.filter(|python| python.join("bin/python").is_file()) {
        let python = python.join("bin/python").display().to_string();
        let script = fastmcp_script(behind, &ours);
        all.push(contender("FastMCP", &[&python, "-c", &script, PORT, URL]));
    }
    Ok(all)
}

/// The peers that serve a command only.
fn of_npm_and_pypi(behind: Behind, peers: &Path, ours: &str, upstream: &str) -> Vec<Contender> {
    let mut found = Vec::new();
    if behind == Behind::Http {
        return found;
    }
    let within = |path: &str| peers.join(path).display().to_string();
    let is_installed = |path: &str| peers.join(path).is_file();
    let npm = "node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs";
    if is_installed(npm) {
        found.push(contender(
            "npm mcp-proxy",
            &[
                "node",
                &within(npm),
                "--host",
                "127.0.0.1",
                "--port",
                PORT,
                "--server",
                "stream",
                "--",
                ours,
                "upstream",
            ],
        ));
    }
    let gateway = "node_modules/supergateway/dist/index.js";
    if is_installed(gateway) {
        let transport = ["--outputTransport", "streamableHttp", "--stateful", "--port", PORT, "--logLevel", "none"];
        found.push(contender(
            "supergateway",
            &[&["node", &within(gateway), "--stdio", upstream], &transport[..]].concat(),
        ));
    }
    let python = "python/bin/mcp-proxy";
    if is_installed(python) {
        found.push(contender("PyPI mcp-proxy", &[&within(python), "--port", PORT, "--", ours, "upstream"]));
    }
    found
}

/// The program on FastMCP: its documented proxy, served over HTTP.
fn fastmcp_script(behind: Behind, ours: &str) -> String {
    let target = match behind {
        Behind::Http => "sys.argv[2]".to_owned(),
        Behind::Stdio => format!("{{'mcpServers': {{'bench': {{'command': {ours:?}, 'args': ['upstream']}}}}}}"),
    };
    format!(
        "import sys\nfrom fastmcp.server import create_proxy\n\
         create_proxy({target}).run(transport='http', host='127.0.0.1', port=int(sys.argv[1]), show_banner=False, log_level='error')"
    )
}

fn contender(name: &'static str, command: &[&str]) -> Contender {
    Contender { name, command: command.iter().map(|&arg| arg.to_owned()).collect(), path: "/mcp" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gateway_gets_a_port_and_its_upstream() {
        let ours = std::env::current_exe().unwrap();
        for behind in Behind::ALL {
            let all = all(behind, &Paths { mendline: Some(&ours), ..Paths::default() }).unwrap();
            assert_eq!(all.iter().map(|it| it.name).collect::<Vec<_>>(), [DIRECT, FLOOR, MENDLINE]);
            for contender in &all[1..] {
                assert!(contender.command.iter().any(|arg| arg.contains(PORT)), "{}", contender.name);
                let gets_url = contender.command.iter().any(|arg| arg == URL);
                assert_eq!(gets_url, behind == Behind::Http, "{}", contender.name);
            }
        }
    }

    #[test]
    fn peers_that_are_not_installed_are_left_out() {
        let nowhere = Path::new("/nowhere");
        let paths = Paths { mendline: None, peers: Some(nowhere), fastmcp: Some(nowhere) };
        assert_eq!(all(Behind::Stdio, &paths).unwrap().len(), 2);
    }
}
