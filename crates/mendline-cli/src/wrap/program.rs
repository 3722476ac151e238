//! The command line by which an entry starts Mendline, as written and as recognized.
//!
//! Mendline runs by itself, or through a launcher that downloads it: `uvx mendline@0.2.0 run …`. The program of a
//! launcher is in its cache and may be removed at any time, so such an entry names the launcher.

use std::borrow::Cow;

use super::arguments::RUN;

/// A command line that starts Mendline, without the arguments of Mendline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) command: Cow<'static, str>,
    /// The words between the command and the arguments of Mendline.
    pub(crate) before: Vec<Cow<'static, str>>,
}

impl Program {
    /// Returns a program at this path.
    pub(crate) const fn at(path: Cow<'static, str>) -> Program {
        Program { command: path, before: Vec::new() }
    }

    /// Returns all words of the command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.command).chain(&self.before).map(AsRef::as_ref)
    }

    /// Returns the command line as one text, for a person.
    pub(crate) fn line(&self) -> String {
        self.words().collect::<Vec<_>>().join(" ")
    }
}

/// Launchers that run a package.
const LAUNCHERS: [&str; 11] = ["uvx", "uv", "pipx", "npx", "pnpx", "pnpm", "bunx", "bun", "yarn", "cmd", "node"];

/// Maximum number of words of a launcher before the package.
const MOST_WORDS: usize = 10;

/// Returns the index of the first argument of Mendline in a command line that runs it: that of `run`.
pub(crate) fn start_of_arguments(words: &[&str]) -> Option<usize> {
    let name = |word: &str| word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    let program = name(words.first()?);
    let at = if is_our_name(&program) {
        1
    } else if LAUNCHERS.contains(&program.trim_end_matches(".exe").trim_end_matches(".cmd")) {
        let package = words
            .iter()
            .take(MOST_WORDS)
            .enumerate()
            .skip(1)
            .find(|(at, word)| is_our_package(&name(word)) && words.get(at + 1) == Some(&RUN));
        package?.0 + 1
    } else {
        return None;
    };
    (words.get(at) == Some(&RUN)).then_some(at)
}

/// Returns whether a program of this name is Mendline, by which wrapped entries are recognized.
pub(crate) fn is_our_name(name: &str) -> bool {
    name.starts_with("mendline")
}

/// Returns whether a word names the package of Mendline, with or without a version.
fn is_our_package(word: &str) -> bool {
    let rest = word.strip_prefix("mendline");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '=', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_mendline_are_recognized() {
        for (line, at) in [
            ("/usr/bin/mendline run --", Some(1)),
            ("C:\\bin\\mendline.exe run x", Some(1)),
            ("mendline-0.1 run x", Some(1)),
            ("uvx mendline@0.2.0 run x", Some(2)),
            ("/home/me/.local/bin/uvx mendline run x", Some(2)),
            ("uvx --from mendline==0.2.0 mendline run x", Some(4)),
            ("uv tool run mendline@0.2.0 run x", Some(4)),
            ("pipx run mendline==0.2.0 run x", Some(3)),
            ("npx -y mendline@0.2.0 run x", Some(3)),
            ("cmd /c npx -y mendline@0.2.0 run x", Some(5)),
            ("npx.cmd -y mendline run x", Some(3)),
            ("npx -y notes-server run mendline", None),
            ("npx -y mendline-notes run x", None),
            ("uvx mendline@0.2.0 status", None),
            ("mendline status", None),
            ("sh -c mendline run", None),
            ("mendline", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(start_of_arguments(&words), at, "{line}");
        }
        assert_eq!(start_of_arguments(&[]), None);
    }
}
