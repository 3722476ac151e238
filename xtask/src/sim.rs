//! `cargo xtask sim`: runs simulated worlds, implemented in `mendline_sim::cli`.

pub fn run(args: &[String]) -> Result<(), String> {
    mendline_sim::cli::run(args)
}
