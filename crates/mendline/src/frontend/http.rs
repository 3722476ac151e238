//! MCP over HTTP for many clients: the gateway.
//!
//! [`Listener`] accepts connections, [`Gateway`] answers requests, [`Hub`] connects them to the driver. Session ids are
//! sealed and carry what a session needs, so a restarted gateway knows its clients.

mod access;
mod body;
mod ended_sessions;
mod event_id;
mod gateway;
mod hub;
pub mod key_file;
mod listener;
mod param_headers;
mod reader;
mod request;
mod response;
mod session_id;
mod sessions;
mod stream_queue;

pub use access::{Access, AccessToken, Denied};
pub use gateway::{Gateway, GatewayServer};
pub use hub::{Hub, HubFrontend};
pub use listener::Listener;
pub use session_id::{KEY_LEN, Sealer};
