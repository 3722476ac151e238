//! MCP over HTTP for many clients: the gateway.
//!
//! [`Listener`] accepts connections, [`Gateway`] answers requests, [`Hub`] connects them to the driver. Session ids are
//! sealed and carry what a session needs, so a restarted gateway knows its clients.

mod access;
mod admission;
mod audit;
mod body;
mod ended_sessions;
mod event_id;
mod forwarded;
mod gateway;
mod hub;
pub mod key_file;
mod listener;
mod operation;
mod paced_io;
mod param_headers;
mod posted_body;
mod principal;
mod reader;
mod request;
mod response;
mod server_pool;
mod session_id;
mod sessions;
mod stream_queue;
mod tls;
mod token;
pub mod token_file;

pub use access::{Access, Connection, Denied, LOCAL, Peer, WithoutToken};
pub use audit::Audit;
pub(crate) use body::ResponseBody;
pub use forwarded::{Network, NoNetwork};
pub use gateway::Gateway;
pub use hub::{Hub, HubFrontend};
pub use listener::{ConnectionLimits, Listener};
pub use paced_io::Pace;
pub use server_pool::{GatewayServer, ServerPool};
pub use session_id::{KEY_LEN, Sealer};
pub use tls::{CertificateChange, ServerTls};
pub use token::{AccessToken, NoHash, PrincipalLimits, TokenHash};
