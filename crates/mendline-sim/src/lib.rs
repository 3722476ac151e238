//! Deterministic simulation of Mendline.
//!
//! This crate is for tests only. A seed determines a [`plan`]: upstreams, clients, faults and their times. A
//! [`world::World`] runs the plan: the engine on one side, scripted [`server`]s (processes or HTTP servers) and
//! scripted [`client`]s on the other, and a [`clock`] that jumps from one event to the next. An [`oracle`] records what
//! actually happened. After every step, [`check`]s compare it with the invariants.
//!
//! There are three entry points: [`run::run`] runs one seed, [`scenario`] runs a script from a text file and records
//! its output, and [`cli`] implements `cargo xtask sim`. `defects/` holds defects that are planted into a copy of the
//! core to prove that the checks detect them.

pub mod authorization;
mod catalogue;
pub mod check;
pub mod child;
pub mod cli;
pub mod client;
pub mod client_streams;
pub mod clock;
pub mod coverage;
pub mod defect;
pub mod exchange;
pub mod fact;
pub mod fault;
pub mod journal;
pub mod machine;
pub mod network_faults;
pub mod oracle;
pub mod pipe;
pub mod plan;
pub mod plant;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod server;
pub mod server_faults;
pub mod site;
pub mod world;

/// A copy of the core, made at build time. It contains every planted defect; [`plant`] selects the active one.
#[doc(hidden)]
#[allow(
    clippy::all,
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    rustdoc::all,
    reason = "the original is linted where it lives"
)]
pub mod planted {
    pub(crate) use crate::plant;

    include!(concat!(env!("OUT_DIR"), "/planted/lib.rs"));
}
