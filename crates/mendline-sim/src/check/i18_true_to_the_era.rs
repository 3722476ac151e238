//! I18: when a client leaves, the modern era cancels what it asked for and the legacy era does not.
//!
//! In the legacy era only the client's own word cancels; Mendline adds none of its own but for a deadline that has passed
//! or a call that it gave up. So after a client of that era has left, no cancellation may go out that names a request of its
//! own. In the modern era over HTTP closing the exchange is the cancellation: whatever a client that left had under way is
//! given up before anything else happens, and no notification is ever sent.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::port::ExchangeId;
use mendline_core::{ClientId, Moment};
use mendline_wire::{Method, meta};

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

/// What each server was given under which id, and who has left.
#[derive(Default)]
pub(super) struct TrueToTheEra {
    given: BTreeMap<(usize, Vec<u8>), Key>,
    modern: BTreeSet<Key>,
    /// Exchanges that carry a modern call and are not given up.
    open: BTreeMap<ExchangeId, Key>,
    left: BTreeSet<ClientId>,
}

impl Check for TrueToTheEra {
    fn name(&self) -> &'static str {
        "I18 true to the era"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::ClientLeft(client) => {
                self.left.insert(*client);
            }
            Fact::HandedOut { by, message, key: Some(key) } => {
                self.given.insert((by.upstream(), message.id().unwrap_or_default().to_vec()), *key);
                if meta::is_modern(message) {
                    self.modern.insert(*key);
                    if let Via::Exchange(_, exchange) = by {
                        self.open.insert(*exchange, *key);
                    }
                }
            }
            Fact::Requested(EngineOutput::Abort(exchange)) | Fact::Reported { exchange, report: Report::End, .. } => {
                self.open.remove(exchange);
            }
            Fact::Settled { .. } if !self.left.is_empty() => {
                let leftover = self.open.values().find(|key| self.left.contains(&oracle.of(**key).client));
                if let Some(key) = leftover {
                    return Err(format!("{} of a modern client that left was not cancelled", oracle.of(*key).id));
                }
            }
            Fact::HandedOut { by, message, key: None } if message.method() == Method::Cancelled => {
                let Some(named) = message.get(&["requestId"]) else { return Ok(()) };
                let Some(key) = self.given.get(&(by.upstream(), named.to_vec())) else {
                    return Err(format!(
                        "a server was told to cancel {}, which it was never given",
                        String::from_utf8_lossy(named)
                    ));
                };
                if matches!(by, Via::Exchange(..)) && self.modern.contains(key) {
                    return Err("a modern call over HTTP was cancelled by a notification".into());
                }
                let record = oracle.of(*key);
                // A deadline that passed before the client left may have its cancellation still in the queue.
                let expired = record.due().is_some_and(|due| due <= now);
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
