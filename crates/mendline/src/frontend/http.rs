//! MCP over HTTP for many clients: the gateway.
//!
//! [`Listener`] accepts connections, [`Gateway`] answers requests, [`Hub`] connects them to the driver. Session ids are
//! sealed and carry what a session needs, so a restarted gateway knows its clients.

mod access;
mod access_log;
mod admission;
mod audit;
mod authorize;
mod body;
mod denied;
mod ended_sessions;
mod event_id;
mod forward_headers;
mod forwarded;
mod gateway;
mod hub;
mod issuer;
mod jwt;
mod kept_streams;
pub mod key_file;
mod line_log;
mod listener;
mod operation;
mod paced_io;
mod param_headers;
mod posted_body;
mod principal;
mod progress;
mod protected_resource;
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
pub use access_log::AccessLog;
pub use audit::Audit;
pub(crate) use body::ResponseBody;
pub use forward_headers::ForwardedValues;
pub use forwarded::{Network, NoNetwork};
pub use gateway::Gateway;
pub use hub::{Hub, HubFrontend};
pub use issuer::{JWT_PREFIX, JwtIssuer, JwtSettings};
pub use jwt::JwtFault;
pub use listener::{ConnectionLimits, Listener};
pub use paced_io::Pace;
pub use server_pool::{GatewayServer, ServerPool};
pub use session_id::{KEY_LEN, Sealer};
pub use tls::{CertificateChange, ServerTls};
pub use token::{AccessToken, NoHash, PrincipalLimits, TokenHash};
