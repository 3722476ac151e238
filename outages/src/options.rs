//! The options of the command line.

use std::path::PathBuf;

use crate::cell::{Cell, SECONDS, Situation};
use crate::form::Form;

/// The number of cells at once unless `--jobs` says otherwise. Cells mostly wait.
const JOBS: usize = 24;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Runs the outage matrix with real processes: form × duration × situation × {session, no session}.

Usage: cargo xtask outages [OPTIONS]

Options:
  --form NAME        only this form of outage; may be repeated
  --situation NAME   only this situation; may be repeated
  --seconds N        only this duration: 1, 10 or 30; may be repeated
  --only NAME        only cells whose name contains NAME, e.g. 502/10/agent/session; may be repeated
  --sample           the sample of `cargo xtask test`: every form and every situation once
  --balancers        instead of the matrix: haproxy and nginx before real servers
  --jobs N           cells at once [default: 24]
  --list             prints the names of the selected cells and stops
  --write FILE       writes the table as Markdown too
  --no-repeat        does not repeat cells that missed only their time
  --mendline PATH    the binary under test [default: beside this program]
";

/// The parsed command line.
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) forms: Vec<Form>,
    pub(crate) situations: Vec<Situation>,
    pub(crate) seconds: Vec<u64>,
    pub(crate) only: Vec<String>,
    pub(crate) is_sample: bool,
    pub(crate) balancers: bool,
    pub(crate) jobs: usize,
    pub(crate) list: bool,
    pub(crate) write: Option<PathBuf>,
    pub(crate) repeats: bool,
    pub(crate) mendline: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            forms: Vec::new(),
            situations: Vec::new(),
            seconds: Vec::new(),
            only: Vec::new(),
            is_sample: false,
            balancers: false,
            jobs: JOBS,
            list: false,
            write: None,
            repeats: true,
            mendline: None,
        }
    }
}

impl Options {
    /// Parses the arguments. The error names the option and the values that it takes.
    pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--help" | "-h" => return Ok(Command::Help),
                "--form" => options.forms.push(named(&value()?, "form", &Form::ALL, Form::name)?),
                "--situation" => {
                    options.situations.push(named(&value()?, "situation", &Situation::ALL, Situation::name)?);
                }
                "--seconds" => {
                    let value = value()?;
                    let known = value.parse().ok().filter(|seconds| SECONDS.contains(seconds));
                    options.seconds.push(known.ok_or_else(|| format!("--seconds must be 1, 10 or 30, not {value}"))?);
                }
                "--only" => options.only.push(value()?),
                "--sample" => options.is_sample = true,
                "--balancers" => options.balancers = true,
                "--jobs" => {
                    let value = value()?;
                    let jobs = value.parse().ok().filter(|jobs| *jobs > 0);
                    options.jobs = jobs.ok_or_else(|| format!("--jobs must be a whole number from 1, not {value}"))?;
                }
                "--list" => options.list = true,
                "--write" => options.write = Some(value()?.into()),
                "--no-repeat" => options.repeats = false,
                "--mendline" => options.mendline = Some(value()?.into()),
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(Command::Run(options))
    }

    /// Returns the selected cells of the matrix.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = if self.is_sample { Cell::sample() } else { Cell::all() };
        cells.retain(|cell| {
            (self.forms.is_empty() || self.forms.contains(&cell.form))
                && (self.situations.is_empty() || self.situations.contains(&cell.situation))
                && (self.seconds.is_empty() || self.seconds.contains(&cell.seconds))
                && self.selects(&cell.name())
        });
        cells
    }

    /// Returns whether `--only` selects this name.
    pub(crate) fn selects(&self, name: &str) -> bool {
        // A complete name selects itself only: "…/session" is not "…/no-session", and "…-1" is not "…-10".
        let parts = |text: &str| text.split('/').count();
        let is_selected = |only: &String| if parts(only) == parts(name) { only == name } else { name.contains(only) };
        self.only.is_empty() || self.only.iter().any(is_selected)
    }
}

fn named<T: Copy>(value: &str, what: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|it| name(*it) == value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|it| name(*it)).collect();
        format!("unknown {what} {value}; known: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::Row;

    fn parsed(line: &str) -> Result<Options, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match Options::parse(&arguments)? {
            Command::Run(options) => Ok(options),
            Command::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn options_select_cells() {
        let all = parsed("").unwrap().cells().len();
        assert_eq!(parsed("--form 502").unwrap().cells().len(), 3 * 7 * 2);
        assert_eq!(parsed("--form 502 --form fin --seconds 1").unwrap().cells().len(), 2 * 7 * 2);
        assert_eq!(parsed("--situation agent").unwrap().cells().len(), all / 7);
        assert_eq!(parsed("--only 502/10/agent/session").unwrap().cells().len(), 1);
        assert_eq!(parsed("--only 502/10/agent").unwrap().cells().len(), 2);
    }

    #[test]
    fn every_cell_can_be_selected_by_its_name() {
        for cell in Cell::all() {
            let chosen = parsed(&format!("--only {}", cell.name())).unwrap().cells();
            assert_eq!(chosen, [cell]);
        }
    }

    #[test]
    fn every_row_can_be_selected_by_its_name() {
        for row in Row::all() {
            let options = parsed(&format!("--balancers --only {}", row.name())).unwrap();
            let chosen: Vec<_> = Row::all().into_iter().filter(|it| options.selects(&it.name())).collect();
            assert_eq!(chosen, [row]);
        }
    }

    #[test]
    fn invalid_options_are_refused_with_known_values() {
        for line in ["--form kindness", "--seconds 2", "--jobs 0", "--jobs", "--fast"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parsed("--form kindness").unwrap_err().contains("reset-after-request"));
    }
}
