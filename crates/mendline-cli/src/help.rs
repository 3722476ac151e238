//! Help: the first page, the help of commands with many options, and errors.
//!
//! The texts of a command are in the file of its options; this module orders them. A command without a group below
//! appears under "More", which a test reports. The first page, the completions and the manual pages use the same
//! definitions.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::bare_command;
use crate::cli::Cli;
use crate::prose::folded;
use crate::style::{Style, width};

/// Groups of commands, by purpose.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Connect", &["run", "serve", "login", "logout", "token"]),
    ("Inspect", &["status", "stats", "metrics", "list", "logs", "explain", "doctor", "report", "tools"]),
    ("Control", &["call", "reconnect", "isolate", "resume"]),
    ("Set up", &["wrap", "unwrap", "add", "set", "unset", "remove", "check", "schema", "completions", "man"]),
    ("Try it", &["demo", "chaos"]),
];

/// Heading of commands without a group.
const REST: &str = "More";

/// First steps, in this order.
const FIRST_STEPS: [(&str, &str); 5] = [
    ("demo", "see in twenty seconds what Mendline repairs"),
    ("wrap --dry-run", "show the changes to the files of your clients"),
    ("wrap", "write the changes; `mendline unwrap` undoes them"),
    ("status --watch", "watch the state of your servers"),
    ("doctor", "find out what is wrong, and what to do about it"),
];

/// Arguments that `--help` shows, of the commands with many options, each with a shorter text if there is one.
/// `--help-all` shows the others, too.
const COMMON: [(&str, &[(&str, &str)]); 7] = [
    (
        "run",
        &[
            ("target", ""),
            ("command", ""),
            ("name", "Name in logs and errors [default: from the command or host]"),
            ("log_level", "Messages on stderr: off, error, warn, info or debug"),
            ("header", "Header for the URL, as 'Name: value'; may be repeated"),
            ("config", "Configuration file that has NAME, also that of a client"),
            ("max_retries", "Reconnect attempts; -1: unlimited, 0: none [default: 10]"),
            ("keep_alive", "Interval of pings to an idle server [default: 30s]"),
            ("effect", "Effect of a tool: read, idempotent or unsafe"),
            ("max_in_flight", "Calls in flight; others wait (backpressure) [default: 256]"),
            ("no_breaker", "Turn the circuit breaker off"),
            ("rate_limit", "Limit of calls per time: 10/s, 30/m:5 [default: no limit]"),
            ("call_timeout", "Time limit of a call without progress [default: 5m]"),
            ("recovery_timeout", "Time that a call waits for a lost server [default: 45s]"),
            ("startup", "Answer the handshake from the cache, or let the server answer"),
            ("no_catalogue", "Keep no cache of the server's handshake and lists"),
            ("help_all", ""),
        ],
    ),
    (
        "login",
        &[
            ("target", ""),
            ("no_browser", ""),
            ("device", ""),
            ("on", ""),
            ("port", ""),
            ("timeout", ""),
            ("account", ""),
            ("client_id", ""),
            ("scope", ""),
            ("config", ""),
            ("help_all", ""),
        ],
    ),
    ("logout", &[("target", ""), ("all", ""), ("account", ""), ("config", ""), ("help_all", "")]),
    ("token", &[("target", ""), ("header", ""), ("json", ""), ("account", ""), ("config", ""), ("help_all", "")]),
    (
        "doctor",
        &[
            ("target", ""),
            ("command", ""),
            ("json", ""),
            ("timeout", ""),
            ("header", ""),
            ("config", ""),
            ("help_all", ""),
        ],
    ),
    (
        "tools",
        &[
            ("words", ""),
            ("command", ""),
            ("json", ""),
            ("prompts", ""),
            ("resources", ""),
            ("timeout", ""),
            ("header", ""),
            ("config", ""),
            ("help_all", ""),
        ],
    ),
    (
        "call",
        &[
            ("words", ""),
            ("command", ""),
            ("arg", ""),
            ("json", ""),
            ("output", ""),
            ("timeout", ""),
            ("header", ""),
            ("config", ""),
            ("help_all", ""),
        ],
    ),
];

/// The template of commands with many options: the examples come first.
const EXAMPLES_FIRST: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}\n";

/// Maximum width of the help; longer lines are hard to read.
const WIDEST: usize = 100;

/// Returns the whole command line with its first page.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let page = first_page(&command, width().min(WIDEST));
    command.help_template(page)
}

/// Returns the command line without hidden commands, for completions and manual pages.
pub(crate) fn visible() -> Command {
    let whole = Cli::command();
    let shown: Vec<_> = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let mut visible = Command::new("mendline").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    visible = visible.about(whole.get_about().cloned().unwrap_or_default());
    visible.long_about(whole.get_long_about().cloned().unwrap_or_default())
}

/// Orders the help of the commands with many options: examples, arguments, notes. A brief help shows only the common
/// arguments, without headings.
fn arranged(command: Command, is_brief: bool) -> Command {
    COMMON.iter().fold(command, |command, (name, common)| {
        let shown = |argument: Arg| match common.iter().find(|(id, _)| argument.get_id() == *id) {
            Some((_, "")) => argument.help_heading(Resettable::Reset),
            Some((_, text)) => argument.help(*text).help_heading(Resettable::Reset),
            None => argument.hide(true),
        };
        command.mut_subcommand(name, |command| {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (examples, notes) = text.split_once("\n\n").unwrap_or((&text, ""));
            let command = command.before_help(examples.to_owned()).after_help(notes.to_owned());
            let command = if is_brief { command.mut_args(shown) } else { command };
            command.help_template(EXAMPLES_FIRST)
        })
    })
}

/// Parses the command line of this process. Prints help and errors, and returns the exit code after them.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let first = std::env::args_os().nth(1).map(|word| word.to_string_lossy().into_owned());
    // Building pages of help takes time that `mendline run` must not spend.
    let asks_for_it = first.as_deref().is_none_or(|word| word.starts_with('-') || word == "help");
    let command = if asks_for_it { command() } else { Cli::command() };
    let flags = || std::env::args_os().skip(1).take_while(|word| word != "--");
    let asks_for_all = flags().any(|word| word == "--help-all");
    let asks_for_help =
        asks_for_all || first.as_deref() == Some("help") || flags().any(|it| it == "--help" || it == "-h");
    let command = if asks_for_help { arranged(command, !asks_for_all) } else { command };
    match command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(cli),
        Err(error) => {
            let line: Vec<OsString> = std::env::args_os().collect();
            let mut error = match bare_command::parse(&line, &error) {
                Some(Ok(cli)) => return Ok(cli),
                Some(Err(error)) => error,
                None => error,
            };
            let words: Vec<String> = line.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            conceal(&mut error, &words);
            advise(&mut error, &Cli::command(), first.as_deref());
            Err(show(&error))
        }
    }
}

/// Placeholder for a word of the command line that is not shown.
const CONCEALED: &str = "…";

/// Removes the values from a usage error. A mistake such as a header without quotes can put a secret anywhere on a
/// command line; the name of the flag and its form are enough. `words` is the command line, to number the word.
pub(crate) fn conceal(error: &mut clap::Error, words: &[String]) {
    let text = |error: &clap::Error, kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    if error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, ContextValue::String(CONCEALED.to_owned()));
    }
    let (kind, is_shown): (_, fn(&str) -> bool) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, is_flag),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, is_command),
        _ => return,
    };
    let Some(word) = text(error, kind).filter(|word| !is_shown(word)) else { return };
    let place = words.iter().position(|it| *it == word).map(|at| format!(" (word {})", at + 1));
    let concealed = format!("{CONCEALED}{}", place.unwrap_or_default());
    error.insert(kind, ContextValue::String(concealed));
    // The suggestion repeats the word.
    error.remove(ContextKind::Suggested);
}

/// Returns whether a word is a flag without a value.
fn is_flag(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|name| name.chars().count() == 1));
    name.is_some_and(is_command)
}

/// Returns whether a word may be the name of a command.
fn is_command(word: &str) -> bool {
    (1..=32).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte == b'_')
}

/// Removes the placeholder of a value from an error.
fn without_value(text: &str) -> String {
    let (lead, tail) = ("invalid value '", "' for '");
    match text.split_once(lead).and_then(|(before, after)| Some((before, after.split_once(tail)?.1))) {
        Some((before, after)) => format!("{before}invalid value for '{after}"),
        None => text.to_owned(),
    }
}

/// Prints help to stdout or an error to stderr, and returns the exit code.
fn show(error: &clap::Error) -> ExitCode {
    let page = error.render();
    let text = |style: Style| if style.is_coloured() { page.ansi().to_string() } else { page.to_string() };
    if error.use_stderr() {
        eprint!("{}", without_value(&text(Style::for_stderr())));
    } else {
        print!("{}", text(Style::for_stdout()));
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns the groups that have commands, with the commands in their order.
pub(crate) fn groups(command: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let visible = || command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let mut groups: Vec<_> = GROUPS
        .iter()
        .map(|(name, members)| {
            let named = |member: &&str| visible().find(|command| command.get_name() == *member);
            (*name, members.iter().filter_map(named).collect::<Vec<_>>())
        })
        .collect();
    let is_placed = |name: &str| GROUPS.iter().any(|(_, members)| members.contains(&name));
    groups.push((REST, visible().filter(|command| !is_placed(command.get_name())).collect()));
    groups.retain(|(_, commands)| !commands.is_empty());
    groups
}

fn first_page(command: &Command, width: usize) -> StyledStr {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let heading = |name: &str| format!("\n{header}{name}:{header:#}\n");
    let mut page = format!("{{about-with-newline}}\n{header}Usage:{header:#} {{usage}}\n");
    let is_there = |name: &str| command.find_subcommand(name).is_some_and(|command| !command.is_hide_set());
    let steps: Vec<_> =
        FIRST_STEPS.iter().filter(|(step, _)| is_there(step.split(' ').next().unwrap_or_default())).collect();
    let longest = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
    page += &heading("First steps");
    for (step, words) in steps {
        page += &row(&format!("mendline {step}"), longest + 9, words, width, literal);
    }
    let groups = groups(command);
    let longest = groups.iter().flat_map(|(_, commands)| commands).map(|command| command.get_name().len()).max();
    for (name, commands) in &groups {
        page += &heading(name);
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            page += &row(command.get_name(), longest.unwrap_or(0), &about, width, literal);
        }
    }
    page += &heading("Options");
    page += &format!("{{options}}\n\nEvery command has help with examples: {literal}mendline run --help{literal:#}\n");
    StyledStr::from(page)
}

/// Formats a row: a name in its style, and its description.
fn row(left: &str, longest: usize, words: &str, width: usize, style: &clap::builder::styling::Style) -> String {
    let lines = folded(&format!("  {left:<longest$}  "), words, width).join("\n");
    format!("{}\n", lines.replacen(left, &format!("{style}{left}{style:#}"), 1))
}

/// Adds a suggestion to a usage error.
fn advise(error: &mut clap::Error, command: &Command, first: Option<&str>) {
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            if first.is_some_and(|word| word.contains("://")) {
                "a server at a URL is run by 'mendline run URL'".to_owned()
            } else {
                "a server is run by 'mendline run -- COMMAND', 'mendline run URL' or 'mendline run NAME'".to_owned()
            }
        }
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_none() => match first {
            Some(name @ ("doctor" | "tools" | "call")) => {
                format!("a command that starts a server comes after '--': 'mendline {name} -- COMMAND'")
            }
            _ => return,
        },
        ErrorKind::ArgumentConflict if first == Some("run") && is_name_with_command(error) => {
            "a server is a URL, a name or a command; a command is named by 'mendline run --name NAME -- COMMAND'"
                .to_owned()
        }
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => {
            match first.and_then(|name| example(command.find_subcommand(name)?)) {
                Some(example) => format!("for example '{example}'"),
                None => return,
            }
        }
        _ => return,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// Returns whether a name, or a URL, and a command were given.
fn is_name_with_command(error: &clap::Error) -> bool {
    let text = error.to_string();
    // The lines below it are the usage.
    let first = text.lines().next().unwrap_or_default();
    first.contains("URL|NAME") && first.contains("COMMAND")
}

/// Returns the first example of a command, without its description.
fn example(command: &Command) -> Option<String> {
    let examples = command.get_after_help()?.to_string();
    let (ours, sole) = (format!("  mendline {} ", command.get_name()), format!("  mendline {}", command.get_name()));
    let line = examples.lines().find(|line| line.starts_with(&ours) || *line == sole)?.trim();
    Some(line.split("  ").next().unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_group_on_the_first_page() {
        let command = Cli::command();
        let rest = groups(&command).into_iter().find(|(name, _)| *name == REST);
        let names =
            rest.map(|(_, commands)| commands.iter().map(|command| command.get_name().to_owned()).collect::<Vec<_>>());
        assert_eq!(names, None, "give it a place in GROUPS");
    }

    /// The help of a command on a terminal of 100 columns.
    fn help(name: &str, flag: &str) -> String {
        let command = arranged(Cli::command(), flag == "--help").term_width(100);
        command.try_get_matches_from(["mendline", name, flag]).unwrap_err().to_string()
    }

    #[test]
    fn brief_help_fits_two_screens_with_examples_first() {
        for (name, common) in COMMON {
            let page = help(name, "--help");
            assert!(page.lines().count() <= 46, "{} lines:\n{page}", page.lines().count());
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
            assert!(page.find("\nExamples:\n") < page.find("\nArguments:\n"), "{page}");
            let command = Cli::command();
            let known: Vec<_> = command.find_subcommand(name).unwrap().get_arguments().collect();
            for (id, _) in common {
                assert!(known.iter().any(|argument| argument.get_id() == id), "{name} has no argument {id}");
            }
        }
    }

    #[test]
    fn help_all_lists_every_option() {
        for (name, _) in COMMON {
            let page = help(name, "--help-all");
            let command = Cli::command();
            let arguments = command.find_subcommand(name).unwrap().get_arguments();
            for long in arguments.filter(|argument| !argument.is_hide_set()).filter_map(Arg::get_long) {
                assert!(page.contains(&format!("--{long}")), "{name} --help-all does not list --{long}:\n{page}");
            }
        }
        let page = help("run", "--help-all");
        for word in ["circuit breaker", "jitter", "cache", "handshake", "backpressure", "graceful shutdown"] {
            assert!(page.contains(word), "{word} is not in\n{page}");
        }
    }

    #[test]
    fn every_command_has_examples() {
        let command = visible();
        for command in command.get_subcommands() {
            let name = command.get_name();
            let words = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                words.contains("Examples:\n") && example(command).is_some(),
                "`mendline {name} --help` has no examples"
            );
        }
    }

    #[test]
    fn usage_error_suggests_an_alternative() {
        let said = |line: &str| {
            let command = command();
            let words: Vec<_> = line.split(' ').collect();
            let mut error = command.clone().try_get_matches_from(&words).unwrap_err();
            advise(&mut error, &command, words.get(1).copied());
            error.to_string()
        };
        assert!(said("mendline chek").contains("'check'"), "{}", said("mendline chek"));
        assert!(said("mendline https://example.com/mcp").contains("'mendline run URL'"));
        assert!(said("mendline uvx notes-server").contains("'mendline run -- COMMAND'"));
        assert!(said("mendline completions").contains("for example 'mendline completions bash"));
        assert!(said("mendline tools npx -y foo").contains("'mendline tools -- COMMAND'"));
        assert!(said("mendline run notes -- npx foo").contains("'mendline run --name NAME -- COMMAND'"));
        assert!(said("mendline run notes --cal-timeout 5s").contains("'--call-timeout'"));
    }

    #[test]
    fn s10_usage_error_names_the_flag_and_not_the_value() {
        let said = |line: &[&str]| {
            let words: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
            let mut error = command().try_get_matches_from(&words).unwrap_err();
            conceal(&mut error, &words[1..]);
            advise(&mut error, &command(), line.get(1).copied());
            without_value(&error.to_string())
        };
        for line in [
            &["mendline", "run", "--header", "Authorization:", "Bearer", "S3cret-value", "https://x.test/"][..],
            &["mendline", "run", "--call-timeout", "S3cret-value", "https://x.test/"],
            &["mendline", "run", "--name", "S3cret value", "https://x.test/"],
            &["mendline", "run", "--tokn=S3cret-value", "https://x.test/"],
            &["mendline", "run", "-S3cret-value", "https://x.test/"],
            &["mendline", "https://me:S3cret-value@x.test/"],
            &["mendline", "S3cret-value"],
            &["mendline", "logs", "--call", "S3cret-value"],
            &["mendline", "completions", "S3cret-value"],
        ] {
            let words = said(line);
            assert!(!words.contains("S3cret") && !words.contains("3cret"), "{line:?}: {words}");
        }
        let words = said(&["mendline", "run", "--call-timeout", "S3cret-value", "x"]);
        assert!(words.contains("invalid value for '--call-timeout <DURATION>': must be"), "{words}");
        let words = said(&["mendline", "run", "--header", "Authorization:", "Bearer", "S3cret-value"]);
        assert!(words.contains("unexpected argument '… (word 5)' found"), "{words}");
        assert!(said(&["mendline", "run", "--fast"]).contains("unexpected argument '--fast' found"));
        assert!(said(&["mendline", "chek"]).contains("unrecognized subcommand 'chek'"));
    }

    #[test]
    fn first_page_keeps_its_width() {
        let page = first_page(&Cli::command(), 60).to_string();
        let template_free = page.lines().filter(|line| !line.contains('{') && !line.starts_with("Every command"));
        for line in template_free {
            assert!(line.chars().count() <= 60, "{line}");
        }
    }
}
