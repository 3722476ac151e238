//! `mendline man`: the manual pages, one for the program and one for each subcommand.
//!
//! They are generated from the command line, like the help. Only the examples are formatted here, because they must
//! keep their lines.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::{help, output};

const EXAMPLES: &str = "\
Examples:
  mendline man | man -l -                             read the page of mendline itself
  mendline man run | man -l -                         the page of a command
  mendline man --output ~/.local/share/man/man1       install all of them: `man mendline-run`

Exit codes: 0 ok, 1 a page could not be written, 2 wrong usage, 3 no command of that name.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManOptions {
    /// Command whose page to print [default: mendline itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Option<String>,

    /// Write all pages into this directory, which is created if needed
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The exit codes of all commands.
pub(crate) const EXIT_CODES: [(&str, &str); 7] = [
    ("0", "ok"),
    (
        "1",
        "a negative result: a server that never became ready, a check that failed, a tool that reported an error, output that could not be written",
    ),
    ("2", "the command line or the configuration is invalid"),
    ("3", "nothing of that name, or nothing running"),
    ("4", "a call was sent and its outcome is unknown"),
    ("5", "a call was not sent, or was refused"),
    ("6", "a person has to log in, or to provide a credential"),
];

/// The environment variables.
pub(crate) const ENVIRONMENT: [(&str, &str); 12] = [
    ("MENDLINE_CONFIG", "the configuration file, if --config is not given"),
    (
        "MENDLINE_LOG",
        "messages of `mendline run` on stderr, if --log-level is not given: off, error, warn, info or debug",
    ),
    (
        "MENDLINE_LOG_FILES",
        "level of its log files for `mendline logs`, if --log-file-level is not given: the same words",
    ),
    ("MENDLINE_STATS", "off: `mendline run` and `mendline serve` count nothing for `mendline stats`"),
    (
        "MENDLINE_RUNTIME_DIR",
        "directory of the sockets of running processes; else mendline in $XDG_RUNTIME_DIR or /run/user/UID, else one for you in /tmp",
    ),
    (
        "MENDLINE_STATE_DIR",
        "directory of the cache and of the log files; else mendline in $XDG_STATE_HOME, else in ~/.local/state",
    ),
    (
        "MENDLINE_UPDATE_CHECK",
        "a file whose first line is the newest version, for `mendline doctor`; off: doctor does not look for other versions",
    ),
    ("XDG_CONFIG_HOME", "directory of mendline/config.json; else ~/.config"),
    ("HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "the proxy for servers at a URL, and the hosts that are reached without it"),
    (
        "NODE_EXTRA_CA_CERTS",
        "a file with certificates that are trusted besides the system's: of authorities, or of a server itself",
    ),
    ("BROWSER", "the program that opens the page of a login; %s is the address"),
    ("NO_COLOR", "set to anything: no colours"),
];

/// Prints one page, or writes all.
pub(crate) fn run(options: &ManOptions) -> ExitCode {
    let mut root = help::visible();
    root.build();
    if let Some(folder) = &options.output {
        return match write_all(&root, folder) {
            Ok(count) => {
                println!("wrote {count} pages to {}", folder.display());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {}: {error}", folder.display());
                ExitCode::from(NEGATIVE)
            }
        };
    }
    let asked = match &options.command {
        None => &root,
        Some(name) => match root.find_subcommand(name) {
            Some(command) => command,
            None => {
                eprintln!("error: there is no command {name:?}\n\n`mendline --help` lists the commands.");
                return ExitCode::from(UNKNOWN);
            }
        },
    };
    output::data(page(asked).as_bytes());
    ExitCode::SUCCESS
}

fn write_all(root: &Command, folder: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let commands: Vec<_> = std::iter::once(root).chain(shown(root)).collect();
    for command in &commands {
        std::fs::write(folder.join(format!("{}.1", title(command))), page(command))?;
    }
    Ok(commands.len())
}

fn shown(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands().filter(|command| command.get_name() != "help")
}

/// Returns the name of a page: `mendline` or `mendline-run`.
fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Returns a whole page in roff.
fn page(command: &Command) -> String {
    let is_root = command.get_name() == "mendline";
    let man = Man::new(command.clone())
        .title(title(command).to_uppercase())
        .source(concat!("mendline ", env!("CARGO_PKG_VERSION")))
        .manual("Mendline");
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render_title(&mut bytes);
    let _ = man.render_name_section(&mut bytes);
    let _ = man.render_synopsis_section(&mut bytes);
    let _ = man.render_description_section(&mut bytes);
    let mut page = String::from_utf8_lossy(&bytes).into_owned();
    if is_root {
        for (group, commands) in help::groups(command) {
            let _ = writeln!(page, ".SH {}", group.to_uppercase());
            for command in commands {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(page, ".TP\n\\fB{}\\fR(1)\n{}", escaped(&title(command)), escaped(&about));
            }
        }
    }
    let mut options = Vec::new();
    let _ = man.render_options_section(&mut options);
    page += &String::from_utf8_lossy(&options);
    if let Some(words) = command.get_after_help() {
        page += &examples(&words.to_string());
    }
    if is_root {
        page += &list("EXIT STATUS", &EXIT_CODES);
        page += &list("ENVIRONMENT", &ENVIRONMENT);
    } else {
        page += ".SH SEE ALSO\n\\fBmendline\\fR(1)\n";
    }
    page
}

fn list(heading: &str, rows: &[(&str, &str)]) -> String {
    let rows = rows.iter().map(|(name, words)| format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(words)));
    format!(".SH {heading}\n{}", rows.collect::<String>())
}

/// Formats the text after the options, line by line.
fn examples(words: &str) -> String {
    let words = words.strip_prefix("Examples:\n").unwrap_or(words);
    let lines: Vec<_> = words.lines().map(escaped).collect();
    format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", lines.join("\n"))
}

/// Escapes a line for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_line_is_never_a_roff_request() {
        assert_eq!(escaped(".nf"), "\\&.nf");
        assert_eq!(escaped("'x' --y \\z"), "\\(aqx\\(aq \\-\\-y \\ez");
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let mut root = help::visible();
        root.build();
        for command in shown(&root) {
            let page = page(command);
            let title = format!(".TH MENDLINE-{} ", command.get_name().to_uppercase());
            assert!(page.contains(&title), "{page}");
            assert!(page.contains(".SH EXAMPLES\n.nf\n  "), "{page}");
        }
        assert!(page(&root).contains("\\fBmendline\\-run\\fR(1)"), "{}", page(&root));
    }
}
