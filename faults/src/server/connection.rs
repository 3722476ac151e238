//! A connection of the server: TCP with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Identity;

/// A connection of the server.
#[derive(Debug)]
pub(crate) enum Connection {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Performs the TLS handshake if the server has a certificate.
    pub(crate) async fn open(stream: TcpStream, identity: Option<&Identity>) -> io::Result<Connection> {
        match identity {
            None => Ok(Connection::Plain(stream)),
            Some(Identity(config)) => {
                let secure = TlsAcceptor::from(Arc::clone(config)).accept(stream).await?;
                Ok(Connection::Secure(Box::new(secure)))
            }
        }
    }

    /// Returns the TCP socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Connection::Plain(stream) => stream,
            Connection::Secure(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Connection::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Connection::Secure(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Connection::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Connection::Secure(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
