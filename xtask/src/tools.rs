//! Programs that the chores need and do not bring along, and what to do when one is not there.
//!
//! On a fresh Debian machine, as root, a missing tool is installed from the distribution, because a test command that needs a
//! list of preparations is not one command. Everywhere else it is named, together with what it is needed for.

use std::process::{Command, Stdio};

/// A program of somebody else's.
pub struct Tool {
    /// What people call it.
    pub name: &'static str,
    /// A command that succeeds where the tool is there and new enough.
    pub probe: &'static [&'static str],
    /// The Debian packages that bring it.
    pub debian: &'static [&'static str],
}

/// Runs clients and servers on the TypeScript SDKs.
pub const NODE: Tool = Tool {
    name: "Node.js 20 or newer",
    probe: &["node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"],
    debian: &["nodejs"],
};

/// Installs them.
pub const NPM: Tool = Tool { name: "npm", probe: &["npm", "--version"], debian: &["npm"] };

/// Runs clients and servers on the Python SDK, each version in an environment of its own.
pub const PYTHON: Tool = Tool {
    name: "Python 3.11 or newer with venv",
    probe: &["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"],
    debian: &["python3", "python3-venv"],
};

/// Shells in which the key that completes is pressed.
pub const SHELLS: [Tool; 2] = [
    Tool { name: "zsh", probe: &["zsh", "--version"], debian: &["zsh"] },
    Tool { name: "fish", probe: &["fish", "--version"], debian: &["fish"] },
];

/// Counts instructions.
pub const VALGRIND: Tool = Tool { name: "Valgrind", probe: &["valgrind", "--version"], debian: &["valgrind"] };

impl Tool {
    /// Makes sure that the tool is there.
    ///
    /// # Errors
    ///
    /// When it is not and cannot be installed; the text says what to install.
    pub fn ensure(&self) -> Result<(), String> {
        if succeeds(self.probe) {
            return Ok(());
        }
        let packages = self.debian.join(" ");
        let may_install = succeeds(&["sh", "-c", "test \"$(id -u)\" = 0"]) && succeeds(&["apt-get", "--version"]);
        if may_install {
            eprintln!("{} is missing: apt-get install {packages}", self.name);
            // Others may be installing, too, and networks fail.
            let patience = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"];
            let install = ["apt-get", "install", "-y", "--no-install-recommends"].into_iter().chain(patience);
            let install: Vec<&str> = install.chain(self.debian.iter().copied()).collect();
            // A fresh image has no package lists; an old one has lists that name files which are gone.
            if (succeeds(&install) || succeeds(&["apt-get", "update"]) && succeeds(&install)) && succeeds(self.probe) {
                return Ok(());
            }
        }
        Err(format!("{} is needed and missing (on Debian: apt-get install {packages})", self.name))
    }
}

/// Whether this machine has cargo-nextest, which runs tests side by side and each in a process of its own.
pub fn has_nextest() -> bool {
    succeeds(&["cargo", "nextest", "--version"])
}

/// Whether this machine has cargo-mutants, which changes the code and looks whether a test notices.
pub fn has_mutants() -> bool {
    succeeds(&["cargo", "mutants", "--version"])
}

/// Whether this machine has cargo-deny, which checks dependencies against `deny.toml`.
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
    fn a_command_that_fails_or_does_not_exist_is_no_tool() {
        assert!(succeeds(&["true"]));
        assert!(!succeeds(&["false"]));
        assert!(!succeeds(&["no-such-program-anywhere"]));
    }

    #[test]
    fn a_tool_that_is_there_is_left_alone() {
        let tool = Tool { name: "sh", probe: &["sh", "-c", "true"], debian: &["no-such-package"] };
        assert_eq!(tool.ensure(), Ok(()));
    }
}
