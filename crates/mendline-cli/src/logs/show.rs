//! Formatting of a line, for a person or as JSON.
//!
//! The form is `time LEVEL server  text`, with `|` before stderr output and arrows before messages, as on stderr.
//! Untrusted text is escaped. Colours that a child put into its own lines are removed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use mendline::observe::escaped::{Escaped, EscapedJson};

use super::folder::Folder;
use super::record::{Before, Record};
use super::when::Timestamp;
use super::zone::Zone;
use crate::style::Style;

/// Colours of servers; red and yellow are for errors and warnings.
const COLOURS: [&str; 6] = ["36", "35", "34", "32", "96", "95"];

/// Maximum length of a shortened message.
const SHORT: usize = 160;

/// Formatter of lines.
pub(super) struct Show {
    style: Style,
    /// The zone of times for a person; without it they are in UTC.
    zone: Option<Zone>,
    as_json: bool,
    in_full: bool,
    /// Colours by server.
    colours: BTreeMap<String, &'static str>,
    /// Servers with several processes at the same time.
    doubles: Vec<String>,
}

impl Show {
    pub(super) fn new(folder: &Folder, style: Style, zone: Option<Zone>, as_json: bool, in_full: bool) -> Show {
        let servers = folder.servers();
        let doubles = servers.iter().filter(|server| folder.has_doubles(server)).map(|&it| it.to_owned()).collect();
        let colours = servers.iter().map(|&server| server.to_owned()).zip(COLOURS.iter().copied().cycle()).collect();
        Show { style, zone, as_json, in_full, colours, doubles }
    }

    /// Writes an earlier entry in the history of a call. In JSON it is part of the record.
    pub(super) fn write_before(
        &mut self,
        record: &Record<'_>,
        before: &Before<'_>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.as_json {
            return Ok(());
        }
        self.put(record, &before.time, "debug", " ", &Escaped(before.text.as_bytes()).to_string(), out)
    }

    /// Writes a record, which was parsed from this line.
    pub(super) fn write(&mut self, record: &Record<'_>, line: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.as_json {
            return writeln!(out, "{}", EscapedJson(&String::from_utf8_lossy(line)));
        }
        let (mark, text) = self.text(record);
        let level = if record.is_message() { "wire" } else { &record.level };
        self.put(record, &record.time, level, mark, &text, out)
    }

    fn text(&self, record: &Record<'_>) -> (&'static str, String) {
        if !record.is_message() {
            let mark = if record.is_stderr() { "| " } else { " " };
            return (mark, Escaped(without_colours(&record.text).as_bytes()).to_string());
        }
        let mark = match record.way.as_deref() {
            Some("fromClient") => "client → ",
            Some("toServer") => "→ server ",
            Some("fromServer") => "← server ",
            _ => "client ← ",
        };
        let mut shown: &str = &record.text;
        if !self.in_full && shown.len() > SHORT {
            let end = (0..=SHORT).rev().find(|end| shown.is_char_boundary(*end)).unwrap_or(0);
            shown = &shown[..end];
        }
        let is_cut = record.cut || shown.len() < record.text.len();
        let mut text = Escaped(shown.as_bytes()).to_string();
        if let (true, Some(bytes)) = (is_cut, record.bytes) {
            text.push_str(&self.style.faint(&format!("… ({bytes} bytes)")));
        }
        (mark, text)
    }

    fn put(
        &mut self,
        record: &Record<'_>,
        time: &str,
        level: &str,
        mark: &str,
        text: &str,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let style = self.style;
        let level = format!("{:<5}", Escaped(level.to_ascii_uppercase().as_bytes()).to_string());
        let level = match level.trim_end() {
            "ERROR" => style.red(&level),
            "WARN" => style.yellow(&level),
            "DEBUG" | "WIRE" => style.faint(&level),
            _ => level,
        };
        let next = COLOURS[self.colours.len() % COLOURS.len()];
        let colour = *self.colours.entry(record.server.to_string()).or_insert(next);
        let mut name = Escaped(record.server.as_bytes()).to_string();
        if self.doubles.iter().any(|double| *double == record.server) {
            name.push_str(&format!("#{}", record.pid));
        }
        let time = self.time(time);
        let time = style.faint(&Escaped(time.as_bytes()).to_string());
        writeln!(out, "{time} {level} {} {}{text}", style.paint(colour, &name), style.faint(mark))
    }
}

impl Show {
    /// Formats the time of a line: local for a person at a terminal, else UTC. The microseconds serve only the order.
    fn time(&self, time: &str) -> String {
        if let Some(zone) = &self.zone
            && let Some(local) = Timestamp::of_text(time).and_then(Timestamp::time).and_then(|time| zone.format(time))
        {
            return local;
        }
        let millis = time.strip_suffix('Z').and_then(|time| time.get(..time.len().checked_sub(3)?));
        millis.map_or_else(|| time.to_owned(), |millis| format!("{millis}Z"))
    }
}

/// Removes colours and weights: `ESC [ … m`.
pub(super) fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        let codes = after.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        rest = match after[codes..].strip_prefix('m') {
            Some(rest) => rest,
            // Another sequence stays, and is escaped.
            None => {
                plain.push_str("\x1b[");
                after
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u07_time_is_local_on_a_terminal_and_utc_elsewhere() {
        let folder = Folder::read(std::path::Path::new("/nonexistent"), false).unwrap();
        let show = |zone| Show::new(&folder, Style::none(), zone, false, false);
        let stored = "2026-11-15T21:06:35.593123Z";
        let local = show(Some(Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3")));
        assert_eq!(local.time(stored), "2026-11-15 22:06:35.593");
        assert_eq!(show(None).time(stored), "2026-11-15T21:06:35.593Z");
        assert_eq!(local.time("broken"), "broken");
    }

    #[test]
    fn only_colour_sequences_are_removed() {
        assert_eq!(without_colours("\x1b[1;32mok\x1b[0m \x1b[2J \x1b[m. \x1b["), "ok \x1b[2J . \x1b[");
    }
}
