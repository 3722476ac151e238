//! The journal of a run: lines for people and a hash for comparison.
//!
//! Two runs of one seed must write the same journal (I15). The hash covers the text of the lines. The lines themselves
//! are kept only on request.

use std::fmt::{self, Write};

use mendline_core::Moment;

use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle, Verdict};

/// A journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    hash: Fnv,
    lines: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

impl Journal {
    /// Creates a journal that keeps its lines.
    pub fn kept() -> Journal {
        Journal { lines: Some(Vec::new()), ..Journal::default() }
    }

    /// Returns the hash of the journal.
    pub fn number(&self) -> u64 {
        self.hash.0
    }

    /// Returns the lines, if they are kept.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Removes and returns the lines.
    pub fn take(&mut self) -> Vec<String> {
        self.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Writes a line that is not a fact.
    pub fn write_line(&mut self, now: Moment, text: &str) {
        let _ = write!(self.hash, "{now} {text}");
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now} {text}"));
        }
    }

    /// Writes a fact.
    pub fn record(&mut self, now: Moment, fact: &Fact<'_>, oracle: &Oracle) {
        if matches!(
            fact,
            Fact::Settled { .. }
                | Fact::UpstreamState { .. }
                | Fact::Received { .. }
                | Fact::Requested(EngineOutput::Event(_))
        ) {
            return;
        }
        // Hashes without an intermediate string, because this runs for every fact.
        let _ = write!(self.hash, "{} {}", now.0, FactText { fact, oracle });
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now} {}", FactText { fact, oracle }));
        }
    }
}

struct FactText<'a> {
    fact: &'a Fact<'a>,
    oracle: &'a Oracle,
}

struct Name<'a>(Key, &'a Oracle);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.1.of(self.0);
        write!(f, "#{} {} id={}", self.0.0, record.what, record.id)
    }
}

impl fmt::Display for FactText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |key: &Key| Name(*key, self.oracle);
        match self.fact {
            Fact::Arrived(key) => write!(f, "client {} sends {}", self.oracle.of(*key).client.0, name(key)),
            Fact::HandedOut { by, message, .. } => {
                write!(f, "{by} is sent {}", String::from_utf8_lossy(message.text()))
            }
            Fact::Accepted { by: by @ Via::Child(_), key } => write!(f, "{by}'s stdin took all of {}", name(key)),
            Fact::Accepted { by, key } => write!(f, "{by} took all of {}", name(key)),
            Fact::Read { by, key, .. } => write!(f, "{by} read {}", name(key)),
            Fact::Ran { by, key } => write!(f, "{by} ran {}", name(key)),
            Fact::NoticeWritten { by, stamp, .. } => write!(f, "{by} wrote notice {}", stamp.line),
            Fact::ServerViolation { by, text } => write!(f, "{by} {text}"),
            Fact::Reported { upstream, exchange, report } => {
                write!(f, "{}: {report:?}", Via::Exchange(*upstream, *exchange))
            }
            Fact::ResponseResumed { by, key } => write!(f, "{by} resumes the response to {}", name(key)),
            Fact::Delivered { upstream, stamp } => write!(f, "upstream {upstream} delivered {stamp:?}"),
            Fact::Answered { key, verdict: Verdict::Passed(body), .. } => {
                write!(f, "answered {}: {}", name(key), String::from_utf8_lossy(body))
            }
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } => {
                write!(f, "answered {}: {} ({})", name(key), failure.cause, failure.outcome)
            }
            Fact::Surplus { client, message } => {
                write!(f, "client {} read a surplus answer {}", client.0, String::from_utf8_lossy(message.text()))
            }
            Fact::Progressed { client, named, meant, .. } => {
                write!(f, "client {} read progress of {named:?} (meant {meant:?})", client.0)
            }
            Fact::NotificationRead { client, stamp: stamp @ Some(_), .. } => {
                write!(f, "client {} read a notice {stamp:?}", client.0)
            }
            Fact::NotificationRead { client, message, .. } => {
                write!(f, "client {} read {}", client.0, String::from_utf8_lossy(message.text()))
            }
            Fact::Frozen(link) => write!(f, "{} is stopped", Via::Child(*link)),
            Fact::Continued(link) => write!(f, "{} goes on", Via::Child(*link)),
            Fact::NewEdition(upstream) => write!(f, "upstream {upstream} has another edition"),
            Fact::ConnectivityChanged(later) => {
                write!(f, "the engine is told that the connectivity changed; its clock advances by {later:?}")
            }
            Fact::StateCompared { client, expected, state, edition, unserved, .. } => write!(
                f,
                "client {} relies on {expected:?}; its server knows {state:?}, edition {edition}, without {unserved:?}",
                client.0
            ),
            Fact::ServerRequestRead { client, .. } => write!(f, "client {} read a server request", client.0),
            Fact::ClientViolation { client, text } => write!(f, "client {} {text}", client.0),
            Fact::ClientConnected(upstream) => write!(f, "a client connects to upstream {upstream}"),
            Fact::ClientLeft(client) => write!(f, "client {} left", client.0),
            Fact::Requested(EngineOutput::Exchange(exchange, upstream, request)) => {
                let via = Via::Exchange(*upstream, *exchange);
                write!(f, "engine requests {via}: {:?} {:?} {:?}", request.verb, request.target, request.headers)
            }
            Fact::Requested(act) => write!(f, "engine requests {act:?}"),
            Fact::Started(link) => write!(f, "{} runs", Via::Child(*link)),
            Fact::NotStarted(link) => write!(f, "{} could not be started", Via::Child(*link)),
            Fact::Signalled(link, Some(signal)) => write!(f, "{} got {signal:?}", Via::Child(*link)),
            Fact::Signalled(link, None) => write!(f, "{} saw the end of its stdin", Via::Child(*link)),
            Fact::Died(link) => write!(f, "{} died", Via::Child(*link)),
            Fact::Exited(link) => write!(f, "{} was reaped", Via::Child(*link)),
            Fact::Emitted(event) => match event.upstream {
                Some(upstream) => write!(f, "upstream {upstream}: {}", event.text),
                None => write!(f, "engine: {}", event.text),
            },
            Fact::WithoutFaults(upstream) => write!(f, "upstream {upstream} has no faults"),
            Fact::ManualAction(upstream) => write!(f, "the operator reconnects upstream {upstream}"),
            Fact::Isolated(upstream) => write!(f, "the operator isolates upstream {upstream}"),
            Fact::RetryAfter { upstream, wait } => write!(f, "upstream {upstream} requests a pause of {wait:?}"),
            Fact::Healed => write!(f, "all faults are over"),
            Fact::Recovered(client) => write!(f, "client {} is served again", client.0),
            Fact::StillDown(client) => write!(f, "client {} is not served again in time", client.0),
            Fact::Overdue(key) => write!(f, "{} is overdue", name(key)),
            Fact::Closing => write!(f, "all clients close their outputs"),
            Fact::Stopped => write!(f, "the engine is told to stop"),
            Fact::NeverFinished => write!(f, "the engine does not finish"),
            Fact::ContractBroken(text) => write!(f, "{text}"),
            Fact::CredentialChanged(upstream, number) => write!(f, "upstream {upstream} has credential {number}"),
            Fact::CredentialFailed { upstream, .. } => write!(f, "upstream {upstream} has no newer credential"),
            Fact::Settled { .. } | Fact::UpstreamState { .. } | Fact::Received { .. } => Ok(()),
        }
    }
}
