//! The person at a login: in a terminal, or at the desktop of a running Mendline.

use std::io::{BufRead as _, IsTerminal as _};

use mendline::observe::log::{LogHandle, LogLevel};
use mendline_oauth::ui::LineFuture;
use mendline_oauth::{LoginUi, Progress};

use super::browser;
use crate::untrusted_text::one_line;

/// A person in a terminal.
pub(crate) struct TerminalUi {
    /// The person has no browser on this machine.
    pub(crate) pastes: bool,
    /// Waits for pasted text also if stdin is not a terminal.
    pub(crate) reads_any_input: bool,
}

impl LoginUi for TerminalUi {
    fn show_url(&self, url: &str, opened: bool) {
        let url = one_line(url);
        if opened {
            eprintln!("The browser opens. If it does not, open this address:\n\n  {url}\n");
        } else {
            eprintln!("Open this address in a browser:\n\n  {url}\n");
        }
        if self.pastes {
            eprintln!(
                "Confirm the login there. If the last page cannot be reached, copy its address from the address bar \
                 and paste it here:"
            );
        }
    }

    fn open_browser(&self, url: &str) -> bool {
        browser::open(url)
    }

    fn read_line(&self) -> LineFuture<'_> {
        if !self.reads_any_input && !std::io::stdin().is_terminal() {
            return Box::pin(async { None });
        }
        // A read of stdin cannot be cancelled, so a thread does it; the process ends without waiting for it.
        let (sender, line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_line(&mut text).ok().filter(|length| *length > 0);
            let _ = sender.send(read.map(|_| text.trim().to_owned()));
        });
        Box::pin(async { line.await.ok().flatten() })
    }

    fn progress(&self, step: &Progress) {
        match step {
            Progress::Device { code, url, complete_url } => {
                let (code, url) = (one_line(code), one_line(url));
                eprintln!("Open {url} on any device, and enter the code {code}");
                if let Some(complete) = complete_url {
                    eprintln!("or open {}", one_line(complete));
                }
            }
            Progress::Listening { .. } => {}
            step => eprintln!("{}", one_line(&step.to_string())),
        }
    }
}

/// The person at the desktop on which a Mendline runs: only the browser reaches them.
pub(crate) struct DesktopUi {
    pub(crate) log: LogHandle,
}

impl LoginUi for DesktopUi {
    fn show_url(&self, _url: &str, opened: bool) {
        let words = if opened {
            "the server needs a login: the browser was opened"
        } else {
            "the server needs a login, and no browser could be opened"
        };
        self.log.write(LogLevel::Warn, words);
    }

    fn open_browser(&self, url: &str) -> bool {
        browser::open(url)
    }

    fn read_line(&self) -> LineFuture<'_> {
        Box::pin(async { None })
    }

    fn progress(&self, step: &Progress) {
        self.log.write(LogLevel::Debug, &format!("login: {}", one_line(&step.to_string())));
    }
}
