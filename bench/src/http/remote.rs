//! The upstream process of a run over HTTP. It starts before the first contender, like a remote server.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running `mendline-bench upstream --http 0`. It ends with this process, which holds its stdin.
pub(crate) struct Remote {
    child: Child,
    url: String,
}

impl Remote {
    pub(crate) fn start() -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["upstream", "--http", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        match url.trim_end() {
            "" => Err(io::Error::other("the upstream did not start")),
            url => Ok(Self { url: url.to_owned(), child }),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A failed wait cannot be handled here.
        let _ = self.child.wait();
    }
}
