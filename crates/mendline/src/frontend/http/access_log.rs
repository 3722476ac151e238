//! The access log: one line for each request, with who asked for what and the status of the answer.
//!
//! A line is written when the response has ended, or its client has left. It has no token, no session id, no query and
//! no text of a message.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use serde_json::{Map, Value};

use super::line_log::{LineLog, harmless};
use super::progress::WatchedBody;

/// The name of the file in the state directory.
const FILE: &str = "access.log";

/// The longest path that is written.
const LONGEST_PATH: usize = 256;

/// The principal of a request, which its response carries to the log.
#[derive(Clone, Debug)]
pub(super) struct Principal(pub(super) Arc<str>);

/// The access log.
#[derive(Clone)]
pub struct AccessLog(Arc<LineLog>);

impl AccessLog {
    /// Opens the log in the state directory.
    pub fn open(state: &Path) -> io::Result<AccessLog> {
        Ok(AccessLog(Arc::new(LineLog::open(state, FILE)?)))
    }

    /// Waits for the last lines to be written.
    pub fn close(&self) {
        self.0.close();
    }

    /// Begins the line of a request.
    pub(super) fn begin<B>(&self, request: &Request<B>, client: Option<IpAddr>) -> Entry {
        Entry {
            log: Arc::clone(&self.0),
            time: SystemTime::now(),
            begin: Instant::now(),
            client,
            method: request.method().to_string(),
            path: harmless(&request.uri().path().chars().take(LONGEST_PATH).collect::<String>()),
            principal: None,
            status: None,
            bytes: 0,
        }
    }
}

/// A request that is being answered. Dropping it writes the line.
pub(super) struct Entry {
    log: Arc<LineLog>,
    time: SystemTime,
    begin: Instant,
    client: Option<IpAddr>,
    method: String,
    path: String,
    /// None if the request was refused before its principal was known.
    principal: Option<Arc<str>>,
    /// None if the client left before the answer.
    status: Option<u16>,
    bytes: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut line = Map::new();
        line.insert("time".into(), humantime::format_rfc3339_micros(self.time).to_string().into());
        line.insert("principal".into(), self.principal.as_deref().into());
        line.insert("client".into(), self.client.map(|client| client.to_string()).into());
        line.insert("method".into(), std::mem::take(&mut self.method).into());
        line.insert("path".into(), std::mem::take(&mut self.path).into());
        line.insert("status".into(), self.status.into());
        let millis = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        line.insert("ms".into(), Value::from(millis));
        line.insert("bytes".into(), self.bytes.into());
        self.log.write(line);
    }
}

/// The body of a response whose line is written at its end.
pub(super) struct LoggedBody {
    body: WatchedBody,
    entry: Option<Entry>,
}

/// Returns a response that is logged at its end.
pub(super) fn logged(answer: Response<WatchedBody>, entry: Option<Entry>) -> Response<LoggedBody> {
    let entry = entry.map(|mut entry| {
        entry.status = Some(answer.status().as_u16());
        entry.principal = answer.extensions().get().map(|Principal(principal)| Arc::clone(principal));
        entry
    });
    answer.map(|body| LoggedBody { body, entry })
}

impl Body for LoggedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let length = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len)).unwrap_or(0);
        if let Some(entry) = &mut this.entry {
            entry.bytes += length as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
