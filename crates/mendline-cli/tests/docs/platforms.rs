//! Only `mendline::os` names a platform: the design of `ARCHITECTURE.md`, checked in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// The crates that are published and depend on the operating system.
const CRATES: [&str; 4] = ["mendline", "mendline-config", "mendline-oauth", "mendline-cli"];

/// The module that may name a platform.
const ALLOWED: [&str; 2] = ["crates/mendline/src/os.rs", "crates/mendline/src/os/"];

/// Texts that only code for a platform has.
const PLATFORM: [&str; 15] = [
    "target_os",
    "target_family",
    "cfg(unix",
    "cfg(windows",
    "cfg(not(unix",
    "cfg(not(windows",
    "cfg!(unix",
    "cfg!(windows",
    "std::os::",
    "::unix::",
    "UnixStream",
    "UnixListener",
    "rustix::",
    "libc::",
    "/proc",
];

/// Returns the lines of a source that name a platform. Comments and tests may: a test uses the system to examine it.
fn named_in(source: &str) -> Vec<(usize, &str)> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter(|(_, line)| PLATFORM.iter().any(|text| line.contains(text)))
        .map(|(at, line)| (at + 1, line.trim()))
        .collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    // A file of tests alone is a module of tests, too.
    let is_source = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs");
    files.filter(is_source).collect()
}

#[test]
fn only_os_module_names_a_platform() {
    let root = root().canonicalize().unwrap();
    let files: Vec<_> = CRATES.iter().flat_map(|name| sources(&root.join("crates").join(name).join("src"))).collect();
    let path = |file: &PathBuf| file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let (of_os, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| ALLOWED.iter().any(|allowed| path(file).starts_with(allowed)));
    assert!(others.len() > 100, "only {} files were found", others.len());
    let mut found = Vec::new();
    for file in others {
        let text = fs::read_to_string(&file).unwrap();
        found.extend(named_in(&text).iter().map(|(line, text)| format!("{}:{line}: {text}", path(&file))));
    }
    assert!(found.is_empty(), "move this to mendline::os:\n{}", found.join("\n"));
    let names_one = |file: &PathBuf| !named_in(&fs::read_to_string(file).unwrap()).is_empty();
    assert!(of_os.iter().filter(|file| names_one(file)).count() > 10, "the check finds no platform in mendline::os");
}

#[test]
fn platform_in_comment_or_test_is_allowed() {
    let source =
        "//! Reads `/proc`.\nuse rustix::io::Errno;\nfn a() {}\n#[cfg(test)]\nmod tests {\n    use std::os::fd;\n}\n";
    assert_eq!(named_in(source), [(2, "use rustix::io::Errno;")]);
}
