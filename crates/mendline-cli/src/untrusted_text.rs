//! Untrusted text, escaped for people.
//!
//! Text of a server may move the cursor, rename the window or reverse a line. On a terminal all of that is shown as
//! escapes; only line ends and tabs pass where several lines are expected. A file or a pipe gets the original bytes.

use mendline::observe::escaped::Escaped;
use mendline::os::terminal;

/// Escapes a text as one line.
pub(crate) fn one_line(text: &str) -> String {
    Escaped(text.trim().as_bytes()).to_string()
}

/// Escapes a text, keeping its lines and tabs.
pub(crate) fn lines(text: &str) -> String {
    let line = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\t').map(|part| Escaped(part.as_bytes()).to_string()).collect::<Vec<_>>().join("\t")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the first line that is not empty, cut at a word to at most this length.
pub(crate) fn headline(text: &str, longest: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    cut(&one_line(line), longest)
}

/// Cuts a text at a word, with an ellipsis.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    let ends_a_word = text[kept.len()..].starts_with(' ');
    let at = kept.rfind(' ').filter(|at| !ends_a_word && *at > longest / 2).unwrap_or(kept.len());
    format!("{}…", kept[..at].trim_end_matches([' ', ',', ';', ':']))
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..0x10_0000 => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => format!("{:.1} MiB", bytes as f64 / (KIB * KIB) as f64),
    }
}

/// Formats a count with its noun.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Returns the width of the terminal, or 100.
pub(crate) fn width(of: impl terminal::OutputStream) -> usize {
    let columns = terminal::size(of).map_or(0, |size| usize::from(size.columns));
    if columns < 20 { 100 } else { columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped() {
        assert_eq!(one_line(" a\u{1b}[2J\nb\r"), "a\\u{1b}[2J\\nb");
        assert_eq!(lines("a\tb\r\nc\u{202e}\u{7}"), "a\tb\nc\\u{202e}\\u{7}");
        assert_eq!(lines("one\n"), "one\n");
    }

    #[test]
    fn headline_is_cut_at_a_word() {
        assert_eq!(headline("\n  Looks something up.\nMore.", 80), "Looks something up.");
        assert_eq!(headline("Looks something up, and more", 20), "Looks something up…");
        assert_eq!(headline(&"x".repeat(30), 10), format!("{}…", "x".repeat(9)));
        assert_eq!(headline("", 10), "");
    }

    #[test]
    fn sizes_have_readable_units() {
        assert_eq!((size(12), size(1025), size(3 << 20)), ("12 B".into(), "2 KiB".into(), "3.0 MiB".into()));
    }
}
