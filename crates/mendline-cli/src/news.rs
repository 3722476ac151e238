//! External inputs of the engine: signals, the end of a sleep, network changes, changes of the configuration file, and
//! commands from the control socket.
//!
//! A task waits for all of them and queues them; the driver polls the queue in every iteration. Both run on one thread.
//! An input that is already queued is not queued again, except for a second stop, which skips the graceful shutdown.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mendline::decisions::port::Change;
use mendline::decisions::{Input, UpstreamId};
use mendline::observe::log::{LogLevel, Pen};
use mendline::surroundings::network::Network;
use mendline::surroundings::sleep::Sleep;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::reload::{Door, Reload};

/// Polling interval of the configuration file.
const LOOK: Duration = Duration::from_secs(1);

/// Capacity of the queue for commands.
const COMMANDS: usize = 32;

/// An input without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Stop,
    Reconnect,
    Woke,
    NetworkChanged,
}

impl Note {
    /// Returns how many of it may be queued at once.
    fn most(self) -> usize {
        match self {
            Note::Stop => 2,
            Note::Reconnect | Note::Woke | Note::NetworkChanged => 1,
        }
    }
}

impl From<Note> for Input {
    fn from(note: Note) -> Input {
        match note {
            Note::Stop => Input::Stop,
            Note::Reconnect => Input::Reconnect { upstream: UpstreamId(0) },
            Note::Woke => Input::Woke,
            Note::NetworkChanged => Input::NetworkChanged,
        }
    }
}

/// The inputs that the driver has not taken yet.
#[derive(Default)]
pub(crate) struct News {
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    notes: VecDeque<Note>,
    /// The last change of the configuration; the next one replaces it.
    change: Option<Input>,
    /// Commands from the control socket.
    commands: VecDeque<Input>,
    driver: Option<Waker>,
}

impl News {
    /// Starts to listen, and to the network only if the server is reached through it. A source that fails is left out,
    /// except for signals: without a handler they would kill the process.
    pub(crate) fn listen(
        through_the_network: bool,
        mut reload: Option<(Reload, Door)>,
        log: Pen,
    ) -> std::io::Result<Arc<News>> {
        let mut signals = Signals::listen()?;
        let mut sleep = or_without(Sleep::watch(), "sleep and wake", &log);
        let mut network = through_the_network.then(|| or_without(Network::watch(), "network changes", &log)).flatten();
        let news = Arc::new(News::default());
        let desk = Arc::clone(&news);
        tokio::spawn(async move {
            loop {
                let news = tokio::select! {
                    news = signals.next() => news,
                    () = woken(&mut sleep) => Heard::Note(Note::Woke),
                    () = changed(&mut network) => Heard::Note(Note::NetworkChanged),
                    () = tokio::time::sleep(LOOK), if reload.is_some() => Heard::Look,
                };
                match (news, &mut reload) {
                    (Heard::Note(note), _) => desk.leave(note),
                    (Heard::Look, Some((reload, door))) => desk.leave_change(reload.look(door, &log)),
                    (Heard::HangUp, Some((reload, door))) => desk.leave_change(reload.read(door, &log)),
                    // Without a file, SIGHUP has no effect, but must not end the process.
                    (Heard::Look | Heard::HangUp, None) => {}
                }
            }
        });
        Ok(news)
    }

    fn leave(&self, note: Note) {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.notes.iter().filter(|lies_there| **lies_there == note).count() < note.most() {
            desk.notes.push_back(note);
        }
        if let Some(driver) = desk.driver.take() {
            driver.wake();
        }
    }

    /// Queues a command from the control socket. Returns whether there was room for it.
    pub(crate) fn leave_command(&self, command: Input) -> bool {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = desk.commands.len() < COMMANDS;
        if has_place {
            desk.commands.push_back(command);
        }
        if let Some(driver) = desk.driver.take() {
            driver.wake();
        }
        has_place
    }

    fn leave_change(&self, change: Option<Input>) {
        let Some(change) = change else { return };
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let is_moved = |input: &Input| matches!(input, Input::Reconfigure { change: Change::Way, .. });
        // A pending change of the endpoint must not be lost behind a change of policies.
        let was_moved = desk.change.as_ref().is_some_and(is_moved);
        desk.change = Some(match change {
            Input::Reconfigure { upstream, config, change: Change::Policies } if was_moved => {
                Input::Reconfigure { upstream, config, change: Change::Way }
            }
            other => other,
        });
        if let Some(driver) = desk.driver.take() {
            driver.wake();
        }
    }

    /// Returns the next input.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Input> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let change = desk.change.take();
        let news = change.or_else(|| desk.notes.pop_front().map(Input::from));
        match news.or_else(|| desk.commands.pop_front()) {
            Some(news) => Poll::Ready(news),
            None => {
                desk.driver.get_or_insert_with(|| cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

async fn woken(sleep: &mut Option<Sleep>) {
    match sleep {
        Some(sleep) => sleep.woken().await,
        None => pending().await,
    }
}

async fn changed(network: &mut Option<Network>) {
    match network {
        Some(network) => network.changed().await,
        None => pending().await,
    }
}

fn or_without<T>(watched: std::io::Result<T>, what: &str, log: &Pen) -> Option<T> {
    watched.inspect_err(|error| log.say(LogLevel::Debug, &format!("cannot watch {what}: {error}"))).ok()
}

/// An event of the listening task.
enum Heard {
    Note(Note),
    /// The file is due for a check.
    Look,
    /// SIGHUP: the file must be read.
    HangUp,
}

/// The handled signals.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    by_hand: Signal,
    go_on: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        // A limit on the size of files must not end the process through a log: with a handler for SIGXFSZ, only the
        // write fails.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            by_hand: signal(SignalKind::user_defined1())?,
            // A process that receives SIGCONT was stopped for an unknown time.
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Heard {
        tokio::select! {
            Some(()) = self.terminate.recv() => Heard::Note(Note::Stop),
            Some(()) = self.interrupt.recv() => Heard::Note(Note::Stop),
            Some(()) = self.by_hand.recv() => Heard::Note(Note::Reconnect),
            Some(()) = self.go_on.recv() => Heard::Note(Note::Woke),
            Some(()) = self.hang_up.recv() => Heard::HangUp,
            else => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(news: &News) -> Vec<String> {
        let cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match news.poll(&cx) {
            Poll::Ready(input) => Some(format!("{input:?}")),
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn notes_are_taken_in_order_and_a_storm_of_them_is_one() {
        let news = News::default();
        for _ in 0..1000 {
            news.leave(Note::Woke);
            news.leave(Note::NetworkChanged);
        }
        assert_eq!(taken(&news), ["Woke", "NetworkChanged"]);
        assert_eq!(taken(&news), Vec::<String>::new());
        news.leave(Note::Woke);
        assert_eq!(taken(&news), ["Woke"], "one that was taken may be left again");
    }

    #[test]
    fn commands_are_taken_in_order_and_have_an_end() {
        let news = News::default();
        let upstream = UpstreamId(0);
        assert!(news.leave_command(Input::Isolate { upstream }) && news.leave_command(Input::Resume { upstream }));
        assert_eq!(taken(&news).len(), 2);
        let left = (0..100).filter(|_| news.leave_command(Input::Reconnect { upstream })).count();
        assert_eq!((left, taken(&news).len()), (COMMANDS, COMMANDS));
    }

    #[test]
    fn a_second_stop_is_not_the_first_one() {
        let news = News::default();
        for _ in 0..3 {
            news.leave(Note::Stop);
        }
        assert_eq!(taken(&news), ["Stop", "Stop"]);
    }
}
