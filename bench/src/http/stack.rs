//! The lower bound of the HTTP libraries: each line becomes a POST and each body a line, as in `relay`, but with tokio
//! and hyper.
//!
//! Mendline uses these libraries for correct HTTP. This relay measures their cost, so that it can be told apart from
//! Mendline's own. It uses them as their examples do: one thread, a connection and a task for each call in flight.
//! Answers that are ready together are written together.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hyper::Request;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SESSION: &str = "mcp-session-id";

/// The largest number of answers per write.
const AT_ONCE: usize = 64;

/// The state that all calls share.
struct Server {
    authority: String,
    path: String,
    /// Idle connections, the one that became free last at the end.
    free: Mutex<Vec<SendRequest<String>>>,
    session: OnceLock<HeaderValue>,
}

/// Relays until stdin ends and everything is answered, or until the first error.
pub(crate) fn run(url: &str) -> io::Result<ExitCode> {
    let (authority, path) = super::address(url)?;
    let server = Arc::new(Server {
        authority: authority.to_owned(),
        path: format!("/{path}"),
        free: Mutex::new(Vec::new()),
        session: OnceLock::new(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let stdin = Receiver::from_owned_fd(duplicate(rustix::stdio::stdin())?)?;
        let stdout = Sender::from_owned_fd(duplicate(rustix::stdio::stdout())?)?;
        let (answers, received) = unbounded_channel();
        tokio::try_join!(send_requests(stdin, &server, answers), write_answers(stdout, received))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn duplicate(fd: std::os::fd::BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::dup(fd)?)
}

async fn send_requests(
    stdin: Receiver,
    server: &Arc<Server>,
    answers: UnboundedSender<io::Result<Bytes>>,
) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 << 10, stdin).lines();
    while let Some(line) = lines.next_line().await? {
        let (server, answers) = (Arc::clone(server), answers.clone());
        tokio::spawn(async move {
            let answer = server.post(line).await;
            if !matches!(&answer, Ok(body) if body.is_empty()) {
                // The receiver is gone after another error.
                let _ = answers.send(answer);
            }
        });
    }
    Ok(())
}

async fn write_answers(mut stdout: Sender, mut received: UnboundedReceiver<io::Result<Bytes>>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(AT_ONCE);
    let mut lines = Vec::with_capacity(64 << 10);
    while received.recv_many(&mut batch, AT_ONCE).await > 0 {
        for body in batch.drain(..) {
            lines.extend_from_slice(&body?);
            lines.push(b'\n');
        }
        stdout.write_all(&lines).await?;
        lines.clear();
    }
    Ok(())
}

impl Server {
    async fn post(&self, line: String) -> io::Result<Bytes> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => self.dial().await?,
        };
        connection.ready().await.map_err(io::Error::other)?;
        let mut request = Request::post(&self.path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if let Some(session) = self.session.get() {
            request = request.header(SESSION, session);
        }
        let request = request.body(line).map_err(io::Error::other)?;
        let response = connection.send_request(request).await.map_err(io::Error::other)?;
        if !response.status().is_success() {
            return Err(io::Error::other(response.status().to_string()));
        }
        if let Some(session) = response.headers().get(SESSION) {
            self.session.get_or_init(|| session.clone());
        }
        let body = whole(response.into_body()).await?;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(body)
    }

    async fn dial(&self) -> io::Result<SendRequest<String>> {
        let stream = TcpStream::connect(&self.authority).await?;
        // A small request must not wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Returns a body. A body of one frame is not copied.
pub(crate) async fn whole(mut body: Incoming) -> io::Result<Bytes> {
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
}
