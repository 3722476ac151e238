//! The effect of a call, which decides whether it may run twice.
//!
//! Reads and idempotent methods are known by their name. The effect of a tool is configured, else given by its server's
//! hints (`readOnlyHint`, `idempotentHint`), else unsafe. A call with a `requestState` continues an operation of the
//! server and is unsafe in any case. Unknown methods are unsafe.

use std::collections::BTreeMap;

use mendline_wire::Message;

use crate::config::ToolPolicy;
use crate::request::{ClientRequest, Op};

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: it only reads.
    Read,
    /// The same, however often it runs.
    Idempotent,
    /// An effect that must not happen twice.
    Unsafe,
}

impl Effect {
    /// Returns whether it may be sent again when its outcome is unknown.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Effect::Unsafe)
    }
}

/// The known effects of a server's tools.
#[derive(Debug, Default)]
pub struct Tools {
    effects: BTreeMap<String, Effect>,
    configured: BTreeMap<String, Effect>,
    /// All pages were listed since the last change.
    is_complete: bool,
}

impl Tools {
    /// Reads the configured effects. They override the server's hints.
    pub fn new(configured: &BTreeMap<String, ToolPolicy>) -> Tools {
        let configured = configured.iter().filter_map(|(tool, policy)| Some((tool.clone(), policy.effect?))).collect();
        Tools { effects: BTreeMap::new(), configured, is_complete: false }
    }

    /// Applies a new configuration. The server's hints are kept if they are still trusted.
    pub fn reconfigure(&mut self, configured: &BTreeMap<String, ToolPolicy>, trust_hints: bool) {
        let old = std::mem::replace(self, Tools::new(configured));
        if trust_hints {
            (self.effects, self.is_complete) = (old.effects, old.is_complete);
        }
    }

    /// Learns from the answer to a `tools/list`. A first page replaces what was known, a later one adds to it.
    pub fn learn(&mut self, answer: &Message, first_page: bool) {
        if first_page {
            self.forget();
        }
        for tool in answer.elements(&["tools"]) {
            let Some(name) = tool.get_str(&["name"]) else { continue };
            let says = |hint| tool.get(&["annotations", hint]) == Some(b"true");
            let effect = if says("readOnlyHint") {
                Effect::Read
            } else if says("idempotentHint") {
                Effect::Idempotent
            } else {
                continue;
            };
            self.effects.insert(name.into_owned(), effect);
        }
        self.is_complete = answer.get_str(&["nextCursor"]).is_none();
    }

    /// Returns whether the hints of all tools are known.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether the effect of this call is known: by the hints, by the configuration, or because it continues an
    /// operation.
    pub fn knows(&self, call: &ClientRequest) -> bool {
        let is_configured = || call.tool().is_some_and(|name| self.configured.contains_key(name.as_ref()));
        self.is_complete || carries_state(call) || is_configured()
    }

    /// Forgets the hints: the server reports that its tools changed.
    pub fn forget(&mut self) {
        self.effects.clear();
        self.is_complete = false;
    }

    /// The effect of a call.
    pub fn effect_of(&self, call: &ClientRequest) -> Effect {
        // The usual case, a tool without known effect: its parameters are not parsed.
        let is_known = !self.effects.is_empty() || !self.configured.is_empty();
        let name = if is_known { call.tool() } else { None };
        self.effect_of_named(call, name.as_deref())
    }

    /// The effect of a call whose tool has this name.
    pub fn effect_of_named(&self, call: &ClientRequest, tool: Option<&str>) -> Effect {
        match call.op {
            Op::CallTool => self.effect_of_tool(call, tool),
            Op::GetPrompt | Op::Read if carries_state(call) => Effect::Unsafe,
            Op::List(_) | Op::Read | Op::GetPrompt | Op::Complete | Op::Discover | Op::ReadTasks | Op::Ping => {
                Effect::Read
            }
            Op::Initialize | Op::SetLevel | Op::Subscribe | Op::Unsubscribe | Op::CancelTask | Op::Listen => {
                Effect::Idempotent
            }
            Op::Other => Effect::Unsafe,
        }
    }

    fn effect_of_tool(&self, call: &ClientRequest, tool: Option<&str>) -> Effect {
        let known = tool.and_then(|tool| self.configured.get(tool).or_else(|| self.effects.get(tool)));
        match known.copied() {
            Some(effect) if effect != Effect::Unsafe && !carries_state(call) => effect,
            _ => Effect::Unsafe,
        }
    }
}

fn carries_state(call: &ClientRequest) -> bool {
    call.message.find(&["requestState"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn request(text: &str) -> ClientRequest {
        ClientRequest::new(message(text))
    }

    fn call(tool: &str) -> ClientRequest {
        request(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#))
    }

    #[test]
    fn tool_is_unsafe_without_hints_and_after_a_change() {
        let mut tools = Tools::default();
        assert_eq!(tools.effect_of(&call("look")), Effect::Unsafe);
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},
            {"name":"set","annotations":{"readOnlyHint":false,"idempotentHint":true}},{"name":"make","annotations":{"readOnlyHint":"true"}},{"name":"bare"}]}}"#;
        tools.learn(&message(list), true);
        assert_eq!(tools.effect_of(&call("look")), Effect::Read);
        assert_eq!(tools.effect_of(&call("set")), Effect::Idempotent);
        assert_eq!(tools.effect_of(&call("make")), Effect::Unsafe, "a hint that is no boolean does not count");
        assert_eq!(tools.effect_of(&call("bare")), Effect::Unsafe);
        tools.learn(
            &message(
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"more","annotations":{"readOnlyHint":true}}]}}"#,
            ),
            false,
        );
        assert_eq!((tools.effect_of(&call("look")), tools.effect_of(&call("more"))), (Effect::Read, Effect::Read));
        tools.forget();
        assert_eq!(tools.effect_of(&call("look")), Effect::Unsafe);
    }

    #[test]
    fn call_with_request_state_is_unsafe() {
        let mut tools = Tools::default();
        tools.learn(
            &message(
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}}"#,
            ),
            true,
        );
        for method in ["tools/call", "prompts/get", "resources/read"] {
            let with = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"look","requestState":"x"}}}}"#
            );
            let without = with.replace(r#","requestState":"x""#, "");
            assert_eq!(tools.effect_of(&request(&with)), Effect::Unsafe, "{method}");
            assert_eq!(tools.effect_of(&request(&without)), Effect::Read, "{method}");
        }
    }

    #[test]
    fn configured_effect_overrides_server_hints() {
        let with_effect = |effect| ToolPolicy { effect: Some(effect), ..ToolPolicy::default() };
        let mut tools = Tools::new(&BTreeMap::from([
            ("look".into(), with_effect(Effect::Unsafe)),
            ("sync".into(), with_effect(Effect::Idempotent)),
        ]));
        assert_eq!(tools.effect_of(&call("sync")), Effect::Idempotent);
        let list =
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}}"#;
        tools.learn(&message(list), true);
        assert_eq!(tools.effect_of(&call("look")), Effect::Unsafe);
        tools.forget();
        assert_eq!(tools.effect_of(&call("sync")), Effect::Idempotent, "a new list does not change it");
    }

    #[test]
    fn new_configuration_replaces_effects_and_distrust_drops_hints() {
        let with_effect = |effect| ToolPolicy { effect: Some(effect), ..ToolPolicy::default() };
        let mut tools = Tools::new(&BTreeMap::from([("sync".into(), with_effect(Effect::Idempotent))]));
        let list =
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}}"#;
        tools.learn(&message(list), true);
        tools.reconfigure(&BTreeMap::from([("make".into(), with_effect(Effect::Read))]), true);
        let effects = |tools: &Tools| ["sync", "make", "look"].map(|tool| tools.effect_of(&call(tool)));
        assert_eq!(effects(&tools), [Effect::Unsafe, Effect::Read, Effect::Read]);
        tools.reconfigure(&BTreeMap::new(), false);
        assert_eq!(effects(&tools), [Effect::Unsafe; 3]);
    }

    #[test]
    fn unknown_method_is_unsafe() {
        assert_eq!(
            Tools::default().effect_of(&request(r#"{"jsonrpc":"2.0","id":1,"method":"acme/list"}"#)),
            Effect::Unsafe
        );
    }
}
