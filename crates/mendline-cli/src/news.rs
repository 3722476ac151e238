//! What comes from neither the client nor the server: signals, the end of a sleep, a changed network, an edited file, a
//! person at the control socket.
//!
//! A task of its own waits for all of it and leaves notes; the driver looks at its desk in every round, where nobody else
//! is in its way: both are on one thread. A note that already lies there is not left twice, except for "stop", which means something else the
//! second time.

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

/// How often the configuration file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How many commands may lie there.
const COMMANDS: usize = 32;

/// What may be noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Stop,
    Reconnect,
    Woke,
    NetworkChanged,
}

impl Note {
    /// How many of it may lie there at once.
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

/// The notes that the driver has not had yet.
#[derive(Default)]
pub(crate) struct News {
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    notes: VecDeque<Note>,
    /// The last change of the configuration; one that was not taken is replaced by the next.
    change: Option<Input>,
    /// What people want through the control socket.
    commands: VecDeque<Input>,
    driver: Option<Waker>,
}

impl News {
    /// Listens from now on, and to the network too if the server is reached through it. What cannot be listened to is
    /// done without, except for signals: not to hear them is to die of them.
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
                    // Without a file a hang-up means nothing, but must not end us without a word.
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

    /// Leaves what somebody wants through the control socket. Says whether there was a place for it.
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
        // A change of the way that was not taken yet must not be lost behind one of policies.
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

    /// The next note.
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
    watched.inspect_err(|error| log.say(LogLevel::Debug, &format!("{what} will not be noticed: {error}"))).ok()
}

/// What the task hears.
enum Heard {
    Note(Note),
    /// It is time to look at the file.
    Look,
    /// Somebody wants the file to be read.
    HangUp,
}

/// The signals that mean something.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    by_hand: Signal,
    go_on: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        // Somebody may limit the size of files. A log that has come to that limit must not be the end of us: once listened
        // to, the signal leaves it at a write that fails.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            by_hand: signal(SignalKind::user_defined1())?,
            // Whoever is told to go on was stopped, and nobody says for how long.
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
