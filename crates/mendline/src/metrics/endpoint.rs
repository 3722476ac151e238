//! Answers `GET /metrics` over HTTP/1.1.
//!
//! The listener runs on the thread that serves calls, so everything is bounded: the number of connections, the time and
//! size of a request's head, and one text per request. The rules of access are those of the gateway: on a loopback
//! address the host must be a loopback name, because a web page can reach such an address under a name of its own; any
//! other address requires a token. On loopback other users of the machine can read the metrics, too, unless there is a
//! token: a monitoring system usually runs as a user of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::text;
use crate::frontend::http::{Access, AccessToken, Denied, Peer, ResponseBody, TokenHash, WithoutToken};

/// The limit of open connections.
const CONNECTIONS: usize = 16;

/// The limit of the time in which a client sends the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The limit of the head of a request.
const HEAD_BYTES: usize = 16 * 1024;

/// The delay after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Returns the text of the metrics now.
pub type Source = Arc<dyn Fn() -> String + Send + Sync>;

/// An address at which metrics are served.
pub struct Endpoint {
    listener: TcpListener,
    access: Access,
}

/// The reason why there is no endpoint.
#[derive(Debug)]
pub enum BindError {
    /// An address that other machines reach requires a token.
    NoToken(SocketAddr),
    /// The address cannot be used.
    Io(SocketAddr, io::Error),
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BindError::NoToken(address) => write!(
                f,
                "other machines can reach {address}, so the metrics need a token: name a variable that holds one with \
                 --metrics-token-env, or use 127.0.0.1:{}",
                address.port()
            ),
            BindError::Io(address, error) => {
                write!(f, "cannot listen on {address} for metrics: {error}; choose another address")
            }
        }
    }
}

impl std::error::Error for BindError {}

impl Endpoint {
    /// Listens on an address. With a token, every request needs it.
    pub async fn bind(address: SocketAddr, token: Option<&str>) -> Result<Endpoint, BindError> {
        if !address.ip().is_loopback() && token.is_none() {
            return Err(BindError::NoToken(address));
        }
        let without_token = if token.is_some() { WithoutToken::Refused } else { WithoutToken::Anyone };
        let tokens = token.map(|token| AccessToken::new("metrics", TokenHash::of(token))).into_iter().collect();
        let hosts = if address.ip().is_loopback() { Vec::new() } else { vec![address.ip().to_string()] };
        let access = Access { hosts, tokens, without_token, ..Access::default() };
        let listener = TcpListener::bind(address).await.map_err(|error| BindError::Io(address, error))?;
        Ok(Endpoint { listener, access })
    }

    /// The bound address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the task is dropped.
    pub async fn serve(self, source: Source) {
        let access = Arc::new(self.access);
        let limit = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
            let Ok((connection, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let (access, source) = (Arc::clone(&access), Arc::clone(&source));
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&request, &access, &source);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                // A client that breaks its connection is an ordinary event.
                let _ = builder.serve_connection(TokioIo::new(connection), service).await;
                drop(permit);
            });
        }
    }
}

fn answer<B: Body>(request: &Request<B>, access: &Access, source: &Source) -> Response<ResponseBody> {
    if let Err(denied) = access.check(request.headers(), request.uri().authority(), Peer::Unknown, SystemTime::now()) {
        let mut answer = plain(denied.status(), format!("{denied}\n"));
        if denied == Denied::Token {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        return answer;
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n".to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, String::new());
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let mut answer = Response::new(body(source()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
    answer
}

fn plain(status: StatusCode, text: String) -> Response<ResponseBody> {
    let mut answer = Response::new(body(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn body(text: String) -> ResponseBody {
    ResponseBody::Text(Some(Bytes::from(text)))
}
