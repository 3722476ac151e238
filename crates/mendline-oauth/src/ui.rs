//! The person at a login, as a trait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The future of a line that the person types.
pub type LineFuture<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// The person at a login: sees the address, has a browser, may paste an address.
pub trait LoginUi: Send + Sync {
    /// Shows the address to open. `opened` says whether a browser was started with it.
    fn show_url(&self, url: &str, opened: bool);

    /// Opens a browser with this address. Returns whether one was started.
    fn open_browser(&self, url: &str) -> bool;

    /// Reads a pasted line. `None` means that there is no input; then only the callback counts.
    fn read_line(&self) -> LineFuture<'_>;

    /// Shows the progress.
    fn progress(&self, step: &Progress);
}

/// A step of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process has a login to the same server under way; its result is awaited.
    WaitingForOtherLogin,
    /// The authorization server is known.
    Found {
        /// Its issuer.
        issuer: String,
    },
    /// A client was registered.
    Registered {
        /// The issuer.
        issuer: String,
    },
    /// The callback is awaited.
    Listening {
        /// The redirect URL.
        redirect: String,
    },
    /// A code for another device.
    Device {
        /// The code to enter.
        code: String,
        /// The page on which to enter it.
        url: String,
        /// The page with the code filled in.
        complete_url: Option<String>,
    },
    /// A callback or a pasted text was not accepted; the login goes on.
    Ignored {
        /// The reason.
        why: String,
    },
    /// The authorization server refused the `resource` parameter; the login goes on without it.
    WithoutResource,
    /// The code is exchanged for tokens.
    Exchanging,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::WaitingForOtherLogin => {
                f.write_str("another process logs in to this server; waiting for its result")
            }
            Progress::Found { issuer } => write!(f, "authorization server: {issuer}"),
            Progress::Registered { issuer } => write!(f, "registered a client at {issuer}"),
            Progress::Listening { redirect } => write!(f, "waiting for the browser at {redirect}"),
            Progress::Device { code, url, .. } => write!(f, "open {url} and enter the code {code}"),
            Progress::Ignored { why } => write!(f, "ignored: {why}"),
            Progress::WithoutResource => {
                f.write_str("the authorization server refused the resource parameter; trying once more without it")
            }
            Progress::Exchanging => f.write_str("confirmed; getting the token"),
        }
    }
}
