//! The servers of an engine as the driver reaches them: commands and URLs, one for each upstream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mendline_core::port::SpawnError;
use mendline_core::{LinkId, UpstreamId};
use mendline_wire::Limits;

use super::child::{ChildCommand, LiveChild, spawn_error};
use super::guard::Guard;
use super::http::{Http, Target, TcpDial};
use super::next::Next;
use crate::credential::CredentialCell;
use crate::driver::Host;

/// The endpoint of a server.
pub enum Endpoint {
    /// A command, which is started as a child process.
    Child(ChildCommand),
    /// A URL.
    Remote(Box<Target>),
}

/// A server that is added while the driver runs: its endpoint, the slot for its next one, and its credential.
pub(crate) type NewEndpoint = (Endpoint, Next<Endpoint>, Option<Arc<CredentialCell>>);

/// The endpoints of servers that the host does not know yet.
pub(crate) type NewEndpoints = Arc<Mutex<BTreeMap<UpstreamId, NewEndpoint>>>;

/// A host for servers of any kind, by their upstreams.
pub(crate) struct Servers {
    servers: BTreeMap<UpstreamId, Server>,
    added: NewEndpoints,
    guard: Option<Arc<Mutex<Guard>>>,
    /// The limits of messages over HTTP.
    limits: Limits,
}

struct Server {
    /// Taken when a URL gets its transport.
    endpoint: Option<Endpoint>,
    next: Next<Endpoint>,
    /// The credential of a URL.
    credential: Option<Arc<CredentialCell>>,
}

impl Servers {
    /// Creates a host for these servers. Each has a slot for its next endpoint, which the engine applies, and perhaps a
    /// cell with its credential. Without a guard, children may outlive Mendline when it is killed.
    pub(crate) fn new(servers: impl IntoIterator<Item = NewEndpoint>, guard: Option<Guard>, limits: Limits) -> Servers {
        let servers = (0..).map(UpstreamId).zip(servers.into_iter().map(Server::new)).collect();
        let guard = guard.map(|guard| Arc::new(Mutex::new(guard)));
        Servers { servers, added: NewEndpoints::default(), guard, limits }
    }

    /// Returns the place for endpoints of servers that are added later.
    pub(crate) fn added(&self) -> NewEndpoints {
        Arc::clone(&self.added)
    }

    fn server_mut(&mut self, upstream: UpstreamId) -> Option<&mut Server> {
        self.servers.get_mut(&upstream)
    }
}

impl Server {
    fn new((endpoint, next, credential): NewEndpoint) -> Server {
        Server { endpoint: Some(endpoint), next, credential }
    }
}

impl Host for Servers {
    type Child = LiveChild;
    type Dial = TcpDial;

    fn spawn(&mut self, link: LinkId) -> Result<LiveChild, SpawnError> {
        let guard = self.guard.clone();
        match self.server_mut(link.upstream) {
            Some(Server { endpoint: Some(Endpoint::Child(command)), .. }) => {
                LiveChild::start(command, guard).map_err(|error| spawn_error(command, &error))
            }
            _ => Err(SpawnError::NotConfigured),
        }
    }

    fn remote(&mut self, upstream: UpstreamId) -> Option<Http<TcpDial>> {
        let limits = self.limits.clone();
        let server = self.server_mut(upstream)?;
        let is_remote = |endpoint: &mut Endpoint| matches!(endpoint, Endpoint::Remote(_));
        let Some(Endpoint::Remote(target)) = server.endpoint.take_if(is_remote) else { return None };
        let http = Http::new(target.limits(limits), TcpDial);
        Some(match &server.credential {
            Some(cell) => http.with_credential(Arc::clone(cell)),
            None => http,
        })
    }

    fn admit(&mut self, upstream: UpstreamId) {
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner).remove(&upstream);
        if let Some(added) = added {
            self.servers.insert(upstream, Server::new(added));
        }
    }

    fn forget(&mut self, upstream: UpstreamId) {
        self.servers.remove(&upstream);
    }

    fn renew(&mut self, upstream: UpstreamId) -> Option<Http<TcpDial>> {
        let server = self.server_mut(upstream)?;
        if let Some(next) = server.next.take() {
            server.endpoint = Some(next);
        }
        self.remote(upstream)
    }
}
