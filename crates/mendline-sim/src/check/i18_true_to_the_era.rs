//! I18: when a client leaves, the modern era cancels what it asked for and the legacy era does not.
//!
//! In the legacy era only the client's own word cancels; Mendline adds none of its own but for a deadline that has passed
//! or a call that it gave up. So after a client of that era has left, no cancellation may go out that names a request of its
//! own.

use std::collections::BTreeSet;

use mendline_core::{ClientId, LinkId, Moment};
use mendline_wire::{Method, meta};

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Key, Oracle};

/// What each child was given under which id, and who has left.
#[derive(Default)]
pub(super) struct TrueToTheEra {
    given: std::collections::BTreeMap<(LinkId, Vec<u8>), Key>,
    modern: BTreeSet<Key>,
    left: BTreeSet<ClientId>,
}

impl Check for TrueToTheEra {
    fn name(&self) -> &'static str {
        "I18 true to the era"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Left(client) => {
                self.left.insert(*client);
            }
            Fact::Handed { link, message, key: Some(key) } => {
                self.given.insert((*link, message.id().unwrap_or_default().to_vec()), *key);
                if meta::is_modern(message) {
                    self.modern.insert(*key);
                }
            }
            Fact::Handed { link, message, key: None } if message.method() == Method::Cancelled => {
                let Some(named) = message.get(&["requestId"]) else { return Ok(()) };
                let Some(key) = self.given.get(&(*link, named.to_vec())) else {
                    return Err(format!(
                        "a child was told to cancel {}, which it was never given",
                        String::from_utf8_lossy(named)
                    ));
                };
                let record = oracle.of(*key);
                // A deadline that passed before the client left may have its cancellation still in the queue.
                let expired = record.due(&oracle.patience[record.upstream]).is_some_and(|due| due <= now);
                let has_reason = expired || record.cancelled.is_some() || record.answers > 0;
                if self.left.contains(&record.client) && !self.modern.contains(key) && !has_reason {
                    return Err(format!("{} of a legacy client was cancelled because the client left", record.id));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
