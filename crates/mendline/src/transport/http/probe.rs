//! Connects to a server step by step.
//!
//! A usual connection is made at once and fails with one error. `mendline doctor` shows *which* step fails and uses
//! this module instead: name lookup, connection, tunnel, TLS, one exchange. The steps use the same resolver, proxy,
//! certificates and headers as calls, so their results hold for calls. The caller sets the timeout of each step.

use mendline_core::reason::{ConnectError, CutReason, RefusalReason, TlsError};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Request, StatusCode, Version};
use mendline_core::port::{HttpRequest, Verb};
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificate::Certificate;
use super::connect::{MaybeTlsStream, first_hop};
use super::dial::{self, HostPort};
use super::h1::{Http1, Keep, ReadBuffer};
use super::origin::Location;
use super::proxy::tunnel;
use super::redirect;
use super::request::{Head, Heads, Segments};
use super::target::{Protocol, Target};
use super::tls::{recording_config, server_name, tls_error};
use super::transfer::Failure;
use super::write_tracker::{TrackedIo, WriteTracker};

/// The most bytes of a body that are read: enough for an error message or the beginning of a page.
const MAX_BODY: usize = 16 * 1024;

/// The longest head of a response.
const MAX_HEAD: usize = 64 * 1024;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A message to post, as text.
pub type Message = Bytes;

/// A server to probe.
pub struct Probe {
    target: Target,
}

/// An established TCP connection.
pub struct TcpConnection {
    stream: TcpStream,
    /// The address of the peer.
    pub address: SocketAddr,
}

/// The result of a TLS handshake.
pub struct TlsHandshake {
    /// The certificate of the peer if it can be read, trusted or not.
    pub certificate: Option<Certificate>,
    /// The connection, or the reason why there is none.
    pub outcome: Result<TlsConnection, TlsError>,
}

/// An established TLS connection.
pub struct TlsConnection {
    stream: Box<dyn Stream>,
    /// `TLS 1.3` or `TLS 1.2`.
    pub version: &'static str,
    /// Whether the connection uses HTTP/2.
    pub is_http2: bool,
}

/// The stream of a connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection for one exchange.
pub struct Connection {
    stream: Box<dyn Stream>,
    is_http2: bool,
}

impl From<TcpConnection> for Connection {
    fn from(connection: TcpConnection) -> Connection {
        Connection { stream: Box::new(connection.stream), is_http2: false }
    }
}

impl From<TlsConnection> for Connection {
    fn from(connection: TlsConnection) -> Connection {
        Connection { stream: connection.stream, is_http2: connection.is_http2 }
    }
}

/// The response of a server.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Whether the response came over HTTP/2.
    pub is_http2: bool,
    headers: HeaderMap,
    /// The beginning of the body; empty for an event stream, which may not end.
    pub body: Bytes,
    /// Whether the body is longer.
    pub is_cut: bool,
    /// The target of a redirect, or the reason why it is not followed.
    pub redirect: Option<Result<String, RefusalReason>>,
}

impl Response {
    /// Returns the content type, without parameters and in lower case.
    pub fn content_type(&self) -> Option<String> {
        let kind = self.header(&header::CONTENT_TYPE)?;
        Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Returns the date of the server's clock.
    pub fn date(&self) -> Option<SystemTime> {
        httpdate::parse_http_date(self.header(&header::DATE)?).ok()
    }

    /// Returns the `WWW-Authenticate` challenges.
    pub fn challenges(&self) -> Vec<String> {
        let all = self.headers.get_all(header::WWW_AUTHENTICATE).into_iter();
        all.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    }

    /// Returns the `Server` header.
    pub fn server(&self) -> Option<&str> {
        self.header(&header::SERVER)
    }

    /// Returns the `Retry-After` header as it was sent.
    pub fn retry_after(&self) -> Option<&str> {
        self.header(&header::RETRY_AFTER)
    }

    /// Returns the id of the session that the server has created.
    pub fn session(&self) -> Option<&str> {
        self.header(&SESSION)
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The reason why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeError {
    /// The received bytes are not HTTP.
    NotHttp(String),
    /// The connection broke.
    Cut(String),
    /// The request cannot be sent.
    Unsendable(String),
}

impl Probe {
    /// Creates a probe for this target.
    pub fn new(target: Target) -> Probe {
        Probe { target }
    }

    /// Returns the host and port to dial: those of the proxy, or of the server.
    pub fn first_hop(&self) -> HostPort {
        first_hop(&self.target)
    }

    /// Returns the host and port of the server.
    pub fn server(&self) -> HostPort {
        let origin = &self.target.location.origin;
        HostPort { host: origin.host.clone(), port: origin.port }
    }

    /// Returns whether the server is reached through a proxy.
    pub fn has_proxy(&self) -> bool {
        self.target.proxy.is_some()
    }

    /// Returns whether the server is reached over TLS.
    pub fn is_secure(&self) -> bool {
        self.target.location.origin.secure
    }

    /// Looks up the addresses of the first hop.
    pub async fn look_up(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        dial::look_up(&self.first_hop()).await
    }

    /// Connects to the first of these addresses that answers.
    pub async fn dial(&self, addresses: Vec<SocketAddr>) -> Result<TcpConnection, ConnectError> {
        let connect =
            |address| async move { Ok(TcpConnection { stream: TcpStream::connect(address).await?, address }) };
        let connection = dial::race(dial::interleave_families(addresses), connect).await;
        connection.map_err(|(address, error)| dial::connect_error(&self.first_hop(), address, &error))
    }

    /// Opens a tunnel through the proxy, if this server needs one.
    pub async fn tunnel(&self, connection: &mut TcpConnection) -> Result<(), ConnectError> {
        let (Some(proxy), true) = (&self.target.proxy, self.is_secure()) else { return Ok(()) };
        let made = tunnel(&mut connection.stream, proxy, &self.target.location.origin).await;
        made.map_err(|error| ConnectError::Proxy { proxy: self.first_hop().to_string(), error })
    }

    /// Performs the TLS handshake.
    pub async fn tls_handshake(&self, connection: TcpConnection) -> TlsHandshake {
        let origin = &self.target.location.origin;
        let broken = |error| TlsHandshake { certificate: None, outcome: Err(error) };
        let name = match server_name(&origin.host) {
            Ok(name) => name,
            Err(error) => return broken(error),
        };
        let (config, peer_certificate) = match recording_config(&self.target.tls, self.target.protocol) {
            Ok(made) => made,
            Err(error) => return broken(error),
        };
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, connection.stream).await;
        let outcome = match handshake {
            Ok(stream) => {
                let session = stream.get_ref().1;
                let version = match session.protocol_version() {
                    Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
                    _ => "TLS 1.3",
                };
                let is_http2 = session.alpn_protocol() == Some(b"h2") || self.target.protocol == Protocol::Http2;
                Ok(TlsConnection { stream: Box::new(stream), version, is_http2 })
            }
            Err(error) => Err(tls_error(&error)),
        };
        TlsHandshake { certificate: peer_certificate.read(), outcome }
    }

    /// Posts a message, or opens an event stream without one.
    pub async fn request(
        &self,
        connection: Connection,
        message: Option<Bytes>,
        headers: &[(&'static str, &str)],
    ) -> Result<Response, ExchangeError> {
        let verb = if message.is_some() { Verb::Post } else { Verb::Get };
        self.exchange(connection, verb, message, headers).await
    }

    /// Deletes a session that was created for the probe.
    pub async fn delete_session(&self, connection: Connection, session: &str) {
        // If the server refuses, it expires the session itself.
        let _ = self.exchange(connection, Verb::Delete, None, &[("Mcp-Session-Id", session)]).await;
    }

    async fn exchange(
        &self,
        connection: Connection,
        verb: Verb,
        message: Option<Bytes>,
        headers: &[(&'static str, &str)],
    ) -> Result<Response, ExchangeError> {
        let version = if connection.is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let headers = headers.iter().map(|(name, value)| ((*name).into(), Arc::from(*value))).collect();
        let request = HttpRequest { verb, target: None, headers, body: message.map(Spliced::whole) };
        let location = &self.target.location;
        let mut heads = Heads::default();
        let head = heads.for_connection(&self.target, location, &request, version, None);
        let response = match head.map_err(|why| ExchangeError::Unsendable(why.to_string()))? {
            Head::Http2(head) => http2(connection, *head, &request).await,
            Head::Http1(head) => http1(connection, head, &request).await,
        };
        response.map(|response| Response { redirect: redirect_target(&response, location), ..response })
    }
}

/// Returns the target of a redirect without its query, which may be secret.
fn redirect_target(response: &Response, from: &Location) -> Option<Result<String, RefusalReason>> {
    let status = StatusCode::from_u16(response.status).ok().filter(StatusCode::is_redirection)?;
    let to = response.header(&header::LOCATION)?;
    Some(redirect::follow(status, from, to.trim(), 0).map(|location| {
        let path = location.path.split('?').next().unwrap_or_default();
        format!("{}{path}", location.origin)
    }))
}

async fn http1(connection: Connection, head: &mut Vec<u8>, request: &HttpRequest) -> Result<Response, ExchangeError> {
    let tracker = WriteTracker::new();
    let stream = MaybeTlsStream::Plain(TrackedIo::new(connection.stream, Arc::clone(&tracker)));
    let mut http1 = Http1::new(stream, tracker, MAX_HEAD, Keep::All);
    let mut buffer = ReadBuffer::new();
    // The response is polled before anything can wake it.
    http1.begin(head, request.body.as_ref(), &mut buffer, &mut Context::from_waker(Waker::noop()));
    let head = poll_fn(|cx| http1.poll_head(cx, &mut buffer)).await.map_err(|failure| match failure {
        Failure::Cut(CutReason::NotHttp { error }) => ExchangeError::NotHttp(error),
        Failure::Cut(reason) => ExchangeError::Cut(reason.to_string()),
        Failure::HeadTooLarge => ExchangeError::NotHttp("its head is too large".to_owned()),
        Failure::Returned | Failure::Refused => ExchangeError::Cut(CutReason::ClosedAtOnce.to_string()),
    })?;
    let mut body = Vec::new();
    while reads_on(&head.parts.headers, body.len()) {
        let read = poll_fn(|cx| {
            http1.poll_data(cx, &mut buffer).map(|data| {
                let data = data.and_then(Result::ok);
                data.as_ref().inspect(|data| body.extend_from_slice(data.bytes())).is_some()
            })
        });
        if !read.await {
            break;
        }
    }
    Ok(to_response(head.parts, body))
}

async fn http2(connection: Connection, head: Request<()>, request: &HttpRequest) -> Result<Response, ExchangeError> {
    let cut = |error: h2::Error| ExchangeError::Cut(error.to_string());
    let (sender, driver) = h2::client::Builder::new().handshake::<_, Segments>(connection.stream).await.map_err(cut)?;
    let driver = std::pin::pin!(driver);
    let exchange = async {
        let mut sender = sender.ready().await.map_err(cut)?;
        let body = request.body.clone().map(Segments::whole);
        let (response, mut upload) = sender.send_request(head, body.is_none()).map_err(cut)?;
        if let Some(body) = body {
            upload.send_data(body, true).map_err(cut)?;
        }
        let (parts, mut incoming) = response.await.map_err(cut)?.into_parts();
        let mut body = Vec::new();
        while reads_on(&parts.headers, body.len()) {
            match incoming.data().await {
                Some(Ok(piece)) => {
                    let _ = incoming.flow_control().release_capacity(piece.len());
                    body.extend_from_slice(&piece);
                }
                _ => break,
            }
        }
        Ok(to_response(parts, body))
    };
    drive(exchange, driver).await
}

/// Polls an exchange together with the driver of its connection.
async fn drive<E>(
    exchange: impl Future<Output = Result<Response, ExchangeError>>,
    mut driver: Pin<&mut impl Future<Output = Result<(), E>>>,
) -> Result<Response, ExchangeError> {
    let mut exchange = std::pin::pin!(exchange);
    let mut is_over = false;
    poll_fn(|cx| {
        // The exchange reports the end of the connection, with its meaning.
        is_over = is_over || driver.as_mut().poll(cx).is_ready();
        exchange.as_mut().poll(cx)
    })
    .await
}

/// Returns whether to read more of a body. An event stream is not read: it may never end, and its head is enough.
fn reads_on(headers: &HeaderMap, so_far: usize) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    so_far < MAX_BODY && !kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn to_response(parts: http::response::Parts, mut body: Vec<u8>) -> Response {
    let is_cut = body.len() >= MAX_BODY;
    body.truncate(MAX_BODY);
    Response {
        status: parts.status.as_u16(),
        is_http2: parts.version == Version::HTTP_2,
        headers: parts.headers,
        body: body.into(),
        is_cut,
        redirect: None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Probes a peer that answers every connection with these bytes.
    async fn probe(bytes: &'static [u8]) -> Result<Response, ExchangeError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0_u8; 1024];
            let _ = stream.read(&mut first).await;
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            while stream.read(&mut first).await.is_ok_and(|count| count > 0) {}
        });
        let prober = Probe::new(Target::parse(&format!("http://{address}/mcp?key=s3cret")).unwrap());
        let addresses = prober.look_up().await.unwrap();
        let connection = prober.dial(addresses).await.unwrap_or_else(|error| panic!("{error:?}"));
        let response = prober.request(connection.into(), Some(Bytes::from_static(b"{}")), &[]).await;
        peer.abort();
        response
    }

    #[tokio::test]
    async fn response_fields_are_read() {
        let response = probe(
            b"HTTP/1.1 401 No\r\nContent-Type: Text/HTML; charset=x\r\nWWW-Authenticate: Bearer a=\"b\"\r\n\
              Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 4\r\n\r\nbody",
        )
        .await
        .unwrap();
        assert_eq!((response.status, &*response.body, response.is_http2), (401, &b"body"[..], false));
        assert_eq!(response.content_type().as_deref(), Some("text/html"));
        assert_eq!(response.challenges(), ["Bearer a=\"b\""]);
        assert!(response.date().is_some() && response.session().is_none());
    }

    #[tokio::test]
    async fn redirect_is_reported_without_query_and_only_within_origin() {
        let there =
            probe(b"HTTP/1.1 308 Moved\r\nLocation: /other?key=s3cret\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        let target = there.redirect.unwrap().unwrap();
        assert!(target.ends_with("/other") && !target.contains("s3cret"), "{target}");
        let away =
            probe(b"HTTP/1.1 302 Found\r\nLocation: https://login.test/?x\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        assert!(
            away.redirect.unwrap().unwrap_err().to_string().contains("https://login.test, where nothing may be sent")
        );
    }

    #[tokio::test]
    async fn invalid_http_differs_from_a_broken_connection() {
        assert!(matches!(probe(b"SSH-2.0-OpenSSH_9.6\r\n").await, Err(ExchangeError::NotHttp(_))));
        assert!(matches!(probe(b"").await, Err(ExchangeError::Cut(_))));
    }

    #[tokio::test]
    async fn event_stream_is_not_read() {
        let response = probe(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await.unwrap();
        assert_eq!((response.status, response.body.len()), (200, 0));
    }
}
