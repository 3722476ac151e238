//! The HTTP transports of the upstreams that have a URL.

use mendline_core::UpstreamId;
use mendline_core::port::{ExchangeId, HttpRequest, Reuse};

use super::Host;
use crate::transport::http::{Dial, Http};

/// One transport for each upstream that has one, and former ones until their open exchanges have ended.
pub(super) struct Remotes<D: Dial> {
    current: Vec<Remote<D>>,
    retired: Vec<Remote<D>>,
}

/// The transport of an upstream.
pub(super) struct Remote<D: Dial> {
    pub(super) upstream: UpstreamId,
    pub(super) http: Http<D>,
}

impl<D: Dial> Default for Remotes<D> {
    fn default() -> Remotes<D> {
        Remotes { current: Vec::new(), retired: Vec::new() }
    }
}

impl<D: Dial> Remotes<D> {
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Returns all transports, former ones last.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Remote<D>> {
        self.current.iter().chain(&self.retired)
    }

    /// Does the same as [`Remotes::iter`].
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Remote<D>> {
        self.current.iter_mut().chain(&mut self.retired)
    }

    /// Begins an exchange. Gets the transport of its server, which has this base, from the host, if this is its first exchange. Returns
    /// false if the upstream has none.
    pub(super) fn begin<H>(
        &mut self,
        upstream: UpstreamId,
        exchange: ExchangeId,
        request: HttpRequest,
        reuse: Reuse,
        host: &mut H,
    ) -> bool
    where
        H: Host<Dial = D>,
    {
        let at = match self.current.iter().position(|remote| remote.upstream == upstream) {
            Some(at) => at,
            None => {
                let Some(http) = host.remote(upstream) else { return false };
                self.current.push(Remote { upstream, http });
                self.current.len() - 1
            }
        };
        self.current[at].http.begin(exchange, request, reuse);
        true
    }

    /// Aborts an exchange, wherever it is.
    pub(super) fn abort(&mut self, upstream: UpstreamId, exchange: ExchangeId) {
        let is_its = |remote: &&mut Remote<D>| remote.upstream == upstream;
        self.iter_mut().filter(is_its).for_each(|remote| remote.http.abort(exchange));
    }

    /// Uses this transport for later exchanges of an upstream.
    pub(super) fn replace(&mut self, upstream: UpstreamId, http: Http<D>) {
        match self.current.iter_mut().find(|remote| remote.upstream == upstream) {
            Some(current) => {
                let former = std::mem::replace(&mut current.http, http);
                self.retired.push(Remote { upstream, http: former });
            }
            None => self.current.push(Remote { upstream, http }),
        }
    }

    /// Uses the latest credential of an upstream for requests that are sent from now on.
    pub(super) fn adopt_credential(&mut self, upstream: UpstreamId) {
        let is_its = |remote: &&mut Remote<D>| remote.upstream == upstream;
        self.current.iter_mut().filter(is_its).for_each(|remote| remote.http.adopt_credential());
    }

    /// Lets new exchanges wait for a credential that is about to be read.
    pub(super) fn await_credentials(&mut self) {
        self.current.iter_mut().for_each(|remote| remote.http.await_credential());
    }

    /// Closes all idle connections of current transports.
    pub(super) fn close_idle(&mut self) {
        self.current.iter_mut().for_each(|remote| remote.http.close());
    }

    /// Drops the transport of a removed server, whose exchanges have ended.
    pub(super) fn forget(&mut self, upstream: UpstreamId) {
        self.current.retain(|remote| remote.upstream != upstream);
    }

    /// Drops former transports whose exchanges have ended.
    pub(super) fn drop_ended(&mut self) {
        self.retired.retain(|remote| !remote.http.is_over());
    }
}
