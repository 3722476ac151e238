//! The time from the loss of an available server until it is available again.
//!
//! An outage begins when a connection or process is lost, or when a verdict says that the server is away. It ends with
//! the first answer. What happens in between (failed dials, further verdicts, parking) belongs to the same outage.

use super::Durations;
use crate::event::Condition;
use crate::moment::Moment;

/// The current outage, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outage {
    lost_at: Option<Moment>,
}

impl Outage {
    /// The connection or process was lost.
    pub(super) fn lost(&mut self, now: Moment) {
        self.lost_at.get_or_insert(now);
    }

    /// The server has answered.
    pub(super) fn available(&mut self, now: Moment, recoveries: &mut Durations) {
        if let Some(lost_at) = self.lost_at.take() {
            recoveries.note(now.since(lost_at));
        }
    }

    /// The condition of the server is known.
    pub(super) fn verdict(&mut self, condition: Condition, now: Moment, recoveries: &mut Durations) {
        match condition {
            Condition::Available => self.available(now, recoveries),
            Condition::Away => self.lost(now),
            _ => {}
        }
    }
}
