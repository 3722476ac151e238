//! The rules of a modern server: no handshake, but every request names its protocol version.

use mendline_wire::{Kind, Message, Method};

use super::{Admission, EraRules};

const VERSION: &[&str] = &["_meta", "io.modelcontextprotocol/protocolVersion"];

/// A server without session state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modern;

impl EraRules for Modern {
    fn admit(&mut self, message: &Message, _: &mut Vec<String>) -> Admission {
        match message.method() {
            Method::Initialize => Admission::Error(-32601, "method not found"),
            _ if message.kind() != Kind::Request => Admission::Accepted,
            _ if message.get(VERSION).is_none() => Admission::Error(-32602, "no protocol version"),
            Method::Discover => Admission::Result(
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#
                    .into(),
            ),
            _ => Admission::Job,
        }
    }

    fn may_send_requests(&self) -> bool {
        false
    }

    fn may_notify(&self) -> bool {
        false
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
