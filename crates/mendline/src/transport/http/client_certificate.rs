//! The certificate with which Mendline proves its identity to a server (mutual TLS).
//!
//! The files are read when the server is configured, so that a mistake is reported at once, and again whenever they have
//! changed: an authority of a company renews certificates every few days or hours. While a renewal writes them, the last
//! pair that matched stays in use.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureScheme};

use crate::os::files::{Exposure, exposure, identity};

/// A certificate and its key, in two files that may be the same.
#[derive(Clone)]
pub struct ClientCertificate {
    resolver: Arc<Resolver>,
}

/// The reason why a client certificate cannot be used.
#[derive(Debug)]
pub enum ClientCertificateFault {
    /// A file cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// There is no certificate in PEM form in the file.
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// There is no key in PEM form without a password in the file, or it is of an unsupported kind.
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Other users can read the key.
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The key is not that of the certificate.
    Mismatch,
}

impl fmt::Display for ClientCertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientCertificateFault::File { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            ClientCertificateFault::NoCertificate { path } => {
                write!(f, "there is no certificate in PEM form in {}", path.display())
            }
            ClientCertificateFault::NoKey { path } => {
                write!(f, "there is no key in PEM form without a password in {}", path.display())
            }
            ClientCertificateFault::Exposed { path } => {
                write!(f, "other users can read the key in {0}; run: chmod 600 {0}", path.display())
            }
            ClientCertificateFault::Mismatch => f.write_str("the key is not that of the certificate"),
        }
    }
}

impl std::error::Error for ClientCertificateFault {}

impl ClientCertificate {
    /// Reads a certificate with its chain, and its key, both in PEM form.
    pub fn read(certificate: &Path, key: &Path) -> Result<ClientCertificate, ClientCertificateFault> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let stamps = files.stamps();
        let last = Last { stamps, pair: files.read()? };
        Ok(ClientCertificate { resolver: Arc::new(Resolver { files, last: Mutex::new(last) }) })
    }

    /// Returns the part that answers the request of a server for a certificate.
    pub(super) fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::clone(&self.resolver) as Arc<dyn ResolvesClientCert>
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resolver.fmt(f)
    }
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The identity, the time of the last change and the size of a file. A file that replaces another one can have the same
/// time, whose steps are milliseconds, and the same size.
type Stamp = ((u64, u64), SystemTime, u64);

type Stamps = [Option<Stamp>; 2];

impl Files {
    fn stamps(&self) -> Stamps {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((identity(&metadata), metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, ClientCertificateFault> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error| ClientCertificateFault::File { path, error }
        };
        let metadata = fs::metadata(&self.key).map_err(unreadable(&self.key))?;
        if matches!(exposure(&metadata), Some(Exposure::OpenToOthers { .. })) {
            return Err(ClientCertificateFault::Exposed { path: self.key.clone() });
        }
        let pem = fs::read(&self.certificate).map_err(unreadable(&self.certificate))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap_or_default();
        if chain.is_empty() {
            return Err(ClientCertificateFault::NoCertificate { path: self.certificate.clone() });
        }
        let pem = fs::read(&self.key).map_err(unreadable(&self.key))?;
        let key = PrivateKeyDer::from_pem_slice(&pem).ok().and_then(|key| any_supported_type(&key).ok());
        let key = key.ok_or_else(|| ClientCertificateFault::NoKey { path: self.key.clone() })?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
            Err(_) => Err(ClientCertificateFault::Mismatch),
        }
    }
}

struct Last {
    stamps: Stamps,
    pair: Arc<CertifiedKey>,
}

struct Resolver {
    files: Files,
    last: Mutex<Last>,
}

impl Resolver {
    /// Returns the current pair. Files that have changed are read again; until both match, the last pair stays in use.
    fn current(&self) -> Arc<CertifiedKey> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        if stamps != last.stamps
            && let Ok(pair) = self.files.read()
        {
            *last = Last { stamps, pair };
        }
        Arc::clone(&last.pair)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let pair = self.current();
        pair.key.choose_scheme(schemes).is_some().then_some(pair)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
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
