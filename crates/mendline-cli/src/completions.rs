//! `mendline completions`: what a shell needs to complete our command line.
//!
//! Commands and options are made from the command line itself, so that they cannot fall behind. Names of servers and of
//! their tools are known only when somebody asks for them, so the scripts ask us back ([`names`]) with the line as it was
//! typed; whether a name is wanted there, we find out ourselves ([`line`]), once for all shells. Only the `mendline` on the
//! PATH is asked, and not one that happens to lie where somebody types.

mod line;
mod names;

use std::process::ExitCode;

use clap::{Arg, Args, Command, ValueHint};
use clap_complete::generate;

use self::names::SERVERS;
use crate::{help, output};

const EXAMPLES: &str = "\
Examples:
  mendline completions bash > ~/.local/share/bash-completion/completions/mendline
  mendline completions zsh > ~/.zfunc/_mendline     with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  mendline completions fish > ~/.config/fish/completions/mendline.fish
  source <(mendline completions bash)               only for this shell

A new shell has them. They know commands, options and the names of your servers: those of the
configuration file or those that run, whichever the command takes. After the name of a server
that a client has used, `tools` and `call` know its tools.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline completions <SHELL>")]
pub(crate) struct CompletionsOptions {
    /// The shell: bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true, required = true)]
    shell: Option<Shell>,

    /// The names of servers or tools that could come next on a line that was typed so far: what the scripts ask
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, exclusive = true, hide = true)]
    names: Option<String>,
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
    match (options.shell, &options.names) {
        (Some(shell), _) => {
            output::data(script(shell).as_bytes());
            ExitCode::SUCCESS
        }
        (None, line) => names::answer(line.as_deref().unwrap_or_default()),
    }
}

fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => {
            // Ours is asked first, and asks the other one.
            let script = made(clap_complete::Shell::Bash, help::visible());
            format!("{}{script}", include_str!("completions/servers.bash"))
                .replace("complete -F _mendline ", "complete -F _mendline_or_server ")
        }
        Shell::Zsh => {
            // What is said of a place for the name of a host is true of one for the name of a server, but for who knows it.
            let script =
                made(clap_complete::Shell::Zsh, named(help::visible())).replace(":_hosts", ":_mendline_servers");
            let (head, rest) = script.split_once('\n').unwrap_or_default();
            format!("{head}\n{}{rest}", include_str!("completions/servers.zsh"))
        }
        Shell::Fish => {
            let script = made(clap_complete::Shell::Fish, help::visible());
            let commands: Vec<&str> = SERVERS.iter().map(|(command, ..)| *command).collect();
            let ours = include_str!("completions/servers.fish").replace("COMMANDS", &commands.join(" "));
            format!("{script}{ours}")
        }
    }
}

fn made(shell: clap_complete::Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    generate(shell, &mut command, "mendline", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The same, with the places marked where a server is named.
fn named(command: Command) -> Command {
    SERVERS.iter().fold(command, |command, (name, argument, _)| {
        // All arguments are passed through: one that is changed alone loses its place among the others.
        let marked = |it: Arg| if it.get_id() == *argument { it.value_hint(ValueHint::Hostname) } else { it };
        command.mut_subcommand(name, |it| it.mut_args(marked))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_asks_us_wherever_a_server_is_named() {
        let zsh = script(Shell::Zsh);
        assert!(zsh.starts_with("#compdef mendline\n"), "the first line is what makes it a completion: {zsh}");
        assert_eq!(zsh.matches(":_mendline_servers'").count(), SERVERS.len());
        assert!(!zsh.contains("_hosts"));
        let bash = script(Shell::Bash);
        assert_eq!(bash.matches("complete -F _mendline_or_server ").count(), 2);
        assert!(!bash.contains("complete -F _mendline "));
        let fish = script(Shell::Fish);
        assert!(fish.contains("using_subcommand run doctor") && !fish.contains("COMMANDS"), "{fish}");
    }
}
