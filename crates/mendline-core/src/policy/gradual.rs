//! The gradual admission of calls after a pause.
//!
//! A server that was overloaded would be overloaded again if all waiting calls came at once. So one call goes first; its
//! answer admits two more, the next answer four, and so on. A call can take minutes without a refusal, so another one
//! follows after a second in any case.

use std::time::Duration;

use crate::moment::Moment;

/// The interval after which another call is admitted without an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The calls that are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradual {
    /// Calls that may be sent now.
    left: u64,
    /// The number of calls that the next answer admits.
    next: u64,
    /// The time of the last send.
    sent: Option<Moment>,
    /// Only an answer admits a call.
    is_blocked: bool,
}

impl Gradual {
    /// One call is admitted.
    pub fn beginning() -> Gradual {
        Gradual { left: 1, next: 2, sent: None, is_blocked: false }
    }

    /// No call is admitted before an answer.
    pub fn blocked() -> Gradual {
        Gradual { left: 0, next: 2, sent: None, is_blocked: true }
    }

    /// The time at which the next call is admitted; an estimate while it is blocked.
    pub fn opens_at(self, now: Moment) -> Moment {
        match self.sent {
            _ if self.left > 0 => now,
            _ if self.is_blocked => now + PATIENCE,
            Some(sent) => now.max(sent + PATIENCE),
            None => now,
        }
    }

    /// Records a sent call.
    pub fn note_sent(&mut self, now: Moment) {
        self.left = self.left.saturating_sub(1);
        self.sent = Some(now);
    }

    /// Records an answer. Returns the number of calls that it admits.
    pub fn note_answer(&mut self) -> u64 {
        self.is_blocked = false;
        let admitted = self.next;
        self.left = self.left.saturating_add(admitted);
        self.next = self.next.saturating_mul(2);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_admits_twice_as_many_calls() {
        let mut admission = Gradual::beginning();
        let now = Moment(5);
        let mut sent = Vec::new();
        for _ in 0..4 {
            let mut batch = 0;
            while admission.opens_at(now) <= now {
                admission.note_sent(now);
                batch += 1;
            }
            sent.push(batch);
            admission.note_answer();
        }
        assert_eq!(sent, [1, 2, 4, 8]);
    }

    #[test]
    fn another_call_follows_after_a_second_without_an_answer() {
        let mut admission = Gradual::beginning();
        let now = Moment(5);
        admission.note_sent(now);
        assert_eq!(admission.opens_at(now), now + PATIENCE);
        let mut blocked = Gradual::blocked();
        assert!(blocked.opens_at(now) > now, "only an answer admits a call");
        let later = blocked.opens_at(now);
        assert!(blocked.opens_at(later) > later);
        blocked.note_answer();
        assert_eq!(blocked.opens_at(now), now);
    }
}
