//! `cargo xtask deny`: checks licences, sources and versions of all dependencies against `deny.toml`.
//!
//! cargo-deny reads the same file. The checks that need no network are implemented here on `cargo metadata` and the
//! lock files, so that they run in every test and install nothing. cargo-deny repeats them where it is installed. It is
//! required for advisories, whose database must be downloaded.

mod graph;
mod licence;
mod policy;

use std::collections::BTreeSet;
use std::fs;

use self::graph::{Graph, Locked};
use self::policy::Policy;
use crate::command::{CommandLine, root};
use crate::tools;

const HELP: &str = "\
Usage: cargo xtask deny [--advisories]

  --advisories   also checks for known vulnerabilities and yanked versions, with cargo-deny and the network
";

/// The workspaces of the repository, each with a lock file.
const WORKSPACES: [&str; 2] = [".", "fuzz"];

/// Checks every workspace.
pub fn run(args: &[String]) -> Result<(), String> {
    let advisories = match args {
        [] => false,
        [only] if only == "--advisories" => true,
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    };
    let policy = Policy::read(&text("deny.toml")?).map_err(|why| format!("deny.toml: {why}"))?;
    let (mut graphs, mut locks) = (Vec::new(), Vec::new());
    for workspace in WORKSPACES {
        graphs.push(Graph::load(workspace, &policy.targets)?);
        let name = format!("{workspace}/Cargo.lock");
        locks.push(Locked::read(&text(&name)?).map_err(|why| format!("{name}: {why}"))?);
    }
    let violations = violations(&policy, &graphs, &locks);
    if !violations.is_empty() {
        return Err(format!("deny.toml and the dependencies disagree:\n{}", violations.join("\n")));
    }
    let packages: BTreeSet<_> =
        graphs.iter().flat_map(|graph| &graph.packages).map(|it| (&it.name, &it.version)).collect();
    println!(
        "{} packages, {} in lock files",
        packages.len(),
        locks.iter().map(|lock| lock.packages.len()).sum::<usize>()
    );
    if tools::has_deny() {
        with_cargo_deny(advisories)
    } else if advisories {
        Err("cargo-deny is required; install it with: cargo install --locked cargo-deny".into())
    } else {
        Ok(())
    }
}

fn with_cargo_deny(advisories: bool) -> Result<(), String> {
    let config = root().join("deny.toml").display().to_string();
    for workspace in WORKSPACES {
        let manifest = format!("{workspace}/Cargo.toml");
        let mut args = vec!["deny", "--manifest-path", &manifest, "check", "--config", &config];
        args.extend(["licenses", "bans", "sources"]);
        args.extend(advisories.then_some("advisories"));
        CommandLine::cargo(&args).run()?;
    }
    Ok(())
}

fn text(name: &str) -> Result<String, String> {
    fs::read_to_string(root().join(name)).map_err(|why| format!("{name}: {why}"))
}

/// Returns all violations of the policy and all unused permissions.
fn violations(policy: &Policy, graphs: &[Graph], locks: &[Locked]) -> Vec<String> {
    let mut violations = Vec::new();
    for graph in graphs {
        violations.extend(graph.packages.iter().filter_map(|package| policy.licence_of(package)));
        violations.extend(graph.packages.iter().filter_map(|package| policy.ban_of(package)));
        violations.extend(graph.packages.iter().flat_map(graph::Package::wildcards));
        violations.extend(policy.duplicates_in(graph));
    }
    for lock in locks {
        violations.extend(lock.packages.iter().filter_map(|package| policy.source_of(package)));
    }
    violations.extend(policy.unused(graphs));
    violations.sort();
    violations.dedup();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT", "ISC"]
        exceptions = [{ crate = "fuzzer", allow = ["NCSA"] }]
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        skip = [{ crate = "twice@1.0.0", reason = "another package needs it" }]
        deny = [{ crate = "openssl-sys", reason = "one implementation of TLS" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://github.com/rust-lang/crates.io-index"]
    "#;

    const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

    /// The used part of the output of `cargo metadata`, with one more package.
    fn metadata(more: &str) -> String {
        let package = |name: &str, version: &str, licence: &str| {
            format!(
                r#"{{"name":"{name}","version":"{version}","license":{licence},"license_file":null,"source":"{INDEX}","publish":null,"dependencies":[]}}"#
            )
        };
        let packages = [
            package("first", "1.0.0", r#""MIT OR Apache-2.0""#),
            package("second", "1.0.0", r#""ISC""#),
            package("fuzzer", "0.4.0", r#""(MIT OR Apache-2.0) AND NCSA""#),
            package("twice", "1.0.0", r#""MIT""#),
            package("twice", "2.0.0", r#""MIT""#),
            more.to_owned(),
        ];
        let packages: Vec<_> = packages.into_iter().filter(|package| !package.is_empty()).collect();
        format!(r#"{{"packages":[{}]}}"#, packages.join(","))
    }

    fn lock(more: &str) -> String {
        format!(
            "version = 4\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n[[package]]\nname = \"first\"\nversion = \"1.0.0\"\nsource = \"{INDEX}\"\nchecksum = \"ab\"\n{more}"
        )
    }

    fn violations_of(policy: &str, metadata: &str, lock: &str) -> String {
        let policy = Policy::read(policy).unwrap();
        violations(&policy, &[Graph::read(metadata).unwrap()], &[Locked::read(lock).unwrap()]).join("\n")
    }

    #[test]
    fn s11_dependencies_within_the_policy_pass() {
        assert_eq!(violations_of(POLICY, &metadata(""), &lock("")), "");
    }

    #[test]
    fn s11_each_forbidden_dependency_is_an_error() {
        let index = format!(r#""source":"{INDEX}""#);
        for (package, expected) in [
            (
                r#"{"name":"bad","version":"1.0.0","license":"GPL-3.0-only","license_file":null,INDEX,"publish":null,"dependencies":[]}"#,
                "bad 1.0.0: the licence `GPL-3.0-only` is not allowed",
            ),
            (
                r#"{"name":"bad","version":"1.0.0","license":"MIT AND NCSA","license_file":null,INDEX,"publish":null,"dependencies":[]}"#,
                "`MIT AND NCSA` is not allowed",
            ),
            (
                r#"{"name":"bad","version":"1.0.0","license":null,"license_file":"TERMS","source":null,"publish":[],"dependencies":[]}"#,
                "bad 1.0.0: it has no licence",
            ),
            (
                r#"{"name":"bad","version":"1.0.0","license":"MIT OR","license_file":null,INDEX,"publish":null,"dependencies":[]}"#,
                "bad 1.0.0: the licence `MIT OR` cannot be read",
            ),
            (
                r#"{"name":"twice","version":"3.0.0","license":"MIT","license_file":null,INDEX,"publish":null,"dependencies":[]}"#,
                "twice: multiple versions: 2.0.0, 3.0.0",
            ),
            (
                r#"{"name":"openssl-sys","version":"0.9.0","license":"MIT","license_file":null,INDEX,"publish":null,"dependencies":[]}"#,
                "openssl-sys 0.9.0: forbidden: one implementation of TLS",
            ),
            (
                r#"{"name":"bad","version":"1.0.0","license":"MIT","license_file":null,"source":null,"publish":null,"dependencies":[{"name":"first","req":"*","path":null,"kind":"dev"}]}"#,
                "bad 1.0.0: any version of first",
            ),
            (
                r#"{"name":"bad","version":"1.0.0","license":"MIT","license_file":null,"source":null,"publish":null,"dependencies":[{"name":"ours","req":"*","path":"/x","kind":null}]}"#,
                "bad 1.0.0: any version of ours",
            ),
        ] {
            let found = violations_of(POLICY, &metadata(&package.replace("INDEX", &index)), &lock(""));
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn s11_packages_that_are_not_published_may_name_a_path_only() {
        let package = r#"{"name":"inner","version":"1.0.0","license":"MIT","license_file":null,"source":null,"publish":[],"dependencies":[{"name":"ours","req":"*","path":"/x","kind":null}]}"#;
        assert_eq!(violations_of(POLICY, &metadata(package), &lock("")), "");
    }

    #[test]
    fn s11_each_unknown_source_is_an_error() {
        for (source, expected) in [
            ("source = \"git+https://example.org/x#abc\"", "git+https://example.org/x#abc"),
            (
                "source = \"registry+https://example.org/index\"\nchecksum = \"cd\"",
                "registry+https://example.org/index",
            ),
            ("source = \"registry+https://github.com/rust-lang/crates.io-index\"", "no checksum"),
        ] {
            let more = format!("[[package]]\nname = \"stray\"\nversion = \"1.0.0\"\n{source}\n");
            let found = violations_of(POLICY, &metadata(""), &lock(&more));
            assert!(found.contains("stray 1.0.0") && found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn s11_permissions_without_use_are_an_error() {
        for (from, to, expected) in [
            (r#""MIT", "ISC""#, r#""MIT", "ISC", "Zlib""#, "no package needs the licence `Zlib`"),
            (r#"crate = "fuzzer""#, r#"crate = "gone""#, "no package needs the exception for gone"),
            (r#"twice@1.0.0"#, r#"twice@0.9.0"#, "no package needs the exception for twice@0.9.0"),
        ] {
            let found = violations_of(&POLICY.replace(from, to), &metadata(""), &lock(""));
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn s11_policy_that_checks_less_than_it_must_is_refused() {
        for (from, to) in [
            (r#"multiple-versions = "deny""#, r#"multiple-versions = "warn""#),
            (r#"unknown-git = "deny""#, r#"unknown-git = "allow""#),
            (r#"unknown-registry = "deny""#, ""),
            (r#", reason = "another package needs it""#, ""),
            (r#"twice@1.0.0"#, "twice"),
            (r#"targets = ["x86_64-unknown-linux-gnu"]"#, "targets = []"),
        ] {
            assert!(Policy::read(&POLICY.replace(from, to)).is_err(), "{from} → {to}");
        }
    }

    #[test]
    fn s11_the_policy_of_the_repository_can_be_read() {
        let policy = Policy::read(&text("deny.toml").unwrap()).unwrap();
        assert!(policy.targets.contains(&"x86_64-unknown-linux-gnu".to_owned()));
    }
}
