//! Runs the outputs of the engine.

use std::time::{SystemTime, UNIX_EPOCH};

use mendline_core::defaults::FINAL_WRITE;
use mendline_core::port::{Challenge, ConnectError, CredentialError, ExchangeEnd, Written};
use mendline_core::{Input, LinkId, Moment, Output, UpstreamId};

use super::link::Link;
use super::{At, Child, Direction, Driver, Host, Iteration, Observer, peer_text, wire};
use crate::credential::KeeperHandle;
use crate::frontend::Frontend;

/// The limit of outputs in one iteration.
const OUTPUTS_PER_ITERATION: usize = 1024;

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    /// Runs the outputs of the engine. Requests another iteration after outputs that can cause new inputs; events and
    /// cache writes cannot.
    pub(super) fn run_outputs(&mut self, now: Moment, iteration: &mut Iteration) {
        let mut unix_micros = None;
        for _ in 0..OUTPUTS_PER_ITERATION {
            let Some(output) = self.engine.poll_output() else {
                return;
            };
            match output {
                Output::Event(event) => {
                    let unix_micros = *unix_micros.get_or_insert_with(unix_micros_now);
                    self.observer.on_event(&event, At { moment: now, unix_micros });
                    continue;
                }
                Output::Cache { upstream, what } => {
                    let base = self.members.base(upstream);
                    if let Some((_, store)) = self.cache_stores.iter_mut().find(|(its, _)| *its == base) {
                        store.store(what);
                    }
                    continue;
                }
                Output::Exchange { exchange, mut request, reuse, .. } => {
                    iteration.exchange_changed = true;
                    if let (true, Some(body)) = (self.wire_enabled, &request.body) {
                        wire::show_message(&mut self.observer, exchange.upstream(), Direction::ToServer, body);
                    }
                    if let Some(multi) = &self.multi {
                        request.headers.extend(multi.request_headers(exchange.upstream()));
                    }
                    let base = self.members.base(exchange.upstream());
                    if !self.remotes.begin(base, exchange, *request, reuse, &mut self.host) {
                        let how = ExchangeEnd::NoConnection(ConnectError::NotConfigured);
                        self.engine.handle(Input::End { exchange, how, written: Written::Nothing }, now);
                    }
                    continue;
                }
                Output::Abort { exchange } => {
                    iteration.exchange_changed = true;
                    self.remotes.abort(self.members.base(exchange.upstream()), exchange);
                    continue;
                }
                Output::StreamReady { client, stream } => {
                    self.ready_streams.push((client, stream));
                    continue;
                }
                Output::UpstreamRemoved { upstream } => self.forget_upstream(upstream),
                Output::ReplaceTransport { upstream } => {
                    let upstream = self.members.base(upstream);
                    // Later lists belong to another server or another credential.
                    self.cache_stores.retain(|(its, _)| *its != upstream);
                    // Before the new transport is made, so that it does not use a credential of the former source.
                    self.keeper(upstream).iter().for_each(|keeper| keeper.replace_source());
                    if let Some(http) = self.host.renew(upstream) {
                        self.remotes.replace(upstream, http);
                    }
                }
                Output::RenewCredential { upstream, refused, challenge } => {
                    self.renew_credential(upstream, refused, challenge, now);
                }
                Output::Spawn { link } => self.spawn(link, now),
                Output::CloseStdin { link } => {
                    if let Some(link) = self.link_mut(link) {
                        link.stdin.close_when_empty();
                    }
                }
                Output::Signal { link, signal } => {
                    if let Some(link) = self.link_mut(link) {
                        link.child.signal(signal);
                    }
                }
                Output::Finished { ending } => self.finished = Some((now + FINAL_WRITE, ending)),
            }
            iteration.again = true;
        }
        iteration.again = true;
    }

    fn renew_credential(&mut self, upstream: UpstreamId, refused: u32, challenge: Challenge, now: Moment) {
        match self.keeper(self.members.base(upstream)) {
            Some(keeper) => keeper.renew(refused, challenge),
            None => {
                let why = CredentialError::Unchanged;
                self.engine.handle(Input::CredentialFailed { upstream, why }, now);
            }
        }
    }

    pub(super) fn keeper(&self, upstream: UpstreamId) -> Option<&KeeperHandle> {
        self.keepers.iter().find(|(its, _)| *its == upstream).map(|(_, keeper)| keeper)
    }

    fn spawn(&mut self, link: LinkId, now: Moment) {
        let spawned = self.host.spawn(LinkId { upstream: self.members.base(link.upstream), ..link });
        let input = match spawned {
            Ok(mut child) => {
                let pid = child.pid();
                if let Some(pipes) = child.pipes() {
                    self.links.push(Link::new(link, child, pipes, self.limits.message_bytes));
                }
                Input::Spawned { link, pid }
            }
            Err(why) => Input::SpawnFailed { link, why: peer_text::spawn_error(&self.redactor, why) },
        };
        self.engine.handle(input, now);
    }

    fn link_mut(&mut self, id: LinkId) -> Option<&mut Link<H::Child>> {
        self.links.iter_mut().find(|link| link.id == id)
    }
}

fn unix_micros_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
