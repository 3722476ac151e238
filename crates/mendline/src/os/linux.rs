//! What only Linux offers: pidfd, netlink, timerfd, `/proc`, the session bus.

pub mod activation;
pub(crate) mod child;
pub mod control_socket;
pub mod guard;
pub mod keyring;
pub(crate) mod login_shell;
pub(crate) mod network;
pub(crate) mod peer_user;
mod process_group;
pub mod processes;
mod raw;
pub(crate) mod sleep;
pub mod stdio;
pub mod system;
