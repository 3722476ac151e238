//! The text of each event for people, in the past tense, without the server's name. The reader puts the name before it.

use std::fmt;
use std::time::Duration;

use mendline_wire::Method;

use super::{Answered, CredentialState, Dropped, Event, HiddenChange, LinkState, Replacement, ToolName};
use crate::port::Challenge;

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server_words(f)
    }
}

/// The events in groups; each group passes on what is not its own.
impl Event {
    /// Connections, conditions and configuration of a server, and the whole process.
    fn server_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DialFailed { why, .. } => write!(f, "could not be started: {why}"),
            Event::LinkStateChanged { from, to, why: None, .. } => write!(f, "{from} → {to}"),
            Event::LinkStateChanged { from, to, why: Some(why), .. } => write!(f, "{from} → {to}: {why}"),
            Event::DialPlanned { attempt, most: Some(most), wait, .. } => {
                write!(f, "next attempt ({attempt} of {most}) in {}", Short(*wait))
            }
            Event::DialPlanned { attempt, wait, .. } => write!(f, "next attempt ({attempt}) in {}", Short(*wait)),
            Event::ReconnectRequested { .. } => write!(f, "reconnecting: requested manually"),
            Event::ServerSuspected { why, .. } => write!(f, "suspect, a probe decides: {why}"),
            Event::VerdictReached { condition, .. } => write!(f, "{condition}"),
            Event::ReconnectDisabled { why, .. } => write!(f, "lost; the next call dials it: {why}"),
            Event::UpstreamReady { after, .. } => write!(f, "ready after {}", Short(*after)),
            Event::Reconfigured { replacement: None, .. } => {
                write!(f, "reconfigured: new policies apply to new calls")
            }
            Event::Reconfigured { replacement: Some(Replacement::AtOnce), .. } => {
                write!(f, "reconfigured: the server is replaced at once")
            }
            Event::Reconfigured { replacement: Some(Replacement::WhenIdle), .. } => {
                write!(f, "reconfigured: the server is replaced when no call is in flight")
            }
            Event::UpstreamAdded { name, like: None, .. } => write!(f, "server {name:?} added"),
            Event::UpstreamAdded { like: Some(_), .. } => write!(f, "one more process or session of the server"),
            Event::UpstreamRemoved { .. } => write!(f, "removed"),
            Event::IdleStopped { .. } => write!(f, "stopped, because it was not used; the next request starts it"),
            Event::ServerReplaced { .. } => write!(f, "server replaced: its configuration has changed"),
            Event::ConnectivityChanged { change } => write!(f, "{change}: all servers are tested or redialed"),
            Event::Stopping { running: 0 } => write!(f, "stopping"),
            Event::Stopping { running } => write!(f, "stopping after {running} running calls"),
            Event::Stopped => write!(f, "stopped"),
            _ => self.policy_words(f),
        }
    }

    /// Breakers, isolation and pauses.
    fn policy_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::BreakerOpened { tool, open_for, why, .. } => {
                write!(f, "breaker{} opened for {}: {why}", OfTool(tool), Wait(*open_for))
            }
            Event::BreakerHalfOpened { tool, .. } => {
                write!(f, "breaker{} half open: one trial call", OfTool(tool))
            }
            Event::BreakerClosed { tool, .. } => write!(f, "breaker{} closed", OfTool(tool)),
            Event::Isolated { .. } => write!(f, "isolated manually: no calls are sent"),
            Event::Resumed { .. } => write!(f, "resumed manually"),
            Event::Paused { wait, hint: None, .. } => {
                write!(f, "paused for {}: the server is overloaded", Wait(*wait))
            }
            Event::Paused { wait, hint: Some(hint), .. } if wait == hint => {
                write!(f, "paused for {}, as the server requested", Wait(*wait))
            }
            Event::Paused { wait, hint: Some(hint), .. } => {
                write!(f, "paused for {}; the server requested {}", Wait(*wait), Wait(*hint))
            }
            Event::PauseEnded { .. } => write!(f, "the pause is over"),
            _ => self.credential_words(f),
        }
    }

    /// Logins and credentials.
    fn credential_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::LoginRequired { why, .. } => write!(f, "needs a login: {why}"),
            Event::LoginAccepted { .. } => write!(f, "accepts requests again: no login is needed"),
            Event::CredentialRenewalStarted { challenge: Challenge::Credential, .. } => {
                write!(f, "the server refused the credential: a newer one is requested")
            }
            Event::CredentialRenewalStarted { challenge: Challenge::Scope, .. } => {
                write!(f, "the server requires more permissions: another credential is requested")
            }
            Event::CredentialRenewed { number, .. } => write!(f, "credential #{number} is used from now on"),
            Event::CredentialRenewalFailed { why, state: CredentialState::Renewing, .. } => {
                write!(f, "no newer credential yet: {why}")
            }
            Event::CredentialRenewalFailed { why, .. } => write!(f, "no newer credential: {why}"),
            _ => self.call_words(f),
        }
    }

    /// The course of a call.
    fn call_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::VerdictAwaited { call, tool, why, .. } => {
                write!(f, "{}: failed, waiting for the probe: {why}", CallAndTool(*call, tool))
            }
            Event::HintsAwaited { call, tool, why, .. } => {
                write!(f, "{}: failed, waiting for the hints of its tool: {why}", CallAndTool(*call, tool))
            }
            Event::CallSilent { call, method, tool: None, silent_for, .. } => {
                write!(f, "#{call} {}: silent for {}", name(method), Short(*silent_for))
            }
            Event::CallSilent { call, tool, silent_for, .. } => {
                write!(f, "{}: silent for {}", CallAndTool(*call, tool), Short(*silent_for))
            }
            Event::SilenceEnded { call, tool, .. } => write!(f, "{}: not silent any more", CallAndTool(*call, tool)),
            Event::CallAccepted { call, method, tool, .. } => write!(f, "{}: accepted", OfCall(*call, tool, method)),
            Event::AttemptStarted { call, attempt, .. } => write!(f, "#{call}: attempt {attempt} started"),
            Event::AttemptEnded { call, tool, attempt, outcome, why, .. } => {
                write!(f, "{}: attempt {attempt} ended ({}): {why}", CallAndTool(*call, tool), outcome.word())
            }
            Event::CallReturned { call, .. } => write!(f, "#{call}: not sent, waiting"),
            Event::CallRetried { call, method, tool, attempt, most, why, .. } => {
                let call = OfCall(*call, tool, method);
                match why.status() {
                    Some(status) => write!(f, "{call}: retrying (attempt {attempt} of {most}) after HTTP {status}"),
                    None => write!(f, "{call}: retrying (attempt {attempt} of {most}): {why}"),
                }
            }
            Event::RetryRefused { call, tool, .. } => {
                write!(f, "{}: not retried: the retry budget is spent", CallAndTool(*call, tool))
            }
            Event::ResponseResumed { call, tool, resumption, most, .. } => {
                write!(f, "{}: resuming the response (resumption {resumption} of {most})", CallAndTool(*call, tool))
            }
            Event::CallCancelled { call, sent, .. } => {
                write!(f, "#{call}: cancelled by the client{}", if *sent { "" } else { " before it was sent" })
            }
            Event::CallAbandoned { call, .. } => write!(f, "#{call}: abandoned, its client is gone"),
            Event::CallRejected { method, tool, cause, why, .. } => {
                let what = tool.as_ref().map_or_else(|| name(method), |tool| tool.as_str());
                write!(f, "{what} rejected: {} ({why})", cause.word())
            }
            Event::RateLimited { call, wait, .. } => write!(f, "#{call}: waits {} for the rate limit", Wait(*wait)),
            _ => self.end_words(f),
        }
    }

    /// The end of a call.
    fn end_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::CallAnswered { call, method, tool, attempts, result, took, .. } => {
                let call = OfCall(*call, tool, method);
                match result {
                    Answered::Ok => write!(f, "{call}: answered after {}", Short(*took))?,
                    Answered::ToolError => write!(f, "{call}: answered with a tool error after {}", Short(*took))?,
                    Answered::Error(code) => write!(f, "{call}: answered with error {code} after {}", Short(*took))?,
                }
                if *attempts > 1 { write!(f, " (attempt {attempts})") } else { Ok(()) }
            }
            Event::CallFailed { call, method, tool, attempts, cause, outcome, took, why, .. } => write!(
                f,
                "{}: failed after {}: {} (outcome {}, attempts: {attempts}): {why}",
                OfCall(*call, tool, method),
                Short(*took),
                cause.word(),
                outcome.word()
            ),
            _ => self.session_words(f),
        }
    }

    /// Sessions, lists and the cache.
    fn session_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::AnsweredBySession { method, .. } => {
                write!(f, "{} answered: the session is shared with other clients", method.name().unwrap_or("request"))
            }
            Event::OwnStatusAnswered { .. } => write!(f, "status reported to the client"),
            Event::OwnNameTaken { method, .. } => write!(
                f,
                "{}: the server has an entry of its own with the name of Mendline's status; Mendline's is left out",
                name(method)
            ),
            Event::ToolDenied { tool, .. } => write!(f, "{tool} refused: the configuration denies this tool"),
            Event::PingAnswered { .. } => write!(f, "ping of the client answered while the server is away"),
            Event::SessionReplayed { .. } => write!(f, "session replayed: initialize, initialized"),
            Event::SessionReplayFailed { why, .. } => write!(f, "session could not be replayed: {why}"),
            Event::OutputSkipped { text, .. } => write!(f, "skipped output that is not MCP: {text}"),
            Event::InternalRequestSent { method: Method::Initialize, .. } => write!(f, "handshake replayed"),
            Event::InternalRequestSent { method, .. } => write!(f, "internal request {} sent", name(method)),
            Event::InternalRequestFailed { method, why, .. } => {
                write!(f, "internal request {} failed: {why}", name(method))
            }
            Event::ListChanged { method, .. } => write!(f, "{} changed; the client is notified", name(method)),
            Event::ListChangeHidden { method, why, .. } => {
                let why = match why {
                    HiddenChange::NoDifference => "the server reported a change, but nothing is different",
                    HiddenChange::EntriesCameBack => "entries were missing for a short time",
                    HiddenChange::OrderOnly => "only the order is different",
                };
                write!(f, "the client keeps its {}: {why}", name(method))
            }
            Event::AnsweredFromCatalogue { method, stale, .. } => {
                let how =
                    if *stale { "answered from the catalogue" } else { "answered from the catalogue, still fresh" };
                write!(f, "{} {how}", name(method))
            }
            Event::ProvisionalAnswer { call, method, took, .. } => {
                write!(f, "#{call} {}: provisional answer after {}", name(method), Short(*took))
            }
            Event::HandshakeCompleted { .. } => {
                write!(f, "handshake completed after the client's: initialize, initialized")
            }
            Event::HandshakeDiffers { members, .. } => {
                write!(f, "the server's handshake differs from the client's in {}", members.join(", "))
            }
            Event::ContentTypeMismatch { .. } => {
                write!(f, "responses are JSON with another Content-Type; accepted, and not reported again")
            }
            Event::ToolRemoved { tool, problem, .. } => write!(f, "removed the tool {tool:?} from the list: {problem}"),
            _ => self.client_words(f),
        }
    }

    /// Clients, requests of the server, and messages.
    fn client_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::ClientOpened { .. } => write!(f, "client connected"),
            Event::ClientNamed { name, version, .. } => write!(f, "client is {name} {version}"),
            Event::ClientEnded { .. } => write!(f, "client closed its input"),
            Event::ClientLost { .. } => write!(f, "client no longer reads"),
            Event::ClientMessageInvalid { what, .. } => {
                write!(f, "client sent an invalid message: {what}")
            }
            Event::ServerRequestForwarded { method, .. } => {
                write!(f, "server request {} forwarded to the client", name(method))
            }
            Event::ServerRequestAnswered { .. } => write!(f, "server request answered by the client"),
            Event::ServerRequestWithdrawn { .. } => write!(f, "server request withdrawn"),
            Event::ServerRequestDeclined { why, .. } => write!(f, "server request declined: {why}"),
            Event::IdTypeRepaired { call, .. } => {
                write!(f, "the server changed the type of an id; matched to #{call}")
            }
            Event::MessageDropped { method, why, .. } => {
                let what = method.name().unwrap_or("response");
                match why {
                    Dropped::Late => write!(f, "dropped a late {what}"),
                    Dropped::Unknown => write!(f, "dropped a {what} to an unknown request"),
                    Dropped::WithoutId => write!(f, "dropped an error that names no request"),
                    Dropped::Undeliverable => write!(f, "dropped {what}: it cannot be delivered"),
                    Dropped::StaleProgress => write!(f, "dropped outdated progress"),
                    Dropped::NoStream => write!(f, "dropped {what} for a client without an open stream"),
                    Dropped::NotRead => write!(f, "dropped {what} for a client that does not read"),
                    Dropped::StaleReply => write!(f, "dropped a client's answer to a server request that is over"),
                }
            }
            _ => f.write_str(self.name()),
        }
    }
}

fn name(method: &Method) -> &'static str {
    method.name().unwrap_or("call")
}

/// A call as people know it: its number, and its tool or else its method.
struct OfCall<'a>(u64, &'a Option<ToolName>, &'a Method);

impl fmt::Display for OfCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.1.as_ref().map(ToolName::as_str).or_else(|| self.2.name());
        write!(f, "#{} {}", self.0, what.unwrap_or("call"))
    }
}

/// A call by its number and its tool.
struct CallAndTool<'a>(u64, &'a Option<ToolName>);

impl fmt::Display for CallAndTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(tool) => write!(f, "#{} {}", self.0, tool.as_str()),
            None => write!(f, "#{}", self.0),
        }
    }
}

/// The tool of a breaker, if it is not the server's own.
struct OfTool<'a>(&'a Option<String>);

impl fmt::Display for OfTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tool) => write!(f, " of the tool {tool:?}"),
            None => Ok(()),
        }
    }
}

/// A time to wait in readable units, rounded up: after it, nothing is too early.
pub(crate) struct Wait(pub(crate) Duration);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let unit: u128 = match micros {
            0..1_000 => 1,
            1_000..1_000_000 => 1_000,
            1_000_000..10_000_000 => 100_000,
            10_000_000..120_000_000 => 1_000_000,
            _ => 60_000_000,
        };
        let rounded = micros.div_ceil(unit) * unit;
        Short(u64::try_from(rounded).map_or(self.0, Duration::from_micros)).fmt(f)
    }
}

/// A duration in readable units.
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => write!(f, "{} µs", self.0.as_micros()),
            1..1_000 => write!(f, "{millis} ms"),
            1_000..10_000 => write!(f, "{}.{} s", millis / 1000, millis / 100 % 10),
            10_000..120_000 => write!(f, "{} s", millis / 1000),
            _ => write!(f, "{} min", millis / 60_000),
        }
    }
}
