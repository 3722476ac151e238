//! A certificate and its key, in two PEM files that may be the same and are read again when they change.
//!
//! The files are read when they are configured, so that a mistake is reported at once, and again whenever they have
//! changed: an authority of a company renews certificates every few days or hours. While a renewal writes them, the last
//! pair that matched stays in use.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustls::InconsistentKeys;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::os::files::{Exposure, exposure, identity};

/// The reason why a certificate cannot be used.
#[derive(Debug)]
pub enum CertificateFault {
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
    /// TLS cannot be set up.
    Tls(rustls::Error),
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateFault::File { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            CertificateFault::NoCertificate { path } => {
                write!(f, "there is no certificate in PEM form in {}", path.display())
            }
            CertificateFault::NoKey { path } => {
                write!(f, "there is no key in PEM form without a password in {}", path.display())
            }
            CertificateFault::Exposed { path } => {
                write!(f, "other users can read the key in {0}; run: chmod 600 {0}", path.display())
            }
            CertificateFault::Mismatch => f.write_str("the key is not that of the certificate"),
            CertificateFault::Tls(error) => write!(f, "TLS cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for CertificateFault {}

/// The result of a look at the files.
#[derive(Debug)]
pub(crate) enum Look {
    /// They are as they were, or were reported before.
    Unchanged,
    /// A new pair is in use.
    Renewed,
    /// They cannot be used. The last pair stays in use.
    Unusable(CertificateFault),
}

/// The files, and the last pair that was read from them.
pub(crate) struct CertificateFiles {
    paths: Paths,
    last: Mutex<Last>,
}

struct Last {
    stamps: Stamps,
    pair: Arc<CertifiedKey>,
    /// The files that could not be used.
    unusable: Option<Stamps>,
}

impl CertificateFiles {
    /// Reads a certificate with its chain, and its key, both in PEM form.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<CertificateFiles, CertificateFault> {
        let paths = Paths { certificate: certificate.to_owned(), key: key.to_owned() };
        let stamps = paths.stamps();
        let last = Last { stamps, pair: paths.read()?, unusable: None };
        Ok(CertificateFiles { paths, last: Mutex::new(last) })
    }

    /// Returns the pair in use.
    pub(crate) fn pair(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.lock().pair)
    }

    /// Returns the current pair. Files that have changed are read again; until both match, the last pair stays in use.
    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.look();
        self.pair()
    }

    /// Reads the files again if they have changed.
    pub(crate) fn look(&self) -> Look {
        let mut last = self.lock();
        let stamps = self.paths.stamps();
        if stamps == last.stamps || last.unusable == Some(stamps) {
            return Look::Unchanged;
        }
        last.take(stamps, self.paths.read())
    }

    /// Reads the files again, changed or not.
    pub(crate) fn look_anew(&self) -> Look {
        let mut last = self.lock();
        let stamps = self.paths.stamps();
        let was_used = stamps == last.stamps;
        match last.take(stamps, self.paths.read()) {
            Look::Renewed if was_used => Look::Unchanged,
            look => look,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn take(&mut self, stamps: Stamps, read: Result<Arc<CertifiedKey>, CertificateFault>) -> Look {
        match read {
            Ok(pair) => {
                *self = Last { stamps, pair, unusable: None };
                Look::Renewed
            }
            Err(fault) => {
                self.unusable = Some(stamps);
                Look::Unusable(fault)
            }
        }
    }
}

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paths.fmt(f)
    }
}

#[derive(Debug)]
struct Paths {
    certificate: PathBuf,
    key: PathBuf,
}

/// The identity, the time of the last change and the size of a file. A file that replaces another one can have the same
/// time, whose steps are milliseconds, and the same size.
type Stamp = ((u64, u64), SystemTime, u64);

type Stamps = [Option<Stamp>; 2];

impl Paths {
    fn stamps(&self) -> Stamps {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((identity(&metadata), metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, CertificateFault> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error| CertificateFault::File { path, error }
        };
        let metadata = fs::metadata(&self.key).map_err(unreadable(&self.key))?;
        if matches!(exposure(&metadata), Some(Exposure::OpenToOthers { .. })) {
            return Err(CertificateFault::Exposed { path: self.key.clone() });
        }
        let pem = fs::read(&self.certificate).map_err(unreadable(&self.certificate))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap_or_default();
        if chain.is_empty() {
            return Err(CertificateFault::NoCertificate { path: self.certificate.clone() });
        }
        let pem = fs::read(&self.key).map_err(unreadable(&self.key))?;
        let key = PrivateKeyDer::from_pem_slice(&pem).ok().and_then(|key| any_supported_type(&key).ok());
        let key = key.ok_or_else(|| CertificateFault::NoKey { path: self.key.clone() })?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
            Err(_) => Err(CertificateFault::Mismatch),
        }
    }
}
