//! Actions of keys.
//!
//! Ctrl-C always quits and Ctrl-Z always suspends, whatever is on the screen. Esc goes back one step and never quits,
//! because it is pressed once too often when it leaves a filter. Only isolating a server asks for confirmation; everything else can be undone by another key.

use mendline::control::Command;
use mendline::control::snapshot::StateKind;

use super::keyboard::Key;
use super::layout::is_roomy;
use super::model::{Action, CommandRequest, Mode, Model};

/// Maximum length of a filter.
const LONGEST_FILTER: usize = 64;

/// A key and its description, for the footer and the help.
pub(crate) struct Hint {
    pub(crate) key: &'static str,
    /// In one word.
    pub(crate) word: &'static str,
    /// In a sentence.
    pub(crate) sentence: &'static str,
}

/// All keys, the most useful first.
pub(crate) const HINTS: [Hint; 13] = [
    Hint { key: "q", word: "quit", sentence: "quit; so does Ctrl-C. Esc goes back, and does not quit" },
    Hint { key: "?", word: "help", sentence: "this page" },
    Hint { key: "r", word: "reconnect", sentence: "make a new connection to the selected server" },
    Hint { key: "i", word: "isolate", sentence: "isolate the selected server, or resume it" },
    Hint { key: "l", word: "log", sentence: "follow the log of the selected server; Ctrl-C returns" },
    Hint { key: "↵", word: "details", sentence: "show or hide the details of the selected server" },
    Hint { key: "/", word: "filter", sentence: "show only servers whose name, state or error has this text" },
    Hint { key: "s", word: "sort", sentence: "by name, by state (worst first), by latency (slowest first)" },
    Hint { key: "e", word: "events", sentence: "show or hide events" },
    Hint { key: "p", word: "pause", sentence: "pause or continue the display" },
    Hint { key: "↑↓ jk", word: "select", sentence: "select a server; Home and End the first and last" },
    Hint { key: "PgUp PgDn", word: "scroll", sentence: "older and newer events" },
    Hint { key: "Ctrl-Z", word: "suspend", sentence: "suspend to the shell; `fg` returns. Ctrl-L redraws" },
];

impl Model {
    /// Handles a key.
    pub(crate) fn press(&mut self, key: Key) -> Option<Action> {
        let action = match (key, &self.mode) {
            (Key::Control('c'), _) => Some(Action::Quit),
            (Key::Control('z'), _) => Some(Action::Suspend),
            (Key::Control('l'), _) => Some(Action::Redraw),
            (key, Mode::Filter) => {
                self.write_filter(key);
                None
            }
            // Pasted text is no command.
            (Key::Control(_) | Key::Pasted(_) | Key::Other, _) => None,
            (key, Mode::Confirm(command)) => {
                let command = command.clone();
                self.mode = Mode::Table;
                match key {
                    Key::Char('y' | 'Y') => Some(self.send_command(command)),
                    _ => {
                        self.say(format!("{} is unchanged", command.id), false);
                        None
                    }
                }
            }
            (_, Mode::Help) => {
                self.mode = Mode::Table;
                None
            }
            (key, Mode::Table) => self.press_in_table(key),
        };
        self.settle();
        action
    }

    fn press_in_table(&mut self, key: Key) -> Option<Action> {
        let page = isize::try_from(self.height_of_events().max(2) - 1).unwrap_or(1);
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Escape if !self.filter.is_empty() => self.filter.clear(),
            Key::Escape if self.shows_details() && !is_roomy(self.size) => self.details = None,
            Key::Escape => self.say("q quits".to_owned(), false),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::Home | Key::Char('g') => self.step(isize::MIN),
            Key::End | Key::Char('G') => self.step(isize::MAX),
            Key::PageUp => self.scroll(page),
            Key::PageDown => self.scroll(-page),
            Key::Enter => self.details = Some(!self.shows_details()),
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('e') => self.events_are_hidden = !self.events_are_hidden,
            Key::Char('p' | ' ') => self.pause(),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('r') => return self.reconnect(),
            Key::Char('i') => return self.isolate_or_resume(),
            Key::Char('l') => return Some(Action::Log(self.selected()?.id.clone())),
            _ => {}
        }
        None
    }

    fn reconnect(&mut self) -> Option<Action> {
        let command = self.command(Command::Reconnect)?;
        if self.selected()?.kind() == Some(StateKind::Isolated) {
            self.say(format!("{} is isolated; press i to resume it first", command.id), true);
            return None;
        }
        Some(self.send_command(command))
    }

    fn isolate_or_resume(&mut self) -> Option<Action> {
        if self.selected()?.kind() == Some(StateKind::Isolated) {
            let command = self.command(Command::Resume)?;
            return Some(self.send_command(command));
        }
        self.mode = Mode::Confirm(self.command(Command::Isolate)?);
        None
    }

    fn command(&self, what: Command) -> Option<CommandRequest> {
        self.selected().map(|row| CommandRequest { key: row.key.clone(), id: row.id.clone(), what })
    }

    fn send_command(&mut self, command: CommandRequest) -> Action {
        self.say(format!("{}: command sent, waiting for an answer …", command.id), false);
        Action::Command(command)
    }

    fn write_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Table,
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            Key::Control('u') => self.filter.clear(),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(character) | Key::Pasted(character) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(character);
            }
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            _ => {}
        }
    }
}
