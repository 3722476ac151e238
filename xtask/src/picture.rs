//! `cargo xtask picture`: makes `docs/demo.svg` from a real run of `mendline demo`.
//!
//! The demo runs in a terminal of 80 columns. Its final screen becomes the picture, without some of the faults. The
//! tests of `mendline demo` compare the faults and outcomes in the picture with another run; timings may differ.

mod svg;
mod terminal;

use std::fs;
use std::path::PathBuf;

use terminal::Line;

use crate::command::{CommandLine, root, target};

const HELP: &str = "\
Usage: cargo xtask picture

Runs `mendline demo` (about twenty seconds, on a quiet machine) and writes its screen to docs/demo.svg. The program is
target/release/mendline, which is built first, or MENDLINE_BIN.
";

/// The faults whose calls are shown one by one.
const SHOWN: [&str; 3] = ["killed after it wrote", "gone for half a second", "busy for a second (429)"];

/// Runs the demo and writes the picture.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    }
    let screen = terminal::screen(&demo()?);
    let lines = selected(&screen)?;
    let path = root().join("docs/demo.svg");
    fs::write(&path, svg::picture(&lines)).map_err(|why| format!("{}: {why}", path.display()))?;
    println!("{} has {} lines", path.display(), lines.len());
    Ok(())
}

/// Returns what the demo writes to a terminal.
fn demo() -> Result<String, String> {
    let program = match std::env::var_os("MENDLINE_BIN") {
        Some(program) => PathBuf::from(program),
        None => {
            CommandLine::cargo(&["build", "--release", "--package", "mendline-cli"]).run()?;
            target().join("release/mendline")
        }
    };
    // `script` of util-linux gives the program a terminal.
    let command = format!("'{}' demo", program.display());
    let line = CommandLine::new("script", &["--quiet", "--return", "--command", &command, "/dev/null"]);
    line.env("COLUMNS", "80").env("TERM", "xterm-256color").env("NO_COLOR", "").output()
}

/// Returns the lines of the picture: the legend, some faults, the table and the verdict.
fn selected(screen: &[Line]) -> Result<Vec<Line>, String> {
    let position = |words: &str| {
        let found = screen.iter().position(|line| line.text().contains(words));
        found.ok_or_else(|| format!("the demo prints no line with \"{words}\"; adapt xtask/src/picture.rs"))
    };
    let mut lines = vec![Line::plain("$ mendline demo")];
    // The title, both ways of calling, an empty line and the legend.
    let legend = position("● answered")?;
    lines.extend_from_slice(&screen[position("The same calls")?..=legend]);
    let rest = screen[legend + 1..].iter().take_while(|line| !line.text().is_empty());
    lines.extend(rest.cloned());
    for fault in SHOWN {
        let start = position(fault)?;
        lines.push(Line::plain(""));
        lines.extend_from_slice(&screen[start..start + 3]);
    }
    lines.push(Line::plain("  …"));
    let table = position("through Mendline")?;
    let end = position("slowest call")?;
    lines.extend_from_slice(&screen[table..=end]);
    lines.push(Line::plain(""));
    let verdict = position("No call was lost")?;
    lines.extend_from_slice(&screen[verdict..verdict + 2]);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_without_a_table_is_refused() {
        let why = selected(&terminal::screen("The same calls\n\n● answered\n")).unwrap_err();
        assert!(why.contains(SHOWN[0]), "{why}");
    }

    #[test]
    fn picture_of_the_repository_has_all_its_parts() {
        let text = fs::read_to_string(root().join("docs/demo.svg")).unwrap();
        let described = text.split("<desc>").nth(1).and_then(|rest| rest.split("</desc>").next()).unwrap();
        for words in SHOWN.iter().chain(&["$ mendline demo", "answered", "through Mendline", "No call was lost"]) {
            assert!(described.contains(words), "docs/demo.svg does not show \"{words}\"; run `cargo xtask picture`");
        }
        // Only the frame has a fixed colour; the colours of texts are classes.
        assert!(text.contains("<rect") && !text.contains('\u{1b}'));
    }
}
