//! Text folded to the width of a terminal.

/// Folds words into lines of at most `width` columns; the first begins with `first`, the others are indented.
pub(crate) fn folded(first: &str, words: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(first.chars().count());
    let (mut lines, mut line, mut is_fresh) = (Vec::new(), first.to_owned(), true);
    for word in words.split_whitespace() {
        let needed = line.chars().count() + usize::from(!is_fresh) + word.chars().count();
        if needed > width && !is_fresh {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line += word;
        is_fresh = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn lines_keep_to_their_width_and_their_indent() {
        assert_eq!(folded("- ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(folded("- ", "one two three", 80), ["- one two three"]);
        assert_eq!(folded("- ", "", 9), ["- "]);
    }

    #[test]
    fn too_long_word_has_its_own_line() {
        assert_eq!(folded("", "a extraordinarily b", 5), ["a", "extraordinarily", "b"]);
    }
}
