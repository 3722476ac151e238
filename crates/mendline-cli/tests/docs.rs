//! The pages about strategies say what the program does: every snippet is a configuration that `check` accepts, every flag
//! and every key exists, and every sentence that a model reads there is one that the words' own tests have seen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages, by name.
fn strategies() -> Vec<(String, String)> {
    let names = ["breaker", "deadline", "limit", "reconnect", "retry"];
    let read = |name| fs::read_to_string(root().join(format!("docs/strategies/{name}.md"))).unwrap();
    names.into_iter().map(|name| (name.to_owned(), read(name))).collect()
}

/// The fenced blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

fn said_by(arguments: &[&str]) -> String {
    let output = Command::new(MENDLINE).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What is between backticks and begins with this.
fn quoted<'a>(page: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let words = page.split('`').skip(1).step_by(2).filter(|text| text.starts_with(prefix));
    words.map(|text| text.split(' ').next().unwrap()).collect()
}

#[test]
fn every_page_has_the_same_shape() {
    let shape = ["About", "Configuration", "Defaults", "What you see", "Diagram", "Anti-patterns"];
    for (name, page) in strategies() {
        let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, shape, "{name}.md");
    }
}

#[test]
fn every_configuration_on_the_pages_is_one_that_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, page) in strategies() {
        let snippets = blocks(&page, "jsonc");
        assert!(!snippets.is_empty(), "{name}.md shows no configuration");
        for snippet in snippets {
            let file = folder.path().join(format!("{name}.json"));
            fs::write(&file, snippet).unwrap();
            let output = Command::new(MENDLINE).arg("check").arg(&file).output().unwrap();
            assert!(output.status.success(), "{name}.md: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn every_flag_on_the_pages_is_one_of_run() {
    let help = said_by(&["run", "--help"]);
    let defaults = ("defaults".to_owned(), fs::read_to_string(root().join("docs/defaults.md")).unwrap());
    for (name, page) in strategies().into_iter().chain([defaults]) {
        for flag in quoted(&page, "--") {
            assert!(help.contains(flag), "{name}.md speaks of {flag}, which `run --help` does not know");
        }
    }
}

#[test]
fn every_key_that_sets_a_default_is_in_the_schema() {
    let schema = said_by(&["schema"]);
    let page = fs::read_to_string(root().join("docs/defaults.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut keys = 0;
    for row in rows {
        let set_by = row.rsplit('|').nth(1).unwrap();
        for key in set_by.split('`').skip(1).step_by(2).filter(|text| !text.starts_with("--")) {
            keys += 1;
            for part in key.split('.').filter(|part| *part != "<name>") {
                assert!(schema.contains(&format!("\"{part}\"")), "{key}: {part} is not in the schema");
            }
        }
    }
    assert!(keys > 15, "only {keys} keys were found on the page");
}

#[test]
fn every_sentence_for_a_model_is_one_that_it_can_get() {
    let words = fs::read_to_string(root().join("crates/mendline-core/tests/words.txt")).unwrap();
    for (name, page) in strategies() {
        for sentence in page.lines().filter_map(|line| line.strip_prefix("> ")) {
            assert!(words.contains(sentence), "{name}.md: no such words: {sentence}");
        }
    }
}
