//! I7: never a storm.
//!
//! One dial at a time per upstream: no second child is asked for before the first is known to have failed or ended. And
//! never more than thirty dials in any minute.

use std::collections::VecDeque;
use std::time::Duration;

use mendline_core::{LinkId, Moment};

use super::Check;
use crate::fact::Fact;
use crate::machine::Act;
use crate::oracle::Oracle;

const PER_MINUTE: usize = 30;

#[derive(Default)]
struct Dials {
    recent: VecDeque<Moment>,
    open: Option<LinkId>,
}

/// Remembers the last dials of each upstream.
pub(super) struct Calm {
    upstreams: Vec<Dials>,
}

impl Calm {
    pub(super) fn new(upstreams: usize) -> Calm {
        Calm { upstreams: std::iter::repeat_with(Dials::default).take(upstreams).collect() }
    }
}

impl Check for Calm {
    fn name(&self) -> &'static str {
        "I7 calm"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Wanted(Act::Spawn(link)) => {
                let Some(dials) = self.upstreams.get_mut(usize::from(link.upstream.0)) else { return Ok(()) };
                if let Some(open) = dials.open {
                    return Err(format!("dial {} was begun before dial {} was over", link.dial, open.dial));
                }
                dials.open = Some(*link);
                dials.recent.push_back(now);
                while dials.recent.front().is_some_and(|first| now - *first >= Duration::from_secs(60)) {
                    dials.recent.pop_front();
                }
                if dials.recent.len() > PER_MINUTE {
                    return Err(format!("{} dials within a minute", dials.recent.len()));
                }
            }
            Fact::NotStarted(link) | Fact::Exited(link) => {
                if let Some(dials) = self.upstreams.get_mut(usize::from(link.upstream.0)) {
                    dials.open = None;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
