//! Which of the right words a wrong one was probably meant to be.

/// The nearest of these words, if one is near enough to have been meant.
pub fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A third of a word may be wrong; more is another word.
    let most = (word.chars().count() / 3).clamp(1, 4);
    let near = words.into_iter().map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many letters have to be put in, left out, changed or swapped with their neighbour.
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
    fn a_slip_of_the_finger_finds_what_was_meant() {
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
