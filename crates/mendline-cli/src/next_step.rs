//! The next step for a server that needs one: the command that helps in its state.
//!
//! The state and the stable name of its reason decide, never the text of the reason.

use mendline::control::snapshot::{BreakerState, Server, StateKind};

/// Time after which a start is slow.
const SLOW_START_MS: u64 = 10_000;

/// Returns the next step for a server. `id` selects it among the running servers.
pub(crate) fn next_step(id: &str, server: &Server) -> Option<String> {
    let name = &server.name;
    match server.state.kind {
        StateKind::NeedsLogin => Some(format!(
            "renew the credential of its entry (`mendline doctor {name}` shows what is missing), then restart the client"
        )),
        StateKind::Parked => Some(format!("{}, then `mendline reconnect {id}`", repair(id, server))),
        StateKind::Reconnecting => Some(match cause(server) {
            Cause::Entry | Cause::Directory | Cause::Certificate => {
                format!("{}, then `mendline reconnect {id}`", repair(id, server))
            }
            Cause::Away => format!("`mendline reconnect {id}` tries it now; `mendline doctor {name}` finds the cause"),
            Cause::Ended => {
                format!("`mendline logs {id}` shows its last output; `mendline reconnect {id}` tries it now")
            }
        }),
        StateKind::Isolated => Some(format!("`mendline resume {id}` puts it back into service")),
        StateKind::Starting if server.state.for_ms >= SLOW_START_MS => {
            Some(format!("`mendline logs {id}` shows what it writes while it starts"))
        }
        // It was lost, and only a call or the operator connects it again.
        StateKind::Idle if server.state.why.is_some() => {
            Some(format!("`mendline reconnect {id}` connects it, and so does the next call"))
        }
        StateKind::Ready if has_open_breaker(server) => {
            Some(format!("`mendline logs {id}` shows the failed calls; after its time the next call is a trial"))
        }
        StateKind::Ready | StateKind::Idle | StateKind::Starting | StateKind::Stopping => None,
    }
}

fn has_open_breaker(server: &Server) -> bool {
    matches!(server.breaker.state, BreakerState::Open | BreakerState::HalfOpen) || !server.breaker.tools.is_empty()
}

/// What has to be repaired before another attempt can succeed.
#[derive(Clone, Copy)]
enum Cause {
    /// The command of the entry cannot be started.
    Entry,
    /// Its working directory does not exist.
    Directory,
    /// Its certificate is not accepted.
    Certificate,
    /// Its process ends.
    Ended,
    /// Anything else: it cannot be reached, or does not answer as it should.
    Away,
}

fn cause(server: &Server) -> Cause {
    match server.state.reason.as_deref() {
        Some("command_not_found" | "not_executable" | "not_a_program" | "not_configured") => Cause::Entry,
        Some("no_directory") => Cause::Directory,
        Some(reason) if reason.starts_with("certificate_") => Cause::Certificate,
        Some("exited" | "killed_by_signal" | "pipe_closed") => Cause::Ended,
        _ => Cause::Away,
    }
}

fn repair(id: &str, server: &Server) -> String {
    let name = &server.name;
    match cause(server) {
        Cause::Entry => {
            format!("install the command or correct the entry (`mendline doctor {name}` shows where it was searched)")
        }
        Cause::Directory => "create the directory or correct `cwd` in the entry".to_owned(),
        Cause::Certificate => {
            format!("trust or renew its certificate (`mendline doctor {name}` shows it, and how to trust it)")
        }
        Cause::Ended => {
            format!(
                "correct what `mendline logs {id}` shows as its last output (`mendline doctor {name}` starts it alone)"
            )
        }
        Cause::Away => format!("start or correct the server (`mendline doctor {name}` finds the cause)"),
    }
}

#[cfg(test)]
mod tests {
    use mendline::control::snapshot::{Breaker, Calls, Connection, Latency, Limit, State, ToolBreaker, TransportKind};

    use super::*;

    fn server(kind: StateKind, reason: Option<&str>) -> Server {
        let state = State {
            kind,
            for_ms: 1_000,
            why: reason.map(|_| "any text".to_owned()),
            reason: reason.map(str::to_owned),
            attempt: None,
            attempts: None,
            next_in_ms: None,
        };
        Server {
            name: "notes".to_owned(),
            transport: TransportKind::Child,
            target: "npx".to_owned(),
            state,
            breaker: Breaker { state: BreakerState::Closed, tries_in_ms: None, why: None, tools: Vec::new() },
            limit: Limit::default(),
            in_flight: 0,
            waiting: 0,
            calls: Calls::default(),
            latency: Latency::default(),
            connection: Connection::default(),
            last_error: None,
        }
    }

    fn step(kind: StateKind, reason: Option<&str>) -> String {
        next_step("notes#7", &server(kind, reason)).unwrap_or_default()
    }

    #[test]
    fn u10_missing_command_is_installed_before_reconnect() {
        for reason in ["command_not_found", "not_executable", "not_a_program"] {
            for kind in [StateKind::Parked, StateKind::Reconnecting] {
                let step = step(kind, Some(reason));
                assert!(
                    step.starts_with("install the command or correct the entry (`mendline doctor notes`"),
                    "{step}"
                );
                assert!(step.ends_with(", then `mendline reconnect notes#7`"), "{step}");
            }
        }
    }

    #[test]
    fn u10_every_state_has_the_step_that_helps() {
        for (kind, reason, words) in [
            (StateKind::NeedsLogin, Some("http_status"), "renew the credential"),
            (StateKind::NeedsLogin, None, "then restart the client"),
            (StateKind::Isolated, None, "`mendline resume notes#7`"),
            (StateKind::Parked, Some("certificate_untrusted"), "trust or renew its certificate"),
            (StateKind::Parked, Some("no_directory"), "correct `cwd`"),
            (StateKind::Parked, Some("exited"), "`mendline logs notes#7`"),
            (StateKind::Parked, Some("connection_refused"), "start or correct the server"),
            (StateKind::Parked, None, "`mendline doctor notes`"),
            (StateKind::Reconnecting, Some("connection_refused"), "`mendline reconnect notes#7` tries it now"),
            (StateKind::Reconnecting, Some("killed_by_signal"), "`mendline logs notes#7`"),
            (StateKind::Idle, Some("exited"), "so does the next call"),
        ] {
            let step = step(kind, reason);
            assert!(step.contains(words), "{kind:?} {reason:?}: {step}");
        }
        for kind in [StateKind::Ready, StateKind::Idle, StateKind::Starting, StateKind::Stopping] {
            assert_eq!(next_step("notes", &server(kind, None)), None, "{kind:?} needs nothing");
        }
    }

    #[test]
    fn u10_slow_start_and_open_breaker_lead_to_the_log() {
        let mut slow = server(StateKind::Starting, None);
        slow.state.for_ms = SLOW_START_MS;
        let mut open = server(StateKind::Ready, None);
        open.breaker.state = BreakerState::Open;
        let mut tool = server(StateKind::Ready, None);
        let state = BreakerState::HalfOpen;
        tool.breaker.tools.push(ToolBreaker { tool: "draw".to_owned(), state, tries_in_ms: None, why: None });
        for server in [slow, open, tool] {
            let step = next_step("notes", &server).unwrap();
            assert!(step.starts_with("`mendline logs notes` shows"), "{step}");
        }
    }

    /// The names must be those of the reasons.
    #[test]
    fn u10_reason_names_are_those_of_the_core() {
        use mendline::decisions::reason::{Exit, LossReason, SpawnError};
        let command = || "x".to_owned();
        for error in [
            SpawnError::NotConfigured,
            SpawnError::NotFound { command: command() },
            SpawnError::NotExecutable { command: command() },
            SpawnError::NotAProgram { command: command() },
        ] {
            assert!(matches!(cause(&server(StateKind::Parked, Some(error.name()))), Cause::Entry), "{error}");
        }
        let none = SpawnError::NoDirectory { command: command(), directory: command() };
        assert!(matches!(cause(&server(StateKind::Parked, Some(none.name()))), Cause::Directory));
        for exit in [Exit::Code(1), Exit::Signal(9)] {
            let name = LossReason::Exited(exit).name();
            assert!(matches!(cause(&server(StateKind::Parked, Some(name))), Cause::Ended), "{name}");
        }
    }
}
