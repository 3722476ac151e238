//! A host for a server over HTTP.

use mendline_core::port::SpawnError;
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

    fn spawn(&mut self, _link: LinkId) -> Result<LiveChild, SpawnError> {
        Err(SpawnError::NotConfigured)
    }

    fn remote(&mut self, _upstream: UpstreamId) -> Option<Http<TcpDial>> {
        self.http.take()
    }

    fn renew(&mut self, _upstream: UpstreamId) -> Option<Http<TcpDial>> {
        self.next.take().map(|target| Http::new(target, TcpDial))
    }
}
