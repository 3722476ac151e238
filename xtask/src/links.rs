//! `cargo xtask links`: checks the relative links and anchors of all pages.
//!
//! A link to another site is not followed: the tests need no network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::command::{CommandLine, root};
use crate::markdown::{anchors, links};

const HELP: &str = "\
Usage: cargo xtask links

Checks that every relative link of every page leads to a file of the repository, and every anchor to a heading.
";

/// Checks all tracked pages.
///
/// # Errors
///
/// When a link is broken; the text names page, line and target.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    }
    let files = tracked()?;
    let pages = read_pages(&files)?;
    let (count, broken) = check(&files, &pages);
    if !broken.is_empty() {
        return Err(format!("{}\n{} broken links", broken.join("\n"), broken.len()));
    }
    println!("{count} links in {} pages", pages.len());
    Ok(())
}

/// Returns all tracked files that exist, relative to the root.
pub(crate) fn tracked() -> Result<BTreeSet<PathBuf>, String> {
    let listed = CommandLine::new("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
    let files = listed.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(files.filter(|path| root().join(path).exists()).collect())
}

/// Returns the texts of the pages among these files.
pub(crate) fn read_pages(files: &BTreeSet<PathBuf>) -> Result<BTreeMap<PathBuf, String>, String> {
    let pages = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
        .map(|path| {
            let text = fs::read_to_string(root().join(path)).map_err(|why| format!("{}: {why}", path.display()))?;
            Ok((path.clone(), text))
        })
        .collect()
}

/// Returns the number of relative links, and a text for each broken one.
fn check(files: &BTreeSet<PathBuf>, pages: &BTreeMap<PathBuf, String>) -> (usize, Vec<String>) {
    let anchors: BTreeMap<&PathBuf, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path, anchors(text))).collect();
    let (mut count, mut broken) = (0, Vec::new());
    for (page, text) in pages {
        for link in links(text) {
            let Some((path, anchor)) = target(page, &link.target) else { continue };
            count += 1;
            let problem = match (anchor, anchors.get(&path)) {
                _ if !exists(files, &path) => "no such file",
                (Some(anchor), Some(known)) if !known.contains(&anchor) => "no such heading",
                (Some(_), None) => "an anchor in a file without headings",
                _ => continue,
            };
            broken.push(format!("{}:{}: {}: {problem}", page.display(), link.line, link.target));
        }
    }
    (count, broken)
}

/// Returns whether the path is a file, or a folder of files.
pub(crate) fn exists(files: &BTreeSet<PathBuf>, path: &Path) -> bool {
    files.contains(path) || files.range(path.to_owned()..).next().is_some_and(|file| file.starts_with(path))
}

/// Returns the file and the anchor of a relative link, or nothing for a link to another site.
pub(crate) fn target(page: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut whole = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if whole.pop() => {}
            Component::CurDir => {}
            // A link out of the repository stays as it is, and no file has this name.
            other => whole.push(other),
        }
    }
    Some((whole, anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pages: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn broken_files_and_anchors_are_reported_with_their_line() {
        let pages = pages(&[
            (
                "README.md",
                "# Top\n[ok](docs/a.md#b) [ok](docs) [ok](#top) [ok](https://example.com/x)\n[bad](docs/c.md)",
            ),
            (
                "docs/a.md",
                "## B\n[up](../README.md#top) [bad](../README.md#no) [bad](../src/x.rs#L1) [bad](../../out.md)",
            ),
        ]);
        let mut files: BTreeSet<PathBuf> = pages.keys().cloned().collect();
        files.insert("src/x.rs".into());
        let (count, broken) = check(&files, &pages);
        assert_eq!(count, 8);
        assert_eq!(
            broken,
            [
                "README.md:3: docs/c.md: no such file",
                "docs/a.md:2: ../README.md#no: no such heading",
                "docs/a.md:2: ../src/x.rs#L1: an anchor in a file without headings",
                "docs/a.md:2: ../../out.md: no such file",
            ]
        );
    }

    #[test]
    fn part_of_a_name_is_not_a_folder() {
        let files: BTreeSet<PathBuf> = ["docs/a.md".into(), "docs2/b.md".into()].into();
        assert!(exists(&files, Path::new("docs")) && exists(&files, Path::new("docs/a.md")));
        assert!(!exists(&files, Path::new("doc")) && !exists(&files, Path::new("docs/b.md")));
    }
}
