//! The settings of log files.

use mendline::observe::log::LogLevel;

use super::Settings;
use crate::check::{Block, Checker};
use crate::finding::Finding;

/// The settings of log files; `None` for everything that is not configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// The minimum level.
    pub level: Option<LogLevel>,
    /// The maximum size of one file.
    pub file_bytes: Option<u64>,
    /// The maximum size of all files.
    pub total_bytes: Option<u64>,
    /// Whether messages are logged.
    pub wire: Option<bool>,
}

pub(crate) fn logs(top: &Block, checker: &mut Checker<'_>) -> LogSettings {
    let settings = Settings { own: top, defaults: &Block::default() };
    let bytes = |path| settings.whole(path).and_then(|number| u64::try_from(number).ok());
    let chosen = LogSettings {
        level: settings.choice("mendline.logs.level").and_then(|word| word.parse().ok()),
        file_bytes: bytes("mendline.logs.fileBytes"),
        total_bytes: bytes("mendline.logs.totalBytes"),
        wire: settings.flag("mendline.logs.wire"),
    };
    if let (Some(one), Some(all)) = (chosen.file_bytes, chosen.total_bytes)
        && one > all
    {
        let what = format!("`fileBytes` is {one}, which is more than `totalBytes`, {all}");
        let at = settings.own_span("mendline.logs.fileBytes").unwrap_or(0..0);
        checker.report(Finding::error(at, what).help("raise `totalBytes`, or lower `fileBytes`"));
    }
    chosen
}
