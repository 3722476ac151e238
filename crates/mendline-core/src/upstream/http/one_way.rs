//! Messages without a response: notifications, answers to the server, cancellations.
//!
//! Each is a POST of its own, so their number in flight is bounded, and each has a timeout. The others wait in the
//! outbox, in order; calls overtake them. Two kinds have slots of their own: `initialized`, which everything waits for,
//! and cancellations, which are useless when late.

use mendline_wire::Method;

use super::HttpLink;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Dropped;
use crate::port::{ExchangeId, HttpRequest, Reuse, Verb};
use crate::upstream::Upstream;
use crate::upstream::exchange::{Exchange, OneWay, Purpose};
use crate::upstream::link::Link;
use crate::upstream::outbox::Out;

/// The number of free slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeSlots {
    one_way: usize,
    cancellations: usize,
}

impl FreeSlots {
    /// Room for calls only.
    pub(super) const NONE: FreeSlots = FreeSlots { one_way: 0, cancellations: 0 };

    pub(super) fn has_room_for(self, out: &Out) -> bool {
        match out {
            Out::Call(_) | Out::Text(_, Method::Initialized) => true,
            Out::Text(_, Method::Cancelled) => self.cancellations > 0,
            Out::Text(..) => self.one_way > 0,
        }
    }
}

impl HttpLink {
    /// The free slots.
    pub(super) fn free_slots(&self) -> FreeSlots {
        let under_way = |matches: fn(Method) -> bool| {
            let one_way = self.exchanges.values().filter(|exchange| exchange.purpose == Purpose::OneWay);
            one_way.filter(|exchange| exchange.one_way.as_ref().is_some_and(|one_way| matches(one_way.method))).count()
        };
        let cancellations = under_way(|method| method == Method::Cancelled);
        let one_way = under_way(|method| !matches!(method, Method::Cancelled | Method::Initialized));
        FreeSlots {
            one_way: defaults::ONE_WAY_IN_FLIGHT.saturating_sub(one_way),
            cancellations: defaults::ONE_WAY_IN_FLIGHT.saturating_sub(cancellations),
        }
    }

    /// Arms the timer of the oldest message in flight. `initialized` has its own timer.
    fn watch_one_way(&mut self, cx: &mut Cx<'_>) {
        if self.one_way_timer.is_none() {
            let timed = self
                .exchanges
                .iter()
                .filter(|(id, it)| it.purpose == Purpose::OneWay && Some(**id) != self.pending_initialized);
            let next = timed.filter_map(|(_, it)| it.one_way.as_ref().map(|one_way| one_way.until)).min();
            self.one_way_timer = next.and_then(|until| cx.wake_in(until.since(cx.now), Alarm::OneWay(self.upstream)));
        }
    }
}

impl Upstream {
    pub(in crate::upstream) fn post_one_way(&mut self, one_way: OneWay, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let headers = http.session_headers(false);
        let method = one_way.method;
        let one_way = OneWay { until: cx.now + defaults::ONE_WAY, ..one_way };
        let request =
            HttpRequest { verb: Verb::Post, target: http.endpoint.clone(), headers, body: Some(one_way.text.clone()) };
        let exchange = Exchange { one_way: Some(one_way), ..Exchange::new(Purpose::OneWay) };
        let reuse = if exchange.one_way.as_ref().is_some_and(|it| it.lost > 0) { Reuse::Fresh } else { Reuse::Any };
        let id = http.begin(exchange, request, reuse, cx);
        if method == Method::Initialized {
            http.pending_initialized = Some(id);
            cx.disarm(&mut http.handshake_timer);
            http.handshake_timer = cx.wake_in(self.config.timeouts.handshake, Alarm::Handshake(self.id));
        }
        http.watch_one_way(cx);
    }

    /// Gives up messages that the server did not accept in time, which frees their slots.
    pub fn handle_one_way_timer(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.one_way_timer = None;
        let is_late = |id: &ExchangeId, exchange: &Exchange| {
            let is_due = exchange.one_way.as_ref().is_some_and(|one_way| one_way.until <= cx.now);
            exchange.purpose == Purpose::OneWay && is_due && Some(*id) != http.pending_initialized
        };
        let late = http.exchanges.iter().filter(|(id, exchange)| is_late(id, exchange));
        let late: Vec<_> =
            late.map(|(id, exchange)| (*id, exchange.one_way.as_ref().map(|one_way| one_way.method))).collect();
        self.give_up(late, cx);
        if let Link::Http(http) = &mut self.link {
            http.watch_one_way(cx);
        }
    }

    /// Gives up messages of an ended session, which frees their slots.
    pub(super) fn give_up_one_way(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let matches = |exchange: &Exchange| exchange.purpose == Purpose::OneWay && exchange.status.is_none();
        let matching = http.exchanges.iter().filter(|(_, it)| matches(it));
        let matching: Vec<_> =
            matching.map(|(id, it)| (*id, it.one_way.as_ref().map(|one_way| one_way.method))).collect();
        self.give_up(matching, cx);
    }

    fn give_up(&mut self, one_way: Vec<(ExchangeId, Option<Method>)>, cx: &mut Cx<'_>) {
        for (id, method) in one_way {
            if let Link::Http(http) = &mut self.link {
                http.abort(id, cx);
            }
            // `initialized` is part of the handshake, which is replayed.
            if method != Some(Method::Initialized) {
                self.drop_message(method.unwrap_or(Method::None), Dropped::Undeliverable, cx);
            }
        }
    }
}
