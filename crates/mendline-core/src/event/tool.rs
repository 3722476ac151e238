//! Names of tools and traces in events.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use mendline_wire::Message;

use crate::defaults;
use crate::request::ClientRequest;

/// The name of a tool, shared by all events about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// A name. Outside of [`ToolNames`] it is not shared.
    pub fn new(name: &str) -> ToolName {
        ToolName(name.into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The names of the tools of one upstream. Their number is bounded, so that a client that makes names up cannot make
/// metrics or memory grow: what is beyond the bound is called `other`.
#[derive(Debug, Default)]
pub struct ToolNames {
    names: BTreeSet<Arc<str>>,
    other: Option<ToolName>,
}

impl ToolNames {
    /// Returns the name of the tool that this request calls.
    pub fn of(&mut self, call: &ClientRequest) -> Option<ToolName> {
        Some(self.intern(&call.tool()?))
    }

    /// Returns the shared name of a tool.
    pub fn intern(&mut self, name: &str) -> ToolName {
        if let Some(known) = self.names.get(name) {
            return ToolName(Arc::clone(known));
        }
        if name.len() > defaults::TOOL_NAME_BYTES || self.names.len() >= defaults::TOOL_NAMES {
            return self.other.get_or_insert_with(|| ToolName("other".into())).clone();
        }
        // Names end up in log lines and on terminals.
        let shown: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let name: Arc<str> = shown.into();
        self.names.insert(Arc::clone(&name));
        ToolName(name)
    }
}

/// Finds messages that may have a trace context: nearly all have none, and a search is cheaper than a look at members.
static TRACEPARENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"traceparent"));

/// The trace context of a request: `traceparent` of W3C Trace Context, in its `_meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent(Arc<str>);

impl TraceParent {
    /// Returns the trace context of this message, if it has a valid one.
    pub fn of(message: &Message) -> Option<TraceParent> {
        TRACEPARENT.find(message.text())?;
        let text = message.get_str(&["_meta", "traceparent"])?;
        TraceParent::parse(&text)
    }

    /// Reads `version-trace_id-parent_id-flags`, all in lower-case hexadecimal.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let is_set = |part: &str| part.bytes().any(|byte| byte != b'0');
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, parent, flags] = parts[..] else { return None };
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && is_set(trace)
            && is_hex(parent, 16)
            && is_set(parent)
            && is_hex(flags, 2);
        is_valid.then(|| TraceParent(text.into()))
    }

    /// Returns it as it is written in `_meta`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn call(params: &str) -> ClientRequest {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        ClientRequest::new(Message::parse(Bytes::from(text)).unwrap())
    }

    #[test]
    fn tool_names_are_shared_and_bounded() {
        let mut names = ToolNames::default();
        let first = names.of(&call(r#"{"name":"read"}"#)).unwrap();
        let second = names.of(&call(r#"{"name":"read"}"#)).unwrap();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        for number in 0..2 * defaults::TOOL_NAMES {
            names.of(&call(&format!(r#"{{"name":"tool{number}"}}"#)));
        }
        assert_eq!(names.names.len(), defaults::TOOL_NAMES);
        assert_eq!(names.of(&call(r#"{"name":"one-more"}"#)).unwrap().as_str(), "other");
        assert_eq!(names.of(&call(r#"{"name":"read"}"#)).unwrap().as_str(), "read");
        let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(defaults::TOOL_NAME_BYTES + 1));
        assert_eq!(ToolNames::default().of(&call(&long)).unwrap().as_str(), "other");
    }

    #[test]
    fn only_valid_trace_contexts_are_taken() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = call(&format!(r#"{{"name":"read","_meta":{{"traceparent":"{valid}"}}}}"#));
        assert_eq!(TraceParent::of(&request.message).unwrap().as_str(), valid);
        for invalid in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(TraceParent::parse(invalid), None, "{invalid}");
        }
        assert_eq!(TraceParent::of(&call(r#"{"name":"read"}"#).message), None);
    }
}
