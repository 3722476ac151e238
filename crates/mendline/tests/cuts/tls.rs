//! A certificate authority for the test, and the certificate of the server.
//!
//! The keys are Ed25519, whose signatures have a fixed length: the number of a byte must mean the same in every run.

use std::sync::{Arc, LazyLock};

use mendline::transport::http::TlsOptions;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

struct Authority {
    trust: TlsOptions,
    acceptor: TlsAcceptor,
}

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut trust = TlsOptions::default();
    trust.trust(params.self_signed(&key).unwrap().pem().as_bytes()).unwrap();
    let issuer = Issuer::new(params, key);

    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let params = CertificateParams::new(vec!["notes.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Authority { trust, acceptor: TlsAcceptor::from(Arc::new(config)) }
});

/// Returns the trust options of a client.
pub fn trust() -> TlsOptions {
    AUTHORITY.trust.clone()
}

/// Returns the acceptor of the server.
pub fn acceptor() -> TlsAcceptor {
    AUTHORITY.acceptor.clone()
}
