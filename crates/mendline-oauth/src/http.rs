//! The HTTP client of this crate, as a trait.
//!
//! Everything here is tested without sockets. The most important fact about a failed request is whether the server may
//! have received it: a refresh token that was rotated unseen is lost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use mendline::decisions::Secret;

/// The future of a request.
pub type HttpFuture<'a> = Pin<Box<dyn Future<Output = Result<Response, SendError>> + Send + 'a>>;

/// A client for single requests. It has its own time limit, follows redirects of a GET within the origin only, and
/// refuses addresses that its policy does not admit.
pub trait HttpClient: Send + Sync {
    /// Sends one request.
    fn send(&self, request: Request) -> HttpFuture<'_>;
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL, as the server or the configuration wrote it.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, Secret)>,
    /// The type and the text of the body.
    pub body: Option<(&'static str, Secret)>,
}

impl Request {
    /// A GET request for JSON.
    pub fn get(url: impl Into<String>) -> Request {
        Request { method: Method::Get, url: url.into(), headers: vec![accept_json()], body: None }
    }

    /// A POST request with a form.
    pub fn form(url: impl Into<String>, form: Secret) -> Request {
        Request::post(url, "application/x-www-form-urlencoded", form)
    }

    /// A POST request with a JSON body.
    pub fn json(url: impl Into<String>, json: Secret) -> Request {
        Request::post(url, "application/json", json)
    }

    fn post(url: impl Into<String>, kind: &'static str, body: Secret) -> Request {
        Request { method: Method::Post, url: url.into(), headers: vec![accept_json()], body: Some((kind, body)) }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: Secret) -> Request {
        self.headers.push((name.to_owned(), value));
        self
    }
}

fn accept_json() -> (String, Secret) {
    ("Accept".to_owned(), Secret::new("application/json"))
}

/// A response.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, which may hold a secret.
    pub body: Secret,
}

impl Response {
    /// Returns the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The reason why a request got no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// The fate of the request.
    pub fate: Fate,
    /// The reason, for a person; without secrets.
    pub why: String,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The fate of a request without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server cannot have received it.
    NotSent,
    /// The server may have received and processed it.
    MayBeReceived,
    /// Mendline does not send it: the scheme, the address or a redirect is not allowed. Trying again does not help.
    NotAllowed,
}
