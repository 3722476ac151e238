//! Tool arguments that are repeated as headers.
//!
//! In the modern era a server may mark arguments that it requires as `Mcp-Param-*` headers too, and it refuses a call
//! without them. Clients on stdio do not set headers, so Mendline does: it reads the marks from every `tools/list`, and
//! removes a tool with invalid marks from that list, as the specification requires of HTTP clients. The rest of the
//! list is unchanged.
//!
//! A call that is refused for its headers may be of a tool that was not listed here, or has changed. Then Mendline
//! lists the tools once and sends the call once more. A second refusal is the server's answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mendline_wire::headers::ParamHeader;
use mendline_wire::{Id, Kind, Message, Patch, Span, Spliced, Value, meta, quote};

use crate::cx::Cx;
use crate::defaults;
use crate::event::Event;
use crate::evidence::Evidence;
use crate::policy::backoff;
use crate::reason::Reason;
use crate::request::{ClientRequest, ListKind, Op};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::State;
use crate::upstream::internal::InternalRequest;
use crate::upstream::link::Link;

/// The marks of the known tools.
#[derive(Debug, Default)]
pub(super) struct Params {
    tools: BTreeMap<String, Vec<ParamHeader>>,
    /// The pages that the last lookup has read.
    pages: u32,
}

impl Params {
    /// The headers for the arguments of a call.
    pub(super) fn headers(&self, call: &ClientRequest) -> Vec<(Cow<'static, str>, Arc<str>)> {
        // Few servers have marks: usually the call is not parsed.
        if self.tools.is_empty() {
            return Vec::new();
        }
        let marks = call.tool().and_then(|name| self.tools.get(name.as_ref()));
        let arguments = call.message.value().and_then(|params| params.at(&["arguments"]));
        let (Some(marks), Some(arguments)) = (marks, arguments) else { return Vec::new() };
        let header = |mark: &ParamHeader| Some((mark.name().to_owned().into(), mark.value(arguments)?.into()));
        marks.iter().filter_map(header).collect()
    }

    /// Learns the marks of a page of tools. Returns the index, the name and the problem of each tool with invalid
    /// marks.
    fn learn(&mut self, page: &Message) -> Vec<(usize, String, String)> {
        let mut faulty = Vec::new();
        for (index, tool) in page.elements(&["tools"]).enumerate() {
            let Some(schema) = tool.at(&["inputSchema"]) else { continue };
            let name = tool.get_str(&["name"]).unwrap_or_default();
            match ParamHeader::of_schema(schema) {
                Ok(marks) if marks.is_empty() => drop(self.tools.remove(name.as_ref())),
                Ok(marks) => drop(self.tools.insert(name.into_owned(), marks)),
                Err(fault) => faulty.push((index, name.into_owned(), fault.to_string())),
            }
        }
        faulty
    }
}

impl Upstream {
    /// Learns the marks from the cached tools: the first call may come before the first list.
    pub(in crate::upstream) fn learn_cached_params(&mut self) {
        let Link::Http(http) = &mut self.link else { return };
        for tools in self.lists.cached_tools().filter(|tools| ParamHeader::may_be_in(tools)) {
            http.params.learn(tools);
        }
    }

    /// Learns the marks from an answer to `tools/list`; returns the answer without the tools with invalid marks.
    pub(super) fn learn_params(&mut self, answer: Message, cx: &mut Cx<'_>) -> Message {
        let key = answer.id().and_then(Id::number_in).map(Key::from_number);
        let (Link::Http(http), Some(call)) = (&mut self.link, key.and_then(|key| self.calls.get(key))) else {
            return answer;
        };
        let lists = answer.kind() == Kind::Result && call.request.op == Op::List(ListKind::Tools);
        if !lists || !call.request.is_modern() {
            return answer;
        }
        if call.request.message.find(&["cursor"]).is_none() {
            http.params.tools.clear();
        }
        if !ParamHeader::may_be_in(&answer) {
            return answer;
        }
        let mut faulty = Vec::new();
        for (index, tool, why) in http.params.learn(&answer) {
            faulty.push(index);
            let [tool, problem] = [tool, why].map(|text| cx.quote.quote(text.as_bytes(), defaults::QUOTED));
            cx.emit(Event::ToolRemoved { upstream: self.id, tool, problem });
        }
        if faulty.is_empty() {
            return answer;
        }
        let tools: Vec<Value<'_>> = answer.elements(&["tools"]).collect();
        let spans: Vec<Span> = tools.iter().map(Value::span).collect();
        let nothing = || Patch::from(&b""[..]);
        let edits = faulty.iter().enumerate().map(|(cut, index)| (cut_out(&spans, *index, *index > cut), nothing()));
        Message::parse(Spliced::new(answer.text().clone(), edits).to_bytes()).unwrap_or(answer)
    }

    /// Handles a call that was refused for its headers. It is sent once more; a tool call only after a lookup of the
    /// tools.
    pub(super) fn headers_refused(&mut self, key: Key, evidence: Evidence, why: Reason, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.awaits_lookup = call.request.op == Op::CallTool && call.request.is_modern();
        let not_before = if call.awaits_lookup {
            cx.now + defaults::LOOKUP
        } else {
            cx.now + backoff::retry(&call.policy(&self.config).retry, call.attempts + 1, cx.rng)
        };
        self.settle_for(key, evidence, not_before, why, cx);
        self.look_up(cx);
    }

    /// Lists the tools, if a call waits for it and no lookup is in flight.
    fn look_up(&mut self, cx: &mut Cx<'_>) {
        let Some((_, refused)) = self.calls.waiting().find(|(_, call)| call.awaits_lookup) else { return };
        if self.runs(InternalRequest::Lookup) {
            return;
        }
        let request = list_tools(&refused.request, None);
        if let Link::Http(http) = &mut self.link {
            http.params.pages = 0;
        }
        self.request_tools(request, cx);
    }

    fn request_tools(&mut self, request: Option<ClientRequest>, cx: &mut Cx<'_>) {
        let Some(request) = request else { return };
        if let Link::Http(http) = &mut self.link {
            http.params.pages += 1;
        }
        self.send_internal(InternalRequest::Lookup, request, cx);
    }

    /// Handles a page of the lookup. After the last one the refused calls are sent.
    pub(in crate::upstream) fn lookup_answered(&mut self, request: &ClientRequest, answer: &Message, cx: &mut Cx<'_>) {
        let pages = self.link.http().map_or(0, |http| http.params.pages);
        if let Some(cursor) = answer.get_str(&["nextCursor"])
            && pages < defaults::LOOKUP_PAGES
        {
            self.extend_lookup_waits(cx);
            return self.request_tools(list_tools(request, Some(&cursor)), cx);
        }
        self.not_before(cx.now, cx);
    }

    /// Extends the wait of the refused calls by one more page.
    fn extend_lookup_waits(&mut self, cx: &mut Cx<'_>) {
        self.not_before(cx.now + defaults::LOOKUP, cx);
    }

    fn not_before(&mut self, time: crate::moment::Moment, cx: &mut Cx<'_>) {
        for key in self.calls.waiting_keys() {
            let Some(call) = self.calls.get_mut(key).filter(|call| call.awaits_lookup) else { continue };
            if let State::Waiting { not_before, .. } = &mut call.state {
                *not_before = time;
            }
            call.awaits_lookup = time > cx.now;
            self.arm(key, cx);
        }
    }
}

/// A list in the current session.
pub fn in_session(method: &str, cursor: Option<&str>) -> Option<ClientRequest> {
    let params = cursor.map(|cursor| format!(r#""cursor":{}"#, quote(cursor))).unwrap_or_default();
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{{{params}}}}}"#);
    Message::parse(Bytes::from(text)).ok().map(ClientRequest::new)
}

/// A `tools/list` with the metadata of this call.
pub fn list_tools(call: &ClientRequest, cursor: Option<&str>) -> Option<ClientRequest> {
    with_meta_of(call, "tools/list", cursor)
}

/// A request with the metadata of this modern call.
pub fn with_meta_of(call: &ClientRequest, method: &str, cursor: Option<&str>) -> Option<ClientRequest> {
    let mut names = Vec::new();
    for key in [meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES] {
        if let Some(raw) = call.message.get(&["_meta", key]) {
            names.push(format!("{}:{}", quote(key), String::from_utf8_lossy(raw)));
        }
    }
    let cursor = cursor.map(|cursor| format!(r#","cursor":{}"#, quote(cursor))).unwrap_or_default();
    let params = format!(r#"{{"_meta":{{{}}}{cursor}}}"#, names.join(","));
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{params}}}"#);
    Message::parse(Bytes::from(text)).ok().map(ClientRequest::new)
}

/// The span to remove from an array so that this element and one comma are gone: the comma before it if an element
/// stays there, else the one after it.
fn cut_out(elements: &[Span], index: usize, follows: bool) -> Span {
    let Span { start, end } = elements[index];
    if follows {
        Span { start: elements[index - 1].end, end }
    } else {
        Span { start, end: elements.get(index + 1).map_or(end, |next| next.start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_elements_leaves_a_valid_list() {
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"n":0} , {"n":1},{"n":2} ,{"n":3}]}}"#;
        let list = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let spans: Vec<Span> = list.elements(&["tools"]).map(|tool| tool.span()).collect();
        for chosen in 0..16_u32 {
            let faulty: Vec<usize> = (0..4).filter(|index| chosen & 1 << index != 0).collect();
            let cuts = faulty.iter().enumerate().map(|(cut, index)| cut_out(&spans, *index, *index > cut));
            let edits = cuts.map(|span| (span, Patch::from(&b""[..])));
            let rest = Message::parse(Spliced::new(list.text().clone(), edits).to_bytes()).expect("still a message");
            let left: Vec<usize> = (0..4).filter(|index| !faulty.contains(index)).collect();
            let names = rest.elements(&["tools"]).map(|tool| usize::from(tool.raw()[5] - b'0'));
            assert_eq!(names.collect::<Vec<_>>(), left, "without {faulty:?}");
        }
    }
}
