//! Errors of the TLS handshake.

use std::fmt;

/// The reason why a TLS handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// TLS cannot be used on this machine at all.
    Unusable {
        /// What is missing, and how to provide it.
        problem: String,
    },
    /// No certificate can be issued for this name.
    InvalidName {
        /// The name in the URL.
        name: String,
    },
    /// The certificate has expired, or is not valid yet.
    Validity {
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate is for another name.
    WrongName {
        /// What is wrong with it.
        problem: String,
    },
    /// No trusted authority issued the certificate. The operator can trust it by `NODE_EXTRA_CA_CERTS`.
    UnknownAuthority {
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate is not trusted for another reason.
    Untrusted {
        /// What is wrong with it.
        problem: String,
    },
    /// The server does not speak TLS.
    NotTls,
    /// The server refused the handshake by an alert.
    Alert {
        /// The meaning of the alert.
        problem: String,
    },
    /// The connection ended within the handshake.
    Broken {
        /// The operating system's text.
        error: String,
    },
    /// The handshake failed for another reason.
    Failed {
        /// What is wrong.
        problem: String,
    },
}

impl TlsError {
    /// Returns whether another attempt fails the same way until a person changes something.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, TlsError::NotTls | TlsError::Alert { .. } | TlsError::Broken { .. } | TlsError::Failed { .. })
    }

    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            TlsError::Unusable { .. } => "tls_unusable",
            TlsError::InvalidName { .. } | TlsError::WrongName { .. } => "certificate_name",
            TlsError::Validity { .. } => "certificate_validity",
            TlsError::UnknownAuthority { .. } | TlsError::Untrusted { .. } => "certificate_untrusted",
            TlsError::NotTls => "not_tls",
            TlsError::Alert { .. } => "tls_alert",
            TlsError::Broken { .. } => "tls_broken",
            TlsError::Failed { .. } => "tls_failed",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            TlsError::NotTls => {}
            TlsError::Unusable { problem: text }
            | TlsError::InvalidName { name: text }
            | TlsError::Validity { problem: text }
            | TlsError::WrongName { problem: text }
            | TlsError::UnknownAuthority { problem: text }
            | TlsError::Untrusted { problem: text }
            | TlsError::Alert { problem: text }
            | TlsError::Failed { problem: text }
            | TlsError::Broken { error: text } => each(text),
        }
    }

    /// Returns the error of a handshake with this server as text.
    pub fn with(&self, server: &str) -> impl fmt::Display {
        Described { server: server.to_owned(), error: self.clone() }
    }
}

struct Described {
    server: String,
    error: TlsError,
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        match &self.error {
            TlsError::Unusable { problem } => write!(f, "TLS cannot be used here ({problem})"),
            TlsError::InvalidName { name } => write!(f, "no certificate can be for the name {name}"),
            TlsError::Validity { problem }
            | TlsError::WrongName { problem }
            | TlsError::UnknownAuthority { problem }
            | TlsError::Untrusted { problem } => {
                write!(f, "{server} is not trusted: {problem}")
            }
            TlsError::NotTls => write!(f, "{server} does not speak TLS; is it an http:// server?"),
            TlsError::Alert { problem } => write!(f, "{server} refused the TLS handshake ({problem})"),
            TlsError::Broken { error } => write!(f, "{server} broke off the TLS handshake ({error})"),
            TlsError::Failed { problem } => write!(f, "the TLS handshake with {server} failed ({problem})"),
        }
    }
}
