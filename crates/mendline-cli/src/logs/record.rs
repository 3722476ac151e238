//! A parsed line of a log.

use std::borrow::Cow;

use mendline::observe::files::GATEWAY;
use mendline::observe::log::LogLevel;
use serde::Deserialize;

/// The members of a line that are needed here; `--json` prints the line itself.
#[derive(Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) level: Cow<'a, str>,
    /// The server, or that the line is a gateway's own.
    #[serde(borrow, default = "of_gateway")]
    pub(super) server: Cow<'a, str>,
    pub(super) pid: u32,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Cow<'a, str>,
    pub(super) call: Option<u64>,
    /// Request id of an attempt, if it is not the number of its call.
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

fn of_gateway() -> Cow<'static, str> {
    Cow::Borrowed(GATEWAY)
}

/// An earlier entry in the history of a call.
#[derive(Debug, Deserialize)]
pub(super) struct Before<'a> {
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
}

impl Record<'_> {
    /// Parses a line.
    pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the level. An unknown level counts as the default one, so that the line is shown.
    pub(super) fn level(&self) -> LogLevel {
        self.level.parse().unwrap_or_default()
    }

    /// Returns whether the line is a message.
    pub(super) fn is_message(&self) -> bool {
        self.kind == "wire"
    }

    /// Returns whether the line is stderr output of a child.
    pub(super) fn is_stderr(&self) -> bool {
        self.kind == "stderr"
    }
}
