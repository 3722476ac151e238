//! I23: a refused credential is renewed once for all requests.
//!
//! One renewal is requested at a time, and each credential is renewed once for each challenge. A source that is not a
//! login is asked again after a failure, at the pace of the probes, and any source after a reconnect by the operator.
//! While a renewal is requested because the credential is invalid, no call is sent. After a refusal a call is sent again
//! with another credential, once for each challenge.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::config::CredentialKind;
use mendline_core::port::Challenge;
use mendline_core::{Config, Moment, defaults};

use super::Check;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

/// The refusals after which a call may be sent again: of an expired credential, and of one without permissions.
const MOST: u32 = 2;

struct Upstream {
    kind: CredentialKind,
    number: u32,
    requested: Option<Challenge>,
    /// The credentials that were renewed, and for which challenge.
    renewed: BTreeSet<(u32, bool)>,
    failed: Option<Moment>,
    /// The credential that each call was last sent with, and the number of its refusals before.
    sent: BTreeMap<Key, (u32, u32)>,
}

/// The credentials of each upstream.
pub(super) struct OneRenewal {
    upstreams: Vec<Upstream>,
}

impl OneRenewal {
    pub(super) fn new(config: &Config) -> OneRenewal {
        let upstreams = config.upstreams.iter().map(|upstream| Upstream {
            kind: upstream.credential,
            number: 0,
            requested: None,
            renewed: BTreeSet::new(),
            failed: None,
            sent: BTreeMap::new(),
        });
        OneRenewal { upstreams: upstreams.collect() }
    }
}

impl Upstream {
    fn request(&mut self, refused: u32, challenge: Challenge, now: Moment) -> Result<(), String> {
        if !self.kind.is_renewable() {
            return Err("a renewal of a fixed credential was requested".into());
        }
        if self.requested.replace(challenge).is_some() {
            return Err(format!("a renewal of credential {refused} was requested during another one"));
        }
        if refused != self.number {
            return Err(format!("a renewal of credential {refused} was requested, but {} is used", self.number));
        }
        let is_first = self.renewed.insert((refused, challenge == Challenge::Scope));
        let is_paced = self.failed.is_some_and(|failed| now - failed >= defaults::LOGIN_PROBE);
        match is_first || (self.kind == CredentialKind::Source && is_paced) {
            true => Ok(()),
            false => Err(format!("a renewal of credential {refused} was requested twice")),
        }
    }

    fn send(&mut self, key: Key, oracle: &Oracle) -> Result<(), String> {
        let record = oracle.of(key);
        if self.requested == Some(Challenge::Credential) {
            return Err(format!("{} was sent with a credential that is being renewed", record.id));
        }
        let refused = record.refused_for_credential;
        if refused > MOST && record.possibly_run() == 0 && !record.is_replayed_state() {
            return Err(format!("{} was sent again after {refused} refusals of its credential", record.id));
        }
        let last = self.sent.insert(key, (self.number, refused));
        match last {
            Some((number, before)) if number == self.number && refused > before && !record.is_replayed_state() => {
                Err(format!("{} was sent again with the refused credential {number}", record.id))
            }
            _ => Ok(()),
        }
    }
}

impl Check for OneRenewal {
    fn name(&self) -> &'static str {
        "I23 one renewal"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::RenewCredential(upstream, refused, challenge)) => {
                self.upstreams[*upstream].request(*refused, *challenge, now)
            }
            // The source of the old target is gone.
            Fact::Requested(EngineOutput::Renew(upstream)) => {
                let it = &mut self.upstreams[*upstream];
                it.requested = None;
                it.renewed.clear();
                it.sent.clear();
                Ok(())
            }
            // The operator allows another renewal.
            Fact::ManualAction(upstream) => {
                self.upstreams[*upstream].renewed.clear();
                Ok(())
            }
            Fact::CredentialChanged(upstream, number) => {
                let it = &mut self.upstreams[*upstream];
                (it.number, it.requested, it.failed) = (*number, None, None);
                Ok(())
            }
            Fact::CredentialFailed { upstream, can_pass: false } => {
                let it = &mut self.upstreams[*upstream];
                (it.requested, it.failed) = (None, Some(now));
                Ok(())
            }
            Fact::HandedOut { by: Via::Exchange(upstream, _), key: Some(key), .. } => {
                self.upstreams[*upstream].send(*key, oracle)
            }
            _ => Ok(()),
        }
    }
}
