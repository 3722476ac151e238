//! The rules of a legacy server: nothing is admitted before the handshake.
//!
//! Real servers of this era answer `-32602` or exit when a request arrives before `notifications/initialized`. This
//! server answers an error and records a violation, because Mendline must never cause this, not even for a child that
//! replaces another.

use mendline_wire::{Kind, Message, Method};

use super::{Admission, EraRules};

/// The state of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Legacy {
    /// Nothing was received.
    #[default]
    New,
    /// `initialize` was answered.
    Initializing,
    /// `notifications/initialized` came.
    Ready,
}

/// Returns the result of `initialize`.
pub(super) fn initialize_result(message: &Message) -> String {
    let version = message.get_str(&["protocolVersion"]).unwrap_or_default();
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"notes","version":"1.0"}}}}"#
    )
}

impl EraRules for Legacy {
    fn admit(&mut self, message: &Message, violations: &mut Vec<String>) -> Admission {
        match (message.method(), *self) {
            // A client may repeat `initialize` after its first attempt timed out.
            (Method::Initialize, Legacy::New | Legacy::Initializing) => {
                *self = Legacy::Initializing;
                Admission::Result(initialize_result(message))
            }
            (Method::Initialize, _) => {
                violations.push("was initialized twice".into());
                Admission::Error(-32600, "already initialized")
            }
            (Method::Initialized, Legacy::Initializing) => {
                *self = Legacy::Ready;
                Admission::Accepted
            }
            // It is sent again if its connection broke: it may have arrived.
            (Method::Initialized, Legacy::Ready) => Admission::Accepted,
            (Method::Initialized, _) => {
                violations.push("received notifications/initialized out of order".into());
                Admission::Accepted
            }
            (Method::Ping, _) => Admission::Result("{}".into()),
            (Method::Discover, _) => Admission::Error(-32601, "method not found"),
            (_, Legacy::Ready) if message.kind() == Kind::Request => Admission::Job,
            (_, Legacy::Ready) | (Method::Cancelled, _) => Admission::Accepted,
            (_, _) => {
                violations.push(format!("received {} before the handshake was complete", message.method_name()));
                Admission::Error(-32602, "not initialized")
            }
        }
    }

    fn may_send_requests(&self) -> bool {
        *self == Legacy::Ready
    }

    fn may_notify(&self) -> bool {
        *self == Legacy::Ready
    }
}
