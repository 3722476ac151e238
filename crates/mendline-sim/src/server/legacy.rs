//! The door of a legacy server: nothing before the handshake.
//!
//! Real servers of this era answer `-32602` or exit when a request comes before `notifications/initialized`; this one answers
//! an error *and* complains, because with Mendline in between it must never happen, least of all to a child that replaced
//! another.

use mendline_wire::{Kind, Message, Method};

use super::{Admission, Door};

/// How far the handshake is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Legacy {
    /// Nobody has spoken.
    #[default]
    Fresh,
    /// `initialize` was answered.
    Greeted,
    /// `notifications/initialized` came.
    Ready,
}

/// What is answered to `initialize`.
pub(super) fn greeting(message: &Message) -> String {
    let version = message.get_str(&["protocolVersion"]).unwrap_or_default();
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"notes","version":"1.0"}}}}"#
    )
}

impl Door for Legacy {
    fn admit(&mut self, message: &Message, complaints: &mut Vec<String>) -> Admission {
        match (message.method(), *self) {
            // A client whose first greeting ran into its deadline may try again.
            (Method::Initialize, Legacy::Fresh | Legacy::Greeted) => {
                *self = Legacy::Greeted;
                Admission::Result(greeting(message))
            }
            (Method::Initialize, _) => {
                complaints.push("was initialized twice".into());
                Admission::Error(-32600, "already initialized")
            }
            (Method::Initialized, Legacy::Greeted) => {
                *self = Legacy::Ready;
                Admission::Taken
            }
            (Method::Initialized, _) => {
                complaints.push("was told that it is initialized out of turn".into());
                Admission::Taken
            }
            (Method::Ping, _) => Admission::Result("{}".into()),
            (Method::Discover, _) => Admission::Error(-32601, "method not found"),
            (_, Legacy::Ready) if message.kind() == Kind::Request => Admission::Job,
            (_, Legacy::Ready) | (Method::Cancelled, _) => Admission::Taken,
            (_, _) => {
                complaints.push(format!("was sent {} before the handshake was over", message.method_name()));
                Admission::Error(-32602, "not initialized")
            }
        }
    }

    fn may_ask(&self) -> bool {
        *self == Legacy::Ready
    }

    fn may_notify(&self) -> bool {
        *self == Legacy::Ready
    }
}
