//! `cargo xtask words`: checks all tracked texts for words that `docs/glossary.md` replaces.
//!
//! The check covers file names, identifiers, strings, comments and prose. An identifier is split into its parts, so
//! that `LastWords`, `last_words` and "last words" are the same, and `subscribe` is not a `scribe`. Only words without
//! another meaning in this project are listed. Ordinary uses are exceptions of the list, each with a reason.

use std::fs;
use std::ops::Range;

use crate::command::{CommandLine, root};

const HELP: &str = "\
Usage: cargo xtask words

Checks file names, identifiers, strings, comments and prose for words that docs/glossary.md replaces.
";

/// The extensions of checked files.
const EXTENSIONS: [&str; 7] = ["rs", "md", "toml", "txt", "json", "snap", "sh"];

/// Files that are not checked: lock files, licences, history, and the two lists of the words themselves.
const SKIPPED: [&str; 4] = ["package-lock.json", "CHANGELOG.md", "docs/glossary.md", "xtask/src/words.rs"];

/// A replaced word.
struct Word {
    /// Its forms in lower case. A form of two words matches them in prose and in identifiers.
    forms: &'static [&'static str],
    /// The term to use.
    instead: &'static str,
    /// Texts around the word that are allowed, each with the reason.
    allowed: &'static [(&'static str, &'static str)],
}

/// All replaced words.
const WORDS: &[Word] = &[
    word(&["greet", "greets", "greeted", "greeting", "greetings"], "handshake, initialize, re-initialize"),
    word(&["errand", "errands"], "internal request"),
    word(&["vigil", "vigils"], "stall detector"),
    word(&["trunk", "trunks"], "SSE stream"),
    word(&["shelf", "shelves"], "ListKind, list cache"),
    Word {
        forms: &["strand", "strands"],
        instead: "rotating file",
        allowed: &[("strands-agents", "the name of a package in the zoo")],
    },
    word(&["scribe", "scribes"], "encoder"),
    word(&["mood", "moods"], "severity"),
    word(&["veil", "veils", "veiled"], "redact"),
    word(&["pathfinder", "pathfinders"], "probe"),
    word(&["last words"], "stderr tail"),
    word(&["goodbye", "goodbyes"], "close"),
    word(&["farewell", "farewells"], "close"),
    word(&["bury", "buries", "buried"], "reap"),
    word(&["tally", "tallies"], "counts"),
    word(&["temper", "tempers"], "ServerFaults, server faults"),
    Word {
        forms: &["weather"],
        instead: "NetworkFaults, network faults",
        allowed: &[
            ("get_weather", "a common name of a tool in examples"),
            ("\"weather\"", "the name of a server in tests"),
            ("notes, weather", "a list of names of servers in tests"),
            ("weather.py", "the script of a server in tests"),
        ],
    },
    word(&["tongue", "tongues"], "dialect, protocol"),
    word(&["dice"], "rng"),
    word(&["stead"], "provisional answer, answered from cache"),
    word(&["whoever", "nobody", "somebody", "everybody"], "the subject: the client, the server, the operator …"),
];

const fn word(forms: &'static [&'static str], instead: &'static str) -> Word {
    Word { forms, instead, allowed: &[] }
}

/// Checks all tracked files.
///
/// # Errors
///
/// When a file contains a replaced word; the text names file, line and the term to use.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    }
    let tracked = CommandLine::new("git", &["ls-files", "-z"]).output()?;
    let (mut found, mut checked) = (Vec::new(), 0);
    for path in tracked.split('\0').filter(|path| is_checked(path)) {
        // A tracked file may be deleted in the work tree.
        let Ok(bytes) = fs::read(root().join(path)) else { continue };
        checked += 1;
        found.extend(in_name(path));
        found.extend(in_text(path, &String::from_utf8_lossy(&bytes)));
    }
    if !found.is_empty() {
        return Err(format!("{}\n{} replaced words; see docs/glossary.md", found.join("\n"), found.len()));
    }
    println!("{checked} files");
    Ok(())
}

fn is_checked(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    EXTENSIONS.contains(&extension) && !SKIPPED.iter().any(|skipped| path.ends_with(skipped))
}

/// Returns the replaced words in the path of a file.
fn in_name(path: &str) -> Vec<String> {
    in_line(path).map(|(text, word)| format!("{path}: file name: `{text}`; use: {}", word.instead)).collect()
}

/// Returns the replaced words in the text of a file.
fn in_text(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let found = lines.flat_map(|(line, number)| in_line(line).map(move |hit| (number, hit)));
    found.map(|(number, (text, word))| format!("{path}:{number}: `{text}`; use: {}", word.instead)).collect()
}

/// Returns each replaced word in a line.
fn in_line(line: &str) -> impl Iterator<Item = (&str, &'static Word)> {
    let parts = parts(line);
    let mut hits = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let pair = parts.get(index + 1).filter(|next| is_joint(&line[part.end..next.start]));
        let one = line[part.clone()].to_lowercase();
        let two = pair.map(|next| format!("{one} {}", line[next.clone()].to_lowercase()));
        for word in WORDS {
            let range = match &two {
                Some(two) if word.forms.contains(&two.as_str()) => part.start..pair.map_or(part.end, |next| next.end),
                _ if word.forms.contains(&one.as_str()) => part.clone(),
                _ => continue,
            };
            if !is_allowed(line, &range, word) {
                hits.push((range, word));
            }
        }
    }
    hits.into_iter().map(move |(range, word)| (&line[range], word))
}

/// Returns whether the text between two parts joins them to one term.
fn is_joint(between: &str) -> bool {
    between.chars().all(|c| c.is_whitespace() || matches!(c, '_' | '-'))
}

/// Returns whether the word lies within one of its allowed texts.
fn is_allowed(line: &str, range: &Range<usize>, word: &Word) -> bool {
    word.allowed.iter().any(|(text, _)| {
        line.match_indices(text).any(|(start, text)| start <= range.start && range.end <= start + text.len())
    })
}

/// Splits a line into words and parts of identifiers: `HTTPGreeting_sent` is `HTTP`, `Greeting`, `sent`.
fn parts(line: &str) -> Vec<Range<usize>> {
    let letters: Vec<(usize, char)> = line.char_indices().collect();
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut is_inside = false;
    for (index, &(at, letter)) in letters.iter().enumerate() {
        if !letter.is_alphabetic() {
            is_inside = false;
            continue;
        }
        let before = index.checked_sub(1).map_or(' ', |before| letters[before].1);
        let after = letters.get(index + 1).map_or(' ', |after| after.1);
        let is_hump = letter.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && after.is_lowercase());
        match parts.last_mut() {
            Some(part) if is_inside && !is_hump => part.end = at + letter.len_utf8(),
            _ => parts.push(at..at + letter.len_utf8()),
        }
        is_inside = true;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<&str> {
        in_line(line).map(|(text, _)| text).collect()
    }

    #[test]
    fn identifiers_are_split_into_their_parts() {
        let split = |line| parts(line).into_iter().map(|part| &line[part]).collect::<Vec<&str>>();
        assert_eq!(split("HTTPGreeting_sent2Peer"), ["HTTP", "Greeting", "sent", "Peer"]);
        assert_eq!(split("MAX_GREETINGS: café"), ["MAX", "GREETINGS", "café"]);
        assert!(split("12 + 3").is_empty());
    }

    #[test]
    fn replaced_words_are_found_in_any_spelling() {
        assert_eq!(found("let greeting = GREETING_TIMEOUT;"), ["greeting", "GREETING"]);
        assert_eq!(found("struct ServerMood(Dice);"), ["Mood", "Dice"]);
        assert_eq!(found("/// Whoever asks, in its stead."), ["Whoever", "stead"]);
        assert_eq!(found("fn note_last_words(LastWords)"), ["last_words", "LastWords"]);
        assert_eq!(found("the last words of a child"), ["last words"]);
    }

    #[test]
    fn parts_of_other_words_are_not_found() {
        let line = "subscribe, describes, fastrand, instead, steady, truncate, temperature, indices, the last, words";
        assert_eq!(found(line), [""; 0]);
    }

    #[test]
    fn exceptions_hold_only_within_their_text() {
        assert_eq!(found(r#"call("get_weather") of "weather""#), [""; 0]);
        assert_eq!(found("get_weather in bad weather"), ["weather"]);
    }

    #[test]
    fn report_names_file_line_and_term() {
        let found = in_text("src/a.rs", "fn a() {}\n// A vigil.\n");
        assert_eq!(found, ["src/a.rs:2: `vigil`; use: stall detector"]);
        assert_eq!(in_name("src/vigil.rs"), ["src/vigil.rs: file name: `vigil`; use: stall detector"]);
    }

    #[test]
    fn only_texts_are_checked_and_lists_are_skipped() {
        let checked = ["README.md", "a/b.rs", "tests/x.snap", "deny.toml"];
        let skipped = ["Cargo.lock", "LICENSE-MIT", "CHANGELOG.md", "docs/glossary.md", "a/package-lock.json", "x.png"];
        assert!(checked.iter().all(|path| is_checked(path)));
        assert!(!skipped.iter().any(|path| is_checked(path)));
    }

    #[test]
    fn table_has_lower_case_forms_and_no_duplicates() {
        let mut forms: Vec<&str> = WORDS.iter().flat_map(|word| word.forms).copied().collect();
        assert!(forms.iter().all(|form| form.chars().all(|c| c.is_ascii_lowercase() || c == ' ')));
        assert!(WORDS.iter().all(|word| !word.instead.is_empty()));
        let all = forms.len();
        forms.sort_unstable();
        forms.dedup();
        assert_eq!(forms.len(), all);
    }
}
