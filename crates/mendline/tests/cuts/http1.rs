//! The server side of one HTTP/1.1 connection. It handles a request only when it is complete.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::site::{Body, Reply, Request, Site};

/// Serves a connection until it ends.
pub async fn serve(mut io: impl AsyncRead + AsyncWrite + Unpin, site: Site) {
    let mut unread = Vec::new();
    while let Some(request) = next(&mut io, &mut unread).await {
        if send(&mut io, site.answer(&request)).await.is_err() {
            return;
        }
    }
}

/// Reads the next complete request.
async fn next(io: &mut (impl AsyncRead + Unpin), unread: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some((request, length)) = parse(unread) {
            unread.drain(..length);
            return Some(request);
        }
        if io.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}

/// Parses a complete request at the start of these bytes. Returns it with its length.
fn parse(bytes: &[u8]) -> Option<(Request, usize)> {
    let head_length = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_length]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let mut request = Request { verb: words.next()?, path: words.next()?, ..Request::default() };
    let mut body_length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "content-length" => body_length = value.parse().ok()?,
            "mcp-session-id" => request.session = Some(value.to_owned()),
            "last-event-id" => request.last_event = Some(value.to_owned()),
            _ => {}
        }
    }
    request.body = bytes.get(head_length..head_length + body_length)?.to_vec();
    Some((request, head_length + body_length))
}

async fn send(io: &mut (impl AsyncRead + AsyncWrite + Unpin), reply: Reply) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Said\r\n", reply.status);
    for (name, value) in reply.headers() {
        head += &format!("{name}: {value}\r\n");
    }
    let mut pieces = match reply.body {
        Body::Whole(body) => return put(io, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await,
        Body::Events(pieces) => pieces,
    };
    put(io, &format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await?;
    loop {
        // A waiting stream must notice a closed connection, like a server over TCP.
        let mut byte = [0];
        tokio::select! {
            biased;
            piece = pieces.recv() => match piece {
                Some(piece) => put(io, &format!("{:x}\r\n{piece}\r\n", piece.len())).await?,
                None => return put(io, "0\r\n\r\n").await,
            },
            read = io.read(&mut byte) => {
                read?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Flushes, because TLS may buffer written bytes.
async fn put(io: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    io.write_all(text.as_bytes()).await?;
    io.flush().await
}
