//! The retry budget of a server, and which incidents were charged to it.

use crate::moment::Moment;
use crate::policy::budget::Budget;

/// The incident that made a call lose its attempt. It is charged to the retry budget once, however many calls it hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// It costs nothing: the call cannot have run, or the server has asked for a pause.
    Free,
    /// The call alone.
    Own,
    /// The loss of the session with this number.
    Session(u32),
    /// The loss of a link, counted.
    Link(u64),
    /// The verdict with this number about a suspect server.
    Verdict(u64),
}

/// The retry budget of a server.
#[derive(Debug)]
pub struct RetryBudget {
    budget: Budget,
    /// The incident that was charged last.
    charged: Option<Incident>,
    /// The number of lost links.
    links_lost: u64,
}

impl RetryBudget {
    pub fn new() -> Self {
        RetryBudget { budget: Budget::new(Moment::ZERO), charged: None, links_lost: 0 }
    }

    /// Records an answered call.
    pub fn earn(&mut self) {
        self.budget.earn();
    }

    /// Pays for one retry. Returns whether the budget allows it.
    pub fn try_spend(&mut self, now: Moment) -> bool {
        self.budget.try_spend(now)
    }

    /// Records the loss of the link.
    pub fn note_link_lost(&mut self) {
        self.links_lost += 1;
    }

    /// The last loss of the link.
    pub fn last_link_lost(&self) -> Incident {
        Incident::Link(self.links_lost)
    }

    /// Charges an incident to the retry budget, once for all the calls that it hit.
    pub fn charge(&mut self, incident: Incident, now: Moment) -> bool {
        match incident {
            Incident::Free => true,
            Incident::Own => self.budget.try_spend(now),
            _ if self.charged == Some(incident) => true,
            // Each call is sent once more for a lost session, so its loss is charged, but never refused.
            Incident::Session(_) => {
                self.budget.try_spend(now);
                self.charged = Some(incident);
                true
            }
            Incident::Link(_) | Incident::Verdict(_) => {
                let is_affordable = self.budget.try_spend(now);
                self.charged = Some(incident).filter(|_| is_affordable);
                is_affordable
            }
        }
    }
}
