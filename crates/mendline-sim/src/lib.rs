//! The world that Mendline is proven in.
//!
//! Nothing in here ships. A seed becomes a [`plan`]: upstreams, clients, faults and their times. A [`world::World`] lives it:
//! the engine on one side, scripted [`server`]s in simulated processes or behind URLs and scripted [`client`]s on the other, a
//! [`clock`] that jumps from one thing to the next. An [`oracle`] knows what really happened; [`check`]s compare it with what
//! the engine promised, after every step.
//!
//! Three ways in: [`run::run`] lives a seed, [`scenario`] plays a story from a text file and records what comes out, and
//! [`cli`] is `cargo xtask sim`. `defects/` holds what is planted into a copy of the core to prove that the checks see.

pub mod check;
pub mod child;
pub mod cli;
pub mod client;
pub mod clock;
pub mod coverage;
pub mod defect;
pub mod rng;
pub mod exchange;
pub mod fact;
pub mod fault;
pub mod journal;
pub mod machine;
pub mod catalogue;
pub mod oracle;
pub mod pipe;
pub mod plan;
pub mod plant;
pub mod run;
pub mod scenario;
pub mod server;
pub mod site;
pub mod server_faults;
pub mod network_faults;
pub mod world;

/// A copy of the core, made at build time, with every planted defect in it behind a question to [`plant`].
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
