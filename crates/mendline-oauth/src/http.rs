//! The HTTP client of this crate, as a trait.
//!
//! Everything here is tested without sockets. The most important fact about a failed request is whether the server may
//! have received it: a refresh token that was rotated unseen is lost.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use mendline::decisions::Secret;
use mendline::transport::http::fetch::{AddressPolicy, FetchError, FetchMethod, FetchRequest, FetchResponse, Fetcher};

use crate::url::Parts;

/// The response headers that this crate reads.
const HEADERS: [&str; 3] = ["www-authenticate", "content-type", "retry-after"];

/// The limit for looking up the name of an MCP server.
const LOOKUP: Duration = Duration::from_secs(5);

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

impl HttpClient for Fetcher {
    fn send(&self, request: Request) -> HttpFuture<'_> {
        Box::pin(async move {
            let method = match request.method {
                Method::Get => FetchMethod::Get,
                Method::Post => FetchMethod::Post,
            };
            let body = request.body.map(|(kind, text)| (kind.to_owned(), text));
            let request = FetchRequest { method, url: request.url, headers: request.headers, body };
            self.fetch(&request).await.map(Response::from).map_err(SendError::from)
        })
    }
}

impl From<FetchResponse> for Response {
    fn from(response: FetchResponse) -> Response {
        let of = |name: &'static str| response.headers(name).map(move |value| (name.to_owned(), value.to_owned()));
        let headers = HEADERS.into_iter().flat_map(of).collect();
        let body = Secret::new(String::from_utf8_lossy(response.body()).into_owned());
        Response { status: response.status, headers, body }
    }
}

impl From<FetchError> for SendError {
    fn from(error: FetchError) -> SendError {
        let fate = match &error {
            error if error.is_sent() => Fate::MayBeReceived,
            FetchError::Refused(_) => Fate::NotAllowed,
            _ => Fate::NotSent,
        };
        SendError { fate, why: error.to_string() }
    }
}

/// Returns the addresses to which requests about the login to an MCP server may go: public ones only, unless the server
/// itself has only private ones or the operator allows it. `None`: the name of the server cannot be looked up now, for
/// instance before a VPN is up; until then only public ones are allowed.
pub async fn address_policy(server: &str, allow_private: bool) -> Option<AddressPolicy> {
    let Some(parts) = Parts::of(server) else { return Some(AddressPolicy::Public) };
    if allow_private || parts.is_private() {
        return Some(AddressPolicy::Any);
    }
    let lookup = tokio::net::lookup_host((parts.host, parts.port.unwrap_or(443)));
    let addresses: Vec<IpAddr> =
        tokio::time::timeout(LOOKUP, lookup).await.ok()?.ok()?.map(|address| address.ip()).collect();
    policy_for(&addresses)
}

/// Returns the policy for a server with these addresses. A name with public and private ones is no private server: its
/// operator could add a private address of another machine.
fn policy_for(addresses: &[IpAddr]) -> Option<AddressPolicy> {
    match addresses {
        [] => None,
        some if some.iter().all(|address| crate::url::is_private(*address)) => Some(AddressPolicy::Any),
        _ => Some(AddressPolicy::Public),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn fetcher_sends_form_and_returns_headers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = String::new();
            let mut buffer = [0; 1024];
            while !text.ends_with("a=b") {
                let count = stream.read(&mut buffer).unwrap();
                text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
            }
            stream.write_all(b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            text.to_ascii_lowercase()
        });
        let fetcher = Fetcher::new().addresses(AddressPolicy::Any);
        let response = run(fetcher.send(Request::form(url, Secret::new("a=b")))).unwrap();
        assert_eq!((response.status, response.header("Retry-After")), (429, Some("7")));
        assert_eq!(response.body, Secret::new("hi"));
        let sent = server.join().unwrap();
        assert!(sent.contains("content-type: application/x-www-form-urlencoded"), "{sent}");
    }

    #[test]
    fn fetcher_tells_the_fate_of_a_request() {
        let send = |policy, url: &str| run(Fetcher::new().addresses(policy).send(Request::get(url))).unwrap_err().fate;
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(send(AddressPolicy::Any, &format!("http://{free}/")), Fate::NotSent);
        assert_eq!(send(AddressPolicy::Public, &format!("http://{free}/")), Fate::NotAllowed);
        assert_eq!(send(AddressPolicy::Any, "http://192.0.2.1/"), Fate::NotAllowed);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
        });
        assert_eq!(send(AddressPolicy::Any, &url), Fate::MayBeReceived);
        server.join().unwrap();
    }

    #[test]
    fn private_server_allows_private_addresses() {
        assert_eq!(run(address_policy("http://localhost:1/mcp", false)), Some(AddressPolicy::Any));
        assert_eq!(run(address_policy("https://192.0.2.1/mcp", false)), Some(AddressPolicy::Public));
        assert_eq!(run(address_policy("https://192.0.2.1/mcp", true)), Some(AddressPolicy::Any));
        assert_eq!(run(address_policy("nonsense", true)), Some(AddressPolicy::Public));
    }

    #[test]
    fn name_with_public_and_private_addresses_allows_only_public_ones() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(policy_for(&addresses(&["10.0.0.1", "fd00::1"])), Some(AddressPolicy::Any));
        assert_eq!(policy_for(&addresses(&["10.0.0.1", "192.0.2.1"])), Some(AddressPolicy::Public));
        assert_eq!(policy_for(&addresses(&["192.0.2.1"])), Some(AddressPolicy::Public));
        assert_eq!(policy_for(&[]), None);
    }

    #[test]
    fn name_that_cannot_be_looked_up_gives_no_lasting_policy() {
        assert_eq!(run(address_policy("https://no-such-host.invalid/mcp", false)), None);
    }
}
