//! Handles the head of a response.
//!
//! A redirect within the origin is followed. Otherwise the head is reported, and the body is read as its type requires.

use std::sync::Arc;
use std::time::SystemTime;

use http::response::Parts;
use http::{StatusCode, Version};
use mendline_core::Input;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId};

use super::body::Reader;
use super::exchange::{Assignment, Stage};
use super::transfer::ResponseBody;
use super::{Dial, Http, coding, redirect, response};

impl<D: Dial> Http<D> {
    /// Handles the head of a response.
    pub(super) fn answered(&mut self, id: ExchangeId, assignment: Assignment, parts: &Parts, body: ResponseBody) {
        if let Some((_, idle)) = self.exchanges.get(&id).and_then(|exchange| exchange.sent_after_idle) {
            self.pool.note_answered(idle);
        }
        if parts.version == Version::HTTP_2 && response::head_length(parts) > self.target.head_bytes {
            drop(body);
            self.exchanges.remove(&id);
            let written = self.abandon(&assignment);
            self.end(id, ExchangeEnd::TooLarge, written);
            return;
        }
        if let Some(to) = redirect::target_of(parts) {
            return self.redirected(id, &assignment, parts, body, &to);
        }
        if matches!(parts.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.authorization.note_refusal(&parts.headers);
        }
        let idle_limit = response::idle_limit(parts);
        let head = response::head(parts, body.is_over(), SystemTime::now);
        let content = head.content;
        self.facts.push(Input::Head { exchange: id, head });
        let limit = self.target.limits.message_bytes;
        if content == Content::Empty {
            self.exchanges.remove(&id);
            let written = self.finish(&assignment, idle_limit, body);
            self.end(id, ExchangeEnd::Complete, written);
            return;
        }
        let inflater = match coding::inflater_for(&parts.headers) {
            Ok(inflater) => inflater,
            Err(reason) => {
                drop(body);
                self.exchanges.remove(&id);
                let written = self.abandon(&assignment);
                self.end(id, ExchangeEnd::Cut(reason), written);
                return;
            }
        };
        let reader = match content {
            Content::Events => Reader::events(limit, inflater),
            _ => Reader::whole(limit, inflater),
        };
        let announced = response::length(parts).filter(|_| content != Content::Events);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = Stage::Reading { assignment, body, reader, idle_limit };
            // The body is not sent again, so it is not kept while the response streams for hours.
            exchange.request.body = None;
            exchange.has_unreported = true;
            self.reported.push(id);
        }
        if announced.is_some_and(|length| length > limit as u64) {
            self.fail(id, ExchangeEnd::TooLarge);
        }
    }

    /// Handles a redirect.
    fn redirected(&mut self, id: ExchangeId, assignment: &Assignment, parts: &Parts, body: ResponseBody, to: &str) {
        let head = response::head(parts, body.is_over(), SystemTime::now);
        let written = self.finish(assignment, response::idle_limit(parts), body);
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match redirect::follow(parts.status, &exchange.location, to, exchange.redirects) {
            Ok(location) => {
                exchange.redirects += 1;
                exchange.location = Arc::new(location);
                self.waiting.push_front(id);
            }
            Err(why) => {
                self.exchanges.remove(&id);
                self.facts.push(Input::Head { exchange: id, head });
                self.end(id, ExchangeEnd::Forbidden(why), written);
            }
        }
    }
}
