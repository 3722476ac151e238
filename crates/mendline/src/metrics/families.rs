//! All metrics: their names, labels and help.
//!
//! The names of durations of requests are those of the MCP conventions of OpenTelemetry. Everything that has no
//! convention begins with `mendline_`.

/// A metric with all its labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the suffix that the text format adds (`_total`, `_seconds`).
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The names of its labels, in the order of the values of a [`Sample`](super::Sample).
    pub labels: &'static [&'static str],
    /// What it measures.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number of now.
    Gauge,
    /// A histogram of durations in seconds.
    Seconds,
}

impl Family {
    /// The name as a monitoring system shows it.
    pub fn exported_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge => self.name.to_owned(),
            Kind::Seconds => format!("{}_seconds", self.name),
        }
    }
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Family =
                Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };
        )*

        /// All metrics, in the order in which they are written.
        pub const ALL: &[&Family] = &[$(&$constant),*];
    };
}

families! {
    BUILD_INFO: Gauge "mendline_build_info" ["version"] "1, with the version of Mendline";
    START_TIME: Gauge "process_start_time_seconds" [] "Start of the process, in seconds since 1970";
    MEMORY: Gauge "process_resident_memory_bytes" [] "Resident memory of the process";
    UP: Gauge "mendline_up" ["server"] "1 if the server is connected and has answered, or is idle and starts on use; else 0";
    STATE: Gauge "mendline_server_state" ["server", "state"] "1 for the current state of the server";
    CALLS: Counter "mendline_calls" ["server", "method", "tool", "outcome", "reason"] "Requests of clients by outcome: ok, tool_error, error, failed, unknown, rejected";
    REQUEST_DURATION: Seconds "mcp_server_operation_duration" ["server", "mcp_method_name", "gen_ai_tool_name"] "Time from a request of a client to its answer, with waiting and all attempts";
    ATTEMPT_DURATION: Seconds "mcp_client_operation_duration" ["server", "mcp_method_name", "gen_ai_tool_name"] "Time that the server took for the attempt that it answered";
    CALLS_OPEN: Gauge "mendline_calls_open" ["server"] "Requests that are not answered yet";
    CALLS_IN_FLIGHT: Gauge "mendline_calls_in_flight" ["server"] "Requests that are sent to the server and not answered yet";
    CALLS_SILENT: Gauge "mendline_calls_silent" ["server"] "Requests in flight for which no byte came for a long time";
    CANCELLED: Counter "mendline_calls_cancelled" ["server"] "Requests that the client cancelled or abandoned";
    CONNECTIONS: Counter "mendline_connections" ["server"] "Connections and processes that have answered";
    CONNECTIONS_FAILED: Counter "mendline_connections_failed" ["server", "reason"] "Attempts to connect or to start a process that ended without an answer";
    LOSSES: Counter "mendline_losses" ["server", "reason"] "Losses of a connection or process that had answered";
    RESTARTS: Counter "mendline_restarts" ["server"] "Processes that have answered after an earlier one had ended";
    RECOVERY_DURATION: Seconds "mendline_recovery_duration" ["server"] "Time from the loss of a server to its next answer";
    HANDSHAKES_FAILED: Counter "mendline_handshakes_failed" ["server", "reason"] "Handshakes that failed";
    RETRIES: Counter "mendline_retries" ["server", "reason"] "Attempts beyond the first, by the reason why the one before failed";
    RETRIES_REFUSED: Counter "mendline_retries_refused" ["server"] "Retries that the retry budget did not allow";
    RESUMPTIONS: Counter "mendline_resumptions" ["server"] "Responses that broke off and were resumed";
    BREAKER_STATE: Gauge "mendline_breaker_state" ["server", "tool", "state"] "1 for the state of the breaker of the server (empty tool), and of tools whose breaker is not closed";
    BREAKER_CHANGES: Counter "mendline_breaker_changes" ["server", "state"] "Changes of breakers, by the new state";
    PAUSES: Counter "mendline_pauses" ["server"] "Pauses that the server required (429, 503 with Retry-After)";
    RATE_LIMIT_WAITS: Counter "mendline_rate_limit_waits" ["server"] "Requests that waited because of the configured rate limit";
    CATALOGUE_ANSWERS: Counter "mendline_catalogue_answers" ["server"] "Requests that were answered from the catalogue";
    CREDENTIALS_RENEWED: Counter "mendline_credentials_renewed" ["server"] "Credentials that were renewed or read again";
    CREDENTIALS_FAILED: Counter "mendline_credential_renewals_failed" ["server", "reason"] "Renewals of a credential that failed";
    DROPPED: Counter "mendline_messages_dropped" ["server", "reason"] "Messages that were dropped";
    LISTS_CHANGED: Counter "mendline_lists_changed" ["server"] "Changed lists that clients were notified of";
    LIST_CHANGES_HIDDEN: Counter "mendline_list_changes_hidden" ["server"] "Apparent changes of lists that clients were not notified of";
    CLIENTS: Counter "mendline_clients_opened" ["server"] "Clients that have connected";
}

/// Returns the metric of this name.
pub fn by_name(name: &str) -> Option<&'static Family> {
    ALL.iter().find(|family| family.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_valid() {
        for family in ALL {
            let same = ALL.iter().filter(|other| other.name == family.name);
            assert_eq!(same.count(), 1, "{} is twice in the table", family.name);
            assert_eq!(by_name(family.name), Some(*family));
            let names = [family.name].into_iter().chain(family.labels.iter().copied());
            for name in names {
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            }
            assert!(!family.help.contains('\n'));
        }
    }
}
