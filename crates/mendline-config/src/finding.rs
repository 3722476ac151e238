//! Findings about a configuration file: location, message and correction.
//!
//! All findings are reported at once, so that a user can correct a file in one pass. A finding names its server and
//! whether the file or the environment (an unset variable, for example) causes it; that decides which servers may still
//! start ([`crate::Loaded::obstacles`]).

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use mendline::observe::escaped::{Escaped, is_harmless};

use crate::file::Source;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The value cannot be used.
    Error,
    /// The value can be used but is probably a mistake.
    Warning,
    /// The value can be used and has no effect.
    Note,
}

/// The cause of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file is wrong in every environment.
    File,
    /// The environment: the same file may be correct elsewhere or later.
    Environment,
}

/// The programs that a finding concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Everything that uses a server.
    #[default]
    Servers,
    /// The gateway only.
    Gateway,
}

/// A finding about a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The severity of a finding.
    pub severity: Severity,
    /// The cause of a finding.
    pub cause: Cause,
    /// The span in bytes; `None` if it is about the whole file.
    pub at: Option<Range<usize>>,
    /// The message, in one line.
    pub what: String,
    /// The correction.
    pub help: Option<String>,
    /// The server; `None` for all servers.
    pub server: Option<String>,
    /// The programs that it concerns.
    pub scope: Scope,
}

impl Finding {
    fn new(severity: Severity, at: Range<usize>, what: impl Into<String>) -> Finding {
        Finding {
            severity,
            cause: Cause::File,
            at: Some(at),
            what: what.into(),
            help: None,
            server: None,
            scope: Scope::Servers,
        }
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

    pub(crate) fn with_environment(mut self) -> Finding {
        self.cause = Cause::Environment;
        self
    }

    /// Returns whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the finding on one line, for a log.
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

    /// Returns the finding with the line of the file, for a terminal.
    pub fn render(&self, source: &Source, style: RenderStyle) -> String {
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
        let renderer = match style {
            RenderStyle::Plain => Renderer::plain(),
            RenderStyle::Coloured => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

/// Returns a text on one line, with control characters escaped.
fn escaped(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}

/// Returns the text of a file with control characters replaced, so that columns stay the same, and the span in that
/// text.
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

/// The style of rendered findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderStyle {
    /// Plain text, for files and pipes.
    Plain,
    /// Colours, for terminals.
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
        for shown in [finding.render(&source, RenderStyle::Plain), finding.line(&source)] {
            assert!(shown.chars().all(|it| is_harmless(it) || it == '\n'), "{shown:?}");
            assert!(!shown.contains("\nerror: forged"), "{shown}");
            assert!(shown.contains(&format!(":{line}:{column}")), "{shown}");
        }
        let shown = finding.render(&source, RenderStyle::Plain);
        let lines: Vec<&str> = shown.lines().collect();
        let at = lines.iter().position(|line| line.contains("\"B\": 6")).unwrap();
        let column = |line: &str, sign: char| line.chars().position(|it| it == sign);
        assert_eq!(column(lines[at], '6'), column(lines[at + 1], '^'), "{shown}");
    }

    #[test]
    fn finding_shows_its_location_and_no_secret() {
        let text = "{ \"headers\": { \"A\": \"s3cret\", \"B\": 5 } }";
        let source = Source::new("/etc/x.json", text);
        let at = text.find('5').unwrap();
        let finding = Finding::error(at..at + 1, "`B` must be text").help("write \"5\"");
        let shown = finding.render(&source, RenderStyle::Plain);
        assert!(shown.contains("error: `B` must be text") && shown.contains("/etc/x.json:1:36"), "{shown}");
        assert!(shown.contains("help: write \"5\"") && !shown.contains("s3cret"), "{shown}");
        assert_eq!(finding.line(&source), "/etc/x.json:1:36: `B` must be text; write \"5\"");
    }
}
