//! External programs that the tasks need.
//!
//! On Debian, as root, a missing tool is installed from the distribution, so that `cargo xtask test` needs no
//! preparation. On other systems the error names the tool.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::command::CommandLine;

/// An external program.
pub struct Tool {
    /// The name for messages.
    pub name: &'static str,
    /// A command that succeeds if the tool is installed and recent enough.
    pub probe: &'static [&'static str],
    /// The Debian packages of the tool.
    pub debian: &'static [&'static str],
}

/// Runs clients and servers on the TypeScript SDKs.
pub const NODE: Tool = Tool {
    name: "Node.js 20 or newer",
    probe: &["node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"],
    debian: &["nodejs"],
};

/// Installs the TypeScript SDKs.
pub const NPM: Tool = Tool { name: "npm", probe: &["npm", "--version"], debian: &["npm"] };

/// Runs clients and servers on the Python SDK, each version in its own environment.
pub const PYTHON: Tool = Tool {
    name: "Python 3.11 or newer with venv",
    probe: &["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"],
    debian: &["python3", "python3-venv"],
};

/// Shells for the tests of completions.
pub const SHELLS: [Tool; 2] = [
    Tool { name: "zsh", probe: &["zsh", "--version"], debian: &["zsh"] },
    Tool { name: "fish", probe: &["fish", "--version"], debian: &["fish"] },
];

/// Balancers before the servers of the outage matrix. Debian keeps them in a folder that only root has in its path.
pub const BALANCERS: [Tool; 2] = [
    Tool { name: "haproxy", probe: &["sh", "-c", "PATH=$PATH:/usr/sbin haproxy -v"], debian: &["haproxy"] },
    Tool { name: "nginx", probe: &["sh", "-c", "PATH=$PATH:/usr/sbin nginx -v"], debian: &["nginx-light"] },
];

/// The packages with the programs of [`BALANCERS`], and the libraries of them that few machines have.
const UNPACKED: &[&str] = &["haproxy", "nginx", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"];

/// The browser in which login pages are clicked.
pub const CHROMIUM: Tool = Tool { name: "Chromium", probe: &["chromium", "--version"], debian: &["chromium"] };

/// The keyring of a desktop, and the bus on which programs find it.
pub const KEYRING: [Tool; 2] = [
    Tool { name: "D-Bus", probe: &["sh", "-c", "dbus-daemon --version && command -v dbus-send"], debian: &["dbus"] },
    Tool { name: "GNOME Keyring", probe: &["gnome-keyring-daemon", "--version"], debian: &["gnome-keyring"] },
];

/// Another machine to log in on, and the way to it. Debian keeps sshd in a folder that only root has in its path.
pub const SSHD: [Tool; 2] = [
    Tool { name: "ssh", probe: &["ssh", "-V"], debian: &["openssh-client"] },
    Tool { name: "sshd", probe: &["sh", "-c", "PATH=$PATH:/usr/sbin command -v sshd"], debian: &["openssh-server"] },
];

/// Counts instructions.
pub const VALGRIND: Tool = Tool { name: "Valgrind", probe: &["valgrind", "--version"], debian: &["valgrind"] };

/// Held while packages are installed.
static INSTALLING: Mutex<()> = Mutex::new(());

impl Tool {
    /// Ensures that the tool is installed.
    ///
    /// # Errors
    ///
    /// When it is missing and cannot be installed; the text names the packages.
    pub fn ensure(&self) -> Result<(), String> {
        if succeeds(self.probe) {
            return Ok(());
        }
        // Two threads must not run apt-get at the same time: `apt-get update` does not wait for its lock.
        let _only = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if succeeds(self.probe) {
            return Ok(());
        }
        let packages = self.debian.join(" ");
        let may_install = succeeds(&["sh", "-c", "test \"$(id -u)\" = 0"]) && succeeds(&["apt-get", "--version"]);
        if may_install {
            eprintln!("{} is missing: apt-get install {packages}", self.name);
            // Another installation may hold the lock, and downloads may fail.
            let retries = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"];
            let install = ["apt-get", "install", "-y", "--no-install-recommends"].into_iter().chain(retries);
            let install: Vec<&str> = install.chain(self.debian.iter().copied()).collect();
            // A fresh image has no package lists, and an old one has outdated lists.
            if (succeeds(&install) || succeeds(&["apt-get", "update"]) && succeeds(&install)) && succeeds(self.probe) {
                return Ok(());
            }
        }
        Err(format!("{} is required; install it (on Debian: apt-get install {packages})", self.name))
    }
}

/// Unpacks the Debian packages of the balancers into a folder, for users who may not install packages.
///
/// # Errors
///
/// When a package cannot be downloaded or unpacked.
pub fn unpack_balancers(folder: &Path) -> Result<(), String> {
    if folder.join("usr/sbin/haproxy").exists() && folder.join("usr/sbin/nginx").exists() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let script =
        format!("apt-get download {} && for file in *.deb; do dpkg-deb -x \"$file\" .; done", UNPACKED.join(" "));
    CommandLine::new("sh", &["-c", &script]).within(folder).run()
}

/// Returns whether cargo-nextest is installed, which runs tests in parallel in separate processes.
pub fn has_nextest() -> bool {
    succeeds(&["cargo", "nextest", "--version"])
}

/// Returns whether cargo-mutants is installed, which checks that tests detect changes of the code.
pub fn has_mutants() -> bool {
    succeeds(&["cargo", "mutants", "--version"])
}

/// Returns whether cargo-deny is installed, which checks dependencies against `deny.toml`.
pub fn has_deny() -> bool {
    succeeds(&["cargo", "deny", "--version"])
}

fn succeeds(command: &[&str]) -> bool {
    let [program, args @ ..] = command else { return false };
    let run =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{Tool, succeeds};

    #[test]
    fn failing_or_missing_command_does_not_succeed() {
        assert!(succeeds(&["true"]));
        assert!(!succeeds(&["false"]));
        assert!(!succeeds(&["no-such-program-anywhere"]));
    }

    #[test]
    fn installed_tool_is_not_reinstalled() {
        let tool = Tool { name: "sh", probe: &["sh", "-c", "true"], debian: &["no-such-package"] };
        assert_eq!(tool.ensure(), Ok(()));
    }
}
