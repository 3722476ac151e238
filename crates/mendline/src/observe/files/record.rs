//! The format of a line in a log file.
//!
//! A line is a JSON object that begins with its time in a fixed width, so that lines can be compared and searched
//! without parsing. `level`, `pid`, `kind` and `text` are always present, and `server` except for the lines of a
//! gateway that belong to no server. Other members of an event follow
//! (`call`, `tool`, `outcome`, `reason`, `errno`, `status` …), so that programs need not parse `text`. `kind` is the
//! stable name of the event ([`Event::name`]), `stderr` for a line of a child's stderr, `message` for other lines of
//! Mendline, and `wire` for a message on the wire.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use mendline_core::event::{Answered, ToolName};
use mendline_core::policy::rule::Rule;
use mendline_core::reason::Reason;
use mendline_core::{Event, Outcome, UpstreamId};
use mendline_wire::Method;

use super::now;
use super::open_calls::{Before, Sent};
use super::queue::{Entry, Payload};
use crate::driver::Direction;
use crate::observe::errno::SystemError;
use crate::observe::escaped::{JsonEscape, is_harmless};
use crate::observe::log::LogLevel;
use crate::observe::names::Names;
use crate::observe::redact::Redactor;

/// Formats entries as lines.
pub(super) struct Encoder {
    names: Names,
    pid: u32,
    redactor: Redactor,
    /// A buffer for texts before redaction.
    text: String,
}

impl Encoder {
    pub(super) fn new(names: Names, redactor: Redactor) -> Encoder {
        Encoder { names, pid: std::process::id(), redactor, text: String::new() }
    }

    /// Appends the line of this entry.
    pub(super) fn write(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        match &entry.payload {
            Payload::Event(event, before) => self.event(entry, event, before.as_deref(), out),
            Payload::Stderr(line) => self.line(entry, "stderr", out, |encoder, object| {
                object.text("text", &encoder.redactor.redact(line));
            }),
            Payload::Message(text) => self.line(entry, "message", out, |encoder, object| {
                let text = encoder.redactor.redact(text.as_bytes());
                object.text("text", &text);
                object.errno(&String::from_utf8_lossy(&text));
            }),
            Payload::Dropped(count) => self.line(entry, "message", out, |_, object| {
                object.text("text", format!("{count} log lines were dropped: the disk did not keep up").as_bytes());
            }),
            Payload::Wire { direction, length, text } => self.line(entry, "wire", out, |encoder, object| {
                object.word("way", direction_name(*direction));
                object.number("bytes", *length as u64);
                let is_cut = text.len() < *length;
                if is_cut {
                    object.raw("cut", "true");
                }
                let redactor = &encoder.redactor;
                object.text("text", &if is_cut { redactor.redact_cut(text) } else { redactor.redact(text) });
            }),
        }
    }

    /// Appends a message of the program.
    pub(super) fn message(&mut self, level: LogLevel, text: &str, out: &mut Vec<u8>) {
        self.write(&Entry { at: now(), level, upstream: None, payload: Payload::Message(text.into()) }, out);
    }

    fn event(&mut self, entry: &Entry, event: &Event, before: Option<&Before>, out: &mut Vec<u8>) {
        self.text.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{event}");
        self.line(entry, event.name(), out, |encoder, object| {
            let text = encoder.redactor.redact(encoder.text.as_bytes());
            object.text("text", &text);
            members(event, object);
            if may_quote_system_error(event) {
                object.errno(&String::from_utf8_lossy(&text));
            }
            if let (Some(before), Some(call), Some(upstream)) = (before, event.call(), entry.upstream) {
                object.before(before, upstream, call);
            }
        });
    }

    fn line(&self, entry: &Entry, kind: &str, out: &mut Vec<u8>, fill: impl FnOnce(&Encoder, &mut Object<'_>)) {
        let name = entry.upstream.and_then(|upstream| self.names.get(upstream));
        let mut object = Object { out };
        object.out.extend_from_slice(b"{\"time\":\"");
        object.time(entry.at);
        object.out.push(b'"');
        object.word("level", entry.level.word());
        if let Some(name) = name.as_ref().or(self.names.only()) {
            object.text("server", name.as_bytes());
        }
        object.number("pid", u64::from(self.pid));
        object.word("kind", kind);
        fill(self, &mut object);
        object.out.extend_from_slice(b"}\n");
    }
}

/// A JSON object in the output.
struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl Object<'_> {
    fn time(&mut self, at: u64) {
        use std::io::Write as _;
        let time = UNIX_EPOCH + Duration::from_micros(at);
        let _ = write!(self.out, "{}", humantime::format_rfc3339_micros(time));
    }

    fn key(&mut self, key: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Appends a member whose value needs no escapes.
    fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.extend_from_slice(value.as_bytes());
    }

    fn number(&mut self, key: &str, number: u64) {
        use std::io::Write as _;
        self.key(key);
        let _ = write!(self.out, "{number}");
    }

    fn text(&mut self, key: &str, text: &[u8]) {
        self.key(key);
        escape(text, self.out);
    }

    /// Appends the stable name of a reason, and its HTTP status if it has one.
    fn reason(&mut self, why: &Reason) {
        self.word("reason", why.name());
        if let Some(status) = why.status() {
            self.number("status", u64::from(status));
        }
    }

    /// Appends the name of the system error that the text mentions.
    fn errno(&mut self, text: &str) {
        if let Some(error) = SystemError::find_in(text) {
            self.word("errno", error.name);
        }
    }

    fn before(&mut self, before: &Before, upstream: UpstreamId, call: u64) {
        let (client, method, tool) = (before.client, before.method, before.tool.clone());
        let accepted = Event::CallAccepted { upstream, call, client, method, tool, trace: None };
        let started = |Sent { at, attempt, number }| (at, Event::AttemptStarted { upstream, call, attempt, number });
        let sent = before.sent.map(started);
        self.key("before");
        let mut separator = b'[';
        for (at, event) in std::iter::once((before.accepted, accepted)).chain(sent) {
            self.out.push(separator);
            separator = b',';
            self.out.extend_from_slice(b"{\"time\":\"");
            self.time(at);
            self.out.push(b'"');
            self.word("kind", event.name());
            self.text("text", event.to_string().as_bytes());
            self.out.push(b'}');
        }
        self.out.push(b']');
    }
}

/// Appends a JSON string. Escapes terminal commands as well, because people read the files with `cat`.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    use std::io::Write as _;
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
        if valid.bytes().all(is_plain) {
            out.extend_from_slice(valid.as_bytes());
        } else {
            for character in valid.chars() {
                match character {
                    '"' => out.extend_from_slice(b"\\\""),
                    '\\' => out.extend_from_slice(b"\\\\"),
                    '\n' => out.extend_from_slice(b"\\n"),
                    '\t' => out.extend_from_slice(b"\\t"),
                    _ if !is_harmless(character) => _ = write!(out, "{}", JsonEscape(character)),
                    _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
        for byte in chunk.invalid() {
            // The backslash is part of the text and is itself escaped.
            let _ = write!(out, "\\\\x{byte:02x}");
        }
    }
    out.push(b'"');
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::FromClient => "fromClient",
        Direction::ToServer => "toServer",
        Direction::FromServer => "fromServer",
        Direction::ToClient => "toClient",
    }
}

/// Appends the members of an event besides its text.
fn members(event: &Event, object: &mut Object<'_>) {
    if let Some(call) = event.call() {
        object.number("call", call);
    }
    let method = |object: &mut Object<'_>, method: &Method| {
        if let Some(name) = method.name() {
            object.word("method", name);
        }
    };
    let tool = |object: &mut Object<'_>, tool: &Option<ToolName>| {
        if let Some(tool) = tool {
            object.text("tool", tool.as_str().as_bytes());
        }
    };
    match event {
        Event::CallAccepted { client, method: it, tool: name, trace, .. } => {
            object.number("client", u64::from(client.0));
            method(object, it);
            tool(object, name);
            if let Some(trace) = trace {
                object.word("traceparent", trace.as_str());
            }
        }
        Event::InternalRequestSent { method: it, .. }
        | Event::ListChanged { method: it, .. }
        | Event::ListChangeHidden { method: it, .. }
        | Event::AnsweredFromCatalogue { method: it, .. }
        | Event::ServerRequestForwarded { method: it, .. }
        | Event::MessageDropped { method: it, .. } => method(object, it),
        Event::InternalRequestFailed { method: it, why, .. } => {
            method(object, it);
            object.reason(why);
        }
        Event::AttemptStarted { attempt, number, .. } => {
            object.number("attempt", u64::from(*attempt));
            object.number("number", *number);
        }
        Event::AttemptEnded { tool: name, attempt, outcome, evidence, why, .. } => {
            tool(object, name);
            object.number("attempt", u64::from(*attempt));
            object.word("outcome", outcome.word());
            object.word("written", evidence.written.word());
            object.word("reply", evidence.reply.word());
            object.reason(why);
        }
        Event::CallRetried { method: it, tool: name, attempt, most, outcome, rule, why, .. } => {
            method(object, it);
            tool(object, name);
            object.number("attempt", u64::from(*attempt));
            object.number("attempts", u64::from(*most));
            object.word("outcome", outcome.word());
            object.word("rule", rule.name());
            object.reason(why);
        }
        Event::RetryRefused { tool: name, .. } => tool(object, name),
        Event::VerdictAwaited { tool: name, why, .. } | Event::HintsAwaited { tool: name, why, .. } => {
            tool(object, name);
            object.reason(why);
        }
        Event::CallSilent { tool: name, .. } | Event::SilenceEnded { tool: name, .. } => tool(object, name),
        Event::VerdictReached { condition, .. } => object.word("condition", condition.name()),
        Event::ResponseResumed { tool: name, resumption, .. } => {
            tool(object, name);
            object.number("resumption", u64::from(*resumption));
        }
        Event::CallAnswered { method: it, tool: name, attempts, result, took, .. } => {
            method(object, it);
            tool(object, name);
            object.number("attempts", u64::from(*attempts));
            match result {
                Answered::Ok => object.word("result", "ok"),
                Answered::ToolError => object.word("result", "tool_error"),
                Answered::Error(code) => {
                    object.word("result", "error");
                    object.raw("code", &code.to_string());
                }
            }
            object.number("tookMs", took.as_millis() as u64);
        }
        Event::CallFailed { method: it, tool: name, attempts, cause, outcome, rule, took, why, .. } => {
            method(object, it);
            tool(object, name);
            object.number("attempts", u64::from(*attempts));
            object.word("cause", cause.word());
            object.raw("code", &cause.code().to_string());
            object.word("outcome", outcome.word());
            object.word("rule", rule.name());
            object.reason(why);
            object.number("tookMs", took.as_millis() as u64);
        }
        Event::CallRejected { client, method: it, tool: name, cause, why, .. } => {
            object.number("client", u64::from(client.0));
            method(object, it);
            tool(object, name);
            object.word("cause", cause.word());
            object.raw("code", &cause.code().to_string());
            object.word("outcome", Outcome::NotSent.word());
            object.word("rule", Rule::of_rejection(*cause, why).name());
            object.reason(why);
        }
        Event::LinkStateChanged { from, to, why, .. } => {
            object.text("from", from.to_string().as_bytes());
            object.text("to", to.to_string().as_bytes());
            if let Some(why) = why {
                object.reason(why);
            }
        }
        Event::DialFailed { why, .. } => object.reason(&why.clone().into()),
        Event::ReconnectDisabled { why, .. }
        | Event::SessionReplayFailed { why, .. }
        | Event::LoginRequired { why, .. }
        | Event::ServerSuspected { why, .. } => object.reason(why),
        Event::CredentialRenewalStarted { refused, .. } => object.number("credential", u64::from(*refused)),
        Event::CredentialRenewed { number, .. } => object.number("credential", u64::from(*number)),
        Event::CredentialRenewalFailed { why, .. } => object.reason(&why.clone().into()),
        Event::UpstreamReady { after, .. } => object.number("tookMs", after.as_millis() as u64),
        Event::BreakerOpened { tool: Some(tool), .. }
        | Event::BreakerHalfOpened { tool: Some(tool), .. }
        | Event::BreakerClosed { tool: Some(tool), .. }
        | Event::ToolRemoved { tool, .. } => object.text("tool", tool.as_bytes()),
        _ => {}
    }
}

/// Returns whether the text of an event may quote a peer or the system, and so a system error.
fn may_quote_system_error(event: &Event) -> bool {
    !matches!(event, Event::CallAccepted { .. } | Event::AttemptStarted { .. } | Event::CallAnswered { .. })
}

#[cfg(test)]
mod tests {
    use mendline_core::reason::ConnectError;
    use mendline_core::words::Cause;
    use mendline_core::{ClientId, Secret};
    use serde_json::Value;

    use super::*;

    const NOTES: UpstreamId = UpstreamId(1);

    fn written(payload: Payload) -> (String, Value) {
        let names = Names::of_gateway(vec!["files".to_owned(), "notes".to_owned()]);
        encoded(names, Some(NOTES), payload)
    }

    fn encoded(names: Names, upstream: Option<UpstreamId>, payload: Payload) -> (String, Value) {
        let redactor = Redactor::default();
        redactor.learn(&[Secret::new("open sesame")]);
        let mut encoder = Encoder::new(names, redactor);
        let mut out = Vec::new();
        let (at, level) = (1_000_000, LogLevel::Info);
        encoder.write(&Entry { at, level, upstream, payload }, &mut out);
        let line = String::from_utf8(out).unwrap();
        assert!(line.ends_with("}\n") && !line.trim_end().contains('\n'), "{line}");
        let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (line, value)
    }

    fn failed(why: Reason) -> Event {
        Event::CallFailed {
            upstream: NOTES,
            call: 7,
            method: Method::ToolsCall,
            tool: Some(ToolName::new("read_note")),
            attempts: 2,
            cause: Cause::Unavailable,
            outcome: Outcome::NotSent,
            rule: Rule::Unavailable,
            took: Duration::from_millis(1500),
            why,
            was_out: false,
        }
    }

    #[test]
    fn event_is_written_with_all_its_members() {
        let before = Before {
            client: ClientId(1),
            method: Method::ToolsCall,
            tool: Some(ToolName::new("read_note")),
            accepted: 1,
            sent: Some(Sent { at: 2, attempt: 1, number: 65_537 }),
        };
        let event = failed(ConnectError::Refused { target: "127.0.0.1:1".to_owned() }.into());
        let (line, value) = written(Payload::Event(event, Some(Box::new(before))));
        assert!(
            line.starts_with(r#"{"time":"1970-01-01T00:00:01.000000Z","level":"info","server":"notes","pid":"#),
            "{line}"
        );
        for (key, expected) in [
            ("kind", Value::from("call_failed")),
            ("call", 7.into()),
            ("tool", "read_note".into()),
            ("reason", "connection_refused".into()),
            ("code", (-31001).into()),
            ("method", "tools/call".into()),
            ("cause", "unavailable".into()),
            ("rule", "unavailable".into()),
            ("outcome", "not_sent".into()),
            ("attempts", 2.into()),
            ("tookMs", 1500.into()),
            ("errno", "ECONNREFUSED".into()),
        ] {
            assert_eq!(value[key], expected, "{line}");
        }
        assert_eq!(value["before"][0]["text"], "#7 read_note: accepted");
        assert_eq!(value["before"][1]["text"], "#7: attempt 1 started");
        assert_eq!(value["before"][1]["time"], "1970-01-01T00:00:00.000002Z");
        let (_, value) =
            written(Payload::Event(failed(Reason::Status { status: 503, body: None, not_json: false }), None));
        assert_eq!((&value["status"], &value["before"]), (&503.into(), &Value::Null));
    }

    #[test]
    fn line_without_server_names_only_server_of_process() {
        let message = || Payload::Message("serving metrics".into());
        let (_, value) = encoded(Names::of_server("notes"), None, message());
        assert_eq!(value["server"], "notes");
        let (line, value) = encoded(Names::of_gateway(vec!["files".to_owned()]), None, message());
        assert_eq!(value.get("server"), None, "{line}");
    }

    #[test]
    fn secrets_are_hidden_and_control_characters_escaped() {
        let (line, value) = written(Payload::Stderr((*b"a\"b\\c\x1b[2J\x7f\xff open sesame \xe2\x80\xae").into()));
        assert!(!line.contains('\u{1b}') && !line.contains('\u{7f}') && !line.contains('\u{202e}'), "{line}");
        assert_eq!(value["text"], "a\"b\\c\u{1b}[2J\u{7f}\\xff ‹secret› \u{202e}");
        let (_, value) = written(Payload::Message("why: open sesame".into()));
        assert_eq!(value["text"], "why: ‹secret›");
        let (_, value) = written(Payload::Event(failed(Reason::ErrorBody { message: "open sesame".to_owned() }), None));
        assert!(!value.to_string().contains("sesame"));
    }

    #[test]
    fn wire_record_has_direction_and_length() {
        let text = (*br#"{"jsonrpc":"2.0","params":{"password":"abcdef"}}"#).into();
        let (_, value) = written(Payload::Wire { direction: Direction::ToServer, length: 100_000, text });
        assert_eq!(value["way"], "toServer");
        assert_eq!((&value["bytes"], &value["cut"]), (&100_000.into(), &true.into()));
        assert_eq!(value["text"], r#"{"jsonrpc":"2.0","params":{"password":"‹secret›"}}"#);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_become_one_line_of_json(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            written(Payload::Stderr(text.into()));
        }
    }
}
