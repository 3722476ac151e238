//! What keys do.
//!
//! Ctrl-C always ends and Ctrl-Z always goes to the background, whatever else is on the screen. Esc goes back one step, and
//! from the table that is the end. Only what takes a server out asks first; everything else can be undone by another key.

use mendline::control::Command;
use mendline::control::snapshot::StateKind;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::{Mode, Model, Order, Wish};

/// How long a filter may be.
const LONGEST_FILTER: usize = 64;

/// A key and what it does, for the footer and the help.
pub(crate) struct Hint {
    pub(crate) key: &'static str,
    /// In one word.
    pub(crate) word: &'static str,
    /// In a sentence.
    pub(crate) sentence: &'static str,
}

/// All of them, the most useful first.
pub(crate) const HINTS: [Hint; 13] = [
    Hint { key: "q", word: "quit", sentence: "end; so do Esc and Ctrl-C" },
    Hint { key: "?", word: "help", sentence: "this page" },
    Hint { key: "r", word: "reconnect", sentence: "make a new connection to the selected server" },
    Hint { key: "i", word: "isolate", sentence: "take the selected server out, or bring it back" },
    Hint { key: "l", word: "log", sentence: "follow the log of the selected server; Ctrl-C comes back" },
    Hint { key: "↵", word: "details", sentence: "all that is known of the selected server, or less" },
    Hint { key: "/", word: "filter", sentence: "show only servers whose name, state or error has this text" },
    Hint { key: "s", word: "sort", sentence: "by name, by state (worst first), by latency (slowest first)" },
    Hint { key: "e", word: "events", sentence: "show what happens, or not" },
    Hint { key: "p", word: "pause", sentence: "let the picture stand still, or move again" },
    Hint { key: "↑↓ jk", word: "select", sentence: "select a server; Home and End the first and last" },
    Hint { key: "PgUp PgDn", word: "scroll", sentence: "older and newer events" },
    Hint { key: "Ctrl-Z", word: "suspend", sentence: "to the shell; `fg` comes back. Ctrl-L draws anew" },
];

impl Model {
    /// Somebody pressed a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let wish = match (key.code, &self.mode) {
            (KeyCode::Char('c'), _) if control => Some(Wish::Quit),
            (KeyCode::Char('z'), _) if control => Some(Wish::Suspend),
            (KeyCode::Char('l'), _) if control => Some(Wish::Redraw),
            (code, Mode::Filter) => {
                self.write_filter(code, control);
                None
            }
            _ if control => None,
            (code, Mode::Confirm(order)) => {
                let order = order.clone();
                self.mode = Mode::Table;
                match code {
                    KeyCode::Char('y' | 'Y') => Some(self.steer(order)),
                    _ => {
                        self.say(format!("{} is left as it is", order.id), false);
                        None
                    }
                }
            }
            (_, Mode::Help) => {
                self.mode = Mode::Table;
                None
            }
            (code, Mode::Table) => self.press_in_table(code),
        };
        self.settle();
        wish
    }

    fn press_in_table(&mut self, code: KeyCode) -> Option<Wish> {
        let page = isize::try_from(self.height_of_events().max(2) - 1).unwrap_or(1);
        match code {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Esc if self.filter.is_empty() => return Some(Wish::Quit),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::PageUp => self.scroll(page),
            KeyCode::PageDown => self.scroll(-page),
            KeyCode::Enter => self.details = Some(!self.shows_details()),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('e') => self.events_are_hidden = !self.events_are_hidden,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('r') => {
                let order = self.order(Command::Reconnect)?;
                return Some(self.steer(order));
            }
            KeyCode::Char('i') => return self.isolate_or_resume(),
            KeyCode::Char('l') => return Some(Wish::Log(self.selected()?.key.name.clone())),
            _ => {}
        }
        None
    }

    fn isolate_or_resume(&mut self) -> Option<Wish> {
        if self.selected()?.kind() == Some(StateKind::Isolated) {
            let order = self.order(Command::Resume)?;
            return Some(self.steer(order));
        }
        self.mode = Mode::Confirm(self.order(Command::Isolate)?);
        None
    }

    fn order(&self, what: Command) -> Option<Order> {
        self.selected().map(|row| Order { key: row.key.clone(), id: row.id.clone(), what })
    }

    fn steer(&mut self, order: Order) -> Wish {
        self.say(format!("{}: asked, waiting for an answer …", order.id), false);
        Wish::Steer(order)
    }

    fn write_filter(&mut self, code: KeyCode, control: bool) {
        match code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character) if !control && self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(character);
            }
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            _ => {}
        }
    }
}
