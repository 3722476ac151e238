//! Reproducible builds: the same sources give the same bytes.

use std::fs;
use std::path::Path;

use super::Trial;
use crate::command::{CommandLine, root};
use crate::dist::release::Release;
use crate::dist::{files, make};

/// Makes all packages again from the compiled program, in other folders, and compares them.
pub(crate) fn again(trial: &Trial) -> Result<(), String> {
    let release = moved(trial, "again")?;
    make(&release, root(), &release.build.folder())?;
    compare(&trial.release.out, &release.out)
}

/// Compiles a copy of the sources in another folder, makes all packages and compares them.
pub(crate) fn elsewhere(trial: &Trial) -> Result<(), String> {
    let release = moved(trial, "elsewhere")?;
    let sources = trial.fresh("another-folder-with-the-same-sources")?;
    let copy = "git ls-files -z | xargs -0 cp --no-dereference --parents --target-directory=\"$0\"";
    CommandLine::new("sh", &["-c", copy, &sources.to_string_lossy()]).run()?;
    make(&release, &sources, &sources.join("another-target"))?;
    compare(&trial.release.out, &release.out)
}

fn moved(trial: &Trial, name: &str) -> Result<Release, String> {
    let folder = trial.fresh(name)?;
    Ok(Release { out: folder.join("packages"), work: folder.join("work"), ..trial.release.clone() })
}

/// Compares the files of two folders.
fn compare(one: &Path, other: &Path) -> Result<(), String> {
    let names = |folder: &Path| -> Result<Vec<_>, String> {
        Ok(files::list(folder)?.iter().filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect())
    };
    let (expected, found) = (names(one)?, names(other)?);
    if expected != found {
        return Err(format!("the files differ: {expected:?} and {found:?}"));
    }
    let read = |path: &Path| fs::read(path).map_err(|why| format!("{}: {why}", path.display()));
    for name in &expected {
        if read(&one.join(name))? != read(&other.join(name))? {
            return Err(format!("{} and {} differ", one.join(name).display(), other.join(name).display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_bytes_and_missing_files_are_found() {
        let home = std::env::temp_dir().join(format!("mendline-equality-{}", std::process::id()));
        let (one, other) = (home.join("one"), home.join("other"));
        for folder in [&one, &other] {
            files::write(&folder.join("a"), "1").unwrap();
        }
        assert_eq!(compare(&one, &other), Ok(()));
        files::write(&other.join("a"), "2").unwrap();
        assert!(compare(&one, &other).unwrap_err().contains("differ"));
        files::write(&one.join("b"), "").unwrap();
        assert!(compare(&one, &other).unwrap_err().contains("the files differ"));
        fs::remove_dir_all(&home).unwrap();
    }
}
