//! The faults of the demonstration: what is done to a server, and at which call.
//!
//! Reads are calls with odd numbers, writes those with even ones. Each fault strikes in the middle of a shift, so that there
//! is something to lose on both sides of it.

use std::time::Duration;

/// Which call of a shift is hurt if it is a read, and if it is a write.
const HURT_READ: u32 = 5;
const HURT_WRITE: u32 = 6;

/// How long the client waits for an answer where nothing stalls: long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same where something stalls, and somebody waits in vain: real clients wait a minute and more.
const SHORT_PATIENCE: Duration = Duration::from_secs(4);

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Stdio,
    Http,
}

/// What the demonstration does itself when it is time; a temper of the server does the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// Kills the server before the call is made.
    KillBefore,
    /// Kills the server once it has run the call, which takes its time to answer.
    KillWhileItAnswers,
    /// Kills the server before the call is made, and starts it again a moment later.
    Restart,
}

/// One way to break a server.
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

    pub(super) fn over(self) -> Over {
        match self {
            Fault::KilledBetweenCalls | Fault::KilledUnderARead | Fault::KilledUnderAWrite | Fault::DiedWithinALine => {
                Over::Stdio
            }
            _ => Over::Http,
        }
    }

    /// How the server has to be started for this fault.
    pub(super) fn tempers(self) -> Vec<String> {
        match self {
            Fault::KilledBetweenCalls | Fault::KilledUnderARead | Fault::KilledUnderAWrite | Fault::Restarted => vec![],
            Fault::DiedWithinALine => vec![format!("partial-line={HURT_READ}")],
            // A read and a write: neither is sent again, both are asked for again.
            Fault::StreamCut => vec![format!("cut-stream={HURT_READ}"), format!("cut-stream={HURT_WRITE}")],
            Fault::SessionForgotten => vec![format!("forget-sessions={HURT_READ}")],
            Fault::Busy => vec![format!("busy={HURT_READ}")],
            Fault::Unavailable => vec![format!("unavailable={HURT_READ}")],
            Fault::Stalled => vec![format!("stall={HURT_READ}")],
        }
    }

    /// Flags for Mendline that this fault needs to be over in the time that people have. They are for one tool that nobody
    /// else uses.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Fault::Stalled => &["--tool-timeout", "slow=1s"],
            _ => &[],
        }
    }

    /// Whether this call is the one that is hurt, or the first of those that are.
    pub(super) fn strikes(self, call: u32) -> bool {
        call == if self == Fault::KilledUnderAWrite { HURT_WRITE } else { HURT_READ }
    }

    /// What is done to the server at that call.
    pub(super) fn blow(self) -> Option<Blow> {
        match self {
            Fault::KilledBetweenCalls => Some(Blow::KillBefore),
            Fault::KilledUnderARead | Fault::KilledUnderAWrite => Some(Blow::KillWhileItAnswers),
            Fault::Restarted => Some(Blow::Restart),
            _ => None,
        }
    }

    /// The tool that a call uses.
    pub(super) fn tool(self, call: u32) -> &'static str {
        match (self, call) {
            (Fault::Stalled, HURT_READ) => "slow",
            (_, call) if call % 2 == 1 => "lookup",
            _ => "create_note",
        }
    }

    /// How long the clients wait for each answer.
    pub(super) fn patience(self) -> Duration {
        if self == Fault::Stalled { SHORT_PATIENCE } else { PATIENCE }
    }

    /// How many calls may end with "it may have run", because nobody can know better: a write whose server died before it
    /// answered, and a call that is never answered.
    pub(super) fn doubtful(self) -> u32 {
        u32::from(matches!(self, Fault::KilledUnderAWrite | Fault::Stalled))
    }
}
