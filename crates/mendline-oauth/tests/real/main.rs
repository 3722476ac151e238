//! Logins with real sockets, the authorization server of `faults/`, and processes that are killed.

mod killed;
mod logins;
mod stage;
