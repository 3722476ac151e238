//! Names that are too long for their column.
//!
//! A name is what every command takes, so its column is the last one to be cut, and what is left of two names never
//! looks the same: `NAME#PID` keeps its process, and names with the same beginning keep their ends.

use std::collections::BTreeMap;

/// Cuts names to a width. Different names stay different, as far as the width allows that.
pub(crate) fn cut_names(names: &[String], width: usize) -> Vec<String> {
    let mut cut: Vec<String> = names.iter().map(|name| cut_end(name, width)).collect();
    for at in duplicates(&cut, names) {
        cut[at] = cut_middle(&names[at], width);
    }
    for (number, at) in duplicates(&cut, names).into_iter().enumerate() {
        let mark = format!("…{}", number + 1);
        let kept = width.saturating_sub(mark.chars().count());
        cut[at] = names[at].chars().take(kept).chain(mark.chars()).take(width.max(1)).collect();
    }
    cut
}

/// Returns the positions of names that look the same after they were cut, and are not.
fn duplicates(cut: &[String], names: &[String]) -> Vec<usize> {
    let mut seen: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, text) in cut.iter().enumerate() {
        seen.entry(text).or_default().push(at);
    }
    let differs = |places: &&Vec<usize>| places.iter().any(|at| names[*at] != names[places[0]]);
    seen.values().filter(differs).flatten().copied().collect()
}

/// Cuts the end of a name, before its process: `a-long-na…#4711`.
fn cut_end(name: &str, width: usize) -> String {
    let process = name.rfind('#').map_or("", |at| &name[at..]);
    let kept = width.saturating_sub(process.chars().count() + 1);
    match name.chars().count() {
        length if length <= width => name.to_owned(),
        _ if kept > 0 => name.chars().take(kept).chain(['…']).chain(process.chars()).collect(),
        _ => name.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect(),
    }
}

/// Cuts the middle of a name: `modelc…-files`.
fn cut_middle(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let head = width.saturating_sub(1) / 2;
    let tail = width.saturating_sub(1 + head);
    name.chars().take(head).chain(['…']).chain(name.chars().skip(length - tail)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn cut(names: &[&str], width: usize) -> Vec<String> {
        cut_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), width)
    }

    #[test]
    fn u08_cut_name_keeps_its_process() {
        assert_eq!(cut(&["everything#22153", "everything#22188"], 12), ["every…#22153", "every…#22188"]);
        assert_eq!(cut(&["notes"], 12), ["notes"]);
    }

    #[test]
    fn u08_names_with_the_same_beginning_stay_different() {
        assert_eq!(cut(&["modelcontext-files", "modelcontext-git"], 12), ["model…-files", "model…xt-git"]);
        assert_eq!(cut(&["aaaaaaaaaaXaaaaaaaaaa", "aaaaaaaaaaYaaaaaaaaaa"], 9), ["aaaaaaa…1", "aaaaaaa…2"]);
    }

    proptest! {
        #[test]
        fn u08_two_rows_are_never_equal(
            names in proptest::collection::btree_set("[ab]{1,12}(#[0-9]{1,3})?", 1..9), width in 6usize..20,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let cut = cut_names(&names, width);
            prop_assert!(cut.iter().all(|name| name.chars().count() <= width), "{cut:?}");
            prop_assert_eq!(cut.iter().collect::<BTreeSet<_>>().len(), names.len(), "{:?}", cut);
        }
    }
}
