//! The headers `Mcp-Param-*` of modern calls, compared with the arguments.
//!
//! A tool names the arguments that a client repeats as headers. The gateway learns these marks from the lists of tools
//! that it passes on, and refuses a call whose headers do not repeat its body. Towards the server the headers are made
//! anew from the arguments, so a call of a tool that was not listed yet is passed on without a check and is still right.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use mendline_wire::headers::{self, ParamHeader};
use mendline_wire::{Kind, Message};

/// The limit of tools with marks. Calls of further ones are not checked.
const TOOLS: usize = 4096;

/// The marks of the tools of all servers.
#[derive(Debug, Default)]
pub struct ParamHeaders {
    tools: HashMap<(Arc<str>, String), Vec<ParamHeader>>,
}

impl ParamHeaders {
    /// Learns the marks from an answer to `tools/list`.
    pub fn learn(&mut self, server: &Arc<str>, list: &Message) {
        if list.kind() != Kind::Result || (self.tools.is_empty() && !ParamHeader::may_be_in(list)) {
            return;
        }
        for tool in list.elements(&["tools"]) {
            let (Some(name), Some(schema)) = (tool.get_str(&["name"]), tool.at(&["inputSchema"])) else { continue };
            let key = (Arc::clone(server), name.into_owned());
            match ParamHeader::of_schema(schema) {
                Ok(marks) if !marks.is_empty() && (self.tools.len() < TOOLS || self.tools.contains_key(&key)) => {
                    self.tools.insert(key, marks);
                }
                _ => drop(self.tools.remove(&key)),
            }
        }
    }

    /// Returns the name of the first header of a call that does not repeat its argument.
    pub fn mismatch(&self, server: &Arc<str>, call: &Message, given: &HeaderMap) -> Option<&str> {
        if self.tools.is_empty() {
            return None;
        }
        let tool = call.get_str(&["name"])?.into_owned();
        let marks = self.tools.get(&(Arc::clone(server), tool))?;
        let arguments = call.value().and_then(|params| params.at(&["arguments"]));
        let differs = |mark: &&ParamHeader| {
            let expected = arguments.and_then(|arguments| mark.value(arguments));
            let given = given.get(mark.name()).map(|value| value.to_str().unwrap_or("\0"));
            match (expected, given) {
                (None, None) => false,
                (Some(expected), Some(given)) => {
                    let decoded = [&expected[..], given].map(|value| headers::decode_value(value).ok());
                    decoded[1].is_none() || decoded[0] != decoded[1]
                }
                _ => true,
            }
        };
        marks.iter().find(differs).map(ParamHeader::name)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(text: String) -> Message {
        Message::parse(Bytes::from(text)).unwrap()
    }

    fn list(tool: &str, properties: &str) -> Message {
        message(format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"{tool}","inputSchema":{{"type":"object","properties":{properties}}}}}]}}}}"#
        ))
    }

    fn call(arguments: &str) -> Message {
        message(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"deploy","arguments":{arguments}}}}}"#
        ))
    }

    fn given(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static("mcp-param-region"), value.parse().unwrap())])
    }

    const MARKED: &str = r#"{"region":{"type":"string","x-mcp-header":"Region"}}"#;

    #[test]
    fn header_must_repeat_the_argument() {
        let server: Arc<str> = "notes".into();
        let mut known = ParamHeaders::default();
        assert_eq!(known.mismatch(&server, &call(r#"{"region":"eu"}"#), &HeaderMap::new()), None, "not listed yet");
        known.learn(&server, &list("deploy", MARKED));
        for (arguments, headers, is_right) in [
            (r#"{"region":"eu"}"#, given("eu"), true),
            (r#"{"region":"Hello"}"#, given("=?base64?SGVsbG8=?="), true),
            ("{}", HeaderMap::new(), true),
            (r#"{"region":"eu"}"#, given("us"), false),
            (r#"{"region":"eu"}"#, HeaderMap::new(), false),
            ("{}", given("eu"), false),
            (r#"{"region":"Hello"}"#, given("=?base64?SGVsbG8?="), false),
            (r#"{"region":"Hello"}"#, given("=?base64?SGVs!!!bG8=?="), false),
        ] {
            let expected = (!is_right).then_some("Mcp-Param-Region");
            assert_eq!(known.mismatch(&server, &call(arguments), &headers), expected, "{arguments} {headers:?}");
        }
        let other: Arc<str> = "other".into();
        assert_eq!(known.mismatch(&other, &call(r#"{"region":"eu"}"#), &HeaderMap::new()), None);
    }

    #[test]
    fn tool_without_marks_is_forgotten() {
        let server: Arc<str> = "notes".into();
        let mut known = ParamHeaders::default();
        known.learn(&server, &list("deploy", MARKED));
        known.learn(&server, &list("deploy", "{}"));
        assert_eq!(known.mismatch(&server, &call(r#"{"region":"eu"}"#), &HeaderMap::new()), None);
    }

    #[test]
    fn tools_are_known_up_to_a_limit() {
        let server: Arc<str> = "notes".into();
        let mut known = ParamHeaders::default();
        for number in 0..=TOOLS {
            known.learn(&server, &list(&format!("tool{number}"), MARKED));
        }
        assert_eq!(known.tools.len(), TOOLS);
    }
}
