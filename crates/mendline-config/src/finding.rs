//! What is said about a configuration: where, what, why, and what to write instead.
//!
//! Everything that is wrong is said at once, because a person who mends a file ten times to learn ten things stops after
//! three. A finding knows which server it concerns and whether it is a mistake in the file or only in the circumstances (a
//! variable that is not set here): that decides what may still be started ([`crate::Loaded::obstacles`]).

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use mendline::observe::escaped::{Escaped, is_harmless};

use crate::file::Source;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot be used like this.
    Error,
    /// It can be used, and is probably not what was meant.
    Warning,
    /// It can be used, and does nothing here.
    Note,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file's: it is wrong wherever it is read.
    File,
    /// The circumstances': elsewhere, or later, the same file may be right.
    Environment,
}

/// One thing to say about a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Whose fault it is.
    pub cause: Cause,
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
    fn new(severity: Severity, at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding { severity, cause: Cause::File, at: Some(at), what: what.into(), help: None, server: None }
    }

    pub(crate) fn error(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, at, what)
    }

    pub(crate) fn warning(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, at, what)
    }

    pub(crate) fn note(at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, at, what)
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn from_environment(mut self) -> Finding {
        self.cause = Cause::Environment;
        self
    }

    /// Is anything unusable because of it?
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// On one line, for a log.
    pub fn line(&self, source: &Source) -> String {
        let path = source.path().display();
        let location = match &self.at {
            Some(at) => {
                let (line, column) = source.position(at.start);
                format!("{path}:{line}:{column}")
            }
            None => path.to_string(),
        };
        let what = escaped(&self.what);
        match &self.help {
            Some(help) => format!("{}: {what}; {}", escaped(&location), escaped(help)),
            None => format!("{}: {what}", escaped(&location)),
        }
    }

    /// With the line that it is about, for a person.
    pub fn render(&self, source: &Source, paint: Paint) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let path = escaped(&source.path().display().to_string());
        let what = escaped(&self.what);
        let title = level.primary_title(what.as_str());
        let mut group = match &self.at {
            Some(at) => {
                let (text, at) = harmless(source.shown(), at);
                let snippet = Snippet::source(text).path(path.as_str());
                title.element(snippet.annotation(AnnotationKind::Primary.span(at)))
            }
            None => title.element(annotate_snippets::Origin::path(path.as_str())),
        };
        let help = self.help.as_deref().map(escaped);
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = match paint {
            Paint::Plain => Renderer::plain(),
            Paint::Coloured => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

/// A text on one line, with escapes for what a name in the file may hold.
fn escaped(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}

/// A file's text with a sign in the place of every character that is not harmless, so that columns stay what they are, and
/// where a span of it then lies.
fn harmless<'a>(text: &'a str, span: &Range<usize>) -> (Cow<'a, str>, Range<usize>) {
    let is_kept = |at: usize, character: char| {
        is_harmless(character) || matches!(character, '\n' | '\t') || text[at..].starts_with("\r\n")
    };
    if text.char_indices().all(|(at, character)| is_kept(at, character)) {
        return (Cow::Borrowed(text), span.clone());
    }
    let mut shown = String::with_capacity(text.len());
    let (mut start, mut end) = (None, None);
    for (at, character) in text.char_indices() {
        if at >= span.start {
            start.get_or_insert(shown.len());
        }
        if at >= span.end {
            end.get_or_insert(shown.len());
        }
        shown.push(if is_kept(at, character) { character } else { char::REPLACEMENT_CHARACTER });
    }
    let (start, end) = (start.unwrap_or(shown.len()), end.unwrap_or(shown.len()));
    (Cow::Owned(shown), start..end)
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
    fn s07_finding_shows_no_hostile_character_and_keeps_its_column() {
        let text = "{ \"n\u{9b}2J\u{202e}\u{200b}\u{e0041}\": 5, \"B\": 6 }\r\n";
        let source = Source::new("/etc/x\u{9b}.json", text);
        let at = text.find('6').unwrap();
        let finding = Finding::error(at..at + 1, "`n\u{1b}]0;x\u{7}\nerror: forged` is wrong").help("not \u{2066}this");
        let (line, column) = source.position(at);
        for shown in [finding.render(&source, Paint::Plain), finding.line(&source)] {
            assert!(shown.chars().all(|it| is_harmless(it) || it == '\n'), "{shown:?}");
            assert!(!shown.contains("\nerror: forged"), "{shown}");
            assert!(shown.contains(&format!(":{line}:{column}")), "{shown}");
        }
        let shown = finding.render(&source, Paint::Plain);
        let lines: Vec<&str> = shown.lines().collect();
        let at = lines.iter().position(|line| line.contains("\"B\": 6")).unwrap();
        let column = |line: &str, sign: char| line.chars().position(|it| it == sign);
        assert_eq!(column(lines[at], '6'), column(lines[at + 1], '^'), "{shown}");
    }

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
