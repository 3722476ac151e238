//! The documentation against the program. Strategy pages: `check` accepts every snippet, every flag and every key
//! exists, and every quoted failure text can occur. Guide and README: every command runs with the output that they
//! show, and every command is named. `ARCHITECTURE.md`: only one module names a platform. The sources: short functions in
//! the core, no upstream by a fixed number.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod console;
mod platforms;
mod security;
mod structure;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the strategy pages by name.
fn strategies() -> Vec<(String, String)> {
    let names = ["breaker", "deadline", "limit", "reconnect", "retry"];
    let read = |name| fs::read_to_string(root().join(format!("docs/strategies/{name}.md"))).unwrap();
    names.into_iter().map(|name| (name.to_owned(), read(name))).collect()
}

/// Returns the fenced blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

fn output_of(arguments: &[&str]) -> String {
    let output = Command::new(MENDLINE).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the texts between backticks that begin with this prefix.
fn quoted<'a>(page: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let words = page.split('`').skip(1).step_by(2).filter(|text| text.starts_with(prefix));
    words.map(|text| text.split(' ').next().unwrap()).collect()
}

#[test]
fn every_strategy_page_has_same_sections() {
    let shape = ["About", "Configuration", "Defaults", "What you see", "Diagram", "Anti-patterns"];
    for (name, page) in strategies() {
        let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, shape, "{name}.md");
    }
}

#[test]
fn page_of_metrics_lists_all_of_them() {
    use mendline::metrics::families::{ALL, Kind};
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| {
            line.starts_with("| `mendline_") || line.starts_with("| `mcp_") || line.starts_with("| `process_")
        })
        .collect();
    let rows = ALL.iter().map(|family| {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Seconds => "histogram",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {kind} | {} | {} |", family.exported_name(), labels.join(", "), family.help)
    });
    assert_eq!(listed, rows.collect::<Vec<_>>());
}

#[test]
fn check_accepts_every_configuration_on_pages() {
    let operators = fs::read_to_string(root().join("docs/recipes/operators.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, page) in strategies().into_iter().chain([("operators".to_owned(), operators)]) {
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
fn every_flag_on_pages_belongs_to_run() {
    let help = whole_help("run");
    let defaults = ("defaults".to_owned(), fs::read_to_string(root().join("docs/defaults.md")).unwrap());
    for (name, page) in strategies().into_iter().chain([defaults]) {
        for flag in quoted(&page, "--") {
            assert!(help.contains(flag), "{name}.md names {flag}, which `run --help-all` does not have");
        }
    }
}

#[test]
fn every_key_with_default_is_in_schema() {
    let schema = output_of(&["schema"]);
    let page = fs::read_to_string(root().join("docs/defaults.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut keys = 0;
    for row in rows {
        let set_by = row.rsplit('|').nth(1).unwrap();
        for key in set_by.split('`').skip(1).step_by(2).filter(|text| !text.starts_with("--")) {
            keys += 1;
            // `[]` stands for each entry of a list.
            for part in key.split('.').filter(|part| *part != "<name>").map(|part| part.trim_end_matches("[]")) {
                assert!(schema.contains(&format!("\"{part}\"")), "{key}: {part} is not in the schema");
            }
        }
    }
    assert!(keys > 15, "only {keys} keys were found on the page");
}

#[test]
fn every_quoted_failure_text_can_occur() {
    let words = fs::read_to_string(root().join("crates/mendline-core/tests/words.txt")).unwrap();
    for (name, page) in strategies() {
        for sentence in page.lines().filter_map(|line| line.strip_prefix("> ")) {
            assert!(words.contains(sentence), "{name}.md: no such failure text: {sentence}");
        }
    }
}

/// Returns the commands on the first page of the help.
fn commands() -> BTreeSet<String> {
    let page = output_of(&["--help"]);
    let (_, groups) = page.split_once("\nConnect:\n").unwrap();
    let (groups, _) = groups.split_once("\nOptions:").unwrap();
    let rows = groups.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn guide_names_every_command_and_only_existing_flags() {
    let page = fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let commands = commands();
    for command in &commands {
        assert!(page.contains(&format!("mendline {command}")), "the guide does not name `mendline {command}`");
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
            let help = whole_help(command);
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{page}: {line}: `mendline {command}` has no {flag}");
            }
        }
    }
}

#[test]
fn block_not_run_uses_command_that_is_missing() {
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
fn guide_names_every_exit_code_and_variable_of_manual() {
    let guide = fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let manual = output_of(&["man"]);
    let (_, lists) = manual.split_once(".SH EXIT STATUS").unwrap();
    let bold = lists.split("\\fB").skip(1).map(|rest| rest.split("\\fR").next().unwrap());
    let names: Vec<_> = bold.flat_map(|names| names.split(", ")).map(|name| name.replace("\\-", "-")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not name `{name}`");
    }
}

/// Returns the help of a command with all its options.
fn whole_help(command: &str) -> String {
    let option = if matches!(command, "run" | "call" | "tools" | "doctor" | "login" | "logout" | "token") {
        "--help-all"
    } else {
        "--help"
    };
    output_of(&[command, option])
}
