//! The notices of the crates in the program. Their licences ask that their texts go with every copy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::crates::{self, Crate};
use super::files;

/// The name of the file with the notices.
pub(crate) const FILE: &str = "THIRD-PARTY.txt";

/// Returns the notices: a list of all crates, then each distinct text with the crates that it comes from.
pub(crate) fn notices(triple: &str) -> Result<String, String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let others: Vec<Crate> = crates::all(triple)?.into_iter().filter(|one| !one.is_ours).collect();
    for one in &others {
        for path in files::list(&one.folder)?.iter().filter(|path| is_notice(path)) {
            let text = files::read(path)?.replace("\r\n", "\n").trim().to_owned();
            texts.entry(text).or_default().push(format!("{} {}", one.name, one.version));
        }
    }
    Ok(page(&others, &texts))
}

fn page(others: &[Crate], texts: &BTreeMap<String, Vec<String>>) -> String {
    let mut page = String::from("The program mendline is built from the following crates of crates.io.\n\n");
    for one in others {
        let _ = writeln!(page, "  {} {} ({})", one.name, one.version, one.licence);
    }
    for (text, from) in texts {
        let _ = write!(page, "\n{}\nFrom {}:\n\n{text}\n", "-".repeat(80), from.join(", "));
    }
    page
}

fn is_notice(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_and_notices_are_recognized_by_name() {
        let is = |name: &str| is_notice(Path::new(name));
        assert!(is("x/LICENSE-MIT") && is("x/license.txt") && is("x/NOTICE") && is("x/COPYRIGHT"));
        assert!(!is("x/README.md") && !is("LICENSES/lib.rs"));
    }

    #[test]
    fn equal_texts_are_printed_once() {
        let texts = BTreeMap::from([("the text".to_owned(), vec!["a 1.0.0".to_owned(), "b 2.0.0".to_owned()])]);
        let page = page(&[], &texts);
        assert_eq!(page.matches("the text").count(), 1);
        assert!(page.contains("From a 1.0.0, b 2.0.0:"), "{page}");
    }
}
