//! The certificate with which Mendline proves its identity to a server (mutual TLS).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use super::certificate_files::{CertificateFault, CertificateFiles};

/// A certificate and its key, in two files that may be the same.
#[derive(Clone)]
pub struct ClientCertificate {
    resolver: Arc<Resolver>,
}

impl ClientCertificate {
    /// Reads a certificate with its chain, and its key, both in PEM form.
    pub fn read(certificate: &Path, key: &Path) -> Result<ClientCertificate, CertificateFault> {
        let files = CertificateFiles::read(certificate, key)?;
        Ok(ClientCertificate { resolver: Arc::new(Resolver(files)) })
    }

    /// Returns the part that answers the request of a server for a certificate.
    pub(super) fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::clone(&self.resolver) as Arc<dyn ResolvesClientCert>
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resolver.0.fmt(f)
    }
}

#[derive(Debug)]
struct Resolver(CertificateFiles);

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let pair = self.0.current();
        pair.key.choose_scheme(schemes).is_some().then_some(pair)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::os::files::make_private;

    /// Writes a new certificate, a new key, or both.
    fn write(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([format!("{name}.test")]).unwrap().self_signed(&key).unwrap();
        let paths = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        fs::write(&paths.0, certificate.pem()).unwrap();
        fs::write(&paths.1, key.serialize_pem()).unwrap();
        make_private(&paths.1).unwrap();
        paths
    }

    fn presented(client: &ClientCertificate) -> Vec<u8> {
        let pair = client.resolver().resolve(&[], &[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
        pair.cert[0].to_vec()
    }

    #[test]
    fn renewed_certificate_is_presented_once_its_key_matches() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), "client");
        let client = ClientCertificate::read(&certificate, &key).unwrap();
        let old = presented(&client);

        let (new_certificate, new_key) = write(folder.path(), "renewed");
        fs::rename(&new_certificate, &certificate).unwrap();
        assert_eq!(presented(&client), old, "the key is still that of the old certificate");
        fs::rename(&new_key, &key).unwrap();
        assert_ne!(presented(&client), old);
    }

    #[test]
    fn key_of_an_unknown_scheme_is_not_presented() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), "client");
        let client = ClientCertificate::read(&certificate, &key).unwrap();
        assert!(client.resolver().resolve(&[], &[SignatureScheme::RSA_PSS_SHA256]).is_none());
    }

    #[test]
    fn mistakes_are_named_with_the_file_and_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), "client");
        let (_, other_key) = write(folder.path(), "other");
        let fault =
            |certificate: &Path, key: &Path| ClientCertificate::read(certificate, key).err().unwrap().to_string();

        assert_eq!(fault(&certificate, &other_key), "the key is not that of the certificate");
        let missing = folder.path().join("missing.pem");
        assert!(fault(&missing, &key).starts_with(&format!("{} cannot be read", missing.display())));
        assert!(fault(&certificate, &missing).starts_with(&format!("{} cannot be read", missing.display())));
        assert_eq!(fault(&key, &key), format!("there is no certificate in PEM form in {}", key.display()));
        let empty = folder.path().join("empty.key");
        fs::write(&empty, "").unwrap();
        make_private(&empty).unwrap();
        let words = format!("there is no key in PEM form without a password in {}", empty.display());
        assert_eq!(fault(&certificate, &empty), words);
        // A file with the permissions of the certificate is open to other users.
        let open = folder.path().join("open.key");
        fs::write(&open, fs::read(&key).unwrap()).unwrap();
        fs::set_permissions(&open, fs::metadata(&certificate).unwrap().permissions()).unwrap();
        let words = format!("other users can read the key in {0}; run: chmod 600 {0}", open.display());
        assert_eq!(fault(&certificate, &open), words);
    }
}
