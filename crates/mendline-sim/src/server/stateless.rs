//! The rules of a legacy server without sessions: it answers every `initialize` and admits every request.
//!
//! It cannot distinguish conversations, so it sends neither requests nor notifications.

use mendline_wire::{Kind, Message, Method};

use super::{Admission, EraRules, legacy};

/// A server without session state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stateless;

impl EraRules for Stateless {
    fn admit(&mut self, message: &Message, _: &mut Vec<String>) -> Admission {
        match message.method() {
            Method::Initialize => Admission::Result(legacy::initialize_result(message)),
            Method::Ping => Admission::Result("{}".into()),
            Method::Discover => Admission::Error(-32601, "method not found"),
            _ if message.kind() == Kind::Request => Admission::Job,
            _ => Admission::Accepted,
        }
    }

    fn may_send_requests(&self) -> bool {
        false
    }

    fn may_notify(&self) -> bool {
        false
    }

    fn allows_repeated_initialize(&self) -> bool {
        true
    }
}
