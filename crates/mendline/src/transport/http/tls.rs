//! TLS configuration and certificate verification.
//!
//! The system's certificate store decides which certificates are trusted. The operator may add authorities (of a
//! company's proxy, of a test). A server may also present a certificate that the operator has added itself, be it
//! self-signed or that of an authority. Then its name and validity are still checked, and the server still has to prove
//! that it holds the key. Error texts about certificates tell what to do, because a retry does not help. The store is
//! read for the first TLS connection and not before: this takes milliseconds, which a server without TLS should not
//! cost.

use mendline_core::reason::TlsError;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::certificate::Certificate;
use super::client_certificate::ClientCertificate;
use super::target::Protocol;

/// Trusted certificates in addition to those of the system, and the certificate of the client.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    extra_roots: Vec<CertificateDer<'static>>,
    store: Option<PathBuf>,
    client: Option<ClientCertificate>,
}

/// The error for a text without certificates in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCertificates;

impl fmt::Display for NoCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no certificate in PEM form in it")
    }
}

impl std::error::Error for NoCertificates {}

impl TlsOptions {
    /// Adds trusted authorities: certificates in PEM form, as in a file of `NODE_EXTRA_CA_CERTS`.
    pub fn trust(&mut self, pem: &[u8]) -> Result<(), NoCertificates> {
        let roots: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| NoCertificates)?;
        if roots.is_empty() {
            return Err(NoCertificates);
        }
        self.extra_roots.extend(roots);
        Ok(())
    }

    /// Names the file that replaces the system's store, as `SSL_CERT_FILE` does: the operator has chosen its
    /// certificates.
    pub fn store(&mut self, file: PathBuf) {
        self.store = Some(file);
    }

    /// Presents this certificate to servers that ask for one.
    pub fn present(&mut self, certificate: ClientCertificate) {
        self.client = Some(certificate);
    }

    /// Returns whether the operator has added this very certificate. The operator's store is read only when needed.
    fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.extra_roots.iter().any(|root| root == certificate)
            || self.store.as_ref().is_some_and(|file| {
                std::fs::read(file).is_ok_and(|pem| {
                    CertificateDer::pem_slice_iter(&pem).any(|root| root.is_ok_and(|root| root == *certificate))
                })
            })
    }
}

/// The TLS configuration, created on first use.
pub(super) struct TlsContext {
    options: TlsOptions,
    protocol: Protocol,
    made: OnceLock<Result<Arc<ClientConfig>, TlsError>>,
}

impl TlsContext {
    pub(super) fn new(options: TlsOptions, protocol: Protocol) -> TlsContext {
        TlsContext { options, protocol, made: OnceLock::new() }
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.made.get_or_init(|| self.make().map(Arc::new).map_err(|error| tls_unusable(&error))).clone()
    }

    fn make(&self) -> Result<ClientConfig, rustls::Error> {
        config(&self.options, self.protocol, |verifier| verifier)
    }
}

/// Creates the TLS configuration, with a verifier that `wrap` may extend.
fn config<V: ServerCertVerifier + 'static>(
    options: &TlsOptions,
    protocol: Protocol,
    wrap: impl FnOnce(OperatorVerifier) -> V,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(options.extra_roots.clone(), Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        // "Dangerous" means a custom verifier; this one asks that of the system first.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(wrap(OperatorVerifier { verifier, options: options.clone() })));
    let mut config = match &options.client {
        Some(client) => builder.with_client_cert_resolver(client.resolver()),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match protocol {
        Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}

/// Creates the same configuration with a verifier that records the certificate of the peer.
pub(super) fn recording_config(
    options: &TlsOptions,
    protocol: Protocol,
) -> Result<(ClientConfig, PeerCertificate), TlsError> {
    let peer_certificate = PeerCertificate::default();
    let wrap = |verifier| RecordingVerifier { verifier, peer_certificate: peer_certificate.clone() };
    let made = config(options, protocol, wrap).map_err(|error| tls_unusable(&error))?;
    Ok((made, peer_certificate))
}

/// The certificate that the peer has presented.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerCertificate(Arc<Mutex<Option<Vec<u8>>>>);

impl PeerCertificate {
    pub(super) fn read(&self) -> Option<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref().and_then(Certificate::read)
    }
}

/// The system's verifier, extended by the certificates that the operator has added.
#[derive(Debug)]
struct OperatorVerifier {
    verifier: Verifier,
    options: TlsOptions,
}

impl ServerCertVerifier for OperatorVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(rustls::Error::InvalidCertificate(why)) = verified else { return verified };
        let Some(read) = Certificate::read(end_entity) else {
            return Err(rustls::Error::InvalidCertificate(why));
        };
        let is_untrusted = match &why {
            CertificateError::UnknownIssuer => true,
            // The verifier checks the validity first, then the kind of certificate, and has no name for this error.
            CertificateError::Other(_) => read.is_authority,
            _ => false,
        };
        if is_untrusted && self.options.has(end_entity) {
            return check_dates_and_name(end_entity, &read, server_name, now);
        }
        let other = |fault: UntrustedCertificate| CertificateError::Other(OtherError(Arc::new(fault)));
        Err(rustls::Error::InvalidCertificate(match why {
            _ if is_untrusted && read.is_self_signed => other(UntrustedCertificate::SelfSigned),
            CertificateError::Other(_) if is_untrusted => other(UntrustedCertificate::Authority),
            why => with_names(why, &read, server_name),
        }))
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

/// Checks a certificate that the operator has added: only its validity and its name are left to check.
fn check_dates_and_name(
    end_entity: &CertificateDer<'_>,
    read: &Certificate,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, rustls::Error> {
    let at = |time: SystemTime| UnixTime::since_unix_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default());
    let (not_before, not_after) = (at(read.not_before), at(read.not_after));
    if now.as_secs() < not_before.as_secs() {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now.as_secs() > not_after.as_secs() {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    let parsed = ParsedCertificate::try_from(end_entity)?;
    verify_server_name(&parsed, server_name).map_err(|error| match error {
        rustls::Error::InvalidCertificate(why) => with_names(why, read, server_name).into(),
        error => error,
    })?;
    Ok(ServerCertVerified::assertion())
}

/// Replaces the names in an error by readable ones: those of the verifier are in debug notation.
fn with_names(why: CertificateError, read: &Certificate, server_name: &ServerName<'_>) -> CertificateError {
    match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let (expected, presented) = (server_name.to_owned(), read.names.clone());
            CertificateError::NotValidForNameContext { expected, presented }
        }
        why => why,
    }
}

/// The reason why a certificate that may be correct is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UntrustedCertificate {
    /// It is self-signed.
    SelfSigned,
    /// It is that of an authority and not meant for a server.
    Authority,
}

impl fmt::Display for UntrustedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UntrustedCertificate::SelfSigned => {
                "its certificate is self-signed; if it is yours, trust it with NODE_EXTRA_CA_CERTS=/path/cert.pem"
            }
            UntrustedCertificate::Authority => {
                "its certificate is that of an authority and not for a server; if it is yours, trust it with \
                 NODE_EXTRA_CA_CERTS=/path/cert.pem"
            }
        })
    }
}

impl std::error::Error for UntrustedCertificate {}

/// A verifier that records the certificate of the peer and leaves the decision to the other one.
#[derive(Debug)]
struct RecordingVerifier {
    verifier: OperatorVerifier,
    peer_certificate: PeerCertificate,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.peer_certificate.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end_entity.to_vec());
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

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::InvalidName { name: host.to_owned() })
}

/// Translates the error of a handshake.
pub(super) fn tls_error(error: &std::io::Error) -> TlsError {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        let error = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        return TlsError::Broken { error };
    };
    match error {
        rustls::Error::InvalidCertificate(certificate) => certificate_error(certificate),
        rustls::Error::InvalidMessage(_) => TlsError::NotTls,
        rustls::Error::AlertReceived(alert) => TlsError::Alert { problem: alert_text(*alert) },
        other => TlsError::Failed { problem: tls_error_text(other).to_owned() },
    }
}

fn certificate_error(error: &CertificateError) -> TlsError {
    let problem = certificate_error_text(error);
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TlsError::Validity { problem },
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsError::WrongName { problem }
        }
        CertificateError::UnknownIssuer => TlsError::UnknownAuthority { problem },
        CertificateError::Other(OtherError(why)) if why.is::<UntrustedCertificate>() => {
            TlsError::UnknownAuthority { problem }
        }
        _ => TlsError::Untrusted { problem },
    }
}

/// Translates an error that prevents any use of TLS.
fn tls_unusable(error: &rustls::Error) -> TlsError {
    let why = match error {
        rustls::Error::General(_) => {
            "this machine has no store of authorities; install one (ca-certificates), or name a file in SSL_CERT_FILE"
        }
        rustls::Error::InvalidCertificate(_) => "a certificate in NODE_EXTRA_CA_CERTS cannot be read",
        other => tls_error_text(other),
    };
    TlsError::Unusable { problem: why.to_owned() }
}

/// Returns the words for an alert that ended a connection after the handshake. With TLS 1.3, a client learns only then
/// that the server wants its certificate.
pub(super) fn late_alert(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::AlertReceived(alert) => Some(format!("TLS: {}", alert_text(*alert))),
        _ => None,
    }
}

/// Translates an alert of the peer.
fn alert_text(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::CloseNotify | AlertDescription::UserCanceled => "it closed the connection",
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "it accepts none of the ciphers that are offered, or wants a client certificate"
        }
        AlertDescription::ProtocolVersion => "it speaks neither TLS 1.2 nor TLS 1.3",
        AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateUnobtainable
        | AlertDescription::CertificateRequired
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => {
            "it wants a client certificate, or another one; `tls` in the configuration file names its files"
        }
        AlertDescription::UnrecognisedName => "it has no server with this name",
        AlertDescription::NoApplicationProtocol => "it speaks neither HTTP/2 nor HTTP/1.1 there",
        AlertDescription::InternalError => "it has an error of its own",
        other => return format!("TLS alert {}", u8::from(other)),
    };
    words.to_owned()
}

/// Translates an error that is neither an alert nor about a certificate.
fn tls_error_text(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::PeerIncompatible(_) => "it offers no TLS version or cipher that is accepted here",
        rustls::Error::PeerMisbehaved(_)
        | rustls::Error::InappropriateMessage { .. }
        | rustls::Error::InappropriateHandshakeMessage { .. }
        | rustls::Error::PeerSentOversizedRecord => "it does not keep to the rules of TLS",
        rustls::Error::NoCertificatesPresented => "it showed no certificate",
        rustls::Error::DecryptError => "what it sent cannot be decrypted",
        rustls::Error::NoApplicationProtocol => "it speaks neither HTTP/2 nor HTTP/1.1 there",
        rustls::Error::FailedToGetCurrentTime => "this machine does not know the time",
        rustls::Error::FailedToGetRandomBytes => "this machine has no random numbers",
        rustls::Error::UnsupportedNameType => "no certificate can be for this name",
        _ => "for a reason that the TLS library does not explain",
    }
}

#[allow(deprecated, reason = "one form of an unsupported signature is deprecated and still exists")]
fn certificate_error_text(error: &CertificateError) -> String {
    let words = match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            return format!("its certificate expired on {}; its operator must renew it", date(*not_after));
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            let date = date(*not_before);
            return format!("its certificate is not valid before {date}; is this machine's clock right?");
        }
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            return format!(
                "its certificate is for no name, not for {} (a common name does not count)",
                expected.to_str()
            );
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            return format!("its certificate is for {}, not for {}", presented.join(", "), expected.to_str());
        }
        CertificateError::Other(OtherError(why)) => {
            return match why.downcast_ref::<UntrustedCertificate>() {
                Some(why) => why.to_string(),
                None => {
                    "its certificate breaks a rule for certificates of servers; its purpose may be another".to_owned()
                }
            };
        }
        CertificateError::BadEncoding => "its certificate cannot be read",
        CertificateError::Expired => "its certificate has expired; its operator must renew it",
        CertificateError::NotValidYet => "its certificate is not valid yet; is this machine's clock right?",
        CertificateError::NotValidForName => "its certificate is for another name",
        CertificateError::Revoked => "its certificate was revoked",
        CertificateError::UnhandledCriticalExtension => "its certificate has a condition that is not understood here",
        CertificateError::UnknownIssuer => {
            "its certificate comes from an authority that this machine does not know; if you trust that authority, name \
             its file with NODE_EXTRA_CA_CERTS=/path/authority.pem"
        }
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. }
        | CertificateError::InvalidOcspResponse => "it cannot be found out whether its certificate was revoked",
        CertificateError::BadSignature => "a signature of its certificate or of its handshake is wrong",
        CertificateError::UnsupportedSignatureAlgorithm
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate is signed in a way that is not accepted here, such as with SHA-1"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not meant for servers"
        }
        _ => "its certificate is not acceptable",
    };
    words.to_owned()
}

fn date(time: UnixTime) -> String {
    let stamp = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs())).to_string();
    stamp.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_certificates_is_an_error() {
        assert_eq!(TlsOptions::default().trust(b"hello"), Err(NoCertificates));
        assert_eq!(TlsOptions::default().trust(b""), Err(NoCertificates));
        let broken = b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
        assert_eq!(TlsOptions::default().trust(broken), Err(NoCertificates));
    }

    #[test]
    fn common_certificate_errors_tell_what_to_do() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for (error, words) in [
            (
                CertificateError::ExpiredContext { time: at(2_000_000_000), not_after: at(1_700_000_000) },
                "its certificate expired on 2023-11-14; its operator must renew it",
            ),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(1_700_000_000) },
                "its certificate is not valid before 2023-11-14; is this machine's clock right?",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: server_name("a.test").unwrap(),
                    presented: vec!["b.test".into(), "*.c.test".into()],
                },
                "its certificate is for b.test, *.c.test, not for a.test",
            ),
        ] {
            assert_eq!(certificate_error_text(&error), words);
        }
    }

    /// Returns whether a text has a word with an inner capital, two colons or empty parentheses: debug notation.
    fn is_program_text(words: &str) -> bool {
        let inner_capital = |word: &str| {
            let letters = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
            let mixed = letters.bytes().any(|byte| byte.is_ascii_lowercase());
            mixed && letters.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
        };
        words.contains("::")
            || words.contains("()")
            || words.contains('{')
            || words.split([' ', '(', '=']).any(inner_capital)
    }

    #[test]
    #[allow(deprecated, reason = "one form of an unsupported signature is deprecated and still exists")]
    fn u06_no_tls_failure_shows_program_text() {
        assert!(is_program_text("not acceptable (Other(OtherError(CaUsedAsEndEntity)))"), "the check sees it");
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let strange = || OtherError(Arc::new(std::io::Error::other("CaUsedAsEndEntity")));
        let certificate = [
            CertificateError::BadEncoding,
            CertificateError::Expired,
            CertificateError::ExpiredContext { time: at(2), not_after: at(1) },
            CertificateError::NotValidYet,
            CertificateError::NotValidYetContext { time: at(1), not_before: at(2) },
            CertificateError::Revoked,
            CertificateError::UnhandledCriticalExtension,
            CertificateError::UnknownIssuer,
            CertificateError::UnknownRevocationStatus,
            CertificateError::ExpiredRevocationList,
            CertificateError::ExpiredRevocationListContext { time: at(2), next_update: at(1) },
            CertificateError::BadSignature,
            CertificateError::UnsupportedSignatureAlgorithm,
            CertificateError::UnsupportedSignatureAlgorithmContext {
                signature_algorithm_id: vec![1],
                supported_algorithms: Vec::new(),
            },
            CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                signature_algorithm_id: vec![1],
                public_key_algorithm_id: vec![2],
            },
            CertificateError::NotValidForName,
            CertificateError::NotValidForNameContext { expected: server_name("a.test").unwrap(), presented: vec![] },
            CertificateError::InvalidPurpose,
            CertificateError::InvalidOcspResponse,
            CertificateError::ApplicationVerificationFailure,
            CertificateError::Other(strange()),
            CertificateError::Other(OtherError(Arc::new(UntrustedCertificate::SelfSigned))),
            CertificateError::Other(OtherError(Arc::new(UntrustedCertificate::Authority))),
        ];
        let others = [
            rustls::Error::InappropriateMessage {
                expect_types: Vec::new(),
                got_type: rustls::ContentType::ApplicationData,
            },
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidCcs),
            rustls::Error::NoCertificatesPresented,
            rustls::Error::UnsupportedNameType,
            rustls::Error::DecryptError,
            rustls::Error::EncryptError,
            rustls::Error::PeerIncompatible(rustls::PeerIncompatible::NoCipherSuitesInCommon),
            rustls::Error::PeerMisbehaved(rustls::PeerMisbehaved::TooMuchEarlyDataReceived),
            rustls::Error::General("NoRoots".to_owned()),
            rustls::Error::FailedToGetCurrentTime,
            rustls::Error::FailedToGetRandomBytes,
            rustls::Error::HandshakeNotComplete,
            rustls::Error::PeerSentOversizedRecord,
            rustls::Error::NoApplicationProtocol,
            rustls::Error::BadMaxFragmentSize,
            rustls::Error::Other(strange()),
        ];
        let alerts = (0..=255).map(|number| rustls::Error::AlertReceived(AlertDescription::from(number)));
        let certificate = certificate.into_iter().map(rustls::Error::InvalidCertificate);
        for error in certificate.chain(others).chain(alerts) {
            let unusable = tls_unusable(&error).with("a.test:443").to_string();
            let failed = tls_error(&std::io::Error::other(error)).with("a.test:443").to_string();
            assert!(failed.contains("a.test:443") && !is_program_text(&failed), "{failed}");
            assert!(!is_program_text(&unusable), "{unusable}");
        }
    }
}
