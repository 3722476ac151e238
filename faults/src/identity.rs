//! Who a secure server says it is, and who vouches for it.
//!
//! A client decides whom to believe by a certificate's authority, its names and its dates, so a test needs servers that are
//! right in all three and servers that are wrong in one. Keys are made anew each time and are nobody's secret.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What servers of this kind offer, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", HTTP1];
const HTTP1: &[u8] = b"http/1.1";

/// Somebody who vouches for servers. A client that trusts it has its [PEM text](Authority::pem).
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What a certificate says.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// The name or the address that it is for.
    pub host: &'a str,
    /// The year in which it ends, on the 17th of May.
    pub until: i32,
}

/// What a server shows to prove who it is.
#[derive(Clone, Debug)]
pub struct Identity(pub(crate) Arc<ServerConfig>);

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> io::Result<Authority> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).map_err(io::Error::other)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem })
    }

    /// Its own certificate, for whoever is to trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Vouches for a server.
    pub fn issue(&self, certificate: Certificate<'_>) -> io::Result<Identity> {
        let (params, key) = certificate.params()?;
        let signed = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Identity::new(signed.der().clone(), &key)
    }
}

impl Certificate<'_> {
    fn params(&self) -> io::Result<(CertificateParams, KeyPair)> {
        let mut params = CertificateParams::new(vec![self.host.to_owned()]).map_err(io::Error::other)?;
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(self.until, 5, 17);
        Ok((params, KeyPair::generate().map_err(io::Error::other)?))
    }
}

impl Identity {
    /// A server that vouches for itself.
    pub fn self_signed(certificate: Certificate<'_>) -> io::Result<Identity> {
        let (params, key) = certificate.params()?;
        let signed = params.self_signed(&key).map_err(io::Error::other)?;
        Identity::new(signed.der().clone(), &key)
    }

    /// A server with a certificate and a key that another program has made, in PEM form.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> io::Result<Identity> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(io::Error::other)?;
        Identity::with(certificate, PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?)
    }

    /// The same, and no HTTP/2.
    pub fn with_http1_only(self) -> Identity {
        let mut config = ServerConfig::clone(&self.0);
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Identity(Arc::new(config))
    }

    fn new(certificate: CertificateDer<'static>, key: &KeyPair) -> io::Result<Identity> {
        Identity::with(certificate, PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?)
    }

    fn with(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> io::Result<Identity> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let made = builder.with_no_client_auth().with_single_cert(vec![certificate], key);
        let mut config = made.map_err(io::Error::other)?;
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        Ok(Identity(Arc::new(config)))
    }
}
