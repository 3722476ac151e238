//! One request and its response, for URLs that do not come from the configuration.
//!
//! OAuth needs requests to addresses that a server names: its metadata, the endpoints of an authorization server.
//! [`Fetcher`] sends them with the same dialing, proxies and certificates as calls, and with stricter rules:
//! - HTTPS only, except on this machine;
//! - the host is looked up once, its addresses are checked ([`AddressPolicy`]), and the connection goes to one of them.
//!   Behind a proxy only an address in the URL can be checked, because the proxy looks up the names;
//! - redirects are followed for GET only, and only within the origin;
//! - the body and the time have a limit.
//!
//! A token that is exchanged for a new one may be lost if the response is lost. So [`FetchError`] tells whether the
//! server can have received the request. A request is never sent twice.

mod error;

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Method, Request, Version};
use mendline_core::Secret;
use mendline_core::port::Written;
use mendline_core::reason::{ConnectError, CutReason};
use mendline_wire::Spliced;
use tokio::time::{Instant, timeout_at};

pub use super::addresses::AddressPolicy;
pub use error::{FetchError, FetchRefusal};

use super::body::{Read, Reader};
use super::coding;
use super::connect::{connect, first_hop};
use super::connection::Connection;
use super::dial::{Dialed, HostPort, Tcp, connect_to, look_up};
use super::h1::{Keep, ReadBuffer, encode_head, finish_head};
use super::origin::Location;
use super::proxy::{ProxyRules, is_this_machine};
use super::redirect;
use super::request::{Head, IDENTITY, USER_AGENT, proxy_authorization, uri};
use super::target::{Protocol, Target};
use super::tls::{TlsContext, TlsOptions};
use super::transfer::{Answer, Failure, ResponseFuture};

/// The time limit of a request, from the name lookup to the end of the body.
const TOTAL: Duration = Duration::from_secs(15);
/// The time limit of a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The most bytes of a body. Metadata and token responses have a few kilobytes.
const MAX_BODY: usize = 1 << 20;
/// The most redirects of one request.
const MAX_REDIRECTS: u32 = 3;

/// A client for single requests.
#[derive(Clone)]
pub struct Fetcher {
    proxies: ProxyRules,
    tls: TlsOptions,
    tls_context: Arc<TlsContext>,
    connect_timeout: Duration,
    timeout: Duration,
    addresses: AddressPolicy,
    allow_http: bool,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMethod {
    /// Reads a document.
    Get,
    /// Sends a body.
    Post,
}

/// A request.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The method.
    pub method: FetchMethod,
    /// The URL.
    pub url: String,
    /// Headers in addition to those of the fetcher, which they replace.
    pub headers: Vec<(String, Secret)>,
    /// The body with its content type.
    pub body: Option<(String, Secret)>,
}

/// The response to a request.
#[derive(Clone)]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl FetchRequest {
    /// A request for a document.
    pub fn get(url: impl Into<String>) -> FetchRequest {
        FetchRequest { method: FetchMethod::Get, url: url.into(), headers: Vec::new(), body: None }
    }

    /// A request with a body.
    pub fn post(url: impl Into<String>, content_type: impl Into<String>, body: Secret) -> FetchRequest {
        let body = Some((content_type.into(), body));
        FetchRequest { method: FetchMethod::Post, url: url.into(), headers: Vec::new(), body }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> FetchRequest {
        self.headers.push((name.into(), value));
        self
    }
}

impl FetchResponse {
    /// Returns the first header with this name, in any case, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns all headers with this name that are text.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok())
    }

    /// Returns the content type, without parameters and in lower case.
    pub fn content_type(&self) -> Option<String> {
        let kind = self.header("content-type")?;
        Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Returns the body, which may hold secrets.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FetchResponse { status, body, .. } = self;
        write!(f, "FetchResponse({status}, {} bytes)", body.len())
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fetcher { addresses, allow_http, .. } = self;
        f.debug_struct("Fetcher").field("addresses", addresses).field("allow_http", allow_http).finish_non_exhaustive()
    }
}

impl Default for Fetcher {
    fn default() -> Fetcher {
        Fetcher::new()
    }
}

impl Fetcher {
    /// Creates a fetcher without proxies, with the certificates of the system, for public addresses over HTTPS.
    pub fn new() -> Fetcher {
        let tls = TlsOptions::default();
        Fetcher {
            proxies: ProxyRules::default(),
            tls_context: Arc::new(TlsContext::new(tls.clone(), Protocol::Http1)),
            tls,
            connect_timeout: CONNECT,
            timeout: TOTAL,
            addresses: AddressPolicy::Public,
            allow_http: false,
        }
    }

    /// Sets the proxies.
    pub fn proxies(mut self, rules: ProxyRules) -> Fetcher {
        self.proxies = rules;
        self
    }

    /// Sets the trusted certificates.
    pub fn tls(mut self, options: TlsOptions) -> Fetcher {
        self.tls_context = Arc::new(TlsContext::new(options.clone(), Protocol::Http1));
        self.tls = options;
        self
    }

    /// Sets the time limit of a connection, from the name lookup to the end of the TLS handshake.
    pub fn connect_timeout(mut self, limit: Duration) -> Fetcher {
        self.connect_timeout = limit;
        self
    }

    /// Sets the time limit of a request with its redirects and its response.
    pub fn timeout(mut self, limit: Duration) -> Fetcher {
        self.timeout = limit;
        self
    }

    /// Sets the addresses that requests may go to.
    pub fn addresses(mut self, policy: AddressPolicy) -> Fetcher {
        self.addresses = policy;
        self
    }

    /// Allows unencrypted requests to other machines.
    pub fn allow_http(mut self, allowed: bool) -> Fetcher {
        self.allow_http = allowed;
        self
    }

    /// Sends a request and returns its response, whatever its status is.
    pub async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetchError> {
        let deadline = Instant::now() + self.timeout;
        let mut location = Location::parse(&request.url).map_err(FetchRefusal::Url)?;
        let mut redirects = 0;
        loop {
            let (parts, body) = self.fetch_once(request, &location, deadline).await?;
            let Some(to) = redirect::target_of(&parts) else {
                return Ok(FetchResponse { status: parts.status.as_u16(), headers: parts.headers, body });
            };
            location = follow(request.method, &location, &parts, &to, redirects)?;
            redirects += 1;
        }
    }

    async fn fetch_once(
        &self,
        request: &FetchRequest,
        location: &Location,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), FetchError> {
        let target = self.target(location)?;
        let head = head(&target, request)?;
        let unsent = |_| FetchError::TimedOut { after: self.timeout, sent: false };
        let mut connection = timeout_at(deadline, self.connect(target)).await.map_err(unsent)??;
        let body = request.body.as_ref().map(|(_, text)| Spliced::whole(Bytes::from_owner(Body(text.clone()))));
        let mut encoded = Vec::new();
        encode_head(&head, &mut encoded);
        let length = (request.method == FetchMethod::Post).then(|| body.as_ref().map_or(0, Spliced::len));
        finish_head(length, &mut encoded);
        let mut buffer = ReadBuffer::new();
        let head = Head::Http1(&mut encoded);
        // The exchange is polled before anything can wake it.
        let sent = connection.send(head, body.as_ref(), &mut buffer, &mut Context::from_waker(Waker::noop()));
        let Some((response, _, evidence)) = sent else {
            return Err(FetchError::NotSent(CutReason::ClosedAtOnce.into()));
        };
        // The connection is dropped before its evidence is read, so that nothing more is written.
        let ended = {
            let mut connection = connection;
            timeout_at(deadline, exchange(&mut connection, response, &mut buffer)).await
        };
        let is_unsent = evidence.written(true) == Written::Nothing;
        match ended {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(Ended::TooLarge)) => Err(FetchError::TooLarge { limit: MAX_BODY }),
            Ok(Err(Ended::Cut(why))) if is_unsent => Err(FetchError::NotSent(why.into())),
            Ok(Err(Ended::Cut(why))) => Err(FetchError::NoAnswer(why)),
            Err(_) => Err(FetchError::TimedOut { after: self.timeout, sent: !is_unsent }),
        }
    }

    /// Returns the target of a request, if its scheme is allowed.
    fn target(&self, location: &Location) -> Result<Target, FetchRefusal> {
        let origin = &location.origin;
        if !origin.secure && !self.allow_http && !is_this_machine(&origin.host) {
            return Err(FetchRefusal::NotEncrypted { origin: origin.to_string() });
        }
        let url = format!("{origin}{}", location.path);
        let target = Target::parse(&url).map_err(FetchRefusal::Url)?;
        let target = target.protocol(Protocol::Http1).tls(self.tls.clone()).proxies(&self.proxies);
        Ok(target.connect_timeout(self.connect_timeout))
    }

    async fn connect(&self, target: Target) -> Result<Connection<Tcp>, FetchError> {
        let target = Arc::new(target);
        let dial = dial(Arc::clone(&target), self.addresses);
        let made = connect(dial, target, Arc::clone(&self.tls_context), Keep::All).await;
        made.map_err(|error| match error {
            ConnectError::AddressNotAllowed { problem } => FetchRefusal::Address { problem }.into(),
            error => FetchError::NotSent(error.into()),
        })
    }
}

/// Looks up a host once and connects to one of its addresses that the policy allows.
async fn dial(target: Arc<Target>, policy: AddressPolicy) -> Result<Dialed<Tcp>, ConnectError> {
    let origin = &target.location.origin;
    let check = |addresses: Vec<SocketAddr>| {
        let checked = policy.check(&origin.host, addresses);
        checked.map_err(|why| ConnectError::AddressNotAllowed { problem: why.to_string() })
    };
    let peer: HostPort = first_hop(&target);
    if target.proxy.is_some() {
        if let Ok(address) = origin.host.parse::<IpAddr>() {
            check(vec![SocketAddr::new(address, origin.port)])?;
        }
        return connect_to(&peer, look_up(&peer).await?).await;
    }
    let mut addresses = look_up(&peer).await?;
    if is_this_machine(&origin.host) {
        // HTTP may be unencrypted because of this name, so it must not lead elsewhere.
        addresses.retain(|address| address.ip().is_loopback());
    }
    if addresses.is_empty() {
        return Err(ConnectError::NoAddress { host: peer.host });
    }
    connect_to(&peer, check(addresses)?).await
}

/// A body that overwrites its bytes when it is dropped.
struct Body(Secret);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.0.expose().as_bytes()
    }
}

fn head(target: &Target, request: &FetchRequest) -> Result<Request<()>, FetchRefusal> {
    let mut head = Request::new(());
    *head.method_mut() = match request.method {
        FetchMethod::Get => Method::GET,
        FetchMethod::Post => Method::POST,
    };
    let location = &target.location;
    let not_a_url = |_| FetchRefusal::Url(super::UrlFault::NotAUrl);
    *head.uri_mut() = uri(target, location, Version::HTTP_11).map_err(not_a_url)?;
    let invalid = |name: &str| FetchRefusal::Header { name: name.to_owned() };
    let headers = head.headers_mut();
    let host = HeaderValue::try_from(location.origin.host_header()).map_err(|_| invalid("Host"))?;
    headers.insert(header::HOST, host);
    if let Some(authorization) = proxy_authorization(target) {
        headers.insert(header::PROXY_AUTHORIZATION, authorization);
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(IDENTITY));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if let Some((content_type, _)) = &request.body {
        let content_type = HeaderValue::try_from(content_type).map_err(|_| invalid("Content-Type"))?;
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    for (name, value) in &request.headers {
        let known: HeaderName = name.parse().map_err(|_| invalid(name))?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| invalid(name))?;
        value.set_sensitive(true);
        headers.insert(known, value);
    }
    Ok(head)
}

/// The end of an exchange without a whole response.
enum Ended {
    TooLarge,
    Cut(CutReason),
}

/// Polls an exchange on its connection.
async fn exchange(
    connection: &mut Connection<Tcp>,
    mut response: ResponseFuture,
    buffer: &mut ReadBuffer,
) -> Result<(Parts, Bytes), Ended> {
    let mut answered: Option<(Answer, Reader)> = None;
    let ended = |failure| match failure {
        Failure::HeadTooLarge => Ended::TooLarge,
        Failure::Cut(why) => Ended::Cut(why),
        Failure::Returned | Failure::Refused => Ended::Cut(CutReason::ClosedAtOnce),
    };
    poll_fn(|cx| {
        loop {
            let own = connection.http1().map(|http1| (http1, &mut *buffer));
            if let Some((answer, reader)) = &mut answered {
                let read = match reader.poll(&mut answer.body, own, cx) {
                    Read::Wait | Read::Event(_) => return Poll::Pending,
                    Read::Done(text) => Ok(text.unwrap_or_default()),
                    Read::TooLarge => Err(Ended::TooLarge),
                    Read::Failed(failure) => Err(ended(failure)),
                };
                let parts = answered.take().map(|(answer, _)| answer.parts);
                return Poll::Ready(read.and_then(|text| Ok((parts.ok_or(Ended::Cut(CutReason::Broken))?, text))));
            }
            match response.poll(own, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(ended(failure))),
                Poll::Ready(Ok(answer)) => match coding::inflater_for(&answer.parts.headers) {
                    Ok(inflater) => answered = Some((answer, Reader::whole(MAX_BODY, inflater))),
                    Err(why) => return Poll::Ready(Err(Ended::Cut(why))),
                },
            }
        }
    })
    .await
}

/// Returns the location of the next request after a redirect.
fn follow(
    method: FetchMethod,
    from: &Location,
    parts: &Parts,
    to: &str,
    so_far: u32,
) -> Result<Location, FetchRefusal> {
    let home = &from.origin;
    let refused = |problem: String| FetchRefusal::Redirect {
        from: home.to_string(),
        status: parts.status.as_u16(),
        problem,
        sent: method == FetchMethod::Post,
    };
    let location = from.resolve(to).map_err(|_| refused("to something that is not a URL".to_owned()))?;
    let there = &location.origin;
    if method == FetchMethod::Post {
        return Err(refused(format!("to {there}; a request with a body is not sent again")));
    }
    if there != home {
        return Err(refused(format!("to {there}, where nothing may be sent")));
    }
    if so_far == MAX_REDIRECTS {
        return Err(refused(format!("to {there} again, after {MAX_REDIRECTS} times")));
    }
    Ok(location)
}
