//! Files of the packages: errors name the path, and templates leave no placeholder unfilled.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::root;

/// Reads a text.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

/// Writes a text, and creates the folders above it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    make(path.parent().unwrap_or(path))?;
    fs::write(path, text).map_err(|why| format!("cannot write {}: {why}", path.display()))
}

/// Copies a file with its mode, and creates the folders above it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop).map_err(|why| format!("cannot copy {} to {}: {why}", from.display(), to.display()))
}

/// Creates a folder.
pub(crate) fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))
}

/// Creates an empty folder, whatever was there.
pub(crate) fn make_empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|why| format!("cannot remove {}: {why}", folder.display()))?;
    }
    make(folder)
}

/// Returns the files of a folder, not of the folders in it, in the order of their names.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |why: std::io::Error| format!("cannot read {}: {why}", folder.display());
    let entries = fs::read_dir(folder).map_err(problem)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(problem)?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// Returns the path of a file in `packaging/`.
pub(crate) fn source(name: &str) -> PathBuf {
    root().join("packaging").join(name)
}

/// Returns a file of `packaging/` with its placeholders (`@NAME@`) filled in.
///
/// # Errors
///
/// When a placeholder has no value, or a value has no placeholder.
pub(crate) fn filled(name: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let text = read(&source(name))?;
    fill(&text, values).map_err(|why| format!("packaging/{name}: {why}"))
}

fn fill(text: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut filled = text.to_owned();
    for (key, value) in values {
        let placeholder = format!("@{key}@");
        if !text.contains(&placeholder) {
            return Err(format!("{placeholder} does not occur"));
        }
        filled = filled.replace(&placeholder, value);
    }
    match placeholder_in(&filled) {
        Some(left) => Err(format!("@{left}@ has no value")),
        None => Ok(filled),
    }
}

/// Returns the first placeholder: upper-case letters between two `@`.
fn placeholder_in(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split('@').collect();
    let inner = parts.get(1..parts.len().saturating_sub(1)).unwrap_or_default();
    inner.iter().copied().find(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfilled_or_unknown_placeholder_is_an_error() {
        assert_eq!(fill("a @ONE@ b", &[("ONE", "1")]).as_deref(), Ok("a 1 b"));
        assert_eq!(fill("a @ONE@ @TWO@", &[("ONE", "1")]), Err("@TWO@ has no value".into()));
        assert_eq!(fill("a", &[("ONE", "1")]), Err("@ONE@ does not occur".into()));
        assert_eq!(fill("me@example.com, you@example.com", &[]).as_deref(), Ok("me@example.com, you@example.com"));
    }
}
