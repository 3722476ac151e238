//! Counts of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::Reply;

/// The counts of one side under one fault, or under all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u32,
    /// Number of times that the fault hit this side.
    pub(super) hits: u32,
    pub(super) answered: u32,
    pub(super) may_have_run: u32,
    pub(super) failed: u32,
    pub(super) lost: u32,
    pub(super) hung: u32,
    /// Writes that ran more than once.
    pub(super) twice: u32,
    /// Writes that were reported as done but did not run.
    pub(super) invented: u32,
    pub(super) slowest: Duration,
}

impl Counts {
    /// Counts one reply.
    pub(super) fn note(&mut self, reply: Reply, took: Duration) {
        self.calls += 1;
        self.slowest = self.slowest.max(took);
        match reply {
            Reply::Answered => self.answered += 1,
            Reply::MayHaveRun => self.may_have_run += 1,
            Reply::Failed => self.failed += 1,
            Reply::Lost => self.lost += 1,
            Reply::Hung => self.hung += 1,
        }
    }

    /// Compares the writes that were reported to the client with the ledger of its server.
    pub(super) fn audit(&mut self, reported: &[String], ledger: &str) {
        let mut notes: BTreeMap<&str, u32> = BTreeMap::new();
        for line in ledger.lines() {
            if let Some(key) = line.strip_prefix("executed create_note ").and_then(|rest| rest.split(' ').next()) {
                *notes.entry(key).or_insert(0) += 1;
            }
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.twice = count(notes.values().filter(|times| **times > 1).count());
        self.invented = count(reported.iter().filter(|key| !notes.contains_key(key.as_str())).count());
        self.hits += count(ledger.lines().filter(|line| line.starts_with("hit ")).count());
    }

    pub(super) fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.hits += other.hits;
        self.answered += other.answered;
        self.may_have_run += other.may_have_run;
        self.failed += other.failed;
        self.lost += other.lost;
        self.hung += other.hung;
        self.twice += other.twice;
        self.invented += other.invented;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Returns whether no call was lost, repeated or invented, and at most `unknown` outcomes are unknown.
    pub(super) fn passed(&self, unknown: u32) -> bool {
        self.lost + self.hung + self.failed + self.twice + self.invented == 0 && self.may_have_run <= unknown
    }

    /// Returns the number of answered calls, and the outcomes of the others.
    pub(super) fn words(&self) -> String {
        let mut words = format!("{} of {}", self.answered, self.calls);
        let others =
            [(self.may_have_run, "unknown"), (self.failed, "failed"), (self.lost, "lost"), (self.hung, "hung")];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            words += &format!(", {count} {what}");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(replies: &[Reply]) -> Counts {
        let mut counts = Counts::default();
        replies.iter().for_each(|reply| counts.note(*reply, Duration::ZERO));
        counts
    }

    #[test]
    fn effects_are_counted_from_the_ledger() {
        let mut counted = counts(&[Reply::Answered; 3]);
        let reported = ["k2", "k4", "k6"].map(str::to_owned);
        counted.audit(
            &reported,
            "start 1\nexecuted create_note k2 1\nhit 1\nexecuted create_note k4 1\nexecuted create_note k4 9\n",
        );
        assert_eq!((counted.twice, counted.invented, counted.hits), (1, 1, 1));
        assert!(!counted.passed(0));
    }

    #[test]
    fn every_kind_of_lost_call_fails_the_demo() {
        assert!(counts(&[Reply::Answered, Reply::MayHaveRun]).passed(1));
        assert!(!counts(&[Reply::MayHaveRun, Reply::MayHaveRun]).passed(1));
        for reply in [Reply::Failed, Reply::Lost, Reply::Hung] {
            assert!(!counts(&[Reply::Answered, reply]).passed(9), "{reply:?}");
        }
    }

    #[test]
    fn words_name_only_nonzero_counts() {
        assert_eq!(counts(&[Reply::Answered; 4]).words(), "4 of 4");
        let all = [Reply::Answered, Reply::MayHaveRun, Reply::Failed, Reply::Lost, Reply::Hung];
        assert_eq!(counts(&all).words(), "1 of 5, 1 unknown, 1 failed, 1 lost, 1 hung");
    }
}
