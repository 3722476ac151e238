//! The Debian package by itself, and all packages in a bare Debian 11 system.

use std::path::{Path, PathBuf};

use super::Trial;
use crate::command::{CommandLine, target};
use crate::dist::{apt, deb, files};
use crate::tools::Tool;

/// Debian 11: glibc 2.31, Python 3.9, pip 20.3.
const SUITE: &str = "bullseye";

const DEBOOTSTRAP: Tool = Tool {
    name: "debootstrap",
    probe: &["sh", "-c", "PATH=$PATH:/usr/sbin command -v debootstrap"],
    debian: &["debootstrap"],
};

const LINTIAN: Tool = Tool { name: "lintian", probe: &["lintian", "--version"], debian: &["lintian"] };

/// Makes the bare system, once. Returns nothing if this process may not.
pub(crate) fn prepare() -> Result<Option<PathBuf>, String> {
    if CommandLine::new("id", &["-u"]).output()?.trim() != "0" {
        return Ok(None);
    }
    let system = target().join("dist").join(SUITE);
    let done = system.join("srv/complete");
    if !done.exists() {
        DEBOOTSTRAP.ensure()?;
        files::make_empty(&system)?;
        let packages = "--include=python3,python3-pip,python3-venv,ca-certificates";
        let args = ["--variant=minbase", packages, SUITE, &system.to_string_lossy(), "http://deb.debian.org/debian"];
        let system = ["-c", "umask 022 && exec debootstrap \"$@\"", "debootstrap"].into_iter().chain(args);
        CommandLine::new("sh", &system.collect::<Vec<_>>()).env("PATH", &with_sbin()).output()?;
        files::write(&done, "")?;
    }
    Ok(Some(system))
}

/// The path with the folders of administrators, which not every user has in it.
fn with_sbin() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Checks the package with lintian, and the units with systemd where it is installed.
pub(crate) fn lint(trial: &Trial) -> Result<(), String> {
    if let Err(why) = LINTIAN.ensure() {
        println!("   lintian: skipped: {why}");
    } else {
        let package = deb::path(&trial.release);
        CommandLine::new("lintian", &["--fail-on", "error", "--allow-root", &package.to_string_lossy()]).run()?;
    }
    if CommandLine::new("sh", &["-c", "command -v systemd-analyze >/dev/null"]).run().is_err() {
        println!("   the units are not checked, because systemd-analyze is missing");
        return Ok(());
    }
    verify_units(trial)
}

/// systemd-analyze looks for the program, so the units are checked with the path of the one that was built.
fn verify_units(trial: &Trial) -> Result<(), String> {
    let folder = trial.fresh("units")?;
    for unit in ["mendline.socket", "mendline@.service", "mendline-serve.socket", "mendline-serve.service"] {
        let text = files::read(&files::source("systemd").join(unit))?;
        files::write(&folder.join(unit), &text.replace("/usr/bin/mendline", &trial.program.to_string_lossy()))?;
    }
    files::write(&folder.join("mendline@1.service"), &files::read(&folder.join("mendline@.service"))?)?;
    let args = [
        "--user",
        "--man=no",
        "verify",
        "./mendline.socket",
        "./mendline@1.service",
        "./mendline-serve.socket",
        "./mendline-serve.service",
    ];
    CommandLine::new("systemd-analyze", &args)
        .env("XDG_RUNTIME_DIR", &folder.to_string_lossy())
        .within(&folder)
        .run()?;
    connect(trial)
}

/// Connects to a socket whose connections are stdin and stdout of the program, as those of the unit are.
fn connect(trial: &Trial) -> Result<(), String> {
    let script = files::source("test/socket_client.py");
    CommandLine::new("python3", &[&*script.to_string_lossy(), &*trial.program.to_string_lossy()]).run()
}

/// Installs the packages in a copy of the bare system.
pub(crate) fn inside(trial: &Trial, system: &Path) -> Result<(), String> {
    let release = &trial.release;
    let copy = trial.fresh("debian")?.join("system");
    let (from, to) = (system.to_string_lossy().into_owned(), copy.to_string_lossy().into_owned());
    CommandLine::new("cp", &["--archive", "--reflink=auto", &from, &to]).run()?;
    for (from, name) in [(release.out.clone(), "packages"), (files::source("test"), "test")] {
        let (from, to) = (from.to_string_lossy().into_owned(), copy.join("srv").join(name));
        CommandLine::new("cp", &["--recursive", &from, &to.to_string_lossy()]).run()?;
    }
    // A namespace of its own, so that nothing stays mounted and no process stays behind.
    let enter = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh /srv/test/chroot.sh \"$@\"";
    let namespace =
        ["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, &to, &release.version, trial.calls()];
    CommandLine::new("unshare", &namespace).env("PATH", &with_sbin()).run()?;
    std::fs::remove_dir_all(&copy).map_err(|why| format!("cannot remove {}: {why}", copy.display()))
}

/// Makes a throw-away key and the apt repository.
pub(crate) fn sign(trial: &Trial) -> Result<(), String> {
    // The path of the agent's socket has at most 107 bytes, so the folder is not in that of the repository.
    let made = CommandLine::new("mktemp", &["--directory", "--tmpdir", "mendline-gnupg-XXXXXX"]).output()?;
    let home = made.trim();
    let signed = sign_with(trial, home);
    std::fs::remove_dir_all(home).map_err(|why| format!("cannot remove {home}: {why}"))?;
    signed
}

fn sign_with(trial: &Trial, home: &str) -> Result<(), String> {
    let gpg = ["--homedir", home, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key"];
    let args: Vec<&str> = gpg.into_iter().chain(["test@mendline.dev", "ed25519", "sign", "1d"]).collect();
    CommandLine::new("gpg", &args).run()?;
    let made = apt::build(&trial.release.out, "test@mendline.dev", Some(home));
    // The agent would outlive this process.
    CommandLine::new("gpgconf", &["--homedir", home, "--kill", "all"]).run()?;
    made
}
