//! Terminal style: colours, if the output is a terminal and the user wants them.
//!
//! `NO_COLOR`, if it is not empty, turns colours off. All commands use this module, also for the width of the terminal.

use std::io::IsTerminal;

/// Style of text; plain without a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style(bool);

impl Style {
    /// Returns the style for stdout.
    pub(crate) fn for_stdout() -> Style {
        Style(std::io::stdout().is_terminal() && is_wanted())
    }

    /// Returns the style for stderr.
    pub(crate) fn for_stderr() -> Style {
        Style(std::io::stderr().is_terminal() && is_wanted())
    }

    /// Returns no style, for texts that are compared.
    #[cfg(test)]
    pub(crate) fn none() -> Style {
        Style(false)
    }

    /// Returns whether colours are on.
    pub(crate) fn is_coloured(self) -> bool {
        self.0
    }

    /// Applies an ECMA-48 code, such as `1;32`.
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Emphasizes a text.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// De-emphasizes a text.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Marks a success.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Marks a warning.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Marks a failure.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }
}

/// Returns the number of columns of stdout: `COLUMNS`, else that of the terminal, else 80.
pub(crate) fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    let seen = || mendline::os::terminal::size(std::io::stdout()).map(|size| usize::from(size.columns));
    said.or_else(|| seen().filter(|columns| *columns > 0)).unwrap_or(80).max(40)
}

fn is_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
