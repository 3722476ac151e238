//! A host for a server over HTTP.

use mendline_core::port::{SpawnFailure, SpawnFailureKind};
use mendline_core::{LinkId, UpstreamId};

use super::child::LiveChild;
use super::http::{Http, Target, TcpDial};
use super::next::Next;
use crate::driver::Host;

/// A host with one server over HTTP and no children.
pub struct Remote {
    http: Option<Http<TcpDial>>,
    next: Next<Target>,
}

impl Remote {
    /// Creates a host for the server at this target.
    pub fn new(target: Target) -> Remote {
        Remote { http: Some(Http::new(target, TcpDial)), next: Next::default() }
    }

    /// Returns the slot for the next target, which the engine applies.
    pub fn next(&self) -> Next<Target> {
        self.next.clone()
    }
}

impl Host for Remote {
    type Child = LiveChild;
    type Dial = TcpDial;

    fn spawn(&mut self, _link: LinkId) -> Result<LiveChild, SpawnFailure> {
        let text = "this server is reached over HTTP and cannot be started".to_owned();
        Err(SpawnFailure { kind: SpawnFailureKind::NotFound, text })
    }

    fn remote(&mut self, _upstream: UpstreamId) -> Option<Http<TcpDial>> {
        self.http.take()
    }

    fn renew(&mut self, _upstream: UpstreamId) -> Option<Http<TcpDial>> {
        self.next.take().map(|target| Http::new(target, TcpDial))
    }
}
