//! The envelope of one JSON-RPC message over its original bytes.
//!
//! Parsing is one strict pass: the text is valid JSON within the limits, the envelope is unambiguous, and the spans of
//! id, method and body are known. Nothing is copied; a message is its text and three spans, so a clone is a reference
//! count.
//!
//! A message is one line. In valid JSON a raw line feed or carriage return is always whitespace between tokens; over
//! HTTP it is allowed, on stdio it would end the message. Line ends therefore become spaces during parsing: no
//! [`Message`] contains a line end.
//!
//! The six members of the envelope must be unambiguous, because calls are matched and retried by them. Unknown members
//! and the contents of `params`, `result` and `error` belong to the peers.

use std::borrow::Cow;
use std::fmt;

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2, memmem};

use crate::salvage::salvage;
use crate::scan::{Scanner, Stop, Survey};
use crate::string;
use crate::value::{Elements, Value};
use crate::{Fault, Limits, Method, Span, WireError};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// A response with a result.
    Result,
    /// A response with an error.
    Error,
}

/// A JSON-RPC message: its text and the spans of its envelope.
#[derive(Clone)]
pub struct Message {
    text: Bytes,
    kind: Kind,
    known_method: Method,
    /// Empty if there is none; a value is never empty.
    id: Span,
    method: Span,
    body: Span,
    /// The body may contain a member `_meta`.
    may_have_meta: bool,
}

impl Message {
    /// Parses one message within the default limits.
    pub fn parse(text: Bytes) -> Result<Message, WireError> {
        Message::parse_with(text, &Limits::default())
    }

    /// Parses one message.
    pub fn parse_with(text: Bytes, limits: &Limits) -> Result<Message, WireError> {
        Message::parse_or_return(text, limits).map_err(|(error, _)| error)
    }

    /// Parses one message; returns the text if it is not a message.
    pub(crate) fn parse_or_return(text: Bytes, limits: &Limits) -> Result<Message, (WireError, Bytes)> {
        match Envelope::read(&text, limits).and_then(|envelope| Ok((envelope.kind()?, envelope))) {
            Ok((kind, envelope)) => {
                let known_method = match kind {
                    Kind::Request | Kind::Notification => known_method(&text[envelope.method.range()]),
                    Kind::Result | Kind::Error => Method::None,
                };
                let Envelope { id, method, body, may_have_meta, has_no_escapes, .. } = envelope;
                let text = if has_no_escapes { text } else { on_one_line(text) };
                Ok(Message { text, kind, known_method, id, method, body, may_have_meta })
            }
            Err(stop) => Err((refuse(&text, stop, limits), text)),
        }
    }

    /// Returns the text as received, with spaces in place of raw line ends.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Converts the message to its text.
    pub fn into_text(self) -> Bytes {
        self.text
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the JSON text of the id.
    pub fn id(&self) -> Option<&[u8]> {
        self.id_span().map(|span| self.slice(span))
    }

    /// Returns the span of the id.
    pub fn id_span(&self) -> Option<Span> {
        (!self.id.is_empty()).then_some(self.id)
    }

    /// Returns the method; [`Method::None`] for a response.
    pub fn method(&self) -> Method {
        self.known_method
    }

    /// Returns the decoded name of the method; empty for a response.
    pub fn method_name(&self) -> Cow<'_, str> {
        match self.known_method.name() {
            Some(name) => Cow::Borrowed(name),
            None => string::decode(self.slice(self.method)),
        }
    }

    /// Returns the JSON text of `params`, `result` or `error`.
    pub fn body(&self) -> Option<&[u8]> {
        self.body_span().map(|span| self.slice(span))
    }

    /// Returns the span of the body.
    pub fn body_span(&self) -> Option<Span> {
        (!self.body.is_empty()).then_some(self.body)
    }

    /// Returns the body as a value.
    pub fn value(&self) -> Option<Value<'_>> {
        self.body_span().map(|span| Value::new(&self.text, span))
    }

    /// Returns the span of the value at a path of keys, relative to the body. Keys are compared decoded.
    pub fn find(&self, path: &[&str]) -> Option<Span> {
        self.value()?.find(path)
    }

    /// Returns the JSON text at a path.
    pub fn get(&self, path: &[&str]) -> Option<&[u8]> {
        self.value()?.get(path)
    }

    /// Returns the decoded string at a path.
    pub fn get_str(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        self.value()?.get_str(path)
    }

    /// Returns the elements of the array at a path; none if there is no array.
    pub fn elements(&self, path: &[&str]) -> Elements<'_> {
        self.value().unwrap_or(Value::new(&[], Span::default())).elements(path)
    }

    /// Returns the progress token of a request or of a progress notification.
    pub fn progress_token(&self) -> Option<Span> {
        let path: &[&str] = match (self.kind, self.known_method) {
            (Kind::Request, _) if !self.may_have_meta => return None,
            (Kind::Request, _) => &["_meta", "progressToken"],
            (Kind::Notification, Method::Progress) => &["progressToken"],
            _ => return None,
        };
        let span = self.mentions("progressToken").then(|| self.find(path))??;
        // Objects and literals are not tokens.
        matches!(self.slice(span).first(), Some(b'"' | b'-' | b'0'..=b'9')).then_some(span)
    }

    /// Returns the text of a span.
    pub fn slice(&self, span: Span) -> &[u8] {
        self.text.get(span.range()).unwrap_or_default()
    }

    /// Returns whether the body may contain a member `_meta`; this is known from parsing.
    pub(crate) fn may_have_meta(&self) -> bool {
        self.may_have_meta
    }

    /// Returns whether the body may contain a key: a cheap search before a full walk. An escape may hide a key, so any
    /// escape counts.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        let body = self.slice(self.body);
        memmem::find(body, key.as_bytes()).is_some() || memchr(b'\\', body).is_some()
    }

    /// Returns the span of the method with its quotes; empty for a response.
    pub(crate) fn method_span(&self) -> Span {
        self.method
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.kind, String::from_utf8_lossy(&self.text))
    }
}

/// Replaces each raw line end by a space, so that all offsets stay the same. The text must be valid JSON: line ends
/// inside of strings are refused earlier.
pub(crate) fn on_one_line(text: Bytes) -> Bytes {
    let Some(first) = memchr2(b'\n', b'\r', &text) else { return text };
    let mut text = text.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    for byte in &mut text[first..] {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    text.freeze()
}

/// The members of the envelope, each with its bit in the set of seen members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    JsonRpc = 1,
    Id = 2,
    Method = 4,
    Params = 8,
    Result = 16,
    Error = 32,
    Unknown = 0,
}

/// The kind of a member value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Shape {
    Number,
    String,
    Null,
    #[default]
    Other,
}

/// The result of one pass over the envelope. Members are validated once the whole text is known to be JSON, except for
/// a duplicate key and an id that is too long, which are refused at once.
#[derive(Default)]
struct Envelope {
    seen: u8,
    is_version_2: bool,
    id_shape: Shape,
    method_shape: Shape,
    id: Span,
    method: Span,
    /// The last of `params`, `result` and `error`; [`Envelope::kind`] checks that there is only one.
    body: Span,
    may_have_meta: bool,
    /// The text has no control character, so no line end.
    has_no_escapes: bool,
    end: usize,
}

impl Envelope {
    fn read(text: &[u8], limits: &Limits) -> Result<Envelope, Stop> {
        if text.len() > limits.message_bytes || u32::try_from(text.len()).is_err() {
            return Err(Stop { fault: Fault::TooLong, at: limits.message_bytes.min(text.len()) });
        }
        let survey = Survey::of(text);
        if !survey.is_ascii
            && let Err(error) = std::str::from_utf8(text)
        {
            return Err(Stop { fault: Fault::NotUtf8, at: error.valid_up_to() });
        }
        let mut scanner = Scanner::over(text, survey);
        scanner.whitespace();
        match scanner.peek() {
            Some(b'{') => scanner.pass(),
            Some(b'[') => return Err(Stop { fault: Fault::Batch, at: scanner.at() }),
            _ => return Err(not_an_object(scanner, limits)),
        }
        let mut envelope = Envelope { has_no_escapes: survey.has_no_escapes, ..Envelope::default() };
        scanner.whitespace();
        if scanner.peek() == Some(b'}') {
            scanner.pass();
        } else {
            envelope.read_members(text, &mut scanner, limits)?;
        }
        envelope.end = scanner.at();
        envelope.may_have_meta = scanner.saw_meta();
        scanner.whitespace();
        match scanner.peek() {
            None => Ok(envelope),
            Some(_) => Err(Stop { fault: Fault::NotJson, at: scanner.at() }),
        }
    }

    fn read_members(&mut self, text: &[u8], scanner: &mut Scanner<'_>, limits: &Limits) -> Result<(), Stop> {
        loop {
            let start = scanner.at();
            let member = read_key(text, scanner)?;
            if self.seen & member as u8 != 0 {
                return Err(Stop { fault: Fault::DuplicateKey, at: start });
            }
            self.seen |= member as u8;
            scanner.colon()?;
            self.read_value(member, text, scanner, limits)?;
            scanner.whitespace();
            match scanner.peek() {
                Some(b',') => scanner.pass(),
                Some(b'}') => {
                    scanner.pass();
                    return Ok(());
                }
                _ => return Err(scanner.stop()),
            }
            scanner.whitespace();
        }
    }

    fn read_value(
        &mut self,
        member: Member,
        text: &[u8],
        scanner: &mut Scanner<'_>,
        limits: &Limits,
    ) -> Result<(), Stop> {
        let start = scanner.at();
        if member == Member::JsonRpc && scanner.passes(VERSION) {
            self.is_version_2 = true;
            return Ok(());
        }
        match (member, scanner.peek()) {
            // Most values of an envelope are strings.
            (_, Some(b'"')) => scanner.string()?,
            (Member::Id, Some(b'-' | b'0'..=b'9')) => scanner.number()?,
            // The envelope is one level itself.
            _ => scanner.value(u32::from(limits.depth).saturating_sub(1))?,
        }
        let span = Span::new(start, scanner.at());
        let raw = &text[span.range()];
        match member {
            Member::JsonRpc => {
                self.is_version_2 = string::is_string(raw) && string::equals(raw, "2.0");
            }
            Member::Id if span.len() > limits.id_bytes => return Err(Stop { fault: Fault::IdTooLong, at: start }),
            Member::Id => (self.id, self.id_shape) = (span, Shape::of(raw)),
            Member::Method => (self.method, self.method_shape) = (span, Shape::of(raw)),
            Member::Params | Member::Result | Member::Error => self.body = span,
            Member::Unknown => {}
        }
        Ok(())
    }

    /// Returns the kind of message that the members form.
    fn kind(&self) -> Result<Kind, Stop> {
        let has = |member: Member| self.seen & member as u8 != 0;
        let stop = |fault| Err(Stop { fault, at: self.end });
        if !self.is_version_2 || has(Member::Method) && self.method_shape != Shape::String {
            return stop(Fault::NotJsonRpc);
        }
        let bad_id = Err(Stop { fault: Fault::BadId, at: self.id.range().start });
        if has(Member::Id) && self.id_shape == Shape::Other {
            return bad_id;
        }
        let kind = match (has(Member::Method), has(Member::Result), has(Member::Error)) {
            (true, false, false) if has(Member::Id) => Kind::Request,
            (true, false, false) => Kind::Notification,
            (false, true, false) => Kind::Result,
            (false, false, true) => Kind::Error,
            (false, false, false) => return stop(Fault::NotJsonRpc),
            _ => return stop(Fault::Ambiguous),
        };
        match kind {
            // `params` in a response would make the body ambiguous.
            Kind::Result | Kind::Error if has(Member::Params) => stop(Fault::Ambiguous),
            Kind::Result if !has(Member::Id) => stop(Fault::MissingId),
            Kind::Request | Kind::Result if self.id_shape == Shape::Null => bad_id,
            kind => Ok(kind),
        }
    }
}

impl Shape {
    fn of(raw: &[u8]) -> Shape {
        match raw.first() {
            Some(b'"') => Shape::String,
            Some(b'-' | b'0'..=b'9') => Shape::Number,
            Some(b'n') => Shape::Null,
            _ => Shape::Other,
        }
    }
}

/// The only version of JSON-RPC, in its usual spelling.
const VERSION: &[u8; 5] = b"\"2.0\"";

const JSONRPC: u64 = u64::from_le_bytes(*b"\"jsonrpc");
const METHOD: u64 = u64::from_le_bytes(*b"\"method\"");
const PARAMS: u64 = u64::from_le_bytes(*b"\"params\"");
const RESULT: u64 = u64::from_le_bytes(*b"\"result\"");
const ID: u32 = u32::from_le_bytes(*b"\"id\"");

/// Reads a key of the envelope.
#[inline(always)]
fn read_key(text: &[u8], scanner: &mut Scanner<'_>) -> Result<Member, Stop> {
    let start = scanner.at();
    if let Some((member, length)) = Member::at_the_beginning_of(&text[start..]) {
        scanner.skip(length);
        return Ok(member);
    }
    scanner.string()?;
    Ok(Member::of(&text[start..scanner.at()]))
}

impl Member {
    /// Returns the member that a text begins with, in its usual spelling, and the length of its key. This compares one
    /// machine word.
    #[inline(always)]
    fn at_the_beginning_of(text: &[u8]) -> Option<(Member, usize)> {
        let word = u64::from_le_bytes(*text.first_chunk()?);
        match word {
            METHOD => Some((Member::Method, 8)),
            PARAMS => Some((Member::Params, 8)),
            RESULT => Some((Member::Result, 8)),
            JSONRPC if text.get(8) == Some(&b'"') => Some((Member::JsonRpc, 9)),
            _ if word as u32 == ID => Some((Member::Id, 4)),
            _ => None,
        }
    }

    #[inline]
    fn of(key: &[u8]) -> Member {
        match key {
            b"\"jsonrpc\"" => Member::JsonRpc,
            b"\"id\"" => Member::Id,
            b"\"method\"" => Member::Method,
            b"\"params\"" => Member::Params,
            b"\"result\"" => Member::Result,
            b"\"error\"" => Member::Error,
            other if other.contains(&b'\\') => Member::of_escaped(other),
            _ => Member::Unknown,
        }
    }

    #[cold]
    fn of_escaped(key: &[u8]) -> Member {
        match &*string::decode(key) {
            "jsonrpc" => Member::JsonRpc,
            "id" => Member::Id,
            "method" => Member::Method,
            "params" => Member::Params,
            "result" => Member::Result,
            "error" => Member::Error,
            _ => Member::Unknown,
        }
    }
}

fn known_method(raw: &[u8]) -> Method {
    // A name without escapes equals its text, and known names have no escapes.
    match raw.get(1..raw.len() - 1).map(Method::from_bytes) {
        Some(method) if method != Method::Other => method,
        _ => Method::from_name(&string::decode(raw)),
    }
}

/// Distinguishes noise from JSON that is not a message.
#[cold]
fn not_an_object(mut scanner: Scanner<'_>, limits: &Limits) -> Stop {
    let start = scanner.at();
    if let Err(stop) = scanner.value(u32::from(limits.depth)) {
        return stop;
    }
    scanner.whitespace();
    match scanner.peek() {
        None => Stop { fault: Fault::NotJsonRpc, at: start },
        Some(_) => scanner.stop(),
    }
}

#[cold]
fn refuse(text: &[u8], stop: Stop, limits: &Limits) -> WireError {
    let tail = (stop.fault != Fault::Truncated).then_some(text);
    let salvaged = salvage(text, tail, limits);
    let id_is_good = !matches!(stop.fault, Fault::BadId | Fault::IdTooLong);
    WireError {
        id: salvaged.id.filter(|_| id_is_good),
        method_seen: salvaged.method_seen,
        ..WireError::new(stop.fault, stop.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Id;

    fn parse(text: &str) -> Result<Message, WireError> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn fault(text: &str) -> Fault {
        parse(text).expect_err(text).fault
    }

    #[test]
    fn four_kinds_are_distinguished() {
        let request = parse(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#).unwrap();
        assert_eq!(request.kind(), Kind::Request);
        assert_eq!(request.id(), Some(&b"7"[..]));
        assert_eq!(request.method(), Method::ToolsCall);
        assert_eq!(request.body(), Some(&br#"{"name":"a"}"#[..]));

        let escaped = parse(r#"{"jsonrpc":"2.0","id":7,"method":"tools\/call"}"#).unwrap();
        assert_eq!(escaped.method(), Method::ToolsCall, "a known method is known however it is written");

        let notice = parse(r#" { "method" : "x/\u0079" , "jsonrpc" : "2.0" } "#).unwrap();
        assert_eq!((notice.kind(), notice.id(), notice.body()), (Kind::Notification, None, None));
        assert_eq!((notice.method(), notice.method_name()), (Method::Other, Cow::Borrowed("x/y")));

        let result = parse(r#"{"result":null,"id":"a\u0041","jsonrpc":"2.0"}"#).unwrap();
        assert_eq!((result.kind(), result.method()), (Kind::Result, Method::None));
        assert_eq!(result.id(), Some(&br#""a\u0041""#[..]), "as written");
        assert_eq!(result.body(), Some(&b"null"[..]));
        assert_eq!(result.method_name(), "");

        let error = parse(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#).unwrap();
        assert_eq!((error.kind(), error.id()), (Kind::Error, Some(&b"null"[..])));
        assert_eq!(error.get(&["code"]), Some(&b"-32700"[..]));
        let error = parse(r#"{"jsonrpc":"2.0","error":{}}"#).unwrap();
        assert_eq!((error.kind(), error.id()), (Kind::Error, None), "2025-11-25 makes the id of an error optional");
    }

    #[test]
    fn names_that_resemble_envelope_members_are_ignored() {
        let others =
            r#""jsonrpcs":1,"ids":"a","methods":2,"method\u0073":3,"param":4,"result\"":5,"jsonrpc\"":6,"Id":7"#;
        let message = parse(&format!(r#"{{{others},"jsonrpc":"2.0","id":8,"result":{{{others}}}}}"#)).unwrap();
        assert_eq!((message.kind(), message.id()), (Kind::Result, Some(&b"8"[..])));
        assert_eq!(message.get(&["ids"]), Some(&b"\"a\""[..]));
        assert_eq!(fault(&format!("{{{others}}}")), Fault::NotJsonRpc);
    }

    #[test]
    fn id_stays_as_written() {
        for id in ["0", "-1", "1e3", "1.50", "123456789012345678901234567890", "\"\"", r#""\ud800""#, "\"é\""] {
            let message = parse(&format!(r#"{{"jsonrpc":"2.0","id" : {id} ,"method":"ping"}}"#)).unwrap();
            assert_eq!(message.id(), Some(id.as_bytes()));
        }
    }

    #[test]
    fn invalid_envelope_is_a_named_fault() {
        for (text, expected) in [
            ("", Fault::Truncated),
            ("Listening on port 3000", Fault::NotJson),
            ("null and void", Fault::NotJson),
            ("42", Fault::NotJsonRpc),
            ("\"text\"", Fault::NotJsonRpc),
            ("{}", Fault::NotJsonRpc),
            (r#"{"id":1,"method":"x"}"#, Fault::NotJsonRpc),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, Fault::NotJsonRpc),
            (r#"{"jsonrpc":2.0,"id":1,"method":"x"}"#, Fault::NotJsonRpc),
            (r#"{"jsonrpc":"2.0","id":1}"#, Fault::NotJsonRpc),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, Fault::NotJsonRpc),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, Fault::BadId),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#, Fault::BadId),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, Fault::BadId),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, Fault::BadId),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Fault::BadId),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Fault::MissingId),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, Fault::Ambiguous),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, Fault::Ambiguous),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#, Fault::Ambiguous),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#, Fault::DuplicateKey),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","\u006dethod":"y"}"#, Fault::DuplicateKey),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x"} trailing"#, Fault::NotJson),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x"}{}"#, Fault::NotJson),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x""#, Fault::Truncated),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x",}"#, Fault::NotJson),
            ("[]", Fault::Batch),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, Fault::Batch),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_members_may_repeat() {
        let message = parse(r#"{"x":1,"jsonrpc":"2.0","x":[{}],"id":1,"method":"ping","":null}"#).unwrap();
        assert_eq!(message.kind(), Kind::Request);
    }

    #[test]
    fn refused_message_reports_a_certain_id() {
        let error = parse(r#"{"jsonrpc":"2.0","method":"x","params":{"a":tru},"id":9}"#).unwrap_err();
        assert_eq!((error.fault, error.id, error.method_seen), (Fault::NotJson, Some(Id::number(9)), true));
        let error = parse(r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#).unwrap_err();
        assert_eq!(error.id, Some(Id::number(1)));
        let error = parse(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#).unwrap_err();
        assert_eq!((error.fault, error.id), (Fault::DuplicateKey, None));
        let error = parse(r#"{"jsonrpc":"2.0","id":4,"result":{"a":"#).unwrap_err();
        assert_eq!((error.fault, error.id, error.method_seen), (Fault::Truncated, Some(Id::number(4)), false));
    }

    #[test]
    fn progress_token_is_found_in_each_kind() {
        let token = |text: &str| {
            let message = parse(text).unwrap();
            message.progress_token().map(|span| String::from_utf8_lossy(message.slice(span)).into_owned())
        };
        let request = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        assert_eq!(token(&request(r#"{"_meta":{"progressToken":5}}"#)).as_deref(), Some("5"));
        assert_eq!(token(&request(r#"{"_meta":{"progress\u0054oken":"a"}}"#)).as_deref(), Some("\"a\""));
        assert_eq!(token(&request(r#"{"arguments":{"progressToken":5}}"#)), None);
        assert_eq!(token(&request(r#"{"_meta":{"progressToken":{}}}"#)), None);
        assert_eq!(token(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), None);
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
        assert_eq!(token(progress).as_deref(), Some("\"t\""));
        assert_eq!(token(r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"progressToken":5}}}"#), None);
    }

    #[test]
    fn every_limit_is_exact() {
        let limits = Limits { message_bytes: 60, depth: 3, id_bytes: 4, batch: 1 };
        let parse = |text: &str| Message::parse_with(Bytes::copy_from_slice(text.as_bytes()), &limits);
        assert!(parse(r#"{"jsonrpc":"2.0","id":1234,"method":"x","params":[[]]}"#).is_ok());
        let fault = |text: &str| parse(text).unwrap_err().fault;
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":1234,"method":"x","params":[[[]]]}"#), Fault::TooDeep);
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":12345,"method":"x"}"#), Fault::IdTooLong);
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(61 - 36));
        assert_eq!(long.len(), 61);
        assert_eq!(fault(&long), Fault::TooLong);
        assert!(parse(&long.replacen("xx", "x", 1)).is_ok());
    }
}
