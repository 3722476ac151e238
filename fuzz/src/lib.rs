//! The checks of the fuzz targets, independent of the driver.
//!
//! libFuzzer runs them (`cargo fuzz run message`). In the ordinary tests, `crates/mendline-wire/tests/fuzz_smoke.rs`,
//! `crates/mendline-config/tests/all/fuzz_smoke.rs` and `crates/mendline/tests/fuzz_smoke.rs` run them for a limited
//! number of seeded inputs.

pub mod config;
pub mod shell;
pub mod targets;
