//! Makes the copy of the core that defects are planted in.
//!
//! The sources of `mendline-core` are copied, `crate::` becomes `crate::planted::`, tests are left out, and each file in
//! `defects/` replaces one piece of text by another. Every replacement asks `crate::planted::plant::is(N)` at run time, so
//! one build holds all defects and the copy without any of them awake is the core itself. A piece of text that is not there
//! exactly once fails the build: a defect that no longer hits anything must be looked at, not skipped.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let core = here.join("../mendline-core/src");
    println!("cargo::rerun-if-changed={}", core.display());
    println!("cargo::rerun-if-changed={}", here.join("defects").display());

    let mut sources = BTreeMap::new();
    read_tree(&core, Path::new(""), &mut sources)?;
    let mut listed = String::from("&[\n");
    for path in sorted(&here.join("defects"))? {
        let defect = Defect::read(&path)?;
        defect.plant(&mut sources)?;
        listed.push_str(&format!(
            "    Defect {{ number: {}, name: {:?}, prose: {:?} }},\n",
            defect.number, defect.name, defect.prose
        ));
    }
    listed.push_str("]\n");
    fs::write(out.join("defects.rs"), listed)?;

    let planted = out.join("planted");
    let _ = fs::remove_dir_all(&planted);
    for (path, text) in sources {
        let target = planted.join(&path);
        fs::create_dir_all(target.parent().ok_or("a source without a folder")?)?;
        fs::write(target, transplant(&text, path == Path::new("lib.rs")))?;
    }
    Ok(())
}

/// Makes a source of a crate into a source of a module.
fn transplant(text: &str, is_root: bool) -> String {
    let text = text.replace("crate::", "crate::planted::").replace("#[cfg(test)]", "#[cfg(any())]");
    if !is_root {
        return text;
    }
    // The root is included into a module that has begun already, where inner comments and attributes may not stand.
    text.lines()
        .filter(|line| !line.starts_with("//!") && !line.starts_with("#!"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn read_tree(root: &Path, within: &Path, sources: &mut BTreeMap<PathBuf, String>) -> Outcome<()> {
    for path in sorted(&root.join(within))? {
        let name = within.join(path.file_name().ok_or("a path without a name")?);
        if path.is_dir() {
            read_tree(root, &name, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

struct Defect {
    number: u32,
    name: String,
    prose: String,
    edits: Vec<Edit>,
}

#[derive(Default)]
struct Edit {
    file: String,
    was: String,
    becomes: String,
}

impl Defect {
    /// Prose lines begin with `#`; then, once or more, `---- file PATH`, `---- was` and `---- becomes` with their texts.
    fn read(path: &Path) -> Outcome<Defect> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a defect without a name")?;
        let (number, name) = stem.split_once('_').ok_or_else(|| format!("{stem} is not NN_name"))?;
        let mut defect =
            Defect { number: number.parse()?, name: name.replace('_', " "), prose: String::new(), edits: Vec::new() };
        let mut section = "";
        for line in fs::read_to_string(path)?.lines() {
            match line.strip_prefix("---- ").map(str::trim) {
                Some("was") => section = "was",
                Some("becomes") => section = "becomes",
                Some(file) => {
                    let file =
                        file.strip_prefix("file ").ok_or_else(|| format!("{stem}: `---- {file}` is no section"))?;
                    defect.edits.push(Edit { file: file.into(), ..Edit::default() });
                    section = "file";
                }
                None => match (section, defect.edits.last_mut()) {
                    ("was", Some(edit)) => edit.was.push_str(&format!("{line}\n")),
                    ("becomes", Some(edit)) => edit.becomes.push_str(&format!("{line}\n")),
                    _ => defect.prose.push_str(&format!("{} ", line.trim_start_matches('#').trim())),
                },
            }
        }
        defect.prose = defect.prose.trim().to_owned();
        if defect.edits.is_empty() {
            return Err(format!("{stem} changes nothing").into());
        }
        Ok(defect)
    }

    fn plant(&self, sources: &mut BTreeMap<PathBuf, String>) -> Outcome<()> {
        for edit in &self.edits {
            let who = format!("defect {:02} ({})", self.number, self.name);
            let source = sources
                .get_mut(Path::new(&edit.file))
                .ok_or_else(|| format!("{who}: there is no mendline-core/src/{}", edit.file))?;
            let was = edit.was.trim_end_matches('\n');
            let times = source.matches(was).count();
            if times != 1 {
                return Err(format!(
                    "{who}: this text must be in mendline-core/src/{} exactly once and is there {times} times:\n{was}",
                    edit.file
                )
                .into());
            }
            *source = source.replacen(was, edit.becomes.trim_end_matches('\n'), 1);
        }
        Ok(())
    }
}
