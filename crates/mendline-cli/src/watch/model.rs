//! The state of the screen, and its changes.
//!
//! Polls, events, answers and keys go in; actions come out. The model uses no terminal, socket or clock, so that tests
//! can drive every sequence. After each change [`settle`] restores the invariants: a row is selected, and it is
//! visible.
//!
//! [`settle`]: Model::settle

use std::collections::{BTreeMap, BTreeSet};

use mendline::control::{Command, EventRecord, Level, Snapshot};
use ratatui::layout::Size;

use super::detail;
use super::events::{EventStream, Line};
use super::layout::{Layout, LayoutRequest, is_roomy};
use super::paint::Tone;
use super::row::{Key, Poll, Row, Sort, rows};
use crate::target;

/// Time that an answer stays in the footer, in milliseconds.
const ANSWER_STAYS: u64 = 10_000;

/// An update for the screen.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// The result of a poll.
    Polled(Poll),
    /// An event of a process.
    Event { pid: u32, name: String, told: EventRecord },
    /// A number of events of a process were dropped.
    Missed { pid: u32, name: String, count: u64 },
    /// The outcome of a command.
    CommandDone { command: CommandRequest, outcome: Result<(), String> },
}

/// A command for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRequest {
    pub(crate) key: Key,
    /// Name of the server on the screen.
    pub(crate) id: String,
    pub(crate) what: Command,
}

/// An action that a key causes, beyond redrawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Suspend, as Ctrl-Z does.
    Suspend,
    /// Draw everything again.
    Redraw,
    Command(CommandRequest),
    /// Show the log of this server.
    Log(String),
}

/// Current meaning of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// A filter is being typed.
    Filter,
    /// A command waits for confirmation.
    Confirm(CommandRequest),
    Help,
}

/// The answer to the last command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_bad: bool,
    until: u64,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) size: Size,
    /// The time, in milliseconds since 1970, as far as it is known.
    pub(crate) now: u64,
    /// The selected servers; all if it is `None`.
    pub(crate) only: Option<target::ServerSelector>,
    /// True after the first poll.
    pub(crate) has_polled: bool,
    pub(crate) mode: Mode,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// Index of the first visible row.
    pub(crate) top: usize,
    pub(crate) events: EventStream,
    pub(crate) events_are_hidden: bool,
    pub(crate) answer: Option<Answer>,
    pub(crate) distrusted: Vec<String>,
    /// True while the display is paused.
    pub(crate) is_paused: bool,
    /// The last poll during a pause.
    held: Option<Poll>,
    /// True if details were opened, false if they were closed; else it depends on the size.
    pub(crate) details: Option<bool>,
    all: Vec<Row>,
    known: BTreeMap<u32, Snapshot>,
    selected: Option<Key>,
    /// Index of the selected row, for the case that it disappears.
    place: usize,
}

impl Model {
    /// Creates an empty screen of this size, for these servers or for all of them.
    pub(crate) fn new(size: Size, only: Option<target::ServerSelector>) -> Model {
        Model { size, only, ..Model::default() }
    }

    /// Changes the size of the screen.
    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        self.settle();
    }

    /// Advances the time.
    pub(crate) fn tick(&mut self, now: u64) {
        if !self.is_paused {
            self.now = self.now.max(now);
        }
        if self.answer.as_ref().is_some_and(|answer| answer.until < now) {
            self.answer = None;
        }
    }

    /// Applies updates. There may be many, so the invariants are restored once.
    pub(crate) fn take_all(&mut self, updates: impl IntoIterator<Item = Update>) {
        updates.into_iter().for_each(|update| self.take_in(update));
        self.settle();
    }

    fn take_in(&mut self, update: Update) {
        match update {
            Update::Polled(poll) if self.is_paused => self.held = Some(poll),
            Update::Polled(poll) => self.apply_poll(&poll),
            Update::Event { pid, name, told } if self.watches(told.server.as_deref().unwrap_or(&name), pid) => {
                let who = self.called(pid, told.server.as_deref().unwrap_or(&name));
                let EventRecord { at, level, is_stderr: said, text, .. } = told;
                self.note(Line { at, level, who, said, text });
            }
            Update::Missed { pid, name, count } if self.watches(&name, pid) => {
                let text = format!("{count} events were dropped, because they came too fast");
                let who = self.called(pid, &name);
                self.note(Line { at: self.now, level: Level::Warn, who, said: false, text });
            }
            Update::Event { .. } | Update::Missed { .. } => {}
            Update::CommandDone { command, outcome } => match outcome {
                Ok(()) => self.say(done(&command), false),
                Err(why) => self.say(format!("{}: {why}", command.id), true),
            },
        }
    }

    /// Returns the visible rows, in order.
    pub(crate) fn rows(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let mut rows: Vec<&Row> = self.all.iter().filter(|row| filter.is_empty() || row.matches(&filter)).collect();
        self.sort.order(&mut rows);
        rows
    }

    /// Returns the number of rows, visible or not.
    pub(crate) fn total(&self) -> usize {
        self.all.len()
    }

    /// Counts the rows by state, the best first.
    pub(crate) fn counts(&self) -> Vec<(&'static str, usize, Tone)> {
        let mut rows: Vec<&Row> = self.all.iter().collect();
        rows.sort_by_key(|row| (row.kind().is_none(), row.kind()));
        let mut counts: Vec<(&'static str, usize, Tone)> = Vec::new();
        for row in rows {
            match counts.last_mut().filter(|(word, ..)| *word == row.word()) {
                Some((_, count, _)) => *count += 1,
                None => counts.push((row.word(), 1, row.severity().into())),
            }
        }
        counts
    }

    /// Returns the selected row.
    pub(crate) fn selected(&self) -> Option<&Row> {
        let key = self.selected.as_ref()?;
        self.all.iter().find(|row| row.key == *key)
    }

    pub(crate) fn is_selected(&self, row: &Row) -> bool {
        self.selected.as_ref() == Some(&row.key)
    }

    /// Returns whether details are shown.
    pub(crate) fn shows_details(&self) -> bool {
        self.selected.is_some() && self.details.unwrap_or_else(|| is_roomy(self.size))
    }

    /// Returns the visible events, the oldest first.
    pub(crate) fn shown_events(&self) -> Vec<&Line> {
        let seen = self.seen();
        self.events.lines().filter(|line| self.shows(&seen, &line.who)).collect()
    }

    /// Returns the layout, if the screen is large enough.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let details = self.selected().filter(|_| self.shows_details());
        let wanted = LayoutRequest {
            rows: self.rows().len(),
            details: details.map(|row| detail::lines(row, self, self.size.width.into()).len()),
            events: !self.events_are_hidden && !self.all.is_empty(),
        };
        Layout::of(self.size, wanted)
    }

    /// Shows a message in the footer.
    pub(crate) fn say(&mut self, text: String, is_bad: bool) {
        self.answer = Some(Answer { text, is_bad, until: self.now + ANSWER_STAYS });
    }

    /// Moves the selection down, or up.
    pub(crate) fn step(&mut self, down: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.place = self.place.saturating_add_signed(down).min(last);
        self.selected = self.rows().get(self.place).map(|row| row.key.clone());
    }

    /// Pauses or continues the display.
    pub(crate) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            self.events.follow();
            if let Some(poll) = self.held.take() {
                self.apply_poll(&poll);
            }
        }
    }

    /// Scrolls to older events, or to newer ones.
    pub(crate) fn scroll(&mut self, older: isize) {
        let (shown, height) = (self.shown_events().len(), self.height_of_events());
        self.events.scroll(older, shown, height);
    }

    /// Returns the number of events that fit.
    pub(crate) fn height_of_events(&self) -> usize {
        self.layout().map_or(0, |layout| layout.events.height.saturating_sub(1).into())
    }

    /// Returns the number of rows that fit below the titles. If there are more, one line says how many.
    pub(crate) fn height_of_table(&self) -> usize {
        let height: usize = self.layout().map_or(0, |layout| layout.table.height.saturating_sub(1).into());
        if self.rows().len() > height { height.saturating_sub(1) } else { height }
    }

    /// Restores the invariants after a change.
    pub(crate) fn settle(&mut self) {
        let keys: Vec<Key> = self.rows().into_iter().map(|row| row.key.clone()).collect();
        match self.selected.as_ref().and_then(|selected| keys.iter().position(|key| key == selected)) {
            Some(place) => self.place = place,
            // The row is gone; the row in its position is selected.
            None => {
                self.place = self.place.min(keys.len().saturating_sub(1));
                self.selected = keys.get(self.place).cloned();
            }
        }
        let height = self.height_of_table().max(1);
        let lowest = keys.len().saturating_sub(height);
        self.top = self.top.clamp((self.place + 1).saturating_sub(height), self.place).min(lowest);
        let (shown, height) = (self.shown_events().len(), self.height_of_events());
        self.events.settle(shown, height);
    }

    fn apply_poll(&mut self, poll: &Poll) {
        let before: BTreeMap<Key, String> = self.all.iter().map(|row| (row.key.clone(), row.id.clone())).collect();
        self.now = self.now.max(poll.at);
        self.all = rows(poll, &mut self.known);
        let only = self.only.as_ref();
        self.all.retain(|row| only.is_none_or(|only| only.is(&row.key.name, row.key.pid)));
        self.distrusted.clone_from(&poll.distrusted);
        let after: BTreeMap<Key, String> = self.all.iter().map(|row| (row.key.clone(), row.id.clone())).collect();
        // The first poll reports no new servers.
        let came = after.iter().filter(|(key, _)| self.has_polled && !before.contains_key(key));
        let went = before.iter().filter(|(key, _)| !after.contains_key(key));
        let came = came.map(|(key, id)| (id.clone(), format!("has started (process {})", key.pid)));
        let went = went.map(|(key, id)| (id.clone(), format!("has ended (process {})", key.pid)));
        let lines: Vec<(String, String)> = came.chain(went).collect();
        for (who, text) in lines {
            self.note(Line { at: poll.at, level: Level::Info, who, said: false, text });
        }
        self.has_polled = true;
    }

    fn note(&mut self, line: Line) {
        let counts = self.filter.is_empty() || self.shows(&self.seen(), &line.who);
        let holds = self.is_paused;
        self.events.push(line, counts, holds);
    }

    fn seen(&self) -> BTreeSet<&str> {
        self.rows().into_iter().map(|row| row.id.as_str()).collect()
    }

    /// Returns whether events of a server are shown: all without a filter, else those of matching servers.
    fn shows(&self, seen: &BTreeSet<&str>, who: &str) -> bool {
        self.filter.is_empty() || seen.contains(who) || who.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn watches(&self, name: &str, pid: u32) -> bool {
        self.only.as_ref().is_none_or(|only| only.is(name, pid))
    }

    /// Returns the name of a server on the screen.
    fn called(&self, pid: u32, name: &str) -> String {
        let row = self.all.iter().find(|row| row.key.pid == pid && row.key.name == name);
        row.map_or(name, |row| &row.id).to_owned()
    }
}

fn done(command: &CommandRequest) -> String {
    let CommandRequest { id, what, .. } = command;
    match what {
        Command::Reconnect => format!("{id} reconnects"),
        Command::Isolate => format!("{id} is isolated: its calls fail until i resumes it"),
        Command::Resume => format!("{id} is resumed"),
    }
}
