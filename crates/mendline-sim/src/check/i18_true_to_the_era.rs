//! I18: when a client disconnects, its calls are cancelled in the modern era and not in the legacy era.
//!
//! In the legacy era only the client cancels; Mendline cancels only after a deadline or after it gave a call up. After
//! a legacy client disconnects, no cancellation may name one of its requests. In the modern era over HTTP, closing the
//! exchange is the cancellation: all exchanges of a disconnected client are aborted at once, and no notification is
//! sent.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::port::ExchangeId;
use mendline_core::{ClientId, Moment};
use mendline_wire::{Method, meta};

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

/// The ids that servers received, and the clients that disconnected.
#[derive(Default)]
pub(super) struct TrueToTheEra {
    given: BTreeMap<(usize, Vec<u8>), Key>,
    modern: BTreeSet<Key>,
    /// Open exchanges of modern calls.
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
                    return Err(format!("{} of a disconnected modern client was not cancelled", oracle.of(*key).id));
                }
            }
            Fact::HandedOut { by, message, key: None } if message.method() == Method::Cancelled => {
                let Some(named) = message.get(&["requestId"]) else { return Ok(()) };
                let Some(key) = self.given.get(&(by.upstream(), named.to_vec())) else {
                    return Err(format!(
                        "a server received a cancellation of {}, which it never received",
                        String::from_utf8_lossy(named)
                    ));
                };
                if matches!(by, Via::Exchange(..)) && self.modern.contains(key) {
                    return Err("a modern call over HTTP was cancelled by a notification".into());
                }
                let record = oracle.of(*key);
                // The cancellation for a passed deadline may still be queued.
                let expired = record.due().is_some_and(|due| due <= now);
                let has_reason = expired || record.cancelled.is_some() || record.answers > 0;
                if self.left.contains(&record.client) && !self.modern.contains(key) && !has_reason {
                    return Err(format!(
                        "{} of a legacy client was cancelled because the client disconnected",
                        record.id
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
