//! The configuration from the outside: files as people have them, and what becomes of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it says no")]

mod clients;
mod example;
mod fuzz_smoke;
mod mistakes;
mod properties;
mod table;

use mendline_config::{Finding, Loaded, Server, Source, Environment, load};

/// What a variable holds in all of these tests.
pub const SECRET: &str = "canary-s3cret";

/// A file with this text, where variables that are called `…TOKEN` or `…KEY` are set.
pub fn loaded(path: &str, text: &str) -> Loaded {
    let environment = |name: &str| (name.ends_with("TOKEN") || name.ends_with("KEY")).then(|| SECRET.to_owned());
    load(Source::new(path, text), false, Environment::new(environment))
}

/// A server of a file that must be right.
pub fn server(path: &str, text: &str, name: &str) -> Server {
    let loaded = loaded(path, text);
    let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    loaded.server(name).unwrap_or_else(|| panic!("{name} is not among {:?}", loaded.names)).clone()
}

/// What is wrong with a server of Mendline's own file that has these keys.
pub fn wrong(keys: &str) -> Vec<String> {
    let text = format!("{{ \"mendline\": {{}}, \"mcpServers\": {{ \"notes\": {{ {keys} }} }} }}");
    let loaded = loaded("config.json", &text);
    loaded.findings.iter().filter(|finding| finding.is_error()).map(describe).collect()
}

/// A finding in one line.
pub fn describe(finding: &Finding) -> String {
    match &finding.help {
        Some(help) => format!("{}; {help}", finding.what),
        None => finding.what.clone(),
    }
}
