//! TLS of the gateway: its certificate, and the handshake of a connection.
//!
//! The certificate is read from two files, and again when they change. A pair that cannot be used changes nothing: the
//! old one stays in use, and the operator learns why. A client that speaks HTTP without TLS is told to use `https`.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::transport::http::CertificateFault;
use crate::transport::http::certificate_files::{CertificateFiles, Look};

/// The first byte of a TLS connection: the type of a handshake record.
const HANDSHAKE: u8 = 22;

/// The answer to a request without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
Content-Length: 35\r\n\r\nthis address has TLS; use https://\n";

/// The bytes that are read of a request without TLS, so that the system does not discard the answer.
const PLAIN_BYTES: u64 = 64 * 1024;

/// The certificate of the gateway, which can be replaced while it runs.
#[derive(Clone)]
pub struct ServerTls {
    files: Arc<Resolver>,
    config: Arc<ServerConfig>,
}

/// What a look at the files of the certificate has found.
#[derive(Debug)]
pub enum CertificateChange {
    /// Nothing new.
    None,
    /// A new certificate is in use.
    Renewed,
    /// The files cannot be used. The old certificate stays in use.
    Unusable(CertificateFault),
}

impl ServerTls {
    /// Reads the certificate with its chain, and its key, both in PEM form.
    pub fn read(certificate: &Path, key: &Path) -> Result<ServerTls, CertificateFault> {
        let files = Arc::new(Resolver(RwLock::new(CertificateFiles::read(certificate, key)?)));
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(CertificateFault::Tls)?;
        let resolver = Arc::clone(&files) as Arc<dyn ResolvesServerCert>;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(ServerTls { files, config: Arc::new(config) })
    }

    /// Replaces the files, if the new ones can be used.
    pub fn replace(&self, certificate: &Path, key: &Path) -> Result<(), CertificateFault> {
        let new = CertificateFiles::read(certificate, key)?;
        *self.files.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Reads the files again if they have changed. A change that cannot be used is reported once.
    pub fn look(&self) -> CertificateChange {
        change(self.files.read().look())
    }

    /// Reads the files again, changed or not.
    pub fn look_anew(&self) -> CertificateChange {
        change(self.files.read().look_anew())
    }

    /// Makes the handshake of a connection. A client without TLS is answered, and there is no connection.
    pub(super) async fn accept(&self, connection: TcpStream, limit: Duration) -> Option<TlsStream<TcpStream>> {
        let accepted = tokio::time::timeout(limit, async {
            let mut first = [0];
            match connection.peek(&mut first).await {
                Ok(0) | Err(_) => None,
                Ok(_) if first[0] == HANDSHAKE => {
                    TlsAcceptor::from(Arc::clone(&self.config)).accept(connection).await.ok()
                }
                Ok(_) => {
                    let _ = refuse_plain(connection).await;
                    None
                }
            }
        });
        accepted.await.ok().flatten()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

fn change(look: Look) -> CertificateChange {
    match look {
        Look::Unchanged => CertificateChange::None,
        Look::Renewed => CertificateChange::Renewed,
        Look::Unusable(fault) => CertificateChange::Unusable(fault),
    }
}

async fn refuse_plain(mut connection: TcpStream) -> io::Result<()> {
    connection.write_all(PLAIN).await?;
    connection.shutdown().await?;
    let mut rest = connection.take(PLAIN_BYTES);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}

#[derive(Debug)]
struct Resolver(RwLock<CertificateFiles>);

impl Resolver {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, CertificateFiles> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pair = self.read().pair();
        pair.key.choose_scheme(hello.signature_schemes()).is_some().then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_without_tls_has_the_length_that_it_names() {
        let text = std::str::from_utf8(PLAIN).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    }
}
