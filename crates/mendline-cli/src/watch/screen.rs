//! The terminal of the live screen, restored afterwards.
//!
//! A terminal in raw mode on its alternate screen is of no use to other programs. So it is restored on every way out:
//! at the end, at a panic, and before the process stops. Its modes are restored exactly.

use std::io::{self, IsTerminal, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use mendline::os::output::write_to_stdout;
use mendline::os::processes::has_shell;
use mendline::os::terminal::{self, Modes};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::model::Model;
use super::paint::Paint;
use super::view;

/// Alternate screen, hidden cursor, bracketed paste.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h";

const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// Undoes all of that, and resets colours.
const LEAVE: &[u8] = b"\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";

/// The modes of the terminal before the live screen, while it is open.
static BEFORE: Mutex<Option<Modes>> = Mutex::new(None);

/// Returns the reason why a live screen is not possible.
pub(crate) fn refusal() -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        Some("stdout is not a terminal")
    } else if !io::stdin().is_terminal() {
        Some("stdin is not a terminal")
    } else if std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb") {
        Some("this one supports only lines (TERM is not set, or dumb)")
    } else {
        None
    }
}

/// The live screen, until it is dropped.
pub(crate) struct Screen {
    /// Never dropped: its drop would report a terminal that is gone on stderr, and panic on that.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    paint: Paint,
}

impl Screen {
    /// Opens the live screen.
    pub(crate) fn open(paint: Paint) -> io::Result<Screen> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        take()?;
        Ok(Screen { terminal: ManuallyDrop::new(blank(size())?), paint })
    }

    /// Draws, in the current size of the terminal.
    pub(crate) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        let size = size();
        if model.size != size {
            *self.terminal = blank(size)?;
            model.resize(size);
        }
        let paint = self.paint;
        self.terminal.draw(|frame| view::draw(model, paint, frame.buffer_mut()))?;
        Ok(())
    }

    /// Restores the terminal for a while.
    pub(crate) fn suspend(&self) {
        restore();
    }

    /// Opens the live screen again, whatever the state of the terminal.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        restore();
        take()?;
        *self.terminal = blank(size())?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the size of the terminal, or 80×24 if it is unknown.
pub(crate) fn size() -> Size {
    match terminal::size(io::stdout()) {
        Some(size) if size.columns > 0 && size.rows > 0 => Size { width: size.columns, height: size.rows },
        _ => Size { width: 80, height: 24 },
    }
}

/// Creates an empty screen. The constructor of ratatui would ask the terminal for its cursor, and take typed keys for
/// the answer.
fn blank(size: Size) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let mut stdout = io::stdout();
    stdout.write_all(CLEAR)?;
    let viewport = Viewport::Fixed(Rect::from((Position::ORIGIN, size)));
    Terminal::with_options(CrosstermBackend::new(stdout), TerminalOptions { viewport })
}

fn take() -> io::Result<()> {
    let modes = Modes::read()?;
    // Stored before the change, so that a restore in between is harmless.
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).insert(modes).make_raw()?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(ENTER)?;
    stdout.flush()
}

/// Restores the terminal, if it was changed. An error on the way out is ignored.
pub(crate) fn restore() {
    let Some(modes) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    // The modes come first, because a person may type as soon as the normal screen appears.
    modes.restore();
    // Not through the lock of stdout, which a panicking thread may hold.
    let _ = write_to_stdout(LEAVE);
}

/// Stops the process group, as Ctrl-Z does in a shell. Returns false if there is no shell that could continue it.
pub(crate) fn stop() -> bool {
    has_shell() && terminal::stop_process_group()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Termios, tcgetattr};

    use super::*;

    /// The variable that tells the test below where to panic.
    const VARIABLE: &str = "MENDLINE_TEST_PANICS";

    /// The message of the panic.
    const PANIC_MESSAGE: &str = "as it was planned";

    #[test]
    #[ignore = "it changes its terminal, so the test below provides a separate one"]
    fn panic_with_an_open_screen() {
        let Ok(place) = std::env::var(VARIABLE) else { return };
        let mut screen = Screen::open(Paint { is_coloured: true }).unwrap();
        let modes = tcgetattr(io::stdin()).unwrap();
        assert!(!modes.local_modes.contains(LocalModes::ECHO), "the terminal is not in raw mode");
        match place.as_str() {
            // Drawing holds the lock of stdout.
            "drawing" => drop(screen.terminal.draw(|_| {
                let _stdout = io::stdout().lock();
                panic!("{PANIC_MESSAGE}");
            })),
            _ => drop(std::thread::spawn(|| panic!("{PANIC_MESSAGE}")).join()),
        }
    }

    fn described(modes: &Termios) -> String {
        let Termios { input_modes, output_modes, control_modes, local_modes, special_codes, .. } = modes;
        format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {special_codes:?}")
    }

    #[test]
    fn panic_restores_the_terminal_before_its_message() {
        let (_, module) = module_path!().split_once("::").unwrap();
        let story = format!("{module}::panic_with_an_open_screen");
        for place in ["drawing", "elsewhere"] {
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
            grantpt(&master).unwrap();
            unlockpt(&master).unwrap();
            let name = ptsname(&master, Vec::new()).unwrap();
            let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            let before = described(&tcgetattr(&slave).unwrap());
            let mut process = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &story, "--ignored", "--nocapture", "--test-threads", "1"])
                .env(VARIABLE, place)
                .env("RUST_BACKTRACE", "0")
                .stdin(Stdio::from(slave.try_clone().unwrap()))
                .stdout(Stdio::from(slave.try_clone().unwrap()))
                .stderr(Stdio::from(slave.try_clone().unwrap()))
                .spawn()
                .unwrap();
            // The output fits into the buffer of a terminal, so it can be read afterwards.
            process.wait().unwrap();
            assert_eq!(described(&tcgetattr(&slave).unwrap()), before, "{place}: its modes differ");
            drop(slave);
            let mut seen = Vec::new();
            // Reading from a terminal without users ends with an error.
            let _ = File::from(master).read_to_end(&mut seen);
            let at = |what: &[u8]| {
                let found: Vec<usize> = (0..seen.len()).filter(|at| seen[*at..].starts_with(what)).collect();
                assert_eq!(found.len(), 1, "{place}: {:?}", String::from_utf8_lossy(&seen));
                found[0]
            };
            assert!(at(ENTER) < at(LEAVE) && at(LEAVE) < at(PANIC_MESSAGE.as_bytes()), "{place}");
        }
    }
}
