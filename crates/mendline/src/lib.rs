//! Thin tokio shells around the decisions of `mendline-core`.
//!
//! Nothing in this crate decides. [`driver`] carries bytes and facts between one engine and the world, [`frontend`] is
//! the side that clients see, [`transport`] the side that servers see, [`OS events`] what goes on around all
//! of them, [`observe`] tells people what happened, [`catalogue`] keeps what is known of servers on disk, in the
//! directory that [`state`] finds, and [`control`] lets their user look at all of it and steer it.
//! Everything that depends on an operating system sits in one of the last five, so that a test can put the real driver
//! between cables in memory.

mod background;
pub mod catalogue;
pub mod control;
pub mod driver;
pub mod frontend;
pub mod observe;
pub mod os_events;
mod raw;
pub mod state;
pub mod transport;

pub use driver::{Child, Client, Drained, Driver, Host, CacheStore, Observer, Direction};
/// The decisions that these shells carry out.
pub use mendline_core as decisions;
