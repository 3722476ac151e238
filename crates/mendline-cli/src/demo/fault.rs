//! The faults of the demo: the action, and the call at which it happens.
//!
//! Reads are calls with odd numbers, writes those with even numbers. Each fault happens in the middle of a run.

use std::time::Duration;

/// Number of the call that a fault hits, if it is a read and if it is a write.
const FAULTY_READ: u32 = 5;
const FAULTY_WRITE: u32 = 6;

/// Timeout of the client where no call stalls: long enough for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the client where a call stalls; real clients wait a minute and more.
const SHORT_TIMEOUT: Duration = Duration::from_secs(4);

/// Transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Stdio,
    Http,
}

/// An action of the demo itself; the other faults are flags of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultAction {
    /// Kills the server before the call.
    KillBefore,
    /// Kills the server after it ran the call and before it answers.
    KillWhileItAnswers,
    /// Kills the server before the call, and restarts it after a delay.
    Restart,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KilledBetweenCalls,
    KilledUnderARead,
    KilledUnderAWrite,
    DiedWithinALine,
    StreamCut,
    SessionForgotten,
    Restarted,
    Busy,
    Unavailable,
    Stalled,
}

impl Fault {
    pub(super) const ALL: [Fault; 10] = [
        Fault::KilledBetweenCalls,
        Fault::KilledUnderARead,
        Fault::KilledUnderAWrite,
        Fault::DiedWithinALine,
        Fault::StreamCut,
        Fault::SessionForgotten,
        Fault::Restarted,
        Fault::Busy,
        Fault::Unavailable,
        Fault::Stalled,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Fault::KilledBetweenCalls => "killed between two calls",
            Fault::KilledUnderARead => "killed while it reads",
            Fault::KilledUnderAWrite => "killed after it wrote",
            Fault::DiedWithinALine => "died in mid-answer",
            Fault::StreamCut => "stream cut in mid-answer",
            Fault::SessionForgotten => "session forgotten (404)",
            Fault::Restarted => "gone for half a second",
            Fault::Busy => "busy for a second (429)",
            Fault::Unavailable => "unavailable (503)",
            Fault::Stalled => "never answers a call",
        }
    }

    pub(super) fn transport(self) -> Transport {
        match self {
            Fault::KilledBetweenCalls | Fault::KilledUnderARead | Fault::KilledUnderAWrite | Fault::DiedWithinALine => {
                Transport::Stdio
            }
            _ => Transport::Http,
        }
    }

    /// Returns the fault flags of the server.
    pub(super) fn server_faults(self) -> Vec<String> {
        match self {
            Fault::KilledBetweenCalls | Fault::KilledUnderARead | Fault::KilledUnderAWrite | Fault::Restarted => vec![],
            Fault::DiedWithinALine => vec![format!("partial-line={FAULTY_READ}")],
            // A read and a write: both responses are resumed, neither call is sent again.
            Fault::StreamCut => vec![format!("cut-stream={FAULTY_READ}"), format!("cut-stream={FAULTY_WRITE}")],
            Fault::SessionForgotten => vec![format!("forget-sessions={FAULTY_READ}")],
            Fault::Busy => vec![format!("busy={FAULTY_READ}")],
            Fault::Unavailable => vec![format!("unavailable={FAULTY_READ}")],
            Fault::Stalled => vec![format!("stall={FAULTY_READ}")],
        }
    }

    /// Returns the flags of Mendline that keep this fault short. They concern a tool that no other fault uses.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Fault::Stalled => &["--tool-timeout", "slow=1s"],
            _ => &[],
        }
    }

    /// Returns whether the fault begins at this call.
    pub(super) fn begins_at(self, call: u32) -> bool {
        call == if self == Fault::KilledUnderAWrite { FAULTY_WRITE } else { FAULTY_READ }
    }

    /// Returns the action of the demo at that call.
    pub(super) fn action(self) -> Option<FaultAction> {
        match self {
            Fault::KilledBetweenCalls => Some(FaultAction::KillBefore),
            Fault::KilledUnderARead | Fault::KilledUnderAWrite => Some(FaultAction::KillWhileItAnswers),
            Fault::Restarted => Some(FaultAction::Restart),
            _ => None,
        }
    }

    /// Returns the tool of a call.
    pub(super) fn tool(self, call: u32) -> &'static str {
        match (self, call) {
            (Fault::Stalled, FAULTY_READ) => "slow",
            (_, call) if call % 2 == 1 => "lookup",
            _ => "create_note",
        }
    }

    /// Returns the timeout of the clients.
    pub(super) fn timeout(self) -> Duration {
        if self == Fault::Stalled { SHORT_TIMEOUT } else { TIMEOUT }
    }

    /// Returns how many outcomes may stay unknown: a write whose server died before it answered, and a call that is
    /// never answered.
    pub(super) fn unknown_outcomes(self) -> u32 {
        u32::from(matches!(self, Fault::KilledUnderAWrite | Fault::Stalled))
    }
}
