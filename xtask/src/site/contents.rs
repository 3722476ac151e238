//! The table of contents: the order of the pages, and their titles.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The parts of the book. A path that ends with a slash stands for all pages of that folder that are not named before;
/// its `README.md` is the parent of the others.
const PARTS: [(&str, &[&str]); 4] = [
    (
        "Use",
        &[
            "docs/install.md",
            "docs/guide.md",
            "docs/wrap.md",
            "docs/add.md",
            "docs/recipes.md",
            "docs/recipes/",
            "docs/login.md",
        ],
    ),
    ("Reference", &["PROMISE.md", "docs/configuration.md", "docs/strategies/", "docs/defaults.md", "docs/"]),
    ("Development", &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/adr/", "docs/glossary.md", "docs/regressions.md"]),
    ("Project", &["CHANGELOG.md", "SECURITY.md", "packaging/README.md", "faults/README.md", "outages/README.md"]),
];

/// A page of the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chapter {
    pub(super) path: PathBuf,
    title: String,
    part: &'static str,
    is_nested: bool,
}

/// Returns the pages in their order.
pub(super) fn chapters(pages: &BTreeMap<PathBuf, String>) -> Vec<Chapter> {
    let mut chapters = vec![chapter(Path::new("README.md"), pages, "", false)];
    // A folder does not contain the pages that a later entry names.
    let is_named = |path: &Path| PARTS.iter().any(|(_, entries)| entries.iter().any(|entry| Path::new(entry) == path));
    for (part, entries) in PARTS {
        for entry in entries {
            if !entry.ends_with('/') {
                chapters.push(chapter(Path::new(entry), pages, part, false));
                continue;
            }
            let within = pages.keys().filter(|path| path.parent() == Some(Path::new(entry.trim_end_matches('/'))));
            let mut within: Vec<_> = within.filter(|path| !is_named(path)).collect();
            within.sort_by_key(|path| !path.ends_with("README.md"));
            let has_parent = within.first().is_some_and(|path| path.ends_with("README.md"));
            let is_nested = |path: &Path| !path.ends_with("README.md") && (has_parent || *entry != "docs/");
            chapters.extend(within.into_iter().map(|path| chapter(path, pages, part, is_nested(path))));
        }
    }
    chapters
}

fn chapter(path: &Path, pages: &BTreeMap<PathBuf, String>, part: &'static str, is_nested: bool) -> Chapter {
    let text = pages.get(path).map(String::as_str).unwrap_or_default();
    let heading = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    // A code span in a heading is plain text in the table of contents.
    Chapter { path: path.to_owned(), title: heading.replace('`', ""), part, is_nested }
}

/// Returns `SUMMARY.md`.
pub(super) fn summary(chapters: &[Chapter]) -> String {
    let mut summary = "# Summary\n\n".to_owned();
    let mut part = "";
    for chapter in chapters {
        if chapter.part != part {
            part = chapter.part;
            let _ = write!(summary, "\n# {part}\n\n");
        }
        let (indent, bullet) = (if chapter.is_nested { "  " } else { "" }, if part.is_empty() { "" } else { "- " });
        let _ = writeln!(summary, "{indent}{bullet}[{}]({})", chapter.title, staged(&chapter.path).display());
    }
    summary
}

/// Returns the path of a page in the book. mdBook shows `index.md` for a folder.
pub(super) fn staged(path: &Path) -> PathBuf {
    if path.ends_with("README.md") { path.with_file_name("index.md") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::links::{read_pages, tracked};

    #[test]
    fn every_page_for_readers_is_in_the_book_once() {
        let pages = read_pages(&tracked().unwrap()).unwrap();
        let chapters = chapters(&pages);
        let paths: BTreeSet<&PathBuf> = chapters.iter().map(|chapter| &chapter.path).collect();
        assert_eq!(paths.len(), chapters.len(), "a page is in the book twice");
        let missing: Vec<_> = pages.keys().filter(|path| path.starts_with("docs") && !paths.contains(path)).collect();
        assert!(missing.is_empty(), "not in the book: {missing:?}");
        let untitled: Vec<_> = chapters.iter().filter(|chapter| chapter.title.is_empty()).collect();
        assert!(untitled.is_empty(), "without a title, or deleted: {untitled:?}");
    }

    #[test]
    fn summary_has_parts_and_nested_pages() {
        let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
        for (_, entries) in PARTS {
            let named = entries.iter().filter(|entry| !entry.ends_with('/'));
            pages.extend(named.map(|entry| (PathBuf::from(entry), format!("# The `{entry}`\n"))));
        }
        pages.insert("README.md".into(), "# Mendline\n".into());
        pages.insert("docs/adr/0001-a.md".into(), "# A\n".into());
        pages.insert("docs/adr/README.md".into(), "# All\n".into());
        let summary = summary(&chapters(&pages));
        assert!(
            summary.starts_with("# Summary\n\n[Mendline](index.md)\n\n# Use\n\n- [The docs/install.md]("),
            "{summary}"
        );
        assert!(summary.contains("- [All](docs/adr/index.md)\n  - [A](docs/adr/0001-a.md)\n"), "{summary}");
    }
}
