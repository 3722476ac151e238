//! The lookup of a tool's hints.
//!
//! The hints of a server say whether a tool may run twice. They are known when the tools were listed since their last
//! change. A client that never lists tools, or whose server has just changed them, leaves the effect of its calls open:
//! such a call is unsafe until its outcome is unknown. Only then the tools are listed, and the call is decided by its
//! hints. Without a list in time it stays unsafe.
//!
//! After a `list_changed` the tools are listed without a failure, too, unless the client does it within a second.

use mendline_wire::{Kind, Message};

use super::Upstream;
use super::call::{AwaitedHints, Owner};
use super::http::params;
use super::internal::InternalRequest;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Event;
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::effect::Effect;
use crate::request::{ClientRequest, ListKind, Op};
use crate::slab::Key;
use crate::timers::TimerId;

/// The state of the lookup.
#[derive(Debug, Default)]
pub struct Hints {
    /// The pages that were requested.
    pages: u32,
    /// The tools have changed, and the client did not list them.
    is_due: bool,
    timer: Option<TimerId>,
    last: Option<Moment>,
}

impl Upstream {
    /// Returns whether the effect of this call is not known yet. A call that failed before the tools were listed gets
    /// the effect that is known now.
    pub(super) fn lacks_hints(&mut self, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        let depends = matches!(call.owner, Owner::Client { .. })
            && call.request.op == Op::CallTool
            && call.effect == Effect::Unsafe
            && call.policy(&self.config).trust_hints
            && !call.is_looked_up;
        if !depends {
            return false;
        }
        if self.tools.knows(&call.request) {
            call.effect = self.tools.effect_of(&call.request);
            return false;
        }
        true
    }

    /// Holds a call whose outcome is unknown until the hints of its tool are known.
    pub(super) fn hold_for_hints(&mut self, key: Key, awaited: AwaitedHints, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let since = call.waiting_since(cx.now);
        let was_out = std::mem::take(&mut call.is_out);
        let (name, tool, why) = (call.name, call.tool.clone(), awaited.why.clone());
        cx.emit(Event::HintsAwaited { upstream: self.id, call: name, tool, why, was_out });
        call.stream.restart();
        call.awaited_hints = Some(Box::new(awaited));
        self.gate.note_waits(call.name);
        // A new key, so that a late answer to the lost attempt is not taken for that of the next one.
        let Some(key) = self.calls.rename(key) else { return };
        self.calls.wait(key, since, cx.now);
        self.disarm(key, cx);
        self.arm(key, cx);
        self.look_up_hints(cx);
    }

    /// Lists the tools, if their hints are needed and no lookup is in flight.
    pub(super) fn look_up_hints(&mut self, cx: &mut Cx<'_>) {
        let call = self.calls.waiting().map(|(_, call)| call).find(|call| call.awaited_hints.is_some());
        let is_needed = call.is_some() || self.hints.is_due;
        if !is_needed || !self.is_open() || self.gate.is_paused(cx.now) || self.runs(InternalRequest::Hints) {
            return;
        }
        let request = match call.filter(|call| call.request.is_modern()) {
            Some(call) => params::list_tools(&call.request, None),
            // Without a session only a modern request can be sent.
            None if self.session.was_initialized() || call.is_some() => params::in_session("tools/list", None),
            None => None,
        };
        self.hints.is_due = false;
        self.hints.pages = 0;
        self.hints.last = Some(cx.now);
        self.request_hints(request, cx);
    }

    fn request_hints(&mut self, request: Option<ClientRequest>, cx: &mut Cx<'_>) {
        match request {
            Some(request) => {
                self.hints.pages += 1;
                self.send_internal(InternalRequest::Hints, request, cx);
            }
            None => self.hints_unreadable(cx),
        }
    }

    /// Handles a page of the tools. After the last one the waiting calls are decided.
    pub(super) fn hints_answered(&mut self, request: &ClientRequest, page: &Message, cx: &mut Cx<'_>) {
        if page.kind() == Kind::Error {
            return self.hints_unreadable(cx);
        }
        self.tools.learn(page, self.hints.pages == 1);
        match page.get_str(&["nextCursor"]).filter(|_| self.hints.pages < defaults::LOOKUP_PAGES) {
            Some(cursor) if request.is_modern() => {
                let request = params::list_tools(request, Some(&cursor));
                self.request_hints(request, cx);
            }
            Some(cursor) => self.request_hints(params::in_session("tools/list", Some(&cursor)), cx),
            None => self.decide_by_hints(cx),
        }
    }

    /// Handles tools that cannot be listed: the calls stay unsafe. A lost link lists them again.
    pub(super) fn hints_unreadable(&mut self, cx: &mut Cx<'_>) {
        if self.is_open() {
            self.decide_by_hints(cx);
        }
    }

    /// Records a page of the tools that was read for another reason.
    pub(super) fn note_hints(&mut self, cx: &mut Cx<'_>) {
        if self.tools.is_complete() {
            self.hints.is_due = false;
            self.decide_by_hints(cx);
        }
    }

    /// Decides about the calls that wait for the hints of their tools.
    pub(super) fn decide_by_hints(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.take_waiting(|call| call.awaited_hints.is_some()) {
            let Some(call) = self.calls.get_mut(key) else { continue };
            let Some(awaited) = call.awaited_hints.take() else { continue };
            call.effect = self.tools.effect_of(&call.request);
            call.is_looked_up = true;
            let AwaitedHints { evidence, not_before, why, incident } = *awaited;
            self.resend_or_count(key, evidence, not_before.max(cx.now), why, incident, cx);
        }
    }

    /// Handles a change of the tools: their hints are not valid any more.
    pub(super) fn tools_changed(&mut self, cx: &mut Cx<'_>) {
        self.tools.forget();
        // Tools that the client has read are read again anyway.
        let is_read = self.lists.is_read(ListKind::Tools);
        if !self.config.trust_hints || is_read || self.hints.timer.is_some() {
            return;
        }
        let soon = cx.now + defaults::HINTS_DELAY;
        let at = self.hints.last.map_or(soon, |last| soon.max(last + defaults::HINTS_PAUSE));
        self.hints.timer = cx.timers.arm(at, Alarm::Hints(self.id));
    }

    /// Handles the timer after a change of the tools.
    pub fn handle_hints_timer(&mut self, cx: &mut Cx<'_>) {
        self.hints.timer = None;
        if !self.tools.is_complete() && self.session.was_initialized() {
            self.hints.is_due = true;
            self.look_up_hints(cx);
        }
    }

    /// Returns whether a lost attempt with this outcome waits for hints.
    pub(super) fn waits_for_hints(&mut self, key: Key, outcome: Outcome) -> bool {
        outcome == Outcome::Unknown && self.lacks_hints(key)
    }
}
