//! The nearest match of a misspelled word.

/// Returns the nearest of these words, if it is similar enough.
pub fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // At most a third of a word may differ.
    let most = (word.chars().count() / 3).clamp(1, 4);
    let near = words.into_iter().map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, substitutions and transpositions.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.iter().enumerate() {
        let mut here = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let change = above[column] + usize::from(l != r);
            let mut least = change.min(above[column + 1] + 1).min(here[column] + 1);
            if row > 0 && column > 0 && *l == right[column - 1] && left[row - 1] == *r {
                least = least.min(before[column - 1] + 1);
            }
            here.push(least);
        }
        before = std::mem::replace(&mut above, here);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_word_finds_nearest_match() {
        let keys = ["maxRetries", "maxRetryDelay", "initialRetryDelay", "silent", "url"];
        for (word, meant) in [
            ("maxRetrys", Some("maxRetries")),
            ("max_retries", Some("maxRetries")),
            ("MAXRETRIES", Some("maxRetries")),
            ("slient", Some("silent")),
            ("ulr", Some("url")),
            ("uri", Some("url")),
            ("retries", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, keys), meant, "{word}");
        }
    }
}
