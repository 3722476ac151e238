//! The source of credentials in the simulated shell, and the refusals of the server.

use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::{Challenge, Content, ExchangeEnd, Head};
use mendline_core::reason::CredentialError;
use mendline_core::{Input, UpstreamId};
use mendline_wire::{Kind, Message, Method};

use super::World;
use super::origin::head;
use crate::authorization::SourceState;
use crate::clock::Due;
use crate::exchange::{Part, PendingRequest};
use crate::fact::Fact;

/// The interval at which a source that hangs is looked at.
const HANGS: Duration = Duration::from_millis(400);

impl World {
    /// Begins to read the source, because the engine requests a newer credential.
    pub(super) fn request_credential(&mut self, upstream: usize, refused: u32, challenge: Challenge) {
        self.origins[upstream].authorization.requested = Some((refused, challenge));
        let wait = self.rng.millis(5, 300);
        self.clock.after(wait, Due::CredentialRead(upstream));
    }

    /// Reports what the source has.
    pub(super) fn credential_read(&mut self, upstream: usize) {
        let authorization = &mut self.origins[upstream].authorization;
        let Some((refused, challenge)) = authorization.requested else { return };
        let lacks_permissions = challenge == Challenge::Scope && authorization.lacks_permissions;
        match authorization.source {
            SourceState::Hangs => self.clock.after(HANGS, Due::CredentialRead(upstream)),
            SourceState::Down => {
                let why = CredentialError::Unavailable { why: "the token endpoint answered HTTP 503".to_owned() };
                self.fail_credential(upstream, why);
                let wait = self.rng.millis(500, 2_000);
                self.clock.after(wait, Due::CredentialRead(upstream));
            }
            SourceState::Works if lacks_permissions => {
                authorization.requested = None;
                self.fail_credential(upstream, CredentialError::Scope { scopes: "notes:write".to_owned() });
            }
            SourceState::Ended => {
                (authorization.requested, authorization.awaits_person) = (None, true);
                self.fail_credential(upstream, CredentialError::LoginEnded);
            }
            SourceState::Works => {
                // Another one may have come meanwhile.
                if authorization.current == refused {
                    authorization.current += 1;
                }
                self.report_credential(upstream);
            }
        }
    }

    /// Gives the server another credential, as a login of a person does.
    pub fn log_in(&mut self, upstream: usize) {
        self.origins[upstream].authorization.current += 1;
        self.report_credential(upstream);
        self.settle_and_check();
    }

    /// Ends all faults of the credential. If a person has to log in, it is done.
    pub fn restore_credential(&mut self, upstream: usize) {
        let authorization = &mut self.origins[upstream].authorization;
        let needs_person = authorization.awaits_person || authorization.refuses_all;
        authorization.source = SourceState::Works;
        (authorization.refuses_all, authorization.lacks_permissions) = (false, false);
        authorization.permitted_from = 0;
        if needs_person {
            self.log_in(upstream);
        }
    }

    fn report_credential(&mut self, upstream: usize) {
        let authorization = &mut self.origins[upstream].authorization;
        (authorization.requested, authorization.awaits_person) = (None, false);
        let number = authorization.current;
        self.record(&Fact::CredentialChanged(upstream, number));
        self.send_input(Input::CredentialChanged { upstream: UpstreamId(upstream as u16), number });
    }

    fn fail_credential(&mut self, upstream: usize, why: CredentialError) {
        self.record(&Fact::CredentialFailed { upstream, can_pass: why.can_pass() });
        self.send_input(Input::CredentialFailed { upstream: UpstreamId(upstream as u16), why });
    }

    /// Refuses a request for its credential, if the server does.
    pub(super) fn refuses_credential(&mut self, upstream: usize, pending: &PendingRequest) -> bool {
        let message = pending.message.as_ref();
        let is_restricted = message.is_some_and(|message| {
            message.method() == Method::ToolsCall && message.get_str(&["name"]).as_deref() == Some("create_note")
        });
        let authorization = &self.origins[upstream].authorization;
        let Some(challenge) = authorization.refusal(pending.credential, is_restricted) else { return false };
        if let Some(it) = pending.exchange.and_then(|id| self.exchanges.get_mut(&id)) {
            (it.refuses, it.refuses_credential) = (true, true);
        }
        let status = if challenge == Challenge::Scope { 403 } else { 401 };
        // Some servers explain it in JSON-RPC.
        let request = message.filter(|message| message.kind() == Kind::Request && self.rng.percent(30));
        let content = if request.is_some() { Content::Json } else { Content::Empty };
        let head = Head { challenge: Some(challenge), ..head(status, content) };
        self.send_back(pending.exchange, Part::Head(head));
        if let Some(id) = request.and_then(Message::id) {
            let id = String::from_utf8_lossy(id);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"token expired"}}}}"#);
            self.send_back(pending.exchange, Part::Body(Bytes::from(body)));
        }
        self.send_back(pending.exchange, Part::End(ExchangeEnd::Complete));
        true
    }
}
