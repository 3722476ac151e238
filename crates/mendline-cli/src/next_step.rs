//! The next step for a server that needs one: the command that helps in its state.
//!
//! The state and the stable name of its reason decide, never the text of the reason.

use mendline::control::snapshot::{BreakerState, CredentialKind, Server, StateKind};

/// Time after which a start is slow.
const SLOW_START_MS: u64 = 10_000;

/// Returns the next step for a server. `id` selects it among the running servers.
pub(crate) fn next_step(id: &str, server: &Server) -> Option<String> {
    let name = &server.name;
    match server.state.kind {
        StateKind::NeedsLogin => Some(match server.credential.as_ref().map(|credential| credential.kind) {
            Some(CredentialKind::Login) => format!("log in: `mendline login {name}`; the client stays connected"),
            Some(CredentialKind::Source) => {
                format!("renew the credential at its source (`mendline doctor {name}` shows what is missing)")
            }
            None => format!(
                "renew the credential of its entry (`mendline doctor {name}` shows what is missing), then restart the client"
            ),
        }),
        StateKind::Parked => Some(repair(id, server)),
        StateKind::Reconnecting => Some(match cause(server) {
            Cause::Entry | Cause::Directory | Cause::Certificate => repair(id, server),
            Cause::Away | Cause::Other => {
                format!("`mendline reconnect {id}` tries it now; `mendline doctor {name}` finds the cause")
            }
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

/// The kind of repair that another attempt needs.
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
    /// It cannot be reached.
    Away,
    /// Anything else: it does not answer as it should.
    Other,
}

fn cause(server: &Server) -> Cause {
    match server.state.reason.as_deref() {
        Some("command_not_found" | "not_executable" | "not_a_program" | "not_configured") => Cause::Entry,
        Some("no_directory") => Cause::Directory,
        Some(reason) if reason.starts_with("certificate_") => Cause::Certificate,
        Some("exited" | "killed_by_signal" | "pipe_closed") => Cause::Ended,
        Some("connection_refused" | "host_unreachable" | "connect_timed_out") => Cause::Away,
        _ => Cause::Other,
    }
}

/// Returns how to repair a server. A running process takes over what is installed or started, but neither another
/// entry nor another environment: these need a restart of the client.
fn repair(id: &str, server: &Server) -> String {
    let name = &server.name;
    match cause(server) {
        Cause::Entry => format!(
            "install the command and run `mendline reconnect {id}`, or correct the entry and restart the client; `mendline doctor {name}` shows where it was searched"
        ),
        Cause::Directory => format!(
            "create the directory and run `mendline reconnect {id}`, or correct `cwd` in the entry and restart the client"
        ),
        Cause::Certificate => format!(
            "renew the certificate and run `mendline reconnect {id}`, or trust it (`mendline doctor {name}` shows how) and restart the client"
        ),
        Cause::Ended => format!(
            "`mendline logs {id}` shows its last output, and `mendline doctor {name}` starts it alone; once it is repaired, run `mendline reconnect {id}`"
        ),
        Cause::Away => {
            format!("start the server and run `mendline reconnect {id}`; `mendline doctor {name}` finds the cause")
        }
        Cause::Other => {
            format!("`mendline doctor {name}` finds the cause; once it is repaired, run `mendline reconnect {id}`")
        }
    }
}

#[cfg(test)]
mod tests {
    use mendline::control::snapshot::{
        Breaker, Calls, Connection, Credential, Facts, Latency, Limit, Lists, State, ToolBreaker, TransportKind,
    };

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
            silent_calls: 0,
            silent_for_ms: None,
            silent_call: None,
            lists: Lists::default(),
            calls: Calls::default(),
            latency: Latency::default(),
            connection: Connection::default(),
            last_error: None,
            credential: None,
            sessions: 0,
            facts: Facts::default(),
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
                assert!(step.starts_with("install the command and run `mendline reconnect notes#7`"), "{step}");
                assert!(step.contains("or correct the entry") && step.contains("`mendline doctor notes`"), "{step}");
            }
        }
    }

    #[test]
    fn missing_login_is_made_by_the_login_command() {
        let mut server = server(StateKind::NeedsLogin, Some("no_login"));
        let state = "refused".to_owned();
        let kind = CredentialKind::Login;
        server.credential = Some(Credential { kind, state, renewals: 0, failures: 1, why: None });
        let step = next_step("notes#7", &server).unwrap();
        assert!(step.contains("`mendline login notes`") && !step.contains("restart"), "{step}");
    }

    #[test]
    fn u10_every_state_has_the_step_that_helps() {
        for (kind, reason, words) in [
            (StateKind::NeedsLogin, Some("http_status"), "renew the credential"),
            (StateKind::NeedsLogin, None, "then restart the client"),
            (StateKind::Isolated, None, "`mendline resume notes#7`"),
            (StateKind::Parked, Some("certificate_untrusted"), "or trust it (`mendline doctor notes` shows how)"),
            (StateKind::Parked, Some("no_directory"), "correct `cwd`"),
            (StateKind::Parked, Some("exited"), "`mendline logs notes#7`"),
            (StateKind::Parked, Some("connection_refused"), "start the server and run"),
            (StateKind::Parked, Some("handshake_timed_out"), "`mendline doctor notes` finds the cause"),
            (StateKind::Parked, None, "`mendline doctor notes` finds the cause"),
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
