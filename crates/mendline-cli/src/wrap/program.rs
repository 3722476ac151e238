//! The command line by which an entry starts Mendline, as it is written. `mendline_config` recognizes it.
//!
//! Mendline runs by itself, or through a launcher that downloads it: `uvx mendline@0.2.0 run …`. The program of a
//! launcher is in its cache and may be removed at any time, so such an entry names the launcher.

use std::borrow::Cow;

/// A command line that starts Mendline, without the arguments of Mendline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) command: Cow<'static, str>,
    /// The words between the command and the arguments of Mendline.
    pub(crate) before: Vec<Cow<'static, str>>,
}

impl Program {
    /// Returns a program at this path.
    pub(crate) const fn at(path: Cow<'static, str>) -> Program {
        Program { command: path, before: Vec::new() }
    }

    /// Returns all words of the command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.command).chain(&self.before).map(AsRef::as_ref)
    }

    /// Returns the command line as one text, for a person.
    pub(crate) fn line(&self) -> String {
        self.words().collect::<Vec<_>>().join(" ")
    }
}
