//! Text of servers, proxies and the system, on its way to the engine and to observers.
//!
//! All such text enters here. It is redacted before it is cut and before other code sees it. So no answer to the
//! client, log line or status contains a secret from the text of a peer. MCP messages of the server are not changed.

use std::borrow::Cow;

use bytes::Bytes;
use mendline_core::port::{ExchangeEnd, SpawnError};
use mendline_core::{Input, Quote as _};
use mendline_wire::Line;

use crate::observe::redact::Redactor;

/// The limit of a peer's or the system's text in a reason, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// Returns a line of a child's stderr, redacted.
pub(super) fn stderr_line(redactor: &Redactor, line: &Line) -> Bytes {
    let (text, redacted) = match line {
        Line::Text(text) => (text, redactor.redact(text)),
        Line::TooLong { head, .. } => (head, redactor.redact_cut(head)),
    };
    match redacted {
        Cow::Borrowed(_) => text.clone(),
        Cow::Owned(redacted) => redacted.into(),
    }
}

/// Redacts the texts of a failed start.
pub(super) fn spawn_error(redactor: &Redactor, mut why: SpawnError) -> SpawnError {
    why.texts(&mut |text| redact(redactor, text));
    why
}

fn redact(redactor: &Redactor, text: &mut String) {
    *text = redactor.quote(text.as_bytes(), MAX_TEXT_BYTES);
}

/// Redacts the texts of an input from HTTP. Adds the id of a new session to the known secrets.
pub(super) fn http_input(redactor: &Redactor, mut input: Input) -> Input {
    match &mut input {
        Input::CredentialFailed { why, .. } => why.texts(&mut |text| redact(redactor, text)),
        Input::End { how: ExchangeEnd::NoConnection(error), .. } => error.texts(&mut |text| redact(redactor, text)),
        Input::End { how: ExchangeEnd::Cut(reason), .. } => reason.texts(&mut |text| redact(redactor, text)),
        Input::End { how: ExchangeEnd::Forbidden(reason), .. } => reason.texts(&mut |text| redact(redactor, text)),
        Input::Head { head, .. } => head.session.iter().for_each(|id| redactor.learn_session(id)),
        _ => {}
    }
    input
}

#[cfg(test)]
mod tests {
    use mendline_core::Secret;
    use mendline_core::port::{ConnectError, CutReason, ExchangeId, RefusalReason, Written};

    use super::*;

    const SECRET: &str = "CANARYsecretABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        redactor.learn(&[Secret::new(SECRET)]);
        redactor
    }

    #[test]
    fn s06_line_cut_within_a_secret_shows_no_part_of_it() {
        for shown in 3..SECRET.len() {
            let head = format!("{}{}", "x".repeat(100), &SECRET[..shown]);
            let line = Line::TooLong { length: 5_000, head: head.into(), tail: Bytes::new() };
            let line = stderr_line(&redactor(), &line);
            assert!(!String::from_utf8_lossy(&line).contains("CAN"), "{shown}: {line:?}");
        }
    }

    #[test]
    fn s01_texts_of_failures_are_redacted_where_they_enter() {
        let exchange = ExchangeId(1);
        let text = || format!("broken by \u{1b}[2J{SECRET}");
        for how in [
            ExchangeEnd::NoConnection(ConnectError::Other { target: "host:1".to_owned(), error: text() }),
            ExchangeEnd::Cut(CutReason::NotHttp { error: text() }),
            ExchangeEnd::Forbidden(RefusalReason::Redirect { from: "origin".to_owned(), status: 302, problem: text() }),
        ] {
            let input = http_input(&redactor(), Input::End { exchange, how, written: Written::Nothing });
            let shown = format!("{input:?}");
            assert!(!shown.contains("CAN") && shown.contains("‹secret›") && !shown.contains('\u{1b}'), "{shown}");
        }
        let failure = SpawnError::Other { command: "npx".to_owned(), error: text() };
        let redacted =
            SpawnError::Other { command: "npx".to_owned(), error: "broken by \\u{1b}[2J‹secret›".to_owned() };
        assert_eq!(spawn_error(&redactor(), failure), redacted);
    }
}
