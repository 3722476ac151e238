//! The compared bridges: programs between a client on stdio and a server at a URL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::report_progress;
use super::trial::FaultCase;

/// Proxy variables of the machine, which are removed from the environment.
const PROXIES: [&str; 6] = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// One bridge.
pub(super) struct Bridge {
    pub(super) name: &'static str,
    pub(super) version: String,
    args: Vec<String>,
    /// The home directory of the bridge, so that it does not write into the user's.
    home: PathBuf,
}

/// Returns all installed bridges, Mendline first.
pub(super) fn all(mendline: &Path, peers: Option<&Path>, fastmcp: Option<&Path>) -> Vec<Bridge> {
    let mut all = Vec::new();
    let mut add = |name, version: Option<String>, home: &Path, args: &[&str]| match version {
        Some(version) => {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            all.push(Bridge { name, version, args, home: home.join("home") });
        }
        None => report_progress(&format!("{name} is not installed in {}: skipped", home.display())),
    };
    let text = |path: PathBuf| path.display().to_string();
    let here = mendline.parent().unwrap_or(mendline);
    add("Mendline", version_of_mendline(mendline), here, &[&text(mendline.to_owned()), "run", "--log-level", "off"]);
    if let Some(peers) = peers {
        let script = |path| text(peers.join("node_modules").join(path));
        let version = |package: &str| version_in_json(&peers.join("node_modules").join(package).join("package.json"));
        let remote = script("mcp-remote/dist/proxy.js");
        add(
            "mcp-remote",
            version("mcp-remote"),
            peers,
            &["node", &remote, "{url}", "--allow-http", "--transport", "http-only"],
        );
        let gateway = script("supergateway/dist/index.js");
        add(
            "supergateway",
            version("supergateway"),
            peers,
            &["node", &gateway, "--logLevel", "none", "--streamableHttp"],
        );
        let python = peers.join("python");
        let proxy = text(python.join("bin/mcp-proxy"));
        add("mcp-proxy", version_in_python(&python, "mcp_proxy"), peers, &[&proxy, "--transport", "streamablehttp"]);
    }
    if let Some(python) = fastmcp {
        let program = text(python.join("bin/fastmcp"));
        add(
            "FastMCP",
            version_in_python(python, "fastmcp"),
            python,
            &[&program, "run", "--no-banner", "--transport", "stdio"],
        );
    }
    all
}

impl Bridge {
    /// Returns the command of the bridge in front of this URL.
    pub(super) fn command(&self, url: &str, case: FaultCase) -> std::io::Result<Command> {
        fs::create_dir_all(&self.home)?;
        let mut args = self.args.clone();
        if self.name == "Mendline" {
            args.extend(case.mendline_options().iter().map(|&arg| arg.to_owned()));
        }
        match args.iter_mut().find(|arg| *arg == "{url}") {
            Some(placeholder) => url.clone_into(placeholder),
            None => args.push(url.to_owned()),
        }
        let mut command = Command::new(&args[0]);
        command.args(&args[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for name in PROXIES {
            command.env_remove(name);
        }
        for name in ["HOME", "MCP_REMOTE_CONFIG_DIR", "MENDLINE_STATE_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            command.env(name, &self.home);
        }
        Ok(command)
    }
}

fn version_of_mendline(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1)?.to_owned())
}

fn version_in_json(path: &Path) -> Option<String> {
    let package: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some(package["version"].as_str()?.to_owned())
}

/// Reads the version from the name of the package's `.dist-info` folder.
fn version_in_python(python: &Path, package: &str) -> Option<String> {
    let entries = |path: &Path| fs::read_dir(path).ok().into_iter().flatten().flatten().map(|entry| entry.file_name());
    let library = python.join("lib");
    entries(&library).find_map(|python| {
        entries(&library.join(python).join("site-packages")).find_map(|name| {
            let name = name.to_str()?.strip_suffix(".dist-info")?.to_owned();
            name.strip_prefix(package)?.strip_prefix('-').map(str::to_owned)
        })
    })
}
