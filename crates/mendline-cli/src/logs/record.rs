//! One line of a log, understood.

use std::borrow::Cow;

use mendline::observe::log::LogLevel;
use serde::Deserialize;

/// What a line says. What is not needed here is left where it is: `--json` shows the line itself.
#[derive(Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) level: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) server: Cow<'a, str>,
    pub(super) pid: u32,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Cow<'a, str>,
    pub(super) call: Option<u64>,
    /// What the server knows an attempt by, if that is not the number of its call.
    pub(super) number: Option<u64>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) errno: Option<Cow<'a, str>>,
    pub(super) status: Option<u16>,
    #[serde(borrow)]
    pub(super) way: Option<Cow<'a, str>>,
    pub(super) bytes: Option<u64>,
    #[serde(default)]
    pub(super) cut: bool,
    #[serde(borrow, default)]
    pub(super) before: Vec<Before<'a>>,
}

/// What came before, in the story of a call.
#[derive(Debug, Deserialize)]
pub(super) struct Before<'a> {
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
}

impl Record<'_> {
    /// A line that says what lines say.
    pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
        serde_json::from_slice(line).ok()
    }

    /// How loud it is. What a later version calls otherwise is shown rather than hidden.
    pub(super) fn level(&self) -> LogLevel {
        self.level.parse().unwrap_or_default()
    }

    /// Whether it is a message.
    pub(super) fn is_message(&self) -> bool {
        self.kind == "Wire"
    }

    /// Whether a child said it.
    pub(super) fn is_stderr(&self) -> bool {
        self.kind == "Stderr"
    }
}
