//! Notifications to clients about reconnects, unless they are disabled.
//!
//! A waiting call with a progress token receives "reconnecting, attempt 3 of 10" as progress. A client
//! receives a log message when the server is lost, one when it is parked, and one when it is back, from the level
//! `warning` up or from the level that it has set. The last one has the level of the message before it, so that a
//! client that is told of the loss is told of its end, too. In the modern era a client gets log messages only within a
//! request that asks for them, so it gets none of these.

use bytes::Bytes;
use mendline_wire::Message;
use serde_json::json;

use super::Upstream;
use super::call::Owner;
use super::clients::Level;
use crate::cx::Cx;
use crate::dispatch::{ClientEvent, NoticeAbout};
use crate::event::LinkState;

/// The last announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcement {
    /// The server is connected, or nothing was announced.
    #[default]
    Connected,
    /// The server is being reconnected.
    Reconnecting {
        attempt: u32,
        /// It was parked since the loss.
        was_parked: bool,
    },
    /// The server is parked.
    Parked,
}

impl Announcement {
    fn was_parked(self) -> bool {
        matches!(self, Announcement::Parked | Announcement::Reconnecting { was_parked: true, .. })
    }
}

impl Upstream {
    /// Announces a change of the link's state.
    pub(super) fn announce(&mut self, cx: &mut Cx<'_>) {
        let redials = self.link.redials();
        let now = match self.link.state() {
            LinkState::Waiting | LinkState::Dialing if redials.is_some() => {
                // The next attempt.
                let done = redials.map_or(0, |(done, _)| done);
                let attempt = if self.link.state() == LinkState::Dialing { done } else { done + 1 };
                Announcement::Reconnecting { attempt, was_parked: self.last_announcement.was_parked() }
            }
            LinkState::Parked => Announcement::Parked,
            LinkState::Up if self.session.is_open() => Announcement::Connected,
            _ => return,
        };
        let before = std::mem::replace(&mut self.last_announcement, now);
        if before == now {
            return;
        }
        let name = self.config.name.clone();
        match now {
            Announcement::Reconnecting { attempt, .. } => {
                let of = redials.and_then(|(_, most)| most).map_or(String::new(), |most| format!(" of {most}"));
                let words = format!("reconnecting to {name:?}, attempt {attempt}{of}");
                self.send_own_progress(&words, cx);
                if before == Announcement::Connected {
                    let words = format!("lost the server {name:?} ({}); reconnecting", self.link.failure_reason());
                    self.send_log("warning", &words, cx);
                }
            }
            // A parked server is reported once, however often it is tried.
            Announcement::Parked if before.was_parked() => {}
            Announcement::Parked => {
                let why = self.link.failure_reason();
                let words = format!("the server {name:?} keeps failing ({why}); it is parked and probed rarely");
                self.send_log("error", &words, cx);
            }
            Announcement::Connected => {
                let level = if before.was_parked() { "error" } else { "warning" };
                self.send_log(level, &format!("the server {name:?} is back"), cx);
            }
        }
    }

    /// Sends progress to every waiting call that has a progress token.
    fn send_own_progress(&mut self, words: &str, cx: &mut Cx<'_>) {
        for key in self.calls.waiting_keys() {
            let Some(call) = self.calls.get_mut(key) else { continue };
            let (Owner::Client { client, request }, Some(progress)) = (call.owner, call.next_own_progress()) else {
                continue;
            };
            cx.send_to_client(client, ClientEvent::Reconnecting { request, progress, words: words.to_owned() });
        }
    }

    /// Sends a log message to the clients: from `warning` up, or from the level that they have set.
    fn send_log(&mut self, level: &str, words: &str, cx: &mut Cx<'_>) {
        // Only the legacy era has a handshake.
        if !self.session.was_initialized() {
            return;
        }
        let notice = json!({
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": { "level": level, "logger": "mendline", "data": words },
        });
        let Ok(message) = Message::parse(Bytes::from(notice.to_string())) else { return };
        for client in self.clients.ids() {
            if Level::named(level) >= self.clients.level_of(client).or(Some(Level::WARNING)) {
                cx.send_to_client(
                    client,
                    ClientEvent::Notice { message: message.clone(), about: NoticeAbout::Session },
                );
            }
        }
    }
}
