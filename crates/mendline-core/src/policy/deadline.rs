//! The configured timeouts of single tools.
//!
//! A tool that builds for twenty minutes and one that answers in milliseconds may be on the same server. A tool's
//! timeout replaces the server's `timeouts.call`; `timeouts.total` applies to all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::ToolPolicy;
use crate::request::ClientRequest;

/// The tools with their own timeout.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    tools: BTreeMap<String, Duration>,
}

impl Deadlines {
    /// Reads the timeouts from the configuration of the tools.
    pub fn new(configured: &BTreeMap<String, ToolPolicy>) -> Deadlines {
        let own = |(tool, policy): (&String, &ToolPolicy)| Some((tool.clone(), policy.timeout?));
        Deadlines { tools: configured.iter().filter_map(own).collect() }
    }

    /// The timeout of this call, if its tool has its own.
    pub fn of(&self, call: &ClientRequest) -> Option<Duration> {
        // Most configurations have none: the call is not parsed.
        if self.tools.is_empty() {
            return None;
        }
        self.of_tool(&call.tool()?)
    }

    /// The timeout of this tool, if it has its own.
    pub fn of_tool(&self, tool: &str) -> Option<Duration> {
        self.tools.get(tool).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use mendline_wire::Message;

    #[test]
    fn only_configured_tools_have_their_own_deadline() {
        let slow = ToolPolicy { timeout: Some(Duration::from_secs(1_200)), ..ToolPolicy::default() };
        let deadlines =
            Deadlines::new(&BTreeMap::from([("build".to_owned(), slow), ("look".to_owned(), ToolPolicy::default())]));
        let of = |text: &'static str| {
            deadlines.of(&ClientRequest::new(Message::parse(Bytes::from_static(text.as_bytes())).unwrap()))
        };
        let build = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"build"}}"#;
        assert_eq!(of(build), Some(Duration::from_secs(1_200)));
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}"#), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"build"}}"#), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#), None);
    }
}
