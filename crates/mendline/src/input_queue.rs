//! The queue of external inputs: signals, the end of a sleep, network changes, changes of the configuration, reports
//! about credentials, and commands of the operator.
//!
//! Any task may queue an input; the driver polls the queue in every iteration. An input that is already queued is not
//! queued again, except for a second stop, which skips the graceful shutdown.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mendline_core::port::Change;
use mendline_core::{Input, UpstreamConfig, UpstreamId};

use crate::builder::NewServer;

/// Capacity of the queue for commands.
const COMMANDS: usize = 32;

/// An input without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalInput {
    /// Stop gracefully; the second time, at once.
    Stop,
    /// Connect to all servers anew.
    ReconnectAll,
    /// The machine slept, or this process was stopped for long.
    SystemResumed,
    /// An interface, an address or a route has changed.
    NetworkChanged,
}

impl ExternalInput {
    /// Returns how many of it may be queued at once.
    fn capacity(self) -> usize {
        match self {
            ExternalInput::Stop => 2,
            ExternalInput::ReconnectAll | ExternalInput::SystemResumed | ExternalInput::NetworkChanged => 1,
        }
    }
}

impl From<ExternalInput> for Input {
    fn from(input: ExternalInput) -> Input {
        match input {
            ExternalInput::Stop => Input::Stop,
            ExternalInput::ReconnectAll => Input::ReconnectAll,
            ExternalInput::SystemResumed => Input::SystemResumed,
            ExternalInput::NetworkChanged => Input::NetworkChanged,
        }
    }
}

/// A new configuration of a server.
#[derive(Clone, Debug)]
pub struct Reconfiguration {
    /// The server.
    pub upstream: UpstreamId,
    /// Its new configuration.
    pub config: Box<UpstreamConfig>,
    /// The extent of the change.
    pub change: Change,
}

/// The inputs that the driver has not taken yet.
#[derive(Default)]
pub struct InputQueue {
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    inputs: VecDeque<ExternalInput>,
    /// The last change of each server; the next one replaces it.
    changes: VecDeque<Reconfiguration>,
    /// Commands of the operator.
    commands: VecDeque<Input>,
    /// Reports about credentials: for each server at most a new one, and a failure after it.
    credentials: VecDeque<Input>,
    /// Servers that are to be added.
    servers: VecDeque<NewServer>,
    driver: Option<Waker>,
}

impl InputQueue {
    /// Queues an input, unless it is queued already.
    pub fn push(&self, input: ExternalInput) {
        let mut pending = self.lock();
        if pending.inputs.iter().filter(|queued| **queued == input).count() < input.capacity() {
            pending.inputs.push_back(input);
        }
        pending.wake();
    }

    /// Queues a command of the operator. Returns whether there was room for it.
    pub fn push_command(&self, command: Input) -> bool {
        let mut pending = self.lock();
        let has_room = pending.commands.len() < COMMANDS;
        if has_room {
            pending.commands.push_back(command);
        }
        pending.wake();
        has_room
    }

    /// Queues a new configuration, in place of an earlier one of the same server.
    pub fn push_change(&self, mut new: Reconfiguration) {
        let mut pending = self.lock();
        match pending.changes.iter_mut().find(|queued| queued.upstream == new.upstream) {
            Some(queued) => {
                // A pending change of the endpoint must not be lost behind a change of policies.
                if queued.change == Change::Transport {
                    new.change = Change::Transport;
                }
                *queued = new;
            }
            None => pending.changes.push_back(new),
        }
        pending.wake();
    }

    /// Queues a report about the credential of a server, in place of earlier ones that it makes obsolete.
    pub(crate) fn push_credential(&self, new: Input) {
        let mut pending = self.lock();
        let is_obsolete = |queued: &Input| match (queued, &new) {
            (
                Input::CredentialFailed { upstream: its, .. },
                Input::CredentialFailed { upstream, .. } | Input::CredentialChanged { upstream, .. },
            )
            | (Input::CredentialChanged { upstream: its, .. }, Input::CredentialChanged { upstream, .. }) => {
                its == upstream
            }
            _ => false,
        };
        pending.credentials.retain(|queued| !is_obsolete(queued));
        pending.credentials.push_back(new);
        pending.wake();
    }

    /// Queues a server that is to be added.
    pub fn push_server(&self, server: NewServer) {
        let mut pending = self.lock();
        pending.servers.push_back(server);
        pending.wake();
    }

    /// Returns the next server that is to be added.
    pub(crate) fn next_server(&self) -> Option<NewServer> {
        self.lock().servers.pop_front()
    }

    /// Returns the next input.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Input> {
        let mut pending = self.lock();
        if let Some(Reconfiguration { upstream, config, change }) = pending.changes.pop_front() {
            return Poll::Ready(Input::Reconfigure { upstream, config, change });
        }
        let input = pending.inputs.pop_front().map(Input::from);
        let input = input.or_else(|| pending.credentials.pop_front());
        match input.or_else(|| pending.commands.pop_front()) {
            Some(input) => Poll::Ready(input),
            None => {
                pending.driver.get_or_insert_with(|| cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn wake(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use mendline_core::reason::CredentialError;

    use super::*;

    const NOTES: UpstreamId = UpstreamId(3);

    fn taken(inputs: &InputQueue) -> Vec<String> {
        let cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match inputs.poll(&cx) {
            Poll::Ready(Input::Reconfigure { upstream, change, .. }) => Some(format!("{change:?} of {}", upstream.0)),
            Poll::Ready(input) => Some(format!("{input:?}")),
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn repeated_inputs_are_queued_once_and_in_order() {
        let inputs = InputQueue::default();
        for _ in 0..1000 {
            inputs.push(ExternalInput::SystemResumed);
            inputs.push(ExternalInput::NetworkChanged);
        }
        assert_eq!(taken(&inputs), ["SystemResumed", "NetworkChanged"]);
        assert_eq!(taken(&inputs), Vec::<String>::new());
        inputs.push(ExternalInput::SystemResumed);
        assert_eq!(taken(&inputs), ["SystemResumed"], "one that was taken may be left again");
    }

    #[test]
    fn commands_are_taken_in_order_up_to_capacity() {
        let inputs = InputQueue::default();
        let upstream = NOTES;
        assert!(inputs.push_command(Input::Isolate { upstream }) && inputs.push_command(Input::Resume { upstream }));
        assert_eq!(taken(&inputs).len(), 2);
        let left = (0..100).filter(|_| inputs.push_command(Input::Reconnect { upstream })).count();
        assert_eq!((left, taken(&inputs).len()), (COMMANDS, COMMANDS));
    }

    #[test]
    fn second_stop_is_queued_third_is_not() {
        let inputs = InputQueue::default();
        for _ in 0..3 {
            inputs.push(ExternalInput::Stop);
        }
        assert_eq!(taken(&inputs), ["Stop", "Stop"]);
    }

    #[test]
    fn later_report_about_credential_replaces_earlier_one() {
        let inputs = InputQueue::default();
        let changed = |upstream, number| inputs.push_credential(Input::CredentialChanged { upstream, number });
        let failed = |upstream| {
            inputs.push_credential(Input::CredentialFailed { upstream, why: CredentialError::Unchanged });
        };
        for number in 1..100 {
            failed(NOTES);
            changed(NOTES, number);
            changed(UpstreamId(4), number);
            failed(UpstreamId(4));
        }
        let taken = taken(&inputs);
        assert_eq!(taken.len(), 3, "{taken:?}");
        assert!(taken[0].contains("CredentialChanged") && taken[0].contains("99"), "{taken:?}");
        assert!(taken[2].contains("CredentialFailed"), "{taken:?}");
    }

    #[test]
    fn later_change_replaces_earlier_one_of_same_server() {
        let inputs = InputQueue::default();
        let change = |upstream, change| {
            let config = Box::new(UpstreamConfig::child("notes", "notes"));
            inputs.push_change(Reconfiguration { upstream, config, change });
        };
        change(NOTES, Change::Transport);
        change(UpstreamId(4), Change::Policies);
        change(NOTES, Change::Policies);
        assert_eq!(taken(&inputs), ["Transport of 3", "Policies of 4"], "the new endpoint is not lost");
    }
}
