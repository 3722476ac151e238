//! The scripts of the clients, and the steps that are skipped.
//!
//! A script is a list of operations in `scripts/`, one for each server. Not every transport supports all of them: a
//! server without sessions cannot send requests to its client, for example. Such a step has a member `skip` with the
//! transport and the reason. This module removes these steps for all clients.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::stage::{Server, Transport};

/// Writes the script for a server over this transport.
///
/// # Errors
///
/// Fails if the script cannot be read or written, or if it skips a step without a reason or over an unknown transport.
pub fn write(server: Server, transport: Transport, to: &Path) -> Result<(), String> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(match server {
        Server::Fixture => "fixture.json",
        Server::Everything => "everything.json",
        Server::TypeScript => "typescript.json",
    });
    let text = fs::read_to_string(&from).map_err(|why| format!("{}: {why}", from.display()))?;
    let steps = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", from.display()))?;
    let steps = supported_steps(steps, transport)?;
    fs::write(to, Value::Array(steps).to_string()).map_err(|why| format!("{}: {why}", to.display()))
}

/// Returns the steps that the transport supports.
fn supported_steps(mut steps: Vec<Value>, transport: Transport) -> Result<Vec<Value>, String> {
    for step in &steps {
        for (name, why) in step["skip"].as_object().into_iter().flatten() {
            if Transport::ALL.iter().all(|transport| transport.name() != name) {
                return Err(format!("there is no transport called {name}: {step}"));
            }
            if why.as_str().is_none_or(str::is_empty) {
                return Err(format!("skipped without a reason: {step}"));
            }
        }
    }
    steps.retain(|step| step["skip"].get(transport.name()).is_none());
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::supported_steps;
    use crate::stage::Transport;

    #[test]
    fn step_is_skipped_only_over_named_transport() {
        let steps = vec![json!({"do": "ping"}), json!({"do": "watch", "skip": {"stateless": "no client to notify"}})];
        assert_eq!(supported_steps(steps.clone(), Transport::Http).unwrap(), steps);
        assert_eq!(supported_steps(steps.clone(), Transport::Stateless).unwrap(), steps[..1]);
    }

    #[test]
    fn skip_needs_reason_and_known_transport() {
        let why = supported_steps(vec![json!({"do": "ping", "skip": {"sse": ""}})], Transport::Stdio).unwrap_err();
        assert!(why.starts_with("skipped without a reason"), "{why}");
        let why =
            supported_steps(vec![json!({"do": "ping", "skip": {"ses": "why not"}})], Transport::Stdio).unwrap_err();
        assert!(why.starts_with("there is no transport called ses"), "{why}");
    }
}
