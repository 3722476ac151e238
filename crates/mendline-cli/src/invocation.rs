//! The way in which the user has started this program, for commands that are printed as the next step.

use std::ffi::OsStr;

/// Returns the word that starts this program again from the same directory: its name, or the path that was typed.
pub(crate) fn program() -> String {
    word(std::env::args_os().next().as_deref())
}

fn word(typed: Option<&OsStr>) -> String {
    match typed.and_then(OsStr::to_str).filter(|typed| typed.contains('/')) {
        // A program without a path was found through PATH.
        None => "mendline".to_owned(),
        Some(path) if path.bytes().all(is_plain) => path.to_owned(),
        Some(path) => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// Returns whether a shell takes this byte for itself.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-+@%:,=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u04_printed_program_is_the_typed_one() {
        for (typed, shown) in [
            (Some("mendline"), "mendline"),
            (Some("target/release/mendline"), "target/release/mendline"),
            (Some("/opt/my tools/mendline"), "'/opt/my tools/mendline'"),
            (Some("/it's/mendline"), r"'/it'\''s/mendline'"),
            (None, "mendline"),
        ] {
            assert_eq!(word(typed.map(OsStr::new)), shown);
        }
    }
}
