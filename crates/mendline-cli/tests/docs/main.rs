//! The pages say what the program does. Those about strategies: every snippet is a configuration that `check` accepts, every
//! flag and every key exists, and every sentence that a model reads there is one that the words' own tests have seen. The
//! guide and the README: every command is typed and says what is shown, and everything that there is, is named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod console;
mod security;

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
    let help = said_by(&["run", "--help-all"]);
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

/// The commands that the first page of the help names.
fn commands() -> BTreeSet<String> {
    let page = said_by(&["--help"]);
    let (_, groups) = page.split_once("\nConnect:\n").unwrap();
    let (groups, _) = groups.split_once("\nOptions:").unwrap();
    let rows = groups.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn the_guide_names_every_command_and_only_flags_that_there_are() {
    let page = fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let commands = commands();
    for command in &commands {
        assert!(
            page.contains(&format!("mendline {command}")),
            "the guide does not say what `mendline {command}` is for"
        );
    }
    for page in ["README.md", "docs/guide.md"] {
        for line in console::lines_typed(&root().join(page)) {
            let line = line.split(" # ").next().unwrap();
            let Some((_, rest)) = line.split_once("mendline ") else { continue };
            let mut words = rest.split(' ').take_while(|word| *word != "--");
            let command = words.next().unwrap();
            if !commands.contains(command) {
                continue;
            }
            let has_more = ["run", "call", "tools", "doctor"].contains(&command);
            let help = said_by(&[command, if has_more { "--help-all" } else { "--help" }]);
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{page}: {line}: `mendline {command}` knows no {flag}");
            }
        }
    }
}

#[test]
fn what_is_shown_without_being_run_waits_for_a_command_that_is_not_there() {
    let commands = commands();
    for line in console::pending(&fs::read_to_string(root().join("docs/guide.md")).unwrap()) {
        let name = line.split("mendline ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        assert!(
            !commands.contains(&name),
            "`mendline {name}` is there: make its blocks in docs/guide.md ```console, and record them with MENDLINE_RECORD=1"
        );
    }
}

#[test]
fn the_guide_names_every_exit_code_and_variable_of_the_manual() {
    let guide = fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let manual = said_by(&["man"]);
    let (_, lists) = manual.split_once(".SH EXIT STATUS").unwrap();
    let bold = lists.split("\\fB").skip(1).map(|rest| rest.split("\\fR").next().unwrap());
    let names: Vec<_> = bold.flat_map(|names| names.split(", ")).map(|name| name.replace("\\-", "-")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not name `{name}`");
    }
}
