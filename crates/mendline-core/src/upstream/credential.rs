//! The credential of a server over HTTP: its number, and its renewal after a refusal.
//!
//! The shell adds the credential to every exchange. Here only its number is known, and what the server said about it:
//!
//! ```text
//!             refused                     the source has none
//!   current ────────────► renewing ────────────────────────────► refused
//!      ▲                     │                                      │
//!      └─ another credential ┴──────────── another credential ──────┘
//! ```
//!
//! A refusal is a 401, or a 403 with a challenge. It proves that the request did not run, so the request is sent again
//! once, with another credential:
//! - If the credential has changed since the request was sent, it is sent again at once.
//! - Otherwise a newer one is requested, once for all refused requests; they wait, and new ones too.
//! - A request that is refused again with the newer credential needs a person, like all of them if the source has none.
//!
//! No loop: each credential is renewed once. A source whose new credentials are all refused is asked at the pace of the
//! probes for a login; so is a source that is not a login and has failed, because nothing else would find out that it
//! works again. A refusal for want of permissions (`insufficient_scope`) concerns only its own request: the others go on.
//!
//! [`renewal`] applies this to the requests of an upstream.

mod renewal;

pub(super) use renewal::is_refused_discover;

use std::time::Duration;

use crate::config::CredentialKind;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{CredentialState, Event};
use crate::moment::Moment;
use crate::port::{Challenge, Output, UpstreamId};
use crate::reason::CredentialError;

/// The credential of one server.
#[derive(Debug)]
pub struct Credential {
    upstream: UpstreamId,
    kind: CredentialKind,
    /// The number of the current one.
    number: u32,
    state: State,
    /// The current one was renewed for want of permissions, without success.
    lacks_scope: Option<CredentialError>,
    /// The current one was renewed already.
    is_renewed: bool,
    /// Renewals in a row after which the server refused the same request, or without a newer credential.
    in_vain: u32,
    /// The time before which no renewal follows these.
    not_before: Moment,
}

/// The knowledge about the current credential.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// The server has not refused it.
    Current,
    /// The server refused it, and a newer one is requested.
    Renewing(Renewal),
    /// The server refused it, and there is no newer one.
    Refused { why: CredentialError },
}

/// A renewal in progress.
#[derive(Clone, Debug, PartialEq)]
struct Renewal {
    /// The challenge of the request to the shell.
    requested: Challenge,
    /// The challenge of the refusals: an invalid credential outweighs missing permissions.
    challenge: Challenge,
    /// Other requests wait too.
    blocks: bool,
    /// The trouble of the source so far, which can pass.
    failed: Option<CredentialError>,
}

/// A request that was refused for its credential.
#[derive(Clone, Copy, Debug)]
pub struct RefusedRequest {
    /// The number of its credential.
    pub used: u32,
    /// The challenge of the refusal.
    pub challenge: Challenge,
    /// The challenge for which it was sent again before.
    pub before: Option<Challenge>,
    /// Other requests depend on it: a handshake, a probe.
    pub is_essential: bool,
    /// The server is known to need a login, and this shows whether it still does.
    pub is_login_probe: bool,
}

impl RefusedRequest {
    /// Returns whether it may be sent again: once for each challenge, an invalid credential first.
    fn may_repeat(&self) -> bool {
        matches!((self.before, self.challenge), (None, _) | (Some(Challenge::Credential), Challenge::Scope))
    }

    fn blocks(&self) -> bool {
        self.is_essential || self.challenge == Challenge::Credential
    }
}

/// The consequence of a refusal for the refused request.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// It is sent again, as soon as the credential is not being renewed.
    SendAgain,
    /// A person has to act, for this reason of the source if it gave one.
    Login(Option<CredentialError>),
}

/// A failed renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedRenewal {
    /// None was requested.
    Unrequested,
    /// It goes on.
    Continues,
    /// There is no newer credential.
    Ended(Challenge),
}

impl Credential {
    pub fn new(upstream: UpstreamId, kind: CredentialKind) -> Self {
        Credential {
            upstream,
            kind,
            number: 0,
            state: State::Current,
            lacks_scope: None,
            is_renewed: false,
            in_vain: 0,
            not_before: Moment::ZERO,
        }
    }

    /// Forgets the refusals: the target has changed. The shell goes on to count its credentials.
    pub fn reset(&mut self, kind: CredentialKind) {
        *self = Credential { number: self.number, ..Credential::new(self.upstream, kind) };
    }

    /// The number of the current one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The origin of the credential.
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// The state, for status.
    pub fn state(&self) -> CredentialState {
        self.state.name()
    }

    /// Returns whether requests wait for a newer one.
    pub fn is_awaited(&self) -> bool {
        matches!(self.state, State::Renewing(Renewal { blocks: true, .. }))
    }

    /// Returns whether a newer one is requested.
    pub fn is_renewing(&self) -> bool {
        matches!(self.state, State::Renewing(_))
    }

    /// The trouble of the source during a renewal, if it has any.
    pub fn trouble(&self) -> Option<&CredentialError> {
        match &self.state {
            State::Renewing(renewal) => renewal.failed.as_ref(),
            _ => None,
        }
    }

    /// Handles a refusal; requests a newer credential if that is the remedy.
    pub fn handle_refusal(&mut self, refused: RefusedRequest, cx: &mut Cx<'_>) -> Remedy {
        if !self.kind.is_renewable() {
            return Remedy::Login(None);
        }
        let may_repeat = refused.may_repeat();
        if refused.used != self.number {
            return if may_repeat { Remedy::SendAgain } else { Remedy::Login(None) };
        }
        if let State::Renewing(renewal) = &mut self.state {
            if !may_repeat {
                return Remedy::Login(None);
            }
            renewal.blocks |= refused.blocks();
            if refused.challenge == Challenge::Credential {
                renewal.challenge = Challenge::Credential;
            }
            return Remedy::SendAgain;
        }
        if !may_repeat {
            self.note_refused_again(refused.challenge, cx);
        } else if self.may_renew(refused, cx.now) {
            self.renew(refused.challenge, refused.blocks(), cx);
            return Remedy::SendAgain;
        }
        self.login(refused.challenge)
    }

    /// Handles another credential. Returns whether a renewal was requested.
    pub fn handle_changed(&mut self, number: u32, cx: &mut Cx<'_>) -> bool {
        let was_renewing = self.is_renewing();
        (self.number, self.state) = (number, State::Current);
        (self.lacks_scope, self.is_renewed) = (None, false);
        if !was_renewing {
            self.note_accepted();
        }
        cx.emit(Event::CredentialRenewed { upstream: self.upstream, number });
        was_renewing
    }

    /// Handles a renewal without a newer credential.
    pub fn handle_failed(&mut self, why: CredentialError, cx: &mut Cx<'_>) -> FailedRenewal {
        let State::Renewing(renewal) = &mut self.state else {
            // The reason of a source that was asked before.
            if let State::Refused { why: old } = &mut self.state {
                *old = why;
            }
            return FailedRenewal::Unrequested;
        };
        let goes_on = why.can_pass();
        let (challenge, requested, blocks) = (renewal.challenge, renewal.requested, renewal.blocks);
        if goes_on {
            renewal.failed = Some(why.clone());
        } else if challenge == Challenge::Scope {
            (self.lacks_scope, self.state) = (Some(why.clone()), State::Current);
        } else if requested == challenge {
            self.state = State::Refused { why: why.clone() };
        }
        cx.emit(Event::CredentialRenewalFailed { upstream: self.upstream, why, state: self.state.name() });
        if goes_on {
            return FailedRenewal::Continues;
        }
        if requested != challenge {
            // Permissions were requested, but the credential is invalid.
            self.renew(challenge, blocks, cx);
            return FailedRenewal::Ended(requested);
        }
        self.wait_before_next(cx.now);
        FailedRenewal::Ended(challenge)
    }

    /// Returns whether no more requests are to be sent with the refused credential.
    pub fn is_limited(&self) -> bool {
        matches!(&self.state, State::Refused { why: CredentialError::FruitlessLimit { .. } })
    }

    /// Returns whether a person was asked to log in, and has not done it yet.
    pub fn is_login_pending(&self) -> bool {
        matches!(&self.state, State::Refused { why: CredentialError::LoginPending })
    }

    /// Allows a new renewal of the current credential, because the operator has acted.
    pub fn allow_renewal(&mut self) {
        self.is_renewed = false;
        self.lacks_scope = None;
        self.note_accepted();
    }

    /// Records that the server accepts what it refused before.
    pub fn note_accepted(&mut self) {
        (self.in_vain, self.not_before) = (0, Moment::ZERO);
    }

    /// Records an answer: the server does not refuse everything.
    pub fn note_answered(&mut self) {
        if matches!(self.state, State::Refused { .. }) {
            self.state = State::Current;
        }
    }

    /// Records that the newer credential was refused like the one before it.
    fn note_refused_again(&mut self, challenge: Challenge, cx: &mut Cx<'_>) {
        let is_known = match challenge {
            Challenge::Credential => matches!(self.state, State::Refused { .. }),
            Challenge::Scope => self.lacks_scope.is_some(),
        };
        if is_known {
            return;
        }
        let why = match challenge {
            Challenge::Credential => CredentialError::Unchanged,
            Challenge::Scope => CredentialError::Scope { scopes: String::new() },
        };
        match challenge {
            Challenge::Credential => self.state = State::Refused { why: why.clone() },
            Challenge::Scope => self.lacks_scope = Some(why.clone()),
        }
        self.wait_before_next(cx.now);
        cx.emit(Event::CredentialRenewalFailed { upstream: self.upstream, why, state: self.state.name() });
    }

    fn wait_before_next(&mut self, now: Moment) {
        self.not_before = now + login_backoff(self.in_vain);
        self.in_vain = self.in_vain.saturating_add(1);
    }

    fn may_renew(&self, refused: RefusedRequest, now: Moment) -> bool {
        if now < self.not_before {
            return false;
        }
        match refused.challenge {
            Challenge::Scope => self.lacks_scope.is_none(),
            // A login tells when it changes. Other sources have to be asked.
            Challenge::Credential => {
                !self.is_renewed || (self.kind == CredentialKind::Source && refused.is_login_probe)
            }
        }
    }

    fn renew(&mut self, challenge: Challenge, blocks: bool, cx: &mut Cx<'_>) {
        self.is_renewed |= challenge == Challenge::Credential;
        self.state = State::Renewing(Renewal { requested: challenge, challenge, blocks, failed: None });
        let (upstream, refused) = (self.upstream, self.number);
        cx.emit(Event::CredentialRenewalStarted { upstream, refused, challenge });
        cx.output(Output::RenewCredential { upstream, refused, challenge });
    }

    /// The remedy of a person. A source that only has the refused credential says less than the server.
    fn login(&self, challenge: Challenge) -> Remedy {
        let why = match (&self.state, challenge) {
            (_, Challenge::Scope) if self.lacks_scope.is_some() => self.lacks_scope.clone(),
            (State::Refused { why }, _) => Some(why.clone()),
            _ => None,
        };
        Remedy::Login(why.filter(|why| *why != CredentialError::Unchanged))
    }
}

impl State {
    fn name(&self) -> CredentialState {
        match self {
            State::Current => CredentialState::Current,
            State::Renewing(_) => CredentialState::Renewing,
            State::Refused { .. } => CredentialState::Refused,
        }
    }
}

/// The pause after this many renewals or probes in vain.
pub(super) fn login_backoff(in_vain: u32) -> Duration {
    (defaults::LOGIN_PROBE * 2u32.saturating_pow(in_vain.min(16))).min(defaults::LOGIN_PROBE_CAP)
}
