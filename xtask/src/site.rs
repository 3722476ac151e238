//! `cargo xtask site`: builds a site from the pages of the repository with mdBook, and checks its links.
//!
//! The pages are copied to `target/site/src` in the layout of the repository, so that their relative links stay. The
//! table of contents is made from the titles of the pages. mdBook is installed from crates.io into `target/mdbook`.

mod contents;
mod html;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{CommandLine, root, target};
use crate::links::{self, read_pages, tracked};
use crate::markdown;

const HELP: &str = "\
Usage: cargo xtask site

Builds the site into target/site/book: open index.html there. The first run installs mdBook, which takes minutes.
";

/// The version of mdBook.
const MDBOOK: &str = "0.5.4";

/// Builds the site.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    }
    links::run(&[])?;
    let mdbook = mdbook()?;
    let site = target().join("site");
    stage(&site)?;
    CommandLine::new(mdbook, &["build"]).within(&site).run()?;
    let book = site.join("book");
    let count = html::check(&book)?;
    println!("{} links; open {}", count, book.join("index.html").display());
    Ok(())
}

/// Installs mdBook, if it is missing, and returns its path.
fn mdbook() -> Result<PathBuf, String> {
    let folder = target().join("mdbook").join(MDBOOK);
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        let to = folder.to_string_lossy();
        // Neither a server nor a watcher, which would bring a runtime of their own.
        let features = ["--no-default-features", "--features", "search"];
        let install = ["install", "mdbook", "--version", MDBOOK, "--locked", "--root", &to];
        CommandLine::cargo(&[&install[..], &features[..]].concat()).run()?;
    }
    Ok(program)
}

/// Copies the pages and the files that they link to.
fn stage(site: &Path) -> Result<(), String> {
    let source = site.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|why| format!("{}: {why}", source.display()))?;
    }
    let files = tracked()?;
    let all = read_pages(&files)?;
    let chapters = contents::chapters(&all);
    let chosen: BTreeSet<&PathBuf> = chapters.iter().map(|chapter| &chapter.path).collect();
    write(&source.join("SUMMARY.md"), contents::summary(&chapters).as_bytes())?;
    let mut linked = BTreeMap::new();
    for page in chosen {
        let text = rewritten(page, &all[page], &files, &mut linked);
        write(&source.join(contents::staged(page)), text.as_bytes())?;
    }
    for (path, content) in linked {
        let bytes = match content {
            Linked::File => fs::read(root().join(&path)).map_err(|why| format!("{}: {why}", path.display()))?,
            Linked::Folder => listing(&files, &path).into_bytes(),
        };
        let to = if content == Linked::Folder { path.join(LISTING) } else { path };
        write(&source.join(to), &bytes)?;
    }
    let configuration = root().join("book.toml");
    let bytes = fs::read(&configuration).map_err(|why| format!("{}: {why}", configuration.display()))?;
    write(&site.join("book.toml"), &bytes)
}

/// The name of the list of files that replaces a folder.
const LISTING: &str = "files.txt";

/// What a page links to besides pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    File,
    Folder,
}

/// Returns a page with the links of the site, and adds what it links to.
fn rewritten(page: &Path, text: &str, files: &BTreeSet<PathBuf>, linked: &mut BTreeMap<PathBuf, Linked>) -> String {
    let mut text = text.to_owned();
    let targets: BTreeSet<String> = markdown::links(&text).into_iter().map(|link| link.target).collect();
    for link in targets {
        let Some((path, _)) = links::target(page, &link) else { continue };
        let (file, anchor) = link.split_once('#').map_or((link.as_str(), ""), |(file, anchor)| (file, anchor));
        let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        let readme = path.join("README.md");
        let new = if path.extension().is_some_and(|extension| extension == "md") {
            file.replace("README.md", "index.md")
        } else if files.contains(&readme) {
            format!("{}/index.md", file.trim_end_matches('/'))
        } else if files.contains(&path) {
            linked.insert(path, Linked::File);
            continue;
        } else {
            linked.insert(path, Linked::Folder);
            format!("{}/{LISTING}", file.trim_end_matches('/'))
        };
        text = text.replace(&format!("]({link})"), &format!("]({new}{anchor})"));
    }
    text
}

fn listing(files: &BTreeSet<PathBuf>, folder: &Path) -> String {
    files.iter().filter(|file| file.starts_with(folder)).map(|file| format!("{}\n", file.display())).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    fs::write(path, bytes).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_files_and_lists_of_files() {
        let files: BTreeSet<PathBuf> =
            ["README.md", "docs/a.md", "docs/adr/README.md", "src/x.rs", "src/y/z.rs"].map(PathBuf::from).into();
        let mut linked = BTreeMap::new();
        let text = "[a](../README.md#b) [c](adr/) [d](../src/x.rs) [e](../src/y) [f](https://example.com) [g](#h)";
        let text = rewritten(Path::new("docs/a.md"), text, &files, &mut linked);
        assert_eq!(
            text,
            "[a](../index.md#b) [c](adr/index.md) [d](../src/x.rs) [e](../src/y/files.txt) [f](https://example.com) [g](#h)"
        );
        let linked: Vec<_> = linked.into_iter().collect();
        assert_eq!(linked, [("src/x.rs".into(), Linked::File), ("src/y".into(), Linked::Folder)]);
        assert_eq!(listing(&files, Path::new("src/y")), "src/y/z.rs\n");
    }
}
