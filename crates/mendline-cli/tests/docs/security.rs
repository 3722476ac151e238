//! SECURITY.md: it is linked and complete, and every flag, command, variable and file in it exists.

use std::fs;

use super::{commands, output_of, root};

fn page() -> String {
    fs::read_to_string(root().join("SECURITY.md")).unwrap()
}

/// Returns the texts between backticks.
fn code(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// Returns the targets of links within the repository.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}

/// Returns the command of a code text. A flag without a command belongs to `run`.
fn command_of(code: &str) -> Option<&str> {
    let mut words = code.split(' ');
    match words.next()? {
        "mendline" => words.next().filter(|word| !word.starts_with("--")),
        word if word.starts_with("--") => Some("run"),
        _ => None,
    }
}

#[test]
fn s11_security_page_is_linked_and_complete() {
    let (page, readme) = (page(), fs::read_to_string(root().join("README.md")).unwrap());
    assert!(links(&readme).contains(&"SECURITY.md"), "README.md does not link to SECURITY.md");
    let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let wanted = [
        "Reporting a vulnerability",
        "Supported versions",
        "Threat model",
        "What happens to credentials",
        "Hardening",
        "How it is kept",
    ];
    assert_eq!(headings, wanted);
    let (minor, _) = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap();
    assert!(page.contains(&format!("| {minor}.x, the newest release | yes |")), "{minor}.x is not supported");
    assert!(!page.contains('@'), "reports go through the repository and to no address");
}

#[test]
fn s11_security_page_names_only_flags_and_commands_that_exist() {
    let (page, known) = (page(), commands());
    let mut flags = 0;
    for code in code(&page) {
        let Some(command) = command_of(code) else { continue };
        assert!(known.contains(command), "`{code}`: there is no command {command}");
        let help = crate::whole_help(command);
        for flag in code.split(' ').filter(|word| word.starts_with("--")) {
            let is_flag = |line: &str| line.split([' ', ',', '=']).any(|word| word == flag);
            assert!(help.lines().any(is_flag), "`{code}`: `mendline {command}` has no {flag}");
            flags += 1;
        }
    }
    assert!(flags > 15, "only {flags} flags were found on the page");
}

#[test]
fn s11_security_page_names_only_files_and_variables_that_exist() {
    let page = page();
    let links = links(&page);
    assert!(links.len() > 5, "{links:?}");
    for target in links {
        let file = target.split('#').next().unwrap();
        assert!(root().join(file).exists(), "{file} does not exist");
    }
    let manual = output_of(&["man"]).replace("\\-", "-");
    let is_variable = |text: &&str| text.contains('_') && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let variables: Vec<_> = code(&page).filter(is_variable).collect();
    assert!(!variables.is_empty());
    for variable in variables {
        assert!(manual.contains(variable), "{variable} is not in the manual");
    }
}
