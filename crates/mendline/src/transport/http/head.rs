//! Handles the head of a response.
//!
//! A redirect within the origin is followed. Otherwise the head is reported, and the body is read as its type requires.

use std::sync::Arc;
use std::time::SystemTime;

use http::{StatusCode, Version};
use mendline_core::Input;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId};

use super::body::Reader;
use super::exchange::{Assignment, Stage};
use super::transfer::Answer;
use super::{Dial, Http, coding, redirect, response};

impl<D: Dial> Http<D> {
    /// Handles the head of a response.
    pub(super) fn answered(&mut self, id: ExchangeId, assignment: Assignment, answer: Answer) {
        let parts = &answer.parts;
        if let Some((_, idle)) = self.exchanges.get(&id).and_then(|exchange| exchange.sent_after_idle) {
            self.pool.note_answered(idle);
        }
        if parts.version == Version::HTTP_2 && response::head_length(parts) > self.target.head_bytes {
            drop(answer);
            self.exchanges.remove(&id);
            let written = self.abandon(&assignment);
            self.end(id, ExchangeEnd::TooLarge, written);
            return;
        }
        if let Some(to) = redirect::target_of(parts) {
            return self.redirected(id, &assignment, answer, &to);
        }
        if matches!(parts.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.authorization.note_refusal(&parts.headers);
        }
        let head = response::head(parts, answer.is_empty, SystemTime::now);
        let content = head.content;
        self.facts.push(Input::Head { exchange: id, head });
        let limit = self.target.limits.message_bytes;
        if content == Content::Empty {
            self.exchanges.remove(&id);
            drop(answer);
            let written = self.finish(&assignment);
            self.end(id, ExchangeEnd::Complete, written);
            return;
        }
        let inflater = match coding::inflater_for(&parts.headers) {
            Ok(inflater) => inflater,
            Err(reason) => {
                drop(answer);
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
        let announced = answer.length.filter(|_| content != Content::Events);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = Stage::Reading { assignment, body: answer.body, reader };
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
    fn redirected(&mut self, id: ExchangeId, assignment: &Assignment, answer: Answer, to: &str) {
        let head = response::head(&answer.parts, answer.is_empty, SystemTime::now);
        let Answer { parts, body, .. } = answer;
        drop(body);
        let written = self.finish(assignment);
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
