//! The server side of one HTTP/2 connection.

use std::future::poll_fn;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use tokio::io::{AsyncRead, AsyncWrite};

use super::site::{Body, Request, Site};

/// Serves a connection until it ends.
pub async fn serve(io: impl AsyncRead + AsyncWrite + Unpin, site: Site) {
    let Ok(mut connection) = h2::server::handshake(io).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond, site.clone()));
    }
}

/// Answers one complete request. Write errors are ignored.
async fn answer(request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>, site: Site) -> Option<()> {
    let (parts, mut stream) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.ok()?;
        stream.flow_control().release_capacity(piece.len()).ok()?;
        body.extend_from_slice(&piece);
    }
    let verb = parts.method.as_str().to_owned();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let (session, last_event) = (header("mcp-session-id"), header("last-event-id"));
    let reply = site.answer(&Request { verb, path, session, last_event, body });

    let mut head = http::Response::builder().status(reply.status);
    for (name, value) in reply.headers() {
        head = head.header(name, value);
    }
    let mut out = respond.send_response(head.body(()).ok()?, false).ok()?;
    let mut pieces = match reply.body {
        Body::Whole(text) => return out.send_data(text.into(), true).ok(),
        Body::Events(pieces) => pieces,
    };
    loop {
        tokio::select! {
            biased;
            piece = pieces.recv() => match piece {
                Some(piece) => out.send_data(piece.into(), false).ok()?,
                None => return out.send_data(Bytes::new(), true).ok(),
            },
            // The client has closed the stream.
            _ = poll_fn(|cx| out.poll_reset(cx)) => return None,
        }
    }
}
