//! Doubles for tests: an HTTP client with canned responses, and a state directory.

pub(crate) mod server;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use mendline::decisions::Secret;

use crate::http::{HttpClient, HttpFuture, Request, Response, SendError};
use crate::ui::{LineFuture, LoginUi, Progress};
use crate::{OAuth, Store};

/// Runs a future on paused time.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Returns the result of a future that does not wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

/// A JSON response.
pub(crate) fn json(status: u16, body: &str) -> Response {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Response { status, headers, body: Secret::new(body) }
}

/// An HTTP client with canned responses by URL; the last one of a URL is repeated. Other URLs get 404.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

struct Inner {
    responses: Mutex<BTreeMap<String, Vec<Result<Response, SendError>>>>,
    requests: Mutex<Vec<Request>>,
    state: tempfile::TempDir,
}

impl Fake {
    pub(crate) fn new() -> Fake {
        Fake(Arc::new(Inner {
            responses: Mutex::default(),
            requests: Mutex::default(),
            state: tempfile::tempdir().unwrap(),
        }))
    }

    /// Adds a response of a URL.
    pub(crate) fn on(&self, url: &str, response: Response) {
        self.push(url, Ok(response));
    }

    /// Adds a failure of a URL.
    pub(crate) fn fail(&self, url: &str, error: SendError) {
        self.push(url, Err(error));
    }

    fn push(&self, url: &str, result: Result<Response, SendError>) {
        self.0.responses.lock().unwrap().entry(url.to_owned()).or_default().push(result);
    }

    /// The operations with this client and a store in a temporary directory.
    pub(crate) fn oauth(&self) -> OAuth {
        OAuth::new(Arc::new(self.clone()), Store::new(self.0.state.path()))
    }

    /// The URLs of all requests.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.requests.lock().unwrap().iter().map(|request| request.url.clone()).collect()
    }

    /// All requests.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.requests.lock().unwrap().clone()
    }
}

impl HttpClient for Fake {
    fn send(&self, request: Request) -> HttpFuture<'_> {
        let mut responses = self.0.responses.lock().unwrap();
        let result = match responses.get_mut(&request.url) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => Ok(json(404, "{}")),
        };
        self.0.requests.lock().unwrap().push(request);
        Box::pin(async move { result })
    }
}

type Paste = Arc<dyn Fn(&str) -> String + Send + Sync>;
type Browse = Arc<dyn Fn(&str) + Send + Sync>;

/// A person who pastes lines and whose browser is a function.
#[derive(Clone, Default)]
pub(crate) struct Person {
    steps: Arc<Mutex<Vec<Progress>>>,
    opened: Arc<Mutex<Vec<String>>>,
    paste: Option<Paste>,
    browse: Option<Browse>,
}

impl Person {
    /// A person who pastes a text that depends on the address.
    pub(crate) fn pasting(paste: impl Fn(&str) -> String + Send + Sync + 'static) -> Person {
        Person { paste: Some(Arc::new(paste)), ..Person::default() }
    }

    /// A person whose browser is this function.
    pub(crate) fn browsing(browse: impl Fn(&str) + Send + Sync + 'static) -> Person {
        Person { browse: Some(Arc::new(browse)), ..Person::default() }
    }

    /// The steps that were shown.
    pub(crate) fn steps(&self) -> Vec<Progress> {
        self.steps.lock().unwrap().clone()
    }

    /// The addresses that were shown.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.opened.lock().unwrap().clone()
    }
}

impl LoginUi for Person {
    fn show_url(&self, url: &str, _opened: bool) {
        self.opened.lock().unwrap().push(url.to_owned());
    }

    fn open_browser(&self, url: &str) -> bool {
        if let Some(browse) = &self.browse {
            browse(url);
        }
        self.browse.is_some()
    }

    fn read_line(&self) -> LineFuture<'_> {
        let line = self.paste.as_ref().map(|paste| paste(&self.urls().last().cloned().unwrap_or_default()));
        Box::pin(async move { line })
    }

    fn progress(&self, step: &Progress) {
        self.steps.lock().unwrap().push(step.clone());
    }
}
