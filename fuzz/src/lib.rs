//! What the fuzz targets check, apart from who drives them.
//!
//! The same functions are driven by libFuzzer (`cargo fuzz run message`) and, for a bounded number of seeded inputs, by
//! `crates/mendline-wire/tests/fuzz_smoke.rs`, `crates/mendline-config/tests/all/fuzz_smoke.rs` and
//! `crates/mendline/tests/fuzz_smoke.rs` in the ordinary tests.

pub mod config;
pub mod shell;
pub mod targets;
