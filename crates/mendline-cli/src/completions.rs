//! `mendline completions`: scripts that complete the command line in a shell.
//!
//! Commands and options are generated from the command line itself. The names of servers and of their tools are known
//! only at completion time, so the scripts run `mendline completions --names` ([`names`]) with the typed line, and
//! [`line`] finds out, for all shells alike, whether a name is expected there. The scripts run only the `mendline` on
//! the PATH, never one in the current directory.

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

Open a new shell afterwards. The scripts complete commands, options and names of servers: those of
the configuration file or those that run, as the command requires. After the name of a server
that a client has used, `tools` and `call` complete its tools.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline completions <SHELL>")]
pub(crate) struct CompletionsOptions {
    /// Shell: bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true, required = true)]
    shell: Option<Shell>,

    /// Typed line for which to print the names that may follow; used by the scripts
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, exclusive = true, hide = true)]
    names: Option<String>,
}

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script of a shell, or the names for a script.
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
            // Our function runs first, and calls the generated one.
            let script = made(clap_complete::Shell::Bash, help::visible());
            format!("{}{script}", include_str!("completions/servers.bash"))
                .replace("complete -F _mendline ", "complete -F _mendline_or_server ")
        }
        Shell::Zsh => {
            // The generator knows a hint for host names but none for names of servers, so the result is replaced.
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

/// Marks the arguments that take the name of a server.
fn named(command: Command) -> Command {
    SERVERS.iter().fold(command, |command, (name, argument, _)| {
        // All arguments are mapped: changing one alone would change its position.
        let marked = |it: Arg| if it.get_id() == *argument { it.value_hint(ValueHint::Hostname) } else { it };
        command.mut_subcommand(name, |it| it.mut_args(marked))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_completes_server_names() {
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
