//! Tests of the public interface: files of users and clients, and their results.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod auth;
mod clients;
mod example;
mod fuzz_smoke;
mod mistakes;
mod properties;
mod table;

use mendline_config::{Environment, Finding, Loaded, Server, Source, load};

/// The value of every variable that is set.
pub const SECRET: &str = "canary-s3cret";

/// Loads a file with this text; variables with the suffix `TOKEN` or `KEY` are set.
pub fn loaded(path: &str, text: &str) -> Loaded {
    let environment = |name: &str| (name.ends_with("TOKEN") || name.ends_with("KEY")).then(|| SECRET.to_owned());
    load(Source::new(path, text), false, Environment::new(environment))
}

/// Returns a server of a valid file.
pub fn server(path: &str, text: &str, name: &str) -> Server {
    let loaded = loaded(path, text);
    let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    loaded.server(name).unwrap_or_else(|| panic!("{name} is not among {:?}", loaded.names)).clone()
}

/// Returns the errors of a server with these keys in Mendline's own file.
pub fn wrong(keys: &str) -> Vec<String> {
    let text = format!("{{ \"mendline\": {{}}, \"mcpServers\": {{ \"notes\": {{ {keys} }} }} }}");
    let loaded = loaded("config.json", &text);
    loaded.findings.iter().filter(|finding| finding.is_error()).map(describe).collect()
}

/// Returns a finding in one line.
pub fn describe(finding: &Finding) -> String {
    match &finding.help {
        Some(help) => format!("{}; {help}", finding.what),
        None => finding.what.clone(),
    }
}
