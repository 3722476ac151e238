//! The door of a legacy server: nothing before the handshake.
//!
//! Real servers of this era answer `-32602` or exit when a request comes before `notifications/initialized`; this one answers
//! an error *and* complains, because with Mendline in between it must never happen, least of all to a child that replaced
//! another.

use mendline_wire::{Kind, Message, Method};

use super::{Admission, EraRules};

/// How far the handshake is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Legacy {
    /// Nobody has spoken.
    #[default]
    New,
    /// `initialize` was answered.
    Initializing,
    /// `notifications/initialized` came.
    Ready,
}

/// What is answered to `initialize`.
pub(super) fn initialize_result(message: &Message) -> String {
    let version = message.get_str(&["protocolVersion"]).unwrap_or_default();
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"notes","version":"1.0"}}}}"#
    )
}

impl EraRules for Legacy {
    fn admit(&mut self, message: &Message, violations: &mut Vec<String>) -> Admission {
        match (message.method(), *self) {
            // A client whose first greeting ran into its deadline may try again.
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
            (Method::Initialized, _) => {
                violations.push("was told that it is initialized out of turn".into());
                Admission::Accepted
            }
            (Method::Ping, _) => Admission::Result("{}".into()),
            (Method::Discover, _) => Admission::Error(-32601, "method not found"),
            (_, Legacy::Ready) if message.kind() == Kind::Request => Admission::Job,
            (_, Legacy::Ready) | (Method::Cancelled, _) => Admission::Accepted,
            (_, _) => {
                violations.push(format!("was sent {} before the handshake was over", message.method_name()));
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
