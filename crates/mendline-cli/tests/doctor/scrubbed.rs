//! Replaces the variable parts of an output: times, ports, dates.

/// The columns of the time of a step: after two spaces, a symbol, a space, nine letters and a space.
const TIME: std::ops::Range<usize> = 14..21;

/// Returns the text as snapshots contain it.
pub(crate) fn scrubbed(text: &str) -> String {
    // Where both directories are one, PATH decides which of them is shown.
    text.replace(" /usr/bin/", " /bin/").lines().map(|line| one(line) + "\n").collect()
}

fn one(line: &str) -> String {
    let characters: Vec<char> = line.chars().collect();
    let is_step = characters.len() > TIME.end && line.starts_with("  ") && "✓✗!–".contains(characters[2]);
    let (before, words): (String, String) = if is_step {
        let time: String = characters[TIME].iter().collect();
        let time = if time.trim().is_empty() { time } else { "   time".to_owned() };
        (characters[..TIME.start].iter().collect::<String>() + &time, characters[TIME.end..].iter().collect())
    } else {
        (String::new(), line.to_owned())
    };
    before + &words_of(&words)
}

fn words_of(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let is_unit = |word: &str| matches!(word.trim_end_matches([',', '.', ')']), "µs" | "ms" | "s" | "min" | "days");
    let replaced = words.iter().enumerate().map(|(at, word)| {
        let is_time = word.parse::<f64>().is_ok() && words.get(at + 1).is_some_and(|next| is_unit(next));
        if is_time { "N".to_owned() } else { without_port(word) }
    });
    let text = replaced.collect::<Vec<_>>().join(" ");
    // The unit depends on the duration.
    ["N µs", "N ms", "N s", "N min"].iter().fold(text, |text, time| text.replace(time, "‹time›"))
}

/// Replaces the port, which changes with each run.
fn without_port(word: &str) -> String {
    const HOST: &str = "127.0.0.1:";
    match word.split_once(HOST) {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
            format!("{before}{HOST}PORT{rest}")
        }
        None => word.to_owned(),
    }
}

#[test]
fn scrubbing_replaces_only_variable_parts() {
    let text =
        "  ✓ ping       0.2 ms  5 pings, the slowest 1.2 ms, good for 90 days\nx http://127.0.0.1:4711/mcp, 4 tools";
    let expected =
        "  ✓ ping         time  5 pings, the slowest ‹time›, good for N days\nx http://127.0.0.1:PORT/mcp, 4 tools\n";
    assert_eq!(scrubbed(text), expected);
}
