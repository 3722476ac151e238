//! `mendline completions`: scripts that complete the command line in a shell.
//!
//! Commands, options and their fixed values are generated from the command line itself. The names of servers and of their tools are known
//! only at completion time, so the scripts run `mendline completions --names` ([`names`]) with the typed line, and
//! [`line`] finds out, for all shells alike, whether a name is expected there. The scripts run only the `mendline` on
//! the PATH, never one in the current directory.

mod line;
mod names;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, ValueHint};
use clap_complete::generate;
use mendline::observe::log::LogLevel;

use self::names::{OPTIONS, SERVERS};
use crate::wrap::clients::Client;
use crate::{help, output};

const EXAMPLES: &str = "\
Examples:
  mendline completions bash > ~/.local/share/bash-completion/completions/mendline
  mendline completions zsh > ~/.zfunc/_mendline     with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  mendline completions fish > ~/.config/fish/completions/mendline.fish
  source <(mendline completions bash)               only for this shell

Open a new shell afterwards. The scripts complete commands, options, their values and names of
servers: those of the configuration file or those that run, as the command requires. After the
name of a server that a client has used, `tools` and `call` complete its tools.";

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
            let script = made(clap_complete::Shell::Bash, completed());
            format!("{}{script}", include_str!("completions/servers.bash"))
                .replace("complete -F _mendline ", "complete -F _mendline_or_server ")
        }
        Shell::Zsh => {
            // The generator knows a hint for host names but none for names of servers, so the result is replaced.
            let script = made(clap_complete::Shell::Zsh, named(completed())).replace(":_hosts", ":_mendline_servers");
            let (head, rest) = script.split_once('\n').unwrap_or_default();
            format!("{head}\n{}{rest}", include_str!("completions/servers.zsh"))
        }
        Shell::Fish => {
            // The names of servers as values of options are added below.
            let script = made(clap_complete::Shell::Fish, completed());
            let commands: Vec<&str> = SERVERS.iter().map(|(command, ..)| *command).collect();
            let ours = include_str!("completions/servers.fish").replace("COMMANDS", &commands.join(" "));
            let option = |(command, option, _): &(&str, &str, _)| {
                let wanted = format!("__fish_mendline_using_subcommand {command}");
                format!("complete -c mendline -n \"{wanted}\" -l {option} -x -a \"(__mendline_servers)\"\n")
            };
            let options: String = OPTIONS.iter().map(option).collect();
            format!("{script}{ours}{options}{}", fish_positionals(&completed()))
        }
    }
}

/// Returns the values of positional arguments for fish, which the generator leaves out.
fn fish_positionals(whole: &Command) -> String {
    let mut lines = String::new();
    for command in whole.get_subcommands() {
        for values in command.get_positionals().filter_map(|it| it.get_value_parser().possible_values()) {
            let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            let wanted = format!("__fish_mendline_using_subcommand {}", command.get_name());
            let _ = writeln!(lines, "complete -c mendline -n \"{wanted}\" -f -a \"{}\"", values.join(" "));
        }
    }
    lines
}

fn made(shell: clap_complete::Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    generate(shell, &mut command, "mendline", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the command line with the values that its options take, and without hidden options.
fn completed() -> Command {
    let visible = help::visible();
    // The library takes only static names; this runs once, before the program ends.
    let name = |command: &Command| -> &'static str { command.get_name().to_owned().leak() };
    let commands: Vec<&'static str> = visible.get_subcommands().map(name).collect();
    let shown = visible.get_subcommands().map(|command| {
        // An argument cannot be removed, so the command is built again without it.
        let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let arguments = arguments.map(|argument| with_values(argument.clone(), command.get_name(), &commands));
        let about = command.get_about().cloned().unwrap_or_default();
        Command::new(name(command)).about(about).args(arguments)
    });
    let about = visible.get_about().cloned().unwrap_or_default();
    Command::new("mendline").version(env!("CARGO_PKG_VERSION")).about(about).subcommands(shown.collect::<Vec<_>>())
}

/// Adds the values of an argument. An option without known values, and without a path, completes nothing.
fn with_values(argument: Arg, command: &str, commands: &[&'static str]) -> Arg {
    if !argument.get_action().takes_values() {
        return argument;
    }
    let values = |argument: Arg, values: Vec<&'static str>| argument.value_parser(PossibleValuesParser::new(values));
    if argument.get_value_parser().type_id() == std::any::TypeId::of::<LogLevel>() {
        return values(argument, LogLevel::NAMES.to_vec());
    }
    match (command, argument.get_id().as_str()) {
        ("wrap" | "unwrap" | "add" | "remove", "client") => values(argument, Client::ALL.map(Client::word).to_vec()),
        ("man", "command") => values(argument, commands.to_vec()),
        _ if argument.is_positional() || argument.get_value_hint() != ValueHint::Unknown => argument,
        _ if argument.get_value_parser().possible_values().is_some() => argument,
        _ => argument.value_hint(ValueHint::Other),
    }
}

/// Marks the arguments that take the name of a server.
fn named(command: Command) -> Command {
    let options = OPTIONS.iter().map(|(name, argument, _)| (name, argument));
    SERVERS.iter().map(|(name, argument, _)| (name, argument)).chain(options).fold(
        command,
        |command, (name, argument)| {
            // All arguments are mapped: changing one alone would change its position.
            let marked = |it: Arg| if it.get_id() == *argument { it.value_hint(ValueHint::Hostname) } else { it };
            command.mut_subcommand(name, |it| it.mut_args(marked))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_completes_server_names() {
        let zsh = script(Shell::Zsh);
        assert!(zsh.starts_with("#compdef mendline\n"), "the first line is what makes it a completion: {zsh}");
        assert_eq!(zsh.matches(":_mendline_servers'").count(), SERVERS.len() + OPTIONS.len());
        assert!(!zsh.contains("_hosts"));
        let bash = script(Shell::Bash);
        assert_eq!(bash.matches("complete -F _mendline_or_server ").count(), 2);
        assert!(!bash.contains("complete -F _mendline "));
        let fish = script(Shell::Fish);
        assert!(fish.contains("using_subcommand run serve login") && !fish.contains("COMMANDS"), "{fish}");
    }
    #[test]
    fn u09_every_script_offers_the_values_of_options() {
        for (shell, levels, clients) in [
            (Shell::Bash, "off error warn info debug", "claude-code claude-desktop cursor"),
            (Shell::Zsh, ":LEVEL:(off error warn info debug)", ":CLIENT:(claude-code claude-desktop cursor"),
            (Shell::Fish, "-l level", "-l client"),
        ] {
            let script = script(shell);
            assert!(script.contains(levels) && script.contains(clients), "{shell:?}: {script}");
            assert!(!script.contains("--entry-without") && !script.contains("-l entry-without"), "{shell:?}");
        }
    }

    #[test]
    fn u09_option_completes_values_a_path_or_nothing() {
        for command in completed().get_subcommands() {
            for option in command.get_opts().filter(|option| option.get_action().takes_values()) {
                let is_path = option.get_value_parser().type_id() == std::any::TypeId::of::<std::path::PathBuf>();
                let has_values = option.get_value_parser().possible_values().is_some();
                let hint = option.get_value_hint();
                let is_known = has_values || is_path || hint == ValueHint::Other;
                assert!(is_known, "{} {:?} offers files: {hint:?}", command.get_name(), option.get_long());
            }
        }
    }
}
