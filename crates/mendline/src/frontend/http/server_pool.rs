//! The servers of the gateway, and the upstreams of their clients.
//!
//! [`UpstreamPool`] decides which clients share an upstream. This module passes its steps on to the engine, in the order
//! in which the engine needs them: an upstream is added before its first client is opened, and removed after its last
//! client is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mendline_core::config::ForwardedHeader;
use mendline_core::sharing::{NoRoom, Rules, ShareKey, Step, UpstreamPool, Use};
use mendline_core::{Input, Moment, UpstreamConfig, UpstreamId};

use super::forward_headers::ForwardedValues;
use super::hub::Hub;

/// One server of the gateway.
#[derive(Clone, Debug)]
pub struct GatewayServer {
    /// Its name in paths.
    pub name: Arc<str>,
    /// Its first upstream.
    pub upstream: UpstreamId,
    /// The headers of a client that go to it, of the request that is being answered.
    pub forwarded: ForwardedValues,
}

impl GatewayServer {
    /// Creates a server.
    pub fn new(name: &str, upstream: UpstreamId) -> GatewayServer {
        GatewayServer { name: Arc::from(name), upstream, forwarded: ForwardedValues::default() }
    }
}

/// The servers of a gateway.
pub struct ServerPool {
    hub: Hub,
    started: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    servers: Vec<Served>,
    upstreams: UpstreamPool,
}

struct Served {
    server: GatewayServer,
    config: UpstreamConfig,
}

impl ServerPool {
    /// Creates a pool with these servers, whose upstreams the engine has from the start.
    pub fn new(hub: Hub, servers: impl IntoIterator<Item = (GatewayServer, UpstreamConfig)>) -> ServerPool {
        let servers: Vec<_> = servers.into_iter().collect();
        let mut upstreams = UpstreamPool::new(u16::try_from(servers.len()).unwrap_or(u16::MAX));
        for (server, config) in &servers {
            upstreams.add_server(server.upstream, Rules::of(config));
        }
        let servers = servers.into_iter().map(|(server, config)| Served { server, config }).collect();
        ServerPool { hub, started: Instant::now(), inner: Mutex::new(Inner { servers, upstreams }) }
    }

    /// Returns the server with this name; without a name, the only one.
    pub fn find(&self, name: Option<&str>) -> Option<GatewayServer> {
        let inner = self.lock();
        let found = match (name, &inner.servers[..]) {
            (Some(name), servers) => servers.iter().find(|served| *served.server.name == *name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.map(|served| served.server.clone())
    }

    /// The headers of clients that a server gets.
    pub fn forward_headers(&self, server: &GatewayServer) -> Vec<ForwardedHeader> {
        let inner = self.lock();
        let served = inner.servers.iter().find(|served| served.server.upstream == server.upstream);
        served.map(|served| served.config.forward_headers.clone()).unwrap_or_default()
    }

    /// The names of the headers that clients of any server may send for it.
    pub fn forwarded_names(&self) -> Vec<String> {
        let inner = self.lock();
        inner.servers.iter().flat_map(|served| &served.config.forward_headers).map(|rule| rule.from.clone()).collect()
    }

    /// The names of all servers.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.lock().servers.iter().map(|served| Arc::clone(&served.server.name)).collect()
    }

    /// Chooses the upstream of a new client, and adds it to the engine if it is new.
    pub fn place(&self, server: &GatewayServer, principal: &Arc<str>, key: ShareKey) -> Result<UpstreamId, NoRoom> {
        let mut inner = self.lock();
        let placement = inner.upstreams.place(server.upstream, principal, key, self.now())?;
        placement.evicted.into_iter().for_each(|upstream| self.run(Step::Remove(upstream)));
        if placement.is_new
            && let Some(served) = inner.servers.iter().find(|served| served.server.upstream == server.upstream)
        {
            let (upstream, config) = (placement.upstream, Box::new(served.config.clone()));
            self.hub.input(Input::AddUpstream { upstream, config, like: Some(server.upstream) });
        }
        Ok(placement.upstream)
    }

    /// Records that a client of this upstream is gone.
    pub fn leave(&self, upstream: UpstreamId) {
        let step = self.lock().upstreams.leave(upstream, self.now());
        step.into_iter().for_each(|step| self.run(step));
    }

    /// Ends processes that were not used for long.
    pub fn stop_idle(&self, uses: &BTreeMap<UpstreamId, Use>) {
        let steps = self.lock().upstreams.expire(self.now(), uses);
        steps.into_iter().for_each(|step| self.run(step));
    }

    /// Returns a number for the upstream of a server that is added.
    pub fn new_id(&self) -> Option<UpstreamId> {
        self.lock().upstreams.new_id()
    }

    /// Adds a server, whose upstream the engine has or gets before the next client.
    pub fn add(&self, server: GatewayServer, config: UpstreamConfig) {
        let mut inner = self.lock();
        inner.upstreams.add_server(server.upstream, Rules::of(&config));
        inner.servers.push(Served { server, config });
    }

    /// Records another configuration of a server.
    pub fn reconfigure(&self, upstream: UpstreamId, config: &UpstreamConfig) {
        let mut inner = self.lock();
        inner.upstreams.change_rules(upstream, Rules::of(config));
        if let Some(served) = inner.servers.iter_mut().find(|served| served.server.upstream == upstream) {
            served.config = config.clone();
        }
    }

    /// Removes a server with all its upstreams. Their running calls end within the time of a drain.
    pub fn remove(&self, name: &str) {
        let mut inner = self.lock();
        let Some(at) = inner.servers.iter().position(|served| *served.server.name == *name) else { return };
        let removed = inner.servers.remove(at);
        for upstream in inner.upstreams.remove_server(removed.server.upstream) {
            self.hub.input(Input::RemoveUpstream { upstream });
        }
    }

    /// Takes the upstreams that the engine has removed since the last time. Their numbers may be used again.
    pub fn take_removed(&self) -> Vec<UpstreamId> {
        let removed = self.hub.take_removed();
        let mut inner = self.lock();
        removed.iter().for_each(|upstream| inner.upstreams.release(*upstream));
        removed
    }

    /// The time of the pool.
    pub fn moment(&self, at: Instant) -> Moment {
        Moment::ZERO + at.saturating_duration_since(self.started)
    }

    fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    fn run(&self, step: Step) {
        self.hub.input(match step {
            Step::Remove(upstream) => Input::RemoveUpstream { upstream },
            Step::StopIdle(upstream) => Input::StopIdle { upstream },
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
