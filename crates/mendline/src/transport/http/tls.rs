//! Trust.
//!
//! Whom to believe is decided by the system's own store of authorities, to which the operator may add some of their own
//! (a company's proxy, a test). What is wrong with a certificate is told in words that say what to do about it, because
//! trying again will not help. The store is read when the first secure connection is made and not before: it takes
//! milliseconds that a server without TLS should not cost.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::certificate::Certificate;
use super::target::Protocol;

/// Whom to trust besides the authorities that the system trusts.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    extra_roots: Vec<CertificateDer<'static>>,
}

/// A text does not hold certificates in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCertificates;

impl fmt::Display for NoCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no certificate in PEM form in it")
    }
}

impl std::error::Error for NoCertificates {}

impl TlsOptions {
    /// Trusts these authorities too: certificates in PEM form, as a file of `NODE_EXTRA_CA_CERTS` holds them.
    pub fn trust(&mut self, pem: &[u8]) -> Result<(), NoCertificates> {
        let roots: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| NoCertificates)?;
        if roots.is_empty() {
            return Err(NoCertificates);
        }
        self.extra_roots.extend(roots);
        Ok(())
    }
}

/// Makes the configuration of TLS once, on first use.
pub(super) struct Trust {
    options: TlsOptions,
    protocol: Protocol,
    made: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Trust {
    pub(super) fn new(options: TlsOptions, protocol: Protocol) -> Trust {
        Trust { options, protocol, made: OnceLock::new() }
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.made
            .get_or_init(|| self.make().map(Arc::new).map_err(|error| format!("TLS cannot be used here ({error})")))
            .clone()
    }

    fn make(&self) -> Result<ClientConfig, rustls::Error> {
        config(&self.options, self.protocol, |verifier| verifier)
    }
}

/// The configuration of TLS, whose verifier may be looked over the shoulder.
fn config<V: ServerCertVerifier + 'static>(
    options: &TlsOptions,
    protocol: Protocol,
    accompany: impl FnOnce(Verifier) -> V,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(options.extra_roots.clone(), Arc::clone(&provider))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        // "Dangerous" is only to bring a verifier of one's own, and this one is the system's.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(accompany(verifier)))
        .with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}

/// The same configuration, and what its verifier will be shown.
pub(super) fn witnessed(options: &TlsOptions, protocol: Protocol) -> Result<(ClientConfig, Seen), String> {
    let seen = Seen::default();
    let accompany = |verifier| Witness { verifier, seen: seen.clone() };
    let made = config(options, protocol, accompany).map_err(|error| format!("TLS cannot be used here ({error})"))?;
    Ok((made, seen))
}

/// The certificate that a verifier was shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Option<Vec<u8>>>>);

impl Seen {
    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref().and_then(Certificate::read)
    }
}

/// The system's verifier, with somebody beside it who sees what it sees and decides nothing.
#[derive(Debug)]
struct Witness {
    verifier: Verifier,
    seen: Seen,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end_entity.to_vec());
        self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(host.to_owned())
}

/// Why a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandshakeFault {
    /// The peer is not who it should be; another try will show the same certificate.
    Untrusted(String),
    /// Anything else.
    Failed(String),
}

/// What went wrong with a handshake with `place`.
pub(super) fn judge(place: &str, error: &std::io::Error) -> HandshakeFault {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        return HandshakeFault::Failed(format!("{place} broke off the TLS handshake ({why})"));
    };
    match error {
        rustls::Error::InvalidCertificate(certificate) => {
            HandshakeFault::Untrusted(format!("{place} is not trusted: {}", distrust(certificate)))
        }
        rustls::Error::InvalidMessage(_) => {
            HandshakeFault::Failed(format!("{place} does not speak TLS; is it an http:// server?"))
        }
        rustls::Error::AlertReceived(alert) => {
            HandshakeFault::Failed(format!("{place} refused the TLS handshake ({alert:?})"))
        }
        other => HandshakeFault::Failed(format!("the TLS handshake with {place} failed ({other})")),
    }
}

fn distrust(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired on {}; whoever runs it must renew it", date(*not_after))
        }
        CertificateError::Expired => "its certificate has expired; whoever runs it must renew it".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}; is this machine's clock right?", date(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented: Vec<_> = presented.iter().map(|name| dns_name(name)).collect();
            let presented = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            format!("its certificate is for {presented}, not for {}", expected.to_str())
        }
        CertificateError::UnknownIssuer => "its certificate comes from an authority that this machine does not know; \
             trust that authority or check the address"
            .to_owned(),
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        other => format!("its certificate is not acceptable ({other})"),
    }
}

/// The verifier shows names as `DnsName("x")`; people write `x`.
fn dns_name(shown: &str) -> &str {
    shown.strip_prefix("DnsName(\"").and_then(|rest| rest.strip_suffix("\")")).unwrap_or(shown)
}

fn date(time: UnixTime) -> String {
    let stamp = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs())).to_string();
    stamp.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_not_trusted() {
        assert_eq!(TlsOptions::default().trust(b"hello"), Err(NoCertificates));
        assert_eq!(TlsOptions::default().trust(b""), Err(NoCertificates));
        let broken = b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
        assert_eq!(TlsOptions::default().trust(broken), Err(NoCertificates));
    }

    #[test]
    fn every_common_distrust_says_what_to_do() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for (error, words) in [
            (
                CertificateError::ExpiredContext { time: at(2_000_000_000), not_after: at(1_700_000_000) },
                "its certificate expired on 2023-11-14; whoever runs it must renew it",
            ),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(1_700_000_000) },
                "its certificate is not valid before 2023-11-14; is this machine's clock right?",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: server_name("a.test").unwrap(),
                    presented: vec!["DnsName(\"b.test\")".into(), "DnsName(\"*.c.test\")".into()],
                },
                "its certificate is for b.test, *.c.test, not for a.test",
            ),
        ] {
            assert_eq!(distrust(&error), words);
        }
    }
}
