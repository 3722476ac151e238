//! The nearest match of a misspelled word, by insertions, deletions, substitutions and transpositions.

use strsim::osa_distance;

/// Returns the nearest of these words, if it is similar enough.
pub fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // At most a third of a word may differ.
    let most = (word.chars().count() / 3).clamp(1, 4);
    let near = words.into_iter().map(|candidate| (osa_distance(&word, &candidate.to_lowercase()), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
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
