//! Parsers of bytes from other machines, for the fuzz targets only.
//!
//! Not part of the interface of this crate: it changes with the parsers.

use mendline_core::reason::{ConnectError, RefusalReason};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::StatusCode;

use super::certificate::Certificate;
use super::origin::{Location, Origin, UrlFault};
use super::proxy::{ProxyRules, tunnel};
use super::redirect;

/// An origin, and the path with the query.
pub type UrlParts = (Origin, String);

/// Reads a certificate in DER form.
pub fn certificate(der: &[u8]) -> Option<Certificate> {
    Certificate::read(der)
}

/// Reads the URL of a server.
pub fn url(url: &str) -> Result<UrlParts, UrlFault> {
    Location::parse(url).map(|location| (location.origin, location.path))
}

/// Resolves a reference that was found at a URL.
pub fn resolve(base: &str, reference: &str) -> Result<UrlParts, UrlFault> {
    Location::parse(base)?.resolve(reference).map(|location| (location.origin, location.path))
}

/// Follows a redirect with this status from a URL, or returns the reason why not.
pub fn follow(base: &str, status: u16, to: &str) -> Option<Result<UrlParts, RefusalReason>> {
    let (from, status) = (Location::parse(base).ok()?, StatusCode::from_u16(status).ok()?);
    let followed = redirect::follow(status, &from, to, 0);
    Some(followed.map(|location| (location.origin, location.path)))
}

/// Requests a tunnel from a proxy that sends this response. Returns the result, and how much of the response was read.
pub fn proxy_answer(answer: &[u8]) -> (Result<(), ConnectError>, usize) {
    let rules = ProxyRules::from_variables([("https_proxy", "http://me:s3cret@proxy.test:3128")]);
    let origin = Location::parse("https://server.test/mcp").map(|location| location.origin);
    let (Ok(rules), Ok(origin)) = (rules, origin) else { return (Err(ConnectError::NotConfigured), 0) };
    let Some(proxy) = rules.proxy_for(&origin) else { return (Err(ConnectError::NotConfigured), 0) };
    let mut io = tokio::io::join(answer, tokio::io::sink());
    let made = {
        let tunnel = pin!(tunnel(&mut io, proxy, &origin));
        // Both sides are always ready.
        match tunnel.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(made) => made,
            Poll::Pending => return (Err(ConnectError::NotConfigured), 0),
        }
    };
    let proxy = "proxy.test:3128".to_owned();
    (made.map_err(|error| ConnectError::Proxy { proxy, error }), answer.len() - io.into_inner().0.len())
}
