//! What clients are told about reconnecting, unless it is to be silent.
//!
//! A call that waits and has a progress token sees "reconnecting, attempt 3 of 10" as its progress, so that a person who
//! watches knows that something is done. A client that has asked for log messages gets one when the server is lost, one
//! when it is given up for now, and one when it is back.

use serde_json::json;

use super::Upstream;
use super::call::Owner;
use crate::cx::Cx;
use crate::dispatch::ClientEvent;
use crate::event::LinkState;

/// What was said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcement {
    /// That all is well, or nothing at all.
    #[default]
    Connected,
    /// That it is being reconnected, for the how-manieth time.
    Reconnecting(u32),
    /// That it is given up for now.
    GivenUp,
}

impl Upstream {
    /// Tells what is new about the link to those who want to hear it.
    pub(super) fn announce(&mut self, cx: &mut Cx<'_>) {
        if self.config.reconnect.silent {
            return;
        }
        let redials = self.link.redials();
        let now = match self.link.state() {
            LinkState::Waiting | LinkState::Dialing if redials.is_some() => {
                // The one that comes next.
                let done = redials.map_or(0, |(done, _)| done);
                Announcement::Reconnecting(if self.link.state() == LinkState::Dialing { done } else { done + 1 })
            }
            LinkState::Parked => Announcement::GivenUp,
            LinkState::Up if self.session.is_open() => Announcement::Connected,
            _ => return,
        };
        let before = std::mem::replace(&mut self.last_announcement, now);
        if before == now {
            return;
        }
        let name = self.config.name.clone();
        match now {
            Announcement::Reconnecting(attempt) => {
                let of = redials.and_then(|(_, most)| most).map_or(String::new(), |most| format!(" of {most}"));
                let words = format!("reconnecting to {name:?}, attempt {attempt}{of}");
                self.send_own_progress(&words, cx);
                if before == Announcement::Connected {
                    let words = format!("lost the server {name:?} ({}); reconnecting", self.link.failure_reason());
                    self.send_log("warning", &words, cx);
                }
            }
            Announcement::GivenUp => {
                let why = self.link.failure_reason();
                let words = format!("the server {name:?} keeps failing ({why}); it is tried now and then");
                self.send_log("error", &words, cx);
            }
            Announcement::Connected => self.send_log("info", &format!("the server {name:?} is back"), cx),
        }
    }

    /// As progress of every call that waits and wants to know of it.
    fn send_own_progress(&mut self, words: &str, cx: &mut Cx<'_>) {
        for key in self.waiting.clone() {
            let Some(call) = self.calls.get_mut(key) else { continue };
            let (Owner::Client { client, request }, Some(progress)) = (call.owner, call.next_own_progress()) else {
                continue;
            };
            cx.send_to_client(client, ClientEvent::Reconnecting { request, progress, words: words.to_owned() });
        }
    }

    /// As a log message, for a client that has asked for messages of this level.
    fn send_log(&mut self, level: &str, words: &str, cx: &mut Cx<'_>) {
        const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let rank = |level: &str| LEVELS.iter().position(|it| *it == level);
        let is_wanted =
            self.session.log_level().and_then(|least| rank(&least)).is_some_and(|least| rank(level) >= Some(least));
        if !is_wanted {
            return;
        }
        let notice = json!({
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": { "level": level, "logger": "mendline", "data": words },
        });
        self.notify_all(&notice.to_string(), cx);
    }
}
