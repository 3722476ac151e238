//! The recipes on the pages against the programs that the tests run.
//!
//! A fenced block with a path after its language shows that file. A `diff` block before it is the change that a reader
//! makes: its added lines are lines of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::root;
use crate::markdown::{Block, blocks};

/// The folders whose files are shown.
const SHOWN: [&str; 2] = ["tests/recipes/", "outages/balancers/"];

/// The folders of which every program must be on a page.
const PROGRAMS: [&str; 3] = ["tests/recipes/python", "tests/recipes/node", "outages/balancers"];

/// The endings of programs and configurations.
const ENDINGS: [&str; 4] = ["py", "mjs", "conf", "cfg"];

/// Compares the pages with the files, or writes the files into the pages.
///
/// # Errors
///
/// When a page shows something else, or a program is on no page.
pub(super) fn check(write: bool) -> Result<(), String> {
    let mut shown = BTreeSet::new();
    let mut problems = Vec::new();
    for page in pages()? {
        let name = page.strip_prefix(root()).unwrap_or(&page).display().to_string();
        let text = read(&page)?;
        let (updated, differing) = compare(&text, &|path| read(&root().join(path)))?;
        shown.extend(files_of(&text));
        if write && updated != text {
            fs::write(&page, &updated).map_err(|why| format!("{name}: {why}"))?;
        } else {
            problems.extend(differing.iter().map(|path| format!("{name} shows another text than {path}")));
        }
        problems.extend(false_changes(&updated).iter().map(|line| format!("{name}: no program has the line: {line}")));
    }
    let missing = programs()?.into_iter().filter(|path| !shown.contains(path));
    problems.extend(missing.map(|path| format!("{path} is on no page")));
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n`cargo xtask recipes --write` copies the programs into the pages", problems.join("\n")))
}

/// Returns the pages of recipes.
fn pages() -> Result<Vec<PathBuf>, String> {
    let docs = root().join("docs");
    let mut pages = vec![docs.join("recipes.md")];
    pages.extend(entries(&docs.join("recipes"))?);
    Ok(pages)
}

/// Returns the programs that must be shown, relative to the root.
fn programs() -> Result<Vec<String>, String> {
    let mut programs = Vec::new();
    for folder in PROGRAMS {
        for path in entries(&root().join(folder))? {
            let is_program =
                path.extension().and_then(|ending| ending.to_str()).is_some_and(|it| ENDINGS.contains(&it));
            let path = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            programs.extend(is_program.then_some(path));
        }
    }
    Ok(programs)
}

fn files_of(page: &str) -> Vec<String> {
    let blocks = blocks(page);
    blocks.iter().filter_map(shown_file).map(ToOwned::to_owned).collect()
}

fn shown_file(block: &Block) -> Option<&str> {
    block.path().filter(|path| SHOWN.iter().any(|folder| path.starts_with(folder)))
}

/// Returns the page with the content of the files, and the files that it showed differently.
fn compare(page: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<(String, Vec<String>), String> {
    let mut lines: Vec<String> = page.lines().map(ToOwned::to_owned).collect();
    let mut differing = Vec::new();
    // From the end, so that the positions of earlier blocks stay.
    for block in blocks(page).iter().rev() {
        let Some(path) = shown_file(block) else { continue };
        let text = read(path)?;
        if text != block.text {
            lines.splice(block.lines.clone(), text.lines().map(ToOwned::to_owned));
            differing.push(path.to_owned());
        }
    }
    Ok((lines.join("\n") + "\n", differing))
}

/// Returns the added lines of `diff` blocks that the next program does not have.
fn false_changes(page: &str) -> Vec<String> {
    let mut false_lines = Vec::new();
    let mut added: Vec<String> = Vec::new();
    for block in blocks(page) {
        if block.language() == "diff" {
            added.extend(block.text.lines().filter_map(|line| line.strip_prefix('+')).map(ToOwned::to_owned));
        } else if shown_file(&block).is_some() {
            let lines: BTreeSet<&str> = block.text.lines().map(str::trim).collect();
            false_lines.extend(added.drain(..).filter(|line| !lines.contains(line.trim())));
        }
    }
    false_lines.extend(added);
    false_lines
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = listed.map_err(|why: std::io::Error| format!("{}: {why}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A
```diff
-old(1)
+new(1)
```
```python tests/recipes/python/a.py
new(1)
```
```sh
new(2)
```
";

    #[test]
    fn pages_show_the_programs_that_tests_run() {
        check(false).unwrap();
    }

    #[test]
    fn another_text_is_found_and_replaced() {
        let same = compare(PAGE, &|_| Ok("new(1)\n".into())).unwrap();
        assert_eq!(same, (PAGE.to_owned(), Vec::new()));
        let (updated, differing) = compare(PAGE, &|_| Ok("new(3)\nend()\n".into())).unwrap();
        assert_eq!(differing, ["tests/recipes/python/a.py"]);
        assert!(updated.contains("a.py\nnew(3)\nend()\n```\n```sh\nnew(2)\n"), "{updated}");
    }

    #[test]
    fn added_line_must_be_in_the_next_program() {
        assert_eq!(false_changes(PAGE), [""; 0]);
        assert_eq!(false_changes(&PAGE.replace("+new(1)", "+new(9)")), ["new(9)"]);
        let without_program = PAGE.replace("tests/recipes/python/a.py", "elsewhere.py");
        assert_eq!(false_changes(&without_program), ["new(1)"]);
    }
}
