//! The links of the built site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::links::target;

/// Pages of mdBook itself, whose links are completed by a script or depend on the address of the site.
const SKIPPED: [&str; 2] = ["404.html", "toc.html"];

/// Checks that every relative link of every page leads to a file and to an anchor. Returns the number of links.
///
/// # Errors
///
/// When a link is broken.
pub(super) fn check(book: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))? {
            let path = entry.map_err(|why| why.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(book).unwrap_or(&path).to_owned();
            if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
                pages.insert(name.clone(), text);
            }
            files.insert(name);
        }
    }
    let (count, broken) = broken(&files, &pages);
    if broken.is_empty() { Ok(count) } else { Err(format!("{}\n{} broken links", broken.join("\n"), broken.len())) }
}

fn broken(files: &BTreeSet<PathBuf>, pages: &BTreeMap<PathBuf, String>) -> (usize, Vec<String>) {
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path, values(text, "id").collect())).collect();
    let (mut count, mut broken) = (0, Vec::new());
    for (page, text) in pages.iter().filter(|(page, _)| !SKIPPED.iter().any(|name| page.ends_with(name))) {
        for link in values(text, "href").chain(values(text, "src")).filter(|link| !link.starts_with("data:")) {
            let Some((path, anchor)) = target(page, link) else { continue };
            count += 1;
            let is_there = files.contains(&path);
            let has_anchor = anchor.is_none_or(|anchor| {
                anchors.get(&path).is_some_and(|known| anchor.is_empty() || known.contains(anchor.as_str()))
            });
            if !is_there || !has_anchor {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    (count, broken)
}

/// Returns the values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let beginning = format!(" {attribute}=\"");
    let starts: Vec<usize> = html.match_indices(&beginning).map(|(at, text)| at + text.len()).collect();
    starts.into_iter().filter_map(move |start| html[start..].split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_of_the_site_are_found() {
        let page = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let pages: BTreeMap<PathBuf, String> = [
            page("index.html", "<a href=\"docs/a.html#x\"> <img src=\"docs/b.svg\"> <a href=\"https://example.com\">"),
            page("docs/a.html", "<h2 id=\"x\"> <a href=\"../index.html#no\"> <a href=\"c.html\"> <a href=\"#x\">"),
            page("404.html", "<a href=\"nowhere.html\">"),
        ]
        .into();
        let mut files: BTreeSet<PathBuf> = pages.keys().cloned().collect();
        files.insert("docs/b.svg".into());
        let (count, broken) = broken(&files, &pages);
        assert_eq!(count, 5);
        assert_eq!(broken, ["docs/a.html: ../index.html#no", "docs/a.html: c.html"]);
    }
}
