//! Certificates of secure servers and the authorities that issue them.
//!
//! A client checks the authority, the names and the dates of a certificate, so tests need servers that pass all three
//! checks and servers that fail one of them. Keys are generated for each test.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The ALPN protocols of the server, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", HTTP1];
const HTTP1: &[u8] = b"http/1.1";

/// A certificate authority. A client trusts it by its [PEM text](Authority::pem).
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// The contents of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// The host name or address of the server.
    pub host: &'a str,
    /// The year in which the certificate expires, on 17 May.
    pub until: i32,
}

/// The certificate and key of a server.
#[derive(Clone, Debug)]
pub struct Identity(pub(crate) Arc<ServerConfig>);

impl Authority {
    /// Creates an authority with a new key.
    pub fn new(name: &str) -> io::Result<Authority> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).map_err(io::Error::other)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem })
    }

    /// Returns the authority's own certificate, for clients that trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for a server.
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
    /// Creates a self-signed certificate.
    pub fn self_signed(certificate: Certificate<'_>) -> io::Result<Identity> {
        let (params, key) = certificate.params()?;
        let signed = params.self_signed(&key).map_err(io::Error::other)?;
        Identity::new(signed.der().clone(), &key)
    }

    /// Uses a certificate and a key in PEM form that another program created.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> io::Result<Identity> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(io::Error::other)?;
        Identity::with(certificate, PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?)
    }

    /// Offers HTTP/1.1 only.
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
