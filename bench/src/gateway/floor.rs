//! The lower bound of a gateway: the smallest hyper program that does the same.
//!
//! To a URL it forwards each POST with its headers on a connection of its own; to a command it writes each body as a
//! line and returns the line with the same id. It has one thread and no limits, repairs nothing and checks nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::http::stack::whole;
use crate::scan::member;

/// The largest number of lines per write.
const AT_ONCE: usize = 64;

/// A body of one piece.
struct Whole(Bytes);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then_some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// The server behind the gateway.
#[derive(Clone)]
enum Behind {
    Url(Rc<Url>),
    Command(Rc<Child>),
}

struct Url {
    authority: HeaderValue,
    /// Idle connections, the one that became free last at the end.
    free: RefCell<Vec<SendRequest<Whole>>>,
}

struct Child {
    requests: mpsc::UnboundedSender<Bytes>,
    /// The requests without an answer, by their ids as written.
    waiting: RefCell<HashMap<Bytes, oneshot::Sender<Bytes>>>,
}

/// Serves until it is killed, before the server at a URL or behind a command.
pub(crate) fn run(port: u16, behind: &[String]) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let behind = match behind {
            [url] => Behind::Url(Rc::new(Url::try_new(url)?)),
            [dashes, command @ ..] if dashes == "--" && !command.is_empty() => Behind::Command(Child::start(command)?),
            _ => return Err(io::Error::other("a URL, or `--` and a command is needed")),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        writeln!(io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let behind = behind.clone();
            tokio::task::spawn_local(async move {
                let service = service_fn(|request| respond(behind.clone(), request));
                // The client reports a broken connection.
                let _ = server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

async fn respond(behind: Behind, request: Request<Incoming>) -> io::Result<Response<Whole>> {
    match behind {
        Behind::Url(url) => url.forward(request).await,
        Behind::Command(child) => child.call(whole(request.into_body()).await?).await,
    }
}

impl Url {
    fn try_new(url: &str) -> io::Result<Self> {
        let (authority, _) = crate::http::address(url)?;
        let authority = HeaderValue::from_str(authority).map_err(io::Error::other)?;
        Ok(Self { authority, free: RefCell::default() })
    }

    async fn forward(&self, request: Request<Incoming>) -> io::Result<Response<Whole>> {
        let (mut head, body) = request.into_parts();
        let body = whole(body).await?;
        head.headers.insert(HOST, self.authority.clone());
        let free = self.free.borrow_mut().pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => self.dial().await?,
        };
        connection.ready().await.map_err(io::Error::other)?;
        let response = connection.send_request(Request::from_parts(head, Whole(body)));
        let (head, body) = response.await.map_err(io::Error::other)?.into_parts();
        let body = whole(body).await?;
        self.free.borrow_mut().push(connection);
        Ok(Response::from_parts(head, Whole(body)))
    }

    async fn dial(&self) -> io::Result<SendRequest<Whole>> {
        let stream = TcpStream::connect(self.authority.to_str().map_err(io::Error::other)?).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }
}

impl Child {
    /// Starts the command. It ends with this process, which holds its stdin.
    fn start(command: &[String]) -> io::Result<Rc<Self>> {
        let mut child =
            Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().map(OwnedFd::from).zip(child.stdout.take().map(OwnedFd::from));
        let (stdin, stdout) = pipes.ok_or_else(|| io::Error::other("the child has no pipes"))?;
        let (stdin, stdout) = (Sender::from_owned_fd(stdin)?, Receiver::from_owned_fd(stdout)?);
        let (requests, received) = mpsc::unbounded_channel();
        let child = Rc::new(Self { requests, waiting: RefCell::default() });
        tokio::task::spawn_local(write_lines(stdin, received));
        tokio::task::spawn_local(Rc::clone(&child).read_lines(stdout));
        Ok(child)
    }

    async fn call(&self, body: Bytes) -> io::Result<Response<Whole>> {
        let id = member(&body, b"\"id\"").map(|id| body.slice_ref(id));
        let (sender, answer) = oneshot::channel();
        let is_request = id.is_some();
        if let Some(id) = id {
            self.waiting.borrow_mut().insert(id, sender);
        }
        self.requests.send(body).map_err(io::Error::other)?;
        let mut response = Response::new(Whole(Bytes::new()));
        if is_request {
            *response.body_mut() = Whole(answer.await.map_err(io::Error::other)?);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else {
            *response.status_mut() = StatusCode::ACCEPTED;
        }
        Ok(response)
    }

    async fn read_lines(self: Rc<Self>, stdout: Receiver) -> io::Result<()> {
        let mut stdout = BufReader::with_capacity(64 << 10, stdout);
        loop {
            let mut line = Vec::with_capacity(256);
            if stdout.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            line.pop();
            let line = Bytes::from(line);
            let waiting = member(&line, b"\"id\"").and_then(|id| self.waiting.borrow_mut().remove(id));
            if let Some(waiting) = waiting {
                // The client is gone if the receiver is.
                let _ = waiting.send(line);
            }
        }
    }
}

async fn write_lines(mut stdin: Sender, mut received: mpsc::UnboundedReceiver<Bytes>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(AT_ONCE);
    let mut lines = Vec::with_capacity(64 << 10);
    while received.recv_many(&mut batch, AT_ONCE).await > 0 {
        for body in batch.drain(..) {
            lines.extend_from_slice(&body);
            lines.push(b'\n');
        }
        stdin.write_all(&lines).await?;
        lines.clear();
    }
    Ok(())
}
