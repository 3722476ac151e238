//! What is said about a configuration: where, what, why, and what to write instead.
//!
//! Everything that is wrong is said at once, because a person who mends a file ten times to learn ten things stops after
//! three. A finding knows which server it concerns and whether it is a mistake in the file or only in the circumstances (a
//! variable that is not set here): that decides what may still be started ([`crate::Loaded::obstacles`]).

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::file::Source;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It cannot be used like this.
    Error,
    /// It can be used, and is probably not what was meant.
    Warning,
    /// It can be used, and does nothing here.
    Note,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file's: it is wrong wherever it is read.
    File,
    /// The circumstances': elsewhere, or later, the same file may be right.
    Circumstances,
}

/// One thing to say about a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Whose fault it is.
    pub fault: Fault,
    /// Where, in bytes; nowhere if it is about the file as such.
    pub at: Option<Range<usize>>,
    /// What is wrong, in one line.
    pub what: String,
    /// What to write instead.
    pub help: Option<String>,
    /// Which server it concerns; none: all of them.
    pub server: Option<String>,
}

impl Finding {
    fn new(weight: Weight, at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding { weight, fault: Fault::File, at: Some(at), what: what.into(), help: None, server: None }
    }

    pub(crate) fn error(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Error, at, what)
    }

    pub(crate) fn warning(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Warning, at, what)
    }

    pub(crate) fn note(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Note, at, what)
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn of_circumstances(mut self) -> Finding {
        self.fault = Fault::Circumstances;
        self
    }

    /// Is anything unusable because of it?
    pub fn is_error(&self) -> bool {
        self.weight == Weight::Error
    }

    /// On one line, for a log.
    pub fn line(&self, source: &Source) -> String {
        let path = source.path().display();
        let place = match &self.at {
            Some(at) => {
                let (line, column) = source.position(at.start);
                format!("{path}:{line}:{column}")
            }
            None => path.to_string(),
        };
        match &self.help {
            Some(help) => format!("{place}: {}; {help}", self.what),
            None => format!("{place}: {}", self.what),
        }
    }

    /// With the line that it is about, for a person.
    pub fn render(&self, source: &Source, paint: Paint) -> String {
        let level = match self.weight {
            Weight::Error => Level::ERROR,
            Weight::Warning => Level::WARNING,
            Weight::Note => Level::NOTE,
        };
        let path = source.path().display().to_string();
        let title = level.primary_title(self.what.as_str());
        let mut group = match &self.at {
            Some(at) => {
                let snippet = Snippet::source(source.shown()).path(path.as_str());
                title.element(snippet.annotation(AnnotationKind::Primary.span(at.clone())))
            }
            None => title.element(annotate_snippets::Origin::path(path.as_str())),
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = match paint {
            Paint::Plain => Renderer::plain(),
            Paint::Coloured => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

/// How findings are painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// For files and pipes.
    Plain,
    /// For terminals.
    Coloured,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_its_place_and_never_a_secret_beside_it() {
        let text = "{ \"headers\": { \"A\": \"s3cret\", \"B\": 5 } }";
        let source = Source::new("/etc/x.json", text);
        let at = text.find('5').unwrap();
        let finding = Finding::error(at..at + 1, "`B` must be text").help("write \"5\"");
        let shown = finding.render(&source, Paint::Plain);
        assert!(shown.contains("error: `B` must be text") && shown.contains("/etc/x.json:1:36"), "{shown}");
        assert!(shown.contains("help: write \"5\"") && !shown.contains("s3cret"), "{shown}");
        assert_eq!(finding.line(&source), "/etc/x.json:1:36: `B` must be text; write \"5\"");
    }
}
