//! External inputs of `mendline run` and `mendline serve`: signals, the end of a sleep, network changes and changes of the configuration file.
//!
//! A task waits for all of them and queues them for the driver. Both run on one thread.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use mendline::input_queue::{ExternalInput, InputQueue};
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::os::{
    self,
    signals::{Received, survive_file_size_limit},
};
use mendline::os_events::network::Network;
use mendline::os_events::sleep::Sleep;

/// Polling interval of the configuration file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration file of a running process.
pub(crate) trait WatchedFile: Send {
    /// Checks the file for a change, and applies it.
    fn look(&mut self, log: &LogHandle);

    /// Reads the file at SIGHUP.
    fn read(&mut self, log: &LogHandle);
}

/// What happens at the first signal that stops the process, before the engine stops.
pub(crate) type BeforeStop = Box<dyn Fn() + Send>;

/// Starts to listen, and to the network only if the server is reached through it. A source that fails is left out,
/// except for signals: without a handler they would kill the process.
pub(crate) fn listen(
    queue: Arc<InputQueue>,
    through_the_network: bool,
    mut file: Option<Box<dyn WatchedFile>>,
    before_stop: Option<BeforeStop>,
    log: LogHandle,
) -> std::io::Result<()> {
    let mut signals = Signals::listen()?;
    let mut sleep = watch_or_log(Sleep::watch(), "sleep and wake", &log);
    let mut network = through_the_network.then(|| watch_or_log(Network::watch(), "network changes", &log)).flatten();
    tokio::spawn(async move {
        loop {
            let trigger = tokio::select! {
                trigger = signals.next() => trigger,
                () = woken(&mut sleep) => Trigger::Input(ExternalInput::SystemResumed),
                () = changed(&mut network) => Trigger::Input(ExternalInput::NetworkChanged),
                () = tokio::time::sleep(POLL_INTERVAL), if file.is_some() => Trigger::CheckFile,
            };
            match (trigger, &mut file) {
                (Trigger::Input(input), _) => {
                    if let (ExternalInput::Stop, Some(before_stop)) = (input, &before_stop) {
                        before_stop();
                    }
                    queue.push(input);
                }
                (Trigger::CheckFile, Some(file)) => file.look(&log),
                (Trigger::Reload, Some(file)) => file.read(&log),
                // Without a file, SIGHUP has no effect, but must not end the process.
                (Trigger::CheckFile | Trigger::Reload, None) => {}
            }
        }
    });
    Ok(())
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
struct Signals {
    received: os::signals::Signals,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        // A limit on the size of files must not end the process through a log.
        survive_file_size_limit()?;
        let handled = [Received::Terminate, Received::Interrupt, Received::HangUp, Received::User, Received::Continued];
        Ok(Signals { received: os::signals::Signals::listen(&handled)? })
    }

    async fn next(&mut self) -> Trigger {
        match self.received.next().await {
            Received::User => Trigger::Input(ExternalInput::ReconnectAll),
            Received::Continued => Trigger::Input(ExternalInput::SystemResumed),
            Received::HangUp => Trigger::Reload,
            _ => Trigger::Input(ExternalInput::Stop),
        }
    }
}
