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
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::os::{
    self,
    signals::{Received, survive_file_size_limit},
};
use mendline::os_events::network::Network;
use mendline::os_events::sleep::Sleep;

use crate::reload::{Reload, ReloadTarget};

/// Polling interval of the configuration file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Capacity of the queue for commands.
const COMMANDS: usize = 32;

/// An input without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExternalInput {
    Stop,
    Reconnect,
    SystemResumed,
    NetworkChanged,
}

impl ExternalInput {
    /// Returns how many of it may be queued at once.
    fn capacity(self) -> usize {
        match self {
            ExternalInput::Stop => 2,
            ExternalInput::Reconnect | ExternalInput::SystemResumed | ExternalInput::NetworkChanged => 1,
        }
    }
}

impl From<ExternalInput> for Input {
    fn from(input: ExternalInput) -> Input {
        match input {
            ExternalInput::Stop => Input::Stop,
            ExternalInput::Reconnect => Input::Reconnect { upstream: UpstreamId(0) },
            ExternalInput::SystemResumed => Input::SystemResumed,
            ExternalInput::NetworkChanged => Input::NetworkChanged,
        }
    }
}

/// The inputs that the driver has not taken yet.
#[derive(Default)]
pub(crate) struct ExternalInputs {
    queue: Mutex<InputQueue>,
}

#[derive(Default)]
struct InputQueue {
    pending_inputs: VecDeque<ExternalInput>,
    /// The last change of the configuration; the next one replaces it.
    change: Option<Input>,
    /// Commands from the control socket.
    commands: VecDeque<Input>,
    driver: Option<Waker>,
}

impl ExternalInputs {
    /// Starts to listen, and to the network only if the server is reached through it. A source that fails is left out,
    /// except for signals: without a handler they would kill the process.
    pub(crate) fn listen(
        through_the_network: bool,
        mut reload: Option<(Reload, ReloadTarget)>,
        log: LogHandle,
    ) -> std::io::Result<Arc<ExternalInputs>> {
        let mut signals = Signals::listen()?;
        let mut sleep = watch_or_log(Sleep::watch(), "sleep and wake", &log);
        let mut network =
            through_the_network.then(|| watch_or_log(Network::watch(), "network changes", &log)).flatten();
        let inputs = Arc::new(ExternalInputs::default());
        let queue = Arc::clone(&inputs);
        tokio::spawn(async move {
            loop {
                let trigger = tokio::select! {
                    trigger = signals.next() => trigger,
                    () = woken(&mut sleep) => Trigger::Input(ExternalInput::SystemResumed),
                    () = changed(&mut network) => Trigger::Input(ExternalInput::NetworkChanged),
                    () = tokio::time::sleep(POLL_INTERVAL), if reload.is_some() => Trigger::CheckFile,
                };
                match (trigger, &mut reload) {
                    (Trigger::Input(input), _) => queue.push(input),
                    (Trigger::CheckFile, Some((reload, target))) => queue.push_change(reload.look(target, &log)),
                    (Trigger::Reload, Some((reload, target))) => queue.push_change(reload.read(target, &log)),
                    // Without a file, SIGHUP has no effect, but must not end the process.
                    (Trigger::CheckFile | Trigger::Reload, None) => {}
                }
            }
        });
        Ok(inputs)
    }

    fn push(&self, input: ExternalInput) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.pending_inputs.iter().filter(|queued| **queued == input).count() < input.capacity() {
            queue.pending_inputs.push_back(input);
        }
        if let Some(driver) = queue.driver.take() {
            driver.wake();
        }
    }

    /// Queues a command from the control socket. Returns whether there was room for it.
    pub(crate) fn push_command(&self, command: Input) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = queue.commands.len() < COMMANDS;
        if has_room {
            queue.commands.push_back(command);
        }
        if let Some(driver) = queue.driver.take() {
            driver.wake();
        }
        has_room
    }

    fn push_change(&self, change: Option<Input>) {
        let Some(change) = change else { return };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let changes_endpoint = |input: &Input| matches!(input, Input::Reconfigure { change: Change::Transport, .. });
        // A pending change of the endpoint must not be lost behind a change of policies.
        let changed_endpoint = queue.change.as_ref().is_some_and(changes_endpoint);
        queue.change = Some(match change {
            Input::Reconfigure { upstream, config, change: Change::Policies } if changed_endpoint => {
                Input::Reconfigure { upstream, config, change: Change::Transport }
            }
            other => other,
        });
        if let Some(driver) = queue.driver.take() {
            driver.wake();
        }
    }

    /// Returns the next input.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Input> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let change = queue.change.take();
        let input = change.or_else(|| queue.pending_inputs.pop_front().map(Input::from));
        match input.or_else(|| queue.commands.pop_front()) {
            Some(input) => Poll::Ready(input),
            None => {
                queue.driver.get_or_insert_with(|| cx.waker().clone());
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

fn watch_or_log<T>(watched: std::io::Result<T>, what: &str, log: &LogHandle) -> Option<T> {
    watched.inspect_err(|error| log.write(LogLevel::Debug, &format!("cannot watch {what}: {error}"))).ok()
}

/// An event of the listening task.
enum Trigger {
    Input(ExternalInput),
    /// The file is due for a check.
    CheckFile,
    /// SIGHUP: the file must be read.
    Reload,
}

/// The handled signals.
struct Signals(os::signals::Signals);

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        // A limit on the size of files must not end the process through a log.
        survive_file_size_limit()?;
        let handled = [Received::Terminate, Received::Interrupt, Received::HangUp, Received::User, Received::Continued];
        os::signals::Signals::listen(&handled).map(Signals)
    }

    async fn next(&mut self) -> Trigger {
        match self.0.next().await {
            Received::User => Trigger::Input(ExternalInput::Reconnect),
            Received::Continued => Trigger::Input(ExternalInput::SystemResumed),
            Received::HangUp => Trigger::Reload,
            _ => Trigger::Input(ExternalInput::Stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(inputs: &ExternalInputs) -> Vec<String> {
        let cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match inputs.poll(&cx) {
            Poll::Ready(input) => Some(format!("{input:?}")),
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn repeated_inputs_are_queued_once_and_in_order() {
        let inputs = ExternalInputs::default();
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
        let inputs = ExternalInputs::default();
        let upstream = UpstreamId(0);
        assert!(inputs.push_command(Input::Isolate { upstream }) && inputs.push_command(Input::Resume { upstream }));
        assert_eq!(taken(&inputs).len(), 2);
        let left = (0..100).filter(|_| inputs.push_command(Input::Reconnect { upstream })).count();
        assert_eq!((left, taken(&inputs).len()), (COMMANDS, COMMANDS));
    }

    #[test]
    fn second_stop_is_queued_third_is_not() {
        let inputs = ExternalInputs::default();
        for _ in 0..3 {
            inputs.push(ExternalInput::Stop);
        }
        assert_eq!(taken(&inputs), ["Stop", "Stop"]);
    }
}
