//! The retry table.
//!
//! | Result of the attempt | Examples | Sent again |
//! |---|---|---|
//! | not sent | no connection; partial write | always; costs nothing, the wait bounds it |
//! | refused | 429; a lost session; 421; REFUSED_STREAM | always; costs an attempt and budget |
//! | refused for good | 401, 403, 404, 405, 413 … | never: it would be refused again |
//! | unknown | a dropped connection; 5xx, 400, 408 …; silence | if it may run twice; costs an attempt and budget |
//! | answered: internal error | -32603 | once, if it is a read; costs an attempt and budget |
//! | answered: anything else | -32700 malformed, -32600 invalid request, -32601 no such method or tool, -32602 invalid parameters; a result, `isError` or not | never: it is the server's answer |
//! | its deadline has passed | | never |
//!
//! A configured rule for an error code (`retry.codes`) or an HTTP status without a JSON-RPC response (`retry.statuses`)
//! replaces its row. The limit of attempts and the retry budget always apply.

use mendline_wire::code;

use super::effect::Effect;
use crate::config::{OnError, Retry};
use crate::evidence::Outcome;

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No answer that could be passed on.
    Unanswered(Outcome),
    /// A JSON-RPC error with this code.
    Error(i64),
}

/// The decision about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Sent again without cost: the peer did not receive it.
    Free,
    /// Sent again for an attempt, if one is left, and one retry of the budget.
    Charged,
    /// Not sent again.
    Never,
}

/// The decision of a configured rule for an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRule {
    /// The call is answered at once.
    Answer,
    /// The call may be sent again, as if it is not known whether it ran.
    Repeat,
    /// The call may be sent again: the operator states that it did not run.
    Unprocessed,
}

/// Returns the configured rule for this status, if there is one.
pub fn rule_for_status(status: u16, effect: Effect, policy: &Retry) -> Option<StatusRule> {
    Some(match policy.statuses.get(&status)? {
        OnError::Always => StatusRule::Unprocessed,
        OnError::Reads if effect.is_repeatable() => StatusRule::Repeat,
        OnError::Reads | OnError::Never => StatusRule::Answer,
    })
}

/// Looks up the table.
pub fn decide(loss: Loss, effect: Effect, policy: &Retry) -> RetryDecision {
    let if_so = |may: bool| if may { RetryDecision::Charged } else { RetryDecision::Never };
    match loss {
        Loss::Unanswered(Outcome::NotSent) => RetryDecision::Free,
        Loss::Unanswered(Outcome::Refused) => RetryDecision::Charged,
        Loss::Unanswered(Outcome::Unknown) => if_so(effect.is_repeatable()),
        Loss::Unanswered(Outcome::Answered) => RetryDecision::Never,
        Loss::Error(code) => match policy.codes.get(&code) {
            Some(OnError::Always) => RetryDecision::Charged,
            Some(OnError::Reads) => if_so(effect == Effect::Read),
            Some(OnError::Never) => RetryDecision::Never,
            None => if_so(code == code::INTERNAL_ERROR && effect == Effect::Read),
        },
    }
}

/// The limit of attempts after this error code. An internal error that repeats itself is the server's answer, so it is
/// retried once; a configured rule has all attempts.
pub fn attempts_after(code: i64, policy: &Retry) -> u32 {
    if policy.codes.contains_key(&code) { policy.attempts } else { policy.attempts.min(2) }
}

/// The outcome of an attempt that is retried after an error. Usually *unknown*: it may have run. The rule *always* for
/// a code states that the server did nothing.
pub fn outcome_of_error(code: i64, policy: &Retry) -> Outcome {
    match policy.codes.get(&code) {
        Some(OnError::Always) => Outcome::Refused,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RetryDecision::{Charged, Free, Never};

    #[test]
    fn every_row_of_the_retry_table_holds() {
        let policy = Retry::default();
        let rows = [
            ("no connection", Loss::Unanswered(Outcome::NotSent), [Free, Free, Free]),
            ("429", Loss::Unanswered(Outcome::Refused), [Charged, Charged, Charged]),
            ("503, or the line broke", Loss::Unanswered(Outcome::Unknown), [Charged, Charged, Never]),
            ("answered", Loss::Unanswered(Outcome::Answered), [Never, Never, Never]),
            ("internal error", Loss::Error(-32603), [Charged, Never, Never]),
            ("malformed", Loss::Error(-32700), [Never, Never, Never]),
            ("no request", Loss::Error(-32600), [Never, Never, Never]),
            ("no such method", Loss::Error(-32601), [Never, Never, Never]),
            ("wrong parameters", Loss::Error(-32602), [Never, Never, Never]),
            ("no such tool, by the first tables", Loss::Error(-32001), [Never, Never, Never]),
            ("a code of the server's own", Loss::Error(17), [Never, Never, Never]),
        ];
        for (what, loss, expected) in rows {
            let seen = [Effect::Read, Effect::Idempotent, Effect::Unsafe].map(|effect| decide(loss, effect, &policy));
            assert_eq!(seen, expected, "{what}");
        }
    }

    #[test]
    fn configured_status_has_its_rule() {
        let statuses = [(502, OnError::Never), (503, OnError::Reads), (504, OnError::Always)].into();
        let policy = Retry { statuses, ..Retry::default() };
        let of =
            |status| [Effect::Read, Effect::Idempotent, Effect::Unsafe].map(|it| rule_for_status(status, it, &policy));
        use StatusRule::{Answer, Repeat, Unprocessed};
        assert_eq!(of(500), [None; 3]);
        assert_eq!(of(502), [Some(Answer); 3]);
        assert_eq!(of(503), [Some(Repeat), Some(Repeat), Some(Answer)]);
        assert_eq!(of(504), [Some(Unprocessed); 3]);
    }

    #[test]
    fn configured_code_replaces_its_row() {
        let codes = [(-32603, OnError::Never), (-32001, OnError::Reads), (-32002, OnError::Always)].into();
        let policy = Retry { codes, ..Retry::default() };
        let of =
            |code| [Effect::Read, Effect::Idempotent, Effect::Unsafe].map(|it| decide(Loss::Error(code), it, &policy));
        assert_eq!(of(-32603), [Never, Never, Never]);
        assert_eq!(of(-32001), [Charged, Never, Never]);
        assert_eq!(of(-32002), [Charged, Charged, Charged]);
        assert_eq!(
            (outcome_of_error(-32001, &policy), outcome_of_error(-32002, &policy)),
            (Outcome::Unknown, Outcome::Refused)
        );
    }
}
