//! One HTTP request to an upstream and the facts about its response.
//!
//! An exchange collects facts. When it ends without the expected answer, [`judge`] turns the facts into a verdict. It
//! is one total function over every status, every kind of end and every amount written.

mod page;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Message, Method, Spliced};

pub use self::page::first_words;
use crate::defaults;
use crate::evidence::{Evidence, Reply, proves_refusal};
use crate::list_cache::error_code;
use crate::moment::Moment;
use crate::port::{Challenge, Content, ExchangeEnd, Written};
use crate::quote::Quote;
use crate::reason::Reason;
use crate::slab::Key;

/// The purpose of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A call: its POST, or a GET that resumes its response.
    Call(Key),
    /// A notification, or an answer to the server.
    OneWay,
    /// The stream for notifications and requests of the server.
    Notices,
    /// The stream of a legacy SSE server, which carries all its messages.
    SseStream,
    /// A GET that looks for such a stream.
    Look,
    /// The DELETE that ends a session.
    CloseSession,
    /// None any more; only its end is awaited.
    Dropped,
}

/// An open exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub purpose: Purpose,
    /// The number of the upstream's session in which it started.
    pub session_number: u32,
    /// The number of the credential with which it started.
    pub credential: u32,
    /// A connection carries it; before, the server cannot have received a byte.
    pub reached: bool,
    /// The session that it named.
    pub session_named: Option<Arc<str>>,
    /// It is a GET that resumes a response.
    pub resumes: bool,
    pub status: Option<u16>,
    pub content: Content,
    pub session: Option<String>,
    pub retry_after: Option<Duration>,
    /// The server asks for another credential.
    pub challenge: Option<Challenge>,
    /// An error in the body that names no call.
    pub error_body: Option<ErrorBody>,
    /// A part of the body is not JSON-RPC.
    pub unreadable: bool,
    /// The first words of such a body.
    pub page: Option<String>,
    /// A message came over it.
    pub has_message: bool,
    /// Its message, if it is not a call.
    pub one_way: Option<OneWay>,
}

/// A notification or an answer in flight to the server.
#[derive(Clone, Debug)]
pub struct OneWay {
    pub text: Spliced,
    /// Answers have none.
    pub method: Method,
    /// The number of lost attempts.
    pub lost: u32,
    /// The limit of attempts.
    pub most: u32,
    /// The challenge for which it was sent again.
    pub challenged: Option<Challenge>,
    /// The end of the time that the server has to accept it.
    pub until: Moment,
}

/// The JSON-RPC error in the body of a refusal.
#[derive(Clone, Debug)]
pub struct ErrorBody {
    pub code: i64,
    pub words: String,
    /// The call was refused before: this error is the server's final answer.
    pub refused_before: bool,
    /// The error itself, as it came.
    pub message: Message,
}

impl ErrorBody {
    /// Reads an error.
    pub fn of(message: Message, refused_before: bool, quote: &dyn Quote) -> ErrorBody {
        let words = quote.quote(message.get_str(&["message"]).unwrap_or_default().as_bytes(), defaults::QUOTED);
        ErrorBody { code: error_code(&message).unwrap_or_default(), words, refused_before, message }
    }
}

impl Exchange {
    pub fn new(purpose: Purpose) -> Self {
        Exchange {
            purpose,
            session_number: 0,
            credential: 0,
            reached: false,
            session_named: None,
            resumes: false,
            status: None,
            content: Content::Empty,
            session: None,
            retry_after: None,
            challenge: None,
            error_body: None,
            unreadable: false,
            page: None,
            has_message: false,
            one_way: None,
        }
    }

    /// Returns whether the server refused its credential.
    pub fn is_refused_for_credential(&self) -> bool {
        matches!((self.status, self.challenge), (Some(401), _) | (Some(403), Some(_)))
    }

    /// The challenge of such a refusal. Without one, the credential counts as invalid.
    pub fn challenge_or_default(&self) -> Challenge {
        self.challenge.filter(|_| self.status == Some(403)).unwrap_or(Challenge::Credential)
    }
}

/// The verdict about a call whose exchange ended without its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Settle it by this evidence.
    Settle(Evidence, Reason),
    /// The upstream cannot be reached at all; nothing was sent.
    Unreachable(Reason),
    /// The target is not allowed: reported at once, and not retried soon.
    Forbidden(Reason),
    /// The server reports the named session as lost; a ping has to confirm it.
    SessionReportedLost(Reason),
    /// The response stream may be resumed from this event on.
    Resume(Bytes),
    /// The server does not support Streamable HTTP.
    OtherDialect(Reason),
    /// The server does not support the modern era. A client that probed for it falls back to `initialize`. Such a
    /// refusal does not decide the HTTP transport: only the refusal of an `initialize` does.
    OtherEra(Reason),
    /// A person has to provide a credential.
    NeedsLogin(Reason),
    /// The server did not process it, and would refuse it again.
    Refused(Reason),
    /// The body of the refusal is a JSON-RPC error, which is the answer.
    Answered,
    /// The server's answer cannot be passed on.
    Final(Reason),
}

impl Verdict {
    /// Returns the reason.
    pub fn reason(self) -> Reason {
        match self {
            Verdict::Settle(_, why)
            | Verdict::Unreachable(why)
            | Verdict::Forbidden(why)
            | Verdict::OtherDialect(why)
            | Verdict::OtherEra(why)
            | Verdict::NeedsLogin(why)
            | Verdict::SessionReportedLost(why)
            | Verdict::Refused(why)
            | Verdict::Final(why) => why,
            Verdict::Answered => Reason::Error,
            Verdict::Resume(_) => Reason::ResponseBroken,
        }
    }
}

/// The context of an ended exchange.
#[derive(Clone, Debug, Default)]
pub struct ExchangeContext {
    /// The last event id of the call's response, if it can be resumed.
    pub last_event: Option<Bytes>,
    /// A handshake was answered, and this call was not refused for a lost session yet.
    pub can_lose_session: bool,
    /// This call was resent for this status before.
    pub misdirected_once: bool,
    /// The HTTP transport of the server is not detected yet.
    pub undetermined: bool,
    /// It was posted to the endpoint of a legacy SSE session whose stream is open.
    pub over_sse: bool,
    /// That SSE stream has ended meanwhile.
    pub is_orphan: bool,
    /// It is a modern request, and the server has not answered one with success yet.
    pub unproven_era: bool,
}

/// Turns the facts of an ended exchange into a verdict.
pub fn judge(exchange: &Exchange, how: &ExchangeEnd, written: Written, around: &ExchangeContext) -> Verdict {
    // A GET that resumes a response says nothing about its POST, which the server received whole.
    let written = if exchange.resumes { Written::Whole } else { written };
    match (exchange.status, how) {
        (_, ExchangeEnd::TooLarge) => Verdict::Final(Reason::TooLarge { length: None }),
        (Some(status), ExchangeEnd::Forbidden(why)) if !exchange.resumes && proves_refusal(status) => {
            Verdict::Refused(why.clone().into())
        }
        (Some(status), ExchangeEnd::Forbidden(why)) if !exchange.resumes => {
            Verdict::Settle(Evidence { written, reply: Reply::Status(status) }, why.clone().into())
        }
        (None, ExchangeEnd::Forbidden(why)) if !exchange.resumes => Verdict::Forbidden(why.clone().into()),
        (None, ExchangeEnd::NoConnection(why)) if written == Written::Nothing => {
            Verdict::Unreachable(why.clone().into())
        }
        (_, ExchangeEnd::Refused) if !exchange.resumes => {
            let refused = Evidence { written, reply: Reply::RefusedByTransport };
            Verdict::Settle(refused, Reason::StreamRefused)
        }
        (None, ExchangeEnd::NoConnection(why)) if !exchange.resumes => {
            Verdict::Settle(Evidence { written, reply: Reply::None }, why.clone().into())
        }
        (None, ExchangeEnd::Cut(why)) if !exchange.resumes => {
            Verdict::Settle(Evidence { written, reply: Reply::None }, why.clone().into())
        }
        (None, _) => lost_or_resumed(written, around, Reason::ConnectionEnded),
        (Some(status), how) => judge_status(status, exchange, how, written, around),
    }
}

fn judge_status(
    status: u16,
    exchange: &Exchange,
    how: &ExchangeEnd,
    written: Written,
    around: &ExchangeContext,
) -> Verdict {
    let answered = || status_reason(status, exchange);
    match status {
        200..300 => match (exchange.content, how) {
            (Content::Events, ExchangeEnd::Cut(why)) => lost_or_resumed(written, around, why.clone().into()),
            (Content::Events, _) => lost_or_resumed(written, around, Reason::NoAnswer),
            (_, ExchangeEnd::Cut(why)) => Verdict::Settle(Evidence { written, reply: Reply::None }, why.clone().into()),
            // It was accepted; its answer was expected on the event stream.
            _ if around.is_orphan => Verdict::Settle(Evidence { written, reply: Reply::None }, Reason::StreamEnded),
            _ if exchange.unreadable => {
                let why = Reason::Unreadable { body: exchange.page.clone() };
                Verdict::Settle(Evidence { written, reply: Reply::Unreadable }, why)
            }
            _ => Verdict::Settle(Evidence { written, reply: Reply::Status(status) }, answered()),
        },
        // A server that is away or overloaded says nothing about the response.
        429 | 500.. if exchange.resumes => lost_or_resumed(written, around, answered()),
        // The resumption was refused, for a lost session or another reason: the response is lost, and the call may have
        // run.
        _ if exchange.resumes => Verdict::Settle(Evidence::SILENCE, answered()),
        // The endpoint ended with its SSE stream, perhaps before a handshake.
        404..=406 | 415 if around.is_orphan => {
            Verdict::Settle(Evidence { written, reply: Reply::SessionGone }, answered())
        }
        // An error body that names the session was handled when it arrived.
        404 if around.reports_lost(exchange) && exchange.error_body.is_none() => {
            Verdict::SessionReportedLost(answered())
        }
        400 if around.reports_lost(exchange) && exchange.page.as_deref().is_some_and(names_session) => {
            Verdict::SessionReportedLost(answered())
        }
        400 if matches!(exchange.error_body, Some(ErrorBody { code: -32020 | -32022, refused_before: false, .. })) => {
            Verdict::Settle(Evidence { written, reply: Reply::HeadersRefused }, answered())
        }
        400 | 404 | 405 | 406 | 415 if around.unproven_era && !is_modern_refusal(exchange) => {
            Verdict::OtherEra(answered())
        }
        400 | 404 | 405 if around.undetermined && exchange.error_body.is_none() => Verdict::OtherDialect(answered()),
        401 => Verdict::NeedsLogin(answered()),
        403 if exchange.challenge.is_some() => Verdict::NeedsLogin(answered()),
        // This connection leads to the wrong server; a new one may not.
        421 if !around.misdirected_once => {
            Verdict::Settle(Evidence { written, reply: Reply::Status(status) }, answered())
        }
        429 | 500.. => Verdict::Settle(Evidence { written, reply: Reply::Status(status) }, answered()),
        _ if proves_refusal(status) => Verdict::Refused(answered()),
        _ if exchange.error_body.is_some() => Verdict::Answered,
        _ => Verdict::Settle(Evidence { written, reply: Reply::Status(status) }, answered()),
    }
}

impl ExchangeContext {
    /// Returns whether a refusal can be about a session: the exchange, or the endpoint of its POST, named one.
    fn reports_lost(&self, exchange: &Exchange) -> bool {
        self.can_lose_session && (exchange.session_named.is_some() || self.over_sse)
    }
}

/// Returns whether a server's text is about the session or a missing handshake.
pub fn names_session(words: &str) -> bool {
    const UNINITIALIZED: [&str; 6] = [
        "not initialized",
        "not initialised",
        "not been initialized",
        "not yet initialized",
        "uninitialized",
        "before initializ",
    ];
    let words = words.to_ascii_lowercase();
    words.contains("session") || UNINITIALIZED.iter().any(|it| words.contains(it))
}

/// Returns whether a refusal is of the modern era. Only there these codes have a meaning.
fn is_modern_refusal(exchange: &Exchange) -> bool {
    exchange.error_body.as_ref().is_some_and(|error_body| (-32022..=-32020).contains(&error_body.code))
}

fn lost_or_resumed(written: Written, around: &ExchangeContext, why: Reason) -> Verdict {
    match &around.last_event {
        Some(id) => Verdict::Resume(id.clone()),
        None => Verdict::Settle(Evidence { written, reply: Reply::None }, why),
    }
}

fn status_reason(status: u16, exchange: &Exchange) -> Reason {
    let body = match (&exchange.error_body, &exchange.page) {
        (Some(error_body), _) => Some(error_body.words.clone()),
        (None, page) => page.clone(),
    };
    Reason::Status { status, body, not_json: exchange.content == Content::Other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Outcome;
    use crate::reason::{ConnectError, CutReason, RefusalReason};

    fn ended(status: Option<u16>, content: Content) -> Exchange {
        let mut exchange = Exchange::new(Purpose::OneWay);
        exchange.status = status;
        exchange.content = content;
        exchange
    }

    fn outcome(verdict: &Verdict) -> Option<Outcome> {
        match verdict {
            Verdict::Settle(evidence, _) => Some(evidence.outcome()),
            _ => None,
        }
    }

    #[test]
    fn cut_response_is_resumed_or_else_unknown() {
        let stream = ended(Some(200), Content::Events);
        let cut = ExchangeEnd::Cut(CutReason::Reset);
        let with_id = ExchangeContext { last_event: Some(Bytes::from_static(b"7")), ..ExchangeContext::default() };
        assert_eq!(judge(&stream, &cut, Written::Whole, &with_id), Verdict::Resume(Bytes::from_static(b"7")));
        let lost = judge(&stream, &cut, Written::Whole, &ExchangeContext::default());
        assert_eq!(outcome(&lost), Some(Outcome::Unknown));
    }

    #[test]
    fn failed_resumption_never_means_not_sent() {
        let mut get = ended(None, Content::Empty);
        get.resumes = true;
        for how in [
            ExchangeEnd::NoConnection(ConnectError::NotConfigured),
            ExchangeEnd::Cut(CutReason::Closed),
            ExchangeEnd::Forbidden(RefusalReason::Url),
            ExchangeEnd::Refused,
            ExchangeEnd::Aborted,
        ] {
            for written in [Written::Nothing, Written::Partial, Written::Whole] {
                let verdict = judge(&get, &how, written, &ExchangeContext::default());
                assert_eq!(outcome(&verdict), Some(Outcome::Unknown), "{how:?} {written:?}");
            }
        }
        let worked = ExchangeContext { can_lose_session: true, ..ExchangeContext::default() };
        get.session_named = Some("s1".into());
        for status in 300..600 {
            get.status = Some(status);
            let verdict = judge(&get, &ExchangeEnd::Complete, Written::Whole, &worked);
            assert_eq!(outcome(&verdict), Some(Outcome::Unknown), "{status}");
        }
    }

    #[test]
    fn r15_only_a_call_in_a_session_reports_its_loss() {
        let mut refused = ended(Some(404), Content::Json);
        refused.session_named = Some("s1".into());
        let initialized = ExchangeContext { can_lose_session: true, ..ExchangeContext::default() };
        let verdict = judge(&refused, &ExchangeEnd::Complete, Written::Whole, &initialized);
        assert!(matches!(verdict, Verdict::SessionReportedLost(_)), "{verdict:?}");
        let verdict = judge(&refused, &ExchangeEnd::Complete, Written::Whole, &ExchangeContext::default());
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        let verdict = judge(&ended(Some(404), Content::Json), &ExchangeEnd::Complete, Written::Whole, &initialized);
        assert!(matches!(verdict, Verdict::Refused(_)), "no session was named: {verdict:?}");
    }

    #[test]
    fn r15_bare_400_does_not_report_session_loss() {
        let initialized = ExchangeContext { can_lose_session: true, ..ExchangeContext::default() };
        let mut refused = ended(Some(400), Content::Other);
        refused.session_named = Some("s1".into());
        let verdict = judge(&refused, &ExchangeEnd::Complete, Written::Whole, &initialized);
        assert_eq!(outcome(&verdict), Some(Outcome::Unknown));
        for words in
            ["No valid session ID provided", "Bad Request: Server not initialized", "Mcp-Session-Id is required"]
        {
            refused.page = Some(words.into());
            let verdict = judge(&refused, &ExchangeEnd::Complete, Written::Whole, &initialized);
            assert!(matches!(verdict, Verdict::SessionReportedLost(_)), "{words}: {verdict:?}");
        }
        refused.page = Some("a field is missing".into());
        let verdict = judge(&refused, &ExchangeEnd::Complete, Written::Whole, &initialized);
        assert_eq!(outcome(&verdict), Some(Outcome::Unknown));
    }

    #[test]
    fn t01_a_refused_redirect_is_judged_by_its_status() {
        let how = ExchangeEnd::Forbidden(RefusalReason::Url);
        for (status, refused) in [(301, false), (302, false), (303, false), (307, true), (308, true)] {
            let verdict =
                judge(&ended(Some(status), Content::Empty), &how, Written::Whole, &ExchangeContext::default());
            match refused {
                true => assert!(matches!(verdict, Verdict::Refused(_)), "{status}: {verdict:?}"),
                false => assert_eq!(outcome(&verdict), Some(Outcome::Unknown), "{status}"),
            }
        }
    }

    #[test]
    fn written_call_is_never_judged_as_not_run() {
        for status in (100..600).map(Some).chain([None]) {
            for content in [Content::Empty, Content::Json, Content::Events, Content::Other] {
                for how in [
                    ExchangeEnd::Complete,
                    ExchangeEnd::Cut(CutReason::Reset),
                    ExchangeEnd::NoConnection(ConnectError::NotConfigured),
                    ExchangeEnd::Aborted,
                ] {
                    let verdict = judge(&ended(status, content), &how, Written::Whole, &ExchangeContext::default());
                    assert_ne!(outcome(&verdict), Some(Outcome::NotSent), "{status:?} {content:?} {how:?}");
                }
            }
        }
    }

    #[test]
    fn html_response_is_reported_and_is_no_answer() {
        let mut page = ended(Some(200), Content::Other);
        page.unreadable = true;
        let verdict = judge(&page, &ExchangeEnd::Complete, Written::Whole, &ExchangeContext::default());
        assert_eq!(
            verdict,
            Verdict::Settle(
                Evidence { written: Written::Whole, reply: Reply::Unreadable },
                Reason::Unreadable { body: None }
            )
        );
    }
}
