//! A terminal emulator: it sends keys and keeps the visible screen.
//!
//! It supports what the live screen uses: cursor positions, lines, clearing, and the alternate screen.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::client::kill;
use crate::stage::LATER;

/// A terminal and the process that was started in it.
pub(crate) struct Terminal {
    pub(crate) process: Child,
    /// None after it was closed.
    master: Option<OwnedFd>,
    glass: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// Starts a command as session leader in a terminal of this size.
    pub(crate) fn start(command: &Command, width: u16, height: u16) -> Terminal {
        // No other process may hold the terminal, so that closing it here closes it.
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
        leader.env("TERM", "xterm-256color").env_remove("ENV").env_remove("NO_COLOR").env("PS1", "$ ");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        leader.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let process = leader.spawn().unwrap();
        let glass = Arc::new(Mutex::new(Screen::new(width, height)));
        let (mut reader, seen) = (fs::File::from(master.try_clone().unwrap()), Arc::downgrade(&glass));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A closed terminal ends with an error.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let Some(glass) = seen.upgrade() else { return };
                glass.lock().unwrap().show(&bytes[..count]);
            }
        });
        Terminal { process, master: Some(master), glass }
    }

    /// Sends keys.
    pub(crate) fn press(&self, keys: &str) {
        fs::File::from(self.master().try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen contains this text, and returns the screen.
    pub(crate) fn until(&self, text: &str) -> String {
        self.until_so(&format!("{text:?} can be seen"), |glass| glass.text().contains(text))
    }

    /// Waits for a condition outside of the screen. A failure prints the screen.
    pub(crate) fn until_fact(&self, what: &str, is_so: impl Fn() -> bool) {
        self.until_so(what, |_| is_so());
    }

    /// Waits until the alternate screen is shown, or the main screen.
    pub(crate) fn until_page(&self, is_other: bool) {
        self.until_so(&format!("the other page: {is_other}"), |glass| glass.is_other_page == is_other);
    }

    /// Returns the modes of the terminal.
    pub(crate) fn modes(&self) -> String {
        described(&tcgetattr(self.master()).unwrap())
    }

    /// Returns true if the cursor is visible and the main screen is shown.
    pub(crate) fn is_usual(&self) -> bool {
        let glass = self.glass.lock().unwrap();
        glass.has_cursor && !glass.is_other_page
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        *self.glass.lock().unwrap() = Screen { is_other_page: true, ..Screen::new(width, height) };
        tcsetwinsize(self.master(), Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    /// Closes the terminal while its processes run.
    pub(crate) fn close(&mut self) {
        self.master = None;
        self.glass = Arc::new(Mutex::new(Screen::new(1, 1)));
    }

    fn master(&self) -> &OwnedFd {
        self.master.as_ref().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.process.id().try_into().unwrap(), signal);
    }

    fn until_so(&self, what: &str, is_so: impl Fn(&Screen) -> bool) -> String {
        let deadline = Instant::now() + LATER;
        loop {
            let glass = self.glass.lock().unwrap();
            if is_so(&glass) {
                return glass.text();
            }
            assert!(Instant::now() < deadline, "not within {LATER:?}: {what}\n{}", glass.text());
            drop(glass);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The process may have ended already.
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(Signal::KILL);
            let _ = self.process.wait();
        }
    }
}

fn described(modes: &Termios) -> String {
    let Termios { input_modes, output_modes, control_modes, local_modes, special_codes, .. } = modes;
    format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {special_codes:?}")
}

/// The visible screen and the state of the parser.
struct Screen {
    lines: Vec<Vec<char>>,
    x: usize,
    y: usize,
    is_other_page: bool,
    has_cursor: bool,
    /// The received part of an escape sequence.
    sequence: Option<String>,
    /// The received bytes of a character.
    partial: Vec<u8>,
}

impl Screen {
    fn new(width: u16, height: u16) -> Screen {
        let lines = vec![vec![' '; width.into()]; height.into()];
        Screen { lines, x: 0, y: 0, is_other_page: false, has_cursor: true, sequence: None, partial: Vec::new() }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn show(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let whole: Vec<u8> = self.partial.drain(..whole).collect();
        for character in String::from_utf8(whole).unwrap().chars() {
            self.show_character(character);
        }
    }

    fn show_character(&mut self, character: char) {
        match (self.sequence.take(), character) {
            (Some(mut sequence), character) => {
                sequence.push(character);
                let is_whole = sequence.len() > 1 && character.is_ascii_alphabetic() || !sequence.starts_with('[');
                if is_whole {
                    self.obey(&sequence);
                } else {
                    self.sequence = Some(sequence);
                }
            }
            (None, '\x1b') => self.sequence = Some(String::new()),
            (None, '\r') => self.x = 0,
            (None, '\n') => self.next_line(),
            (None, '\x08') => self.x = self.x.saturating_sub(1),
            (None, character) if character.is_control() => {}
            (None, character) => {
                if self.x == self.lines[0].len() {
                    self.x = 0;
                    self.next_line();
                }
                self.lines[self.y][self.x] = character;
                self.x += 1;
            }
        }
    }

    fn next_line(&mut self) {
        if self.y + 1 < self.lines.len() {
            self.y += 1;
        } else {
            self.lines.remove(0);
            self.lines.push(vec![' '; self.lines[0].len()]);
        }
    }

    fn obey(&mut self, sequence: &str) {
        match sequence {
            "[?1049h" => self.is_other_page = true,
            "[?1049l" => self.is_other_page = false,
            "[?25h" => self.has_cursor = true,
            "[?25l" => self.has_cursor = false,
            "[2J" => self.lines.iter_mut().for_each(|line| line.fill(' ')),
            "[J" => {
                let (x, y) = (self.x, self.y);
                self.lines[y][x..].fill(' ');
                self.lines[y + 1..].iter_mut().for_each(|line| line.fill(' '));
            }
            "[K" => {
                let (x, y) = (self.x, self.y);
                self.lines[y][x..].fill(' ');
            }
            place if place.ends_with('H') => {
                let mut numbers = place[1..place.len() - 1].split(';').map(|number| number.parse().unwrap_or(1));
                let (y, x): (usize, usize) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
                self.y = (y - 1).min(self.lines.len() - 1);
                self.x = (x - 1).min(self.lines[0].len() - 1);
            }
            // Colours and other attributes.
            _ => {}
        }
    }
}
