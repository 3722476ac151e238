//! Colour, where somebody sees it and wants it.
//!
//! `NO_COLOR`, set to anything but nothing, means no; so does a pipe or a file. Every command asks here, so that they agree.

use std::io::IsTerminal;

/// What text is painted with; nothing, where nobody would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ink(bool);

impl Ink {
    /// For what goes to stdout.
    pub(crate) fn for_stdout() -> Ink {
        Ink(std::io::stdout().is_terminal() && is_wanted())
    }

    /// For what goes to stderr.
    pub(crate) fn for_stderr() -> Ink {
        Ink(std::io::stderr().is_terminal() && is_wanted())
    }

    /// None, whoever looks.
    #[cfg(test)]
    pub(crate) fn none() -> Ink {
        Ink(false)
    }

    /// Whether there is any.
    pub(crate) fn is_coloured(self) -> bool {
        self.0
    }

    /// Paints with a code of ECMA-48, such as `1;32`.
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// For what is looked for first.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For what is read last.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what is well.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// For what may need a look.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// For what is not well.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }
}

fn is_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
