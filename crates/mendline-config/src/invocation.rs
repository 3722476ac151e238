//! Recognition of command lines that run Mendline.
//!
//! An entry may run Mendline by itself, or through a launcher that downloads it: `uvx mendline@0.2.0 run …`. `wrap` and
//! the configuration must agree about that, so this is the only place that decides it.

/// Launchers that run a package.
const LAUNCHERS: [&str; 11] = ["uvx", "uv", "pipx", "npx", "pnpx", "pnpm", "bunx", "bun", "yarn", "cmd", "node"];

/// Maximum number of words of a launcher before the package.
const MOST_WORDS: usize = 10;

/// Returns the index of the first argument of Mendline in a command line that runs it: that of `run`.
pub fn start_of_arguments(words: &[&str]) -> Option<usize> {
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
            .find(|(at, word)| is_our_package(&name(word)) && words.get(at + 1) == Some(&"run"));
        package?.0 + 1
    } else {
        return None;
    };
    (words.get(at) == Some(&"run")).then_some(at)
}

/// Returns whether a program of this name is Mendline, by which wrapped entries are recognized.
pub fn is_our_name(name: &str) -> bool {
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
