//! `mendline completions`: what a shell needs to complete our command line.
//!
//! Made from the command line itself, so that it cannot fall behind.

use std::process::ExitCode;

use clap::Args;
use clap_complete::generate;

use crate::{cli, help};

const EXAMPLES: &str = "\
Examples:
  mendline completions bash > ~/.local/share/bash-completion/completions/mendline
  mendline completions zsh > ~/.zfunc/_mendline     with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  mendline completions fish > ~/.config/fish/completions/mendline.fish
  source <(mendline completions bash)               only for this shell

A new shell has them.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsOptions {
    /// The shell: bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    shell: Shell,
}

/// A shell that people use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints them.
pub(crate) fn run(options: &CompletionsOptions) -> ExitCode {
    let generator = match options.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    generate(generator, &mut help::visible(), "mendline", &mut script);
    cli::print(&script)
}
