//! The upstreams that were added while the driver runs, and their servers.
//!
//! Several upstreams may have one server: a process or a session for each client. They share its endpoint, its
//! connections, its credential and the store of its lists. All of these are registered under the first upstream of the
//! server, its base. Inputs about the server as a whole are passed on to all its upstreams.

use mendline_core::event::CredentialState;
use mendline_core::{Input, ListCache, Moment, UpstreamConfig, UpstreamId};

use super::{CacheStore, Driver, Host, Observer};
use crate::credential::KeeperHandle;
use crate::frontend::Frontend;

/// Connections for each further upstream of a server: its calls, its notifications, its stream.
const CONNECTIONS_PER_MEMBER: usize = 4;

/// The bases of upstreams that are not bases themselves.
#[derive(Default)]
pub(super) struct Members {
    bases: Vec<Option<UpstreamId>>,
    count: usize,
}

impl Members {
    /// Records an upstream of the server of `base`.
    fn add(&mut self, upstream: UpstreamId, base: UpstreamId) {
        let at = usize::from(upstream.0);
        if at >= self.bases.len() {
            self.bases.resize(at + 1, None);
        }
        self.count += usize::from(self.bases[at].is_none());
        self.bases[at] = Some(base);
    }

    /// Removes an upstream. Returns whether it was a base.
    fn remove(&mut self, upstream: UpstreamId) -> bool {
        let removed = self.bases.get_mut(usize::from(upstream.0)).and_then(Option::take);
        self.count -= usize::from(removed.is_some());
        removed.is_none()
    }

    /// The base of the server of this upstream.
    pub(super) fn base(&self, upstream: UpstreamId) -> UpstreamId {
        self.bases.get(usize::from(upstream.0)).copied().flatten().unwrap_or(upstream)
    }

    /// The upstreams of a server besides its base.
    fn of(&self, base: UpstreamId) -> Vec<UpstreamId> {
        let numbered = (0..).map(UpstreamId).zip(&self.bases);
        numbered.filter(|(_, its)| **its == Some(base)).map(|(upstream, _)| upstream).collect()
    }

    /// The limit of calls in flight at a server whose upstreams have this limit each.
    pub(super) fn call_limit(&self, limit: usize) -> usize {
        limit + self.count * CONNECTIONS_PER_MEMBER
    }
}

/// A server that is added while the driver runs. The host knows its endpoint already.
pub struct AddedServer {
    /// Its upstream.
    pub upstream: UpstreamId,
    /// Its configuration.
    pub config: UpstreamConfig,
    /// Its cached lists.
    pub cached: Option<ListCache>,
    /// The store for its lists.
    pub store: Option<Box<dyn CacheStore>>,
    /// The keeper of its credential.
    pub(crate) keeper: Option<KeeperHandle>,
}

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    /// Adds a server.
    pub(super) fn add_server(&mut self, added: AddedServer, now: Moment) {
        let AddedServer { upstream, config, cached, store, keeper } = added;
        self.host.admit(upstream);
        self.cache_stores.extend(store.map(|store| (upstream, store)));
        self.keepers.extend(keeper.map(|keeper| (upstream, keeper)));
        self.engine.handle(Input::AddUpstream { upstream, config: Box::new(config), like: None }, now);
        if let Some(what) = cached {
            self.engine.handle(Input::Cached { upstream, what }, now);
        }
    }

    /// Passes an input of a frontend with many clients to the engine.
    pub(super) fn handle_multi_input(&mut self, input: Input, now: Moment) {
        let added = match &input {
            Input::AddUpstream { upstream, like: Some(like), .. } => Some((*upstream, self.members.base(*like))),
            _ => None,
        };
        self.engine.handle(input, now);
        let Some((upstream, base)) = added else { return };
        self.members.add(upstream, base);
        // The engine hears of the credential before the first exchange that uses it.
        let number = self.keeper(base).map_or(0, |keeper| keeper.cell().number());
        if number > 0 {
            self.engine.handle(Input::CredentialChanged { upstream, number }, now);
        }
    }

    /// Forgets an upstream that the engine has removed.
    pub(super) fn forget_upstream(&mut self, upstream: UpstreamId) {
        if self.members.remove(upstream) {
            self.cache_stores.retain(|(its, _)| *its != upstream);
            self.keepers.retain(|(its, _)| *its != upstream);
            self.remotes.forget(upstream);
            self.host.forget(upstream);
        }
        if let Some(multi) = &mut self.multi {
            multi.forget_upstream(upstream);
        }
    }

    /// Passes an input about a server on to its upstreams besides the base.
    pub(super) fn pass_to_members(&mut self, input: &Input, now: Moment) {
        let Some(base) = server_of(input) else { return };
        for upstream in self.members.of(base) {
            let is_known = match input {
                // An upstream that hears of the same credential again takes it for a failed renewal.
                Input::CredentialChanged { number, .. } => {
                    self.engine.credential_number(upstream) == Some(*number)
                        && self.engine.credential_state(upstream) != Some(CredentialState::Renewing)
                }
                _ => false,
            };
            if let (false, Some(input)) = (is_known, about(input, upstream)) {
                self.engine.handle(input, now);
            }
        }
    }
}

/// The server that an input is about as a whole.
fn server_of(input: &Input) -> Option<UpstreamId> {
    match input {
        Input::CredentialChanged { upstream, .. }
        | Input::CredentialFailed { upstream, .. }
        | Input::Reconnect { upstream }
        | Input::Isolate { upstream }
        | Input::Resume { upstream }
        | Input::Reconfigure { upstream, .. } => Some(*upstream),
        _ => None,
    }
}

/// The same input about another upstream of the server.
fn about(input: &Input, upstream: UpstreamId) -> Option<Input> {
    Some(match input {
        Input::CredentialChanged { number, .. } => Input::CredentialChanged { upstream, number: *number },
        Input::CredentialFailed { why, .. } => Input::CredentialFailed { upstream, why: why.clone() },
        Input::Reconnect { .. } => Input::Reconnect { upstream },
        Input::Isolate { .. } => Input::Isolate { upstream },
        Input::Resume { .. } => Input::Resume { upstream },
        Input::Reconfigure { config, change, .. } => {
            Input::Reconfigure { upstream, config: config.clone(), change: *change }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_belongs_to_base_until_it_is_removed() {
        let (base, other) = (UpstreamId(0), UpstreamId(1));
        let mut members = Members::default();
        members.add(UpstreamId(7), base);
        members.add(UpstreamId(8), other);
        assert_eq!(
            (members.base(UpstreamId(7)), members.base(other), members.base(UpstreamId(9))),
            (base, other, UpstreamId(9))
        );
        assert_eq!(members.of(base), [UpstreamId(7)]);
        assert!(!members.remove(UpstreamId(7)) && members.remove(base), "only the second is a base");
        assert_eq!((members.of(base), members.call_limit(10)), (vec![], 10 + CONNECTIONS_PER_MEMBER));
    }
}
