//! How long a call of one tool may take, where a person has said so.
//!
//! A tool that builds for twenty minutes and one that answers in milliseconds live on the same server, and one deadline fits
//! neither. What is said about a tool counts instead of the server's own `timeouts.call`; `timeouts.total` holds for all.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_wire::{Message, Method};

use crate::config::ToolPolicy;

/// The tools that have a deadline of their own.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    tools: BTreeMap<String, Duration>,
}

impl Deadlines {
    /// Knows what a person says about single tools.
    pub fn new(configured: &BTreeMap<String, ToolPolicy>) -> Deadlines {
        let own = |(tool, policy): (&String, &ToolPolicy)| Some((tool.clone(), policy.timeout?));
        Deadlines { tools: configured.iter().filter_map(own).collect() }
    }

    /// How long this call may take, if it has a deadline of its own.
    pub fn of(&self, call: &Message) -> Option<Duration> {
        // Nearly nobody says anything: no need to look at the call at all.
        if self.tools.is_empty() || call.method() != Method::ToolsCall {
            return None;
        }
        self.tools.get(call.get_str(&["name"])?.as_ref()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn only_configured_tools_have_their_own_deadline() {
        let slow = ToolPolicy { effect: None, timeout: Some(Duration::from_secs(1_200)) };
        let deadlines =
            Deadlines::new(&BTreeMap::from([("build".to_owned(), slow), ("look".to_owned(), ToolPolicy::default())]));
        let of = |text: &'static str| deadlines.of(&Message::parse(Bytes::from_static(text.as_bytes())).unwrap());
        let build = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"build"}}"#;
        assert_eq!(of(build), Some(Duration::from_secs(1_200)));
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}"#), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"build"}}"#), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#), None);
    }
}
