//! The real thing: the binary, real processes, real signals, and a server that misbehaves on purpose.
//!
//! Every story waits for what it expects with a deadline and never sleeps to be lucky. What the server really did is read
//! from its ledger.

mod ending;
mod faults;
mod streams;
mod support;
mod transparency;
mod usage;
