//! What a connection of the server is carried by: TCP, with TLS above it or not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Identity;

/// A connection, secure or not.
#[derive(Debug)]
pub(crate) enum Line {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Line {
    /// Shows who we are, if there is somebody to be, and waits for the client to believe it.
    pub(crate) async fn open(stream: TcpStream, identity: Option<&Identity>) -> io::Result<Line> {
        match identity {
            None => Ok(Line::Plain(stream)),
            Some(Identity(config)) => {
                let secure = TlsAcceptor::from(Arc::clone(config)).accept(stream).await?;
                Ok(Line::Secure(Box::new(secure)))
            }
        }
    }

    /// The socket below everything.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Line::Plain(stream) => stream,
            Line::Secure(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Line::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Line::Secure(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Line::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Line::Secure(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Line::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Line::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Line::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Line::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
