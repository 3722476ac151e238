//! The log files of `mendline run`, set by flags, a variable and the configuration file, in this order.

use std::ffi::OsString;

use clap::Args;
use mendline::observe::files::{FILE_BYTES, FOLDER, FOLDER_BYTES, FileOptions};
use mendline::observe::log::LogLevel;
use mendline::state::state_directory;
use mendline_config::LogSettings;

/// The environment variable for the level of the log files.
pub(crate) const VARIABLE: &str = "MENDLINE_LOG_FILES";

#[derive(Args)]
pub(crate) struct LogFileOptions {
    /// Level of the log files for `mendline logs`: off, error, warn, info or debug [default: $MENDLINE_LOG_FILES, else
    /// info]
    #[arg(long, value_name = "LEVEL")]
    log_file_level: Option<LogLevel>,

    /// Write no log files
    #[arg(long, conflicts_with_all = ["log_file_level", "record_wire"])]
    no_log_files: bool,

    /// Also log the messages themselves, without secrets, for `mendline logs --wire`
    #[arg(long)]
    record_wire: bool,
}

impl LogFileOptions {
    /// Returns the settings of the log files; `None` if there are none.
    pub(crate) fn choose(
        &self,
        file: &LogSettings,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<FileOptions>, String> {
        let level = match self.log_file_level {
            _ if self.no_log_files => LogLevel::Off,
            Some(level) => level,
            None => from_variable(variable(VARIABLE))?.or(file.level).unwrap_or_default(),
        };
        let Some(state) = state_directory(variable).filter(|_| level > LogLevel::Off) else { return Ok(None) };
        let file_bytes = file.file_bytes.unwrap_or(FILE_BYTES);
        Ok(Some(FileOptions {
            folder: state.join(FOLDER),
            level,
            file_bytes: file_bytes.min(file.total_bytes.unwrap_or(u64::MAX)),
            folder_bytes: file.total_bytes.unwrap_or(FOLDER_BYTES.max(file_bytes)),
            wire: self.record_wire || file.wire.unwrap_or(false),
        }))
    }
}

fn from_variable(variable: Option<OsString>) -> Result<Option<LogLevel>, String> {
    let Some(text) = variable.filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.to_string_lossy();
    text.parse().map(Some).map_err(|error| format!("{VARIABLE}={text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(options: &LogFileOptions, file: &LogSettings, variable: Option<&str>) -> Option<FileOptions> {
        let variable = variable.map(OsString::from);
        let lookup = |name: &str| match name {
            VARIABLE => variable.clone(),
            "HOME" => Some("/h".into()),
            _ => None,
        };
        options.choose(file, lookup).unwrap()
    }

    fn flags(log_file_level: Option<LogLevel>, no_log_files: bool) -> LogFileOptions {
        LogFileOptions { log_file_level, no_log_files, record_wire: false }
    }

    #[test]
    fn flags_override_the_variable_which_overrides_the_file() {
        let level = |options: &LogFileOptions, file: &LogSettings, variable: Option<&str>| {
            chosen(options, file, variable).map(|choices| choices.level)
        };
        let file = LogSettings { level: Some(LogLevel::Warn), ..LogSettings::default() };
        let nothing = flags(None, false);
        assert_eq!(level(&nothing, &LogSettings::default(), None), Some(LogLevel::Info));
        assert_eq!(level(&nothing, &file, None), Some(LogLevel::Warn));
        assert_eq!(level(&nothing, &file, Some("debug")), Some(LogLevel::Debug));
        assert_eq!(level(&nothing, &file, Some("off")), None);
        assert_eq!(level(&flags(Some(LogLevel::Error), false), &file, Some("off")), Some(LogLevel::Error));
        assert_eq!(level(&flags(None, true), &file, Some("debug")), None);
    }

    #[test]
    fn file_and_folder_sizes_are_consistent() {
        let sizes = |file_bytes, total_bytes| {
            let file = LogSettings { file_bytes, total_bytes, ..LogSettings::default() };
            chosen(&flags(None, false), &file, None).map(|choices| (choices.file_bytes, choices.folder_bytes)).unwrap()
        };
        assert_eq!(sizes(None, None), (FILE_BYTES, FOLDER_BYTES));
        assert_eq!(sizes(None, Some(1 << 20)), (1 << 20, 1 << 20));
        assert_eq!(sizes(Some(1 << 30), None), (1 << 30, 1 << 30));
    }

    #[test]
    fn invalid_level_is_reported_with_its_variable() {
        let options = flags(None, false);
        let why = options.choose(&LogSettings::default(), |_| Some("loud".into())).unwrap_err();
        assert!(why.starts_with("MENDLINE_LOG_FILES=loud: "), "{why}");
    }
}
