//! `cargo xtask sim`: simulated worlds. The work is done in `mendline_sim::cli`.

pub fn run(args: &[String]) -> Result<(), String> {
    mendline_sim::cli::run(args)
}
