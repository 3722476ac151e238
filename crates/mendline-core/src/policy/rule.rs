//! The rule that decided about a call after a lost attempt: whether it is sent again, or why it is answered with a failure.
//!
//! The decisions are made in the retry table ([`super::retry`]), the gate, the budget and the deadlines. This module names
//! them: one table for retries and one for failures, so that events, logs and people know a rule by one stable name.

use std::fmt;

use super::effect::Effect;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::reason::{Reason, RefusalReason};
use crate::words::Cause;

macro_rules! rules {
    ($($variant:ident $name:literal $text:literal,)*) => {
        /// A rule about a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $text] $variant,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$variant,)*];

            /// Returns the stable name for logs and programs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Rule::$variant => $name,)*
                }
            }

            fn text(self) -> &'static str {
                match self {
                    $(Rule::$variant => $text,)*
                }
            }
        }
    };
}

rules! {
    NotSent "not_sent" "The server cannot have received the whole request, so it is sent without a cost.",
    Refused "refused" "The server refused the request before it processed it, so it may be sent again.",
    MayRepeat "may_repeat" "The request may have run, but it may run twice: it is a read or idempotent.",
    InternalError "internal_error" "A read that the server answers with an internal error is sent once more.",
    ConfiguredCode "configured_code" "The configuration has a rule for this error code (retry.codes).",
    ConfiguredStatus "configured_status" "The configuration has a rule for this HTTP status (retry.statuses).",
    NotRepeatable "not_repeatable" "The request may have run and must not run twice, so it is not sent again.",
    AttemptsSpent "attempts_spent" "The limit of attempts is reached (retry.attempts).",
    BudgetSpent "budget_spent" "The retry budget of the server is spent, so no call is sent again for now.",
    HeldBack "held_back" "An open breaker or a pause of the server leaves no time for another attempt.",
    Deadline "deadline" "The deadline of the call passed.",
    QueueFull "queue_full" "Too many calls wait for the server already.",
    RateLimited "rate_limited" "The rate limit leaves no slot before the deadline of the call.",
    BreakerOpen "breaker_open" "The breaker is open: calls are answered at once until a trial call succeeds.",
    Isolated "isolated" "The operator has taken the server out of service.",
    Parked "parked" "The server is parked: it was tried without success and is now tried rarely.",
    Unavailable "unavailable" "The server is not available, and the call cannot wait for it any longer.",
    NeedsLogin "needs_login" "The server requires a credential that only a person can provide.",
    RefusedForGood "refused_for_good" "The server refused the request and would refuse it again.",
    CannotPassOn "cannot_pass_on" "The reply of the server cannot be passed on to the client.",
    OtherEra "other_era" "The server supports only revisions of the protocol that the request does not use.",
    Stopping "stopping" "Mendline stops and answers its open calls.",
}

/// The facts of a failure that select its rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureFacts<'a> {
    pub(crate) cause: Cause,
    /// The worst outcome of its attempts.
    pub(crate) outcome: Outcome,
    pub(crate) effect: Effect,
    pub(crate) why: &'a Reason,
    /// All its attempts are used.
    pub(crate) is_spent: bool,
    /// The configuration has a rule for the HTTP status of the reason.
    pub(crate) has_status_rule: bool,
}

impl Rule {
    /// Returns the rule with this name.
    pub fn from_name(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }

    /// The rule by which a call with this evidence is sent again.
    pub(crate) fn of_retry(evidence: Evidence, has_status_rule: bool) -> Rule {
        match (evidence.reply, evidence.outcome()) {
            (Reply::Unprocessed(_), _) => Rule::ConfiguredStatus,
            (Reply::Status(_), Outcome::Unknown) if has_status_rule => Rule::ConfiguredStatus,
            (_, Outcome::NotSent) => Rule::NotSent,
            (_, Outcome::Refused) => Rule::Refused,
            (_, Outcome::Unknown | Outcome::Answered) => Rule::MayRepeat,
        }
    }

    /// The rule by which a request is rejected: it was never sent.
    pub fn of_rejection(cause: Cause, why: &Reason) -> Rule {
        let (outcome, effect) = (Outcome::NotSent, Effect::Read);
        Rule::of_failure(FailureFacts { cause, outcome, effect, why, is_spent: false, has_status_rule: false })
    }

    /// The rule by which a call is answered with a failure.
    pub(crate) fn of_failure(facts: FailureFacts<'_>) -> Rule {
        let FailureFacts { cause, outcome, effect, why, is_spent, has_status_rule } = facts;
        let is_spent = is_spent && outcome != Outcome::NotSent;
        match (cause, why) {
            (_, Reason::NotRetried(_)) => Rule::BudgetSpent,
            (_, Reason::Refusal(RefusalReason::Stopping)) => Rule::Stopping,
            (_, Reason::Refusal(RefusalReason::Isolated)) => Rule::Isolated,
            (Cause::TimedOut, _) => Rule::Deadline,
            (Cause::Overloaded, _) => Rule::QueueFull,
            (Cause::BreakerOpen, _) => Rule::BreakerOpen,
            (Cause::Parked, _) => Rule::Parked,
            (Cause::NeedsLogin, _) => Rule::NeedsLogin,
            (Cause::CannotBridge, _) => Rule::CannotPassOn,
            (Cause::OtherEra, _) => Rule::OtherEra,
            (Cause::Refused, _) if has_status_rule => Rule::ConfiguredStatus,
            (Cause::Refused, _) => Rule::RefusedForGood,
            (Cause::OutcomeUnknown, _) if !effect.is_repeatable() => Rule::NotRepeatable,
            (Cause::OutcomeUnknown | Cause::RateLimited | Cause::Unavailable, _) if is_spent => Rule::AttemptsSpent,
            (Cause::OutcomeUnknown, _) if has_status_rule => Rule::ConfiguredStatus,
            (Cause::OutcomeUnknown, _) => Rule::HeldBack,
            (Cause::RateLimited, _) => Rule::RateLimited,
            (Cause::Unavailable, _) => Rule::Unavailable,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Written;

    fn facts(cause: Cause, outcome: Outcome, effect: Effect) -> FailureFacts<'static> {
        FailureFacts { cause, outcome, effect, why: &Reason::ConnectionEnded, is_spent: false, has_status_rule: false }
    }

    #[test]
    fn every_rule_is_found_by_its_own_name() {
        for &rule in Rule::ALL {
            assert_eq!(Rule::from_name(rule.name()), Some(rule));
            assert!(rule.to_string().ends_with('.'), "{rule}");
        }
        assert_eq!(Rule::from_name("no_rule"), None);
    }

    #[test]
    fn retries_have_the_rule_of_their_evidence() {
        let evidence = |reply| Evidence { written: Written::Whole, reply };
        for (evidence, has_status_rule, expected) in [
            (Evidence::UNSENT, false, Rule::NotSent),
            (Evidence::SILENCE, false, Rule::MayRepeat),
            (evidence(Reply::Status(429)), false, Rule::Refused),
            (evidence(Reply::Status(502)), false, Rule::MayRepeat),
            (evidence(Reply::Status(502)), true, Rule::ConfiguredStatus),
            (evidence(Reply::Unprocessed(502)), true, Rule::ConfiguredStatus),
            (evidence(Reply::SessionGone), false, Rule::Refused),
        ] {
            assert_eq!(Rule::of_retry(evidence, has_status_rule), expected, "{evidence:?}");
        }
    }

    #[test]
    fn unsafe_call_is_not_repeatable_and_a_read_has_limits() {
        let unknown = |effect| facts(Cause::OutcomeUnknown, Outcome::Unknown, effect);
        assert_eq!(Rule::of_failure(unknown(Effect::Unsafe)), Rule::NotRepeatable);
        assert_eq!(Rule::of_failure(unknown(Effect::Read)), Rule::HeldBack);
        let spent = FailureFacts { is_spent: true, ..unknown(Effect::Read) };
        assert_eq!(Rule::of_failure(spent), Rule::AttemptsSpent);
        let why = Reason::NotRetried(Box::new(Reason::ConnectionEnded));
        assert_eq!(Rule::of_failure(FailureFacts { why: &why, ..spent }), Rule::BudgetSpent);
    }

    #[test]
    fn rejected_request_has_the_rule_of_its_cause() {
        let isolated = Reason::Refusal(RefusalReason::Isolated);
        assert_eq!(Rule::of_rejection(Cause::BreakerOpen, &isolated), Rule::Isolated);
        assert_eq!(Rule::of_rejection(Cause::BreakerOpen, &Reason::ConnectionEnded), Rule::BreakerOpen);
        assert_eq!(Rule::of_rejection(Cause::Parked, &Reason::ConnectionEnded), Rule::Parked);
    }

    #[test]
    fn stopping_outranks_the_cause() {
        let why = Reason::Refusal(RefusalReason::Stopping);
        let unknown = facts(Cause::OutcomeUnknown, Outcome::Unknown, Effect::Unsafe);
        assert_eq!(Rule::of_failure(FailureFacts { why: &why, ..unknown }), Rule::Stopping);
        let unsent = FailureFacts { is_spent: true, ..facts(Cause::Unavailable, Outcome::NotSent, Effect::Read) };
        assert_eq!(Rule::of_failure(unsent), Rule::Unavailable);
    }
}
