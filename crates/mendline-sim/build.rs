//! Makes the copy of the core that holds the planted defects.
//!
//! The sources of `mendline-core` are copied, `crate::` becomes `crate::planted::`, tests are removed, and each file in
//! `defects/` replaces one piece of text by another. Every replacement asks `crate::planted::plant::is(N)` at run time,
//! so one build holds all defects, and the copy without an active defect equals the core. The build fails if the
//! original text does not occur exactly once, so that no defect is skipped silently.

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
            "    Defect {{ number: {}, name: {:?}, description: {:?} }},\n",
            defect.number, defect.name, defect.description
        ));
    }
    listed.push_str("]\n");
    fs::write(out.join("defects.rs"), listed)?;

    // Reasons are values without decisions: the copy uses those of the core, so that both report the same types.
    sources.retain(|path, _| !path.starts_with("reason"));
    sources.insert(PathBuf::from("reason.rs"), "pub use mendline_core::reason::*;\n".to_owned());

    let planted = out.join("planted");
    let _ = fs::remove_dir_all(&planted);
    for (path, text) in sources {
        let target = planted.join(&path);
        fs::create_dir_all(target.parent().ok_or("a source has no directory")?)?;
        fs::write(target, transplant(&text, path == Path::new("lib.rs")))?;
    }
    Ok(())
}

/// Converts a source of a crate into a source of a module.
fn transplant(text: &str, is_root: bool) -> String {
    let text = text.replace("crate::", "crate::planted::").replace("#[cfg(test)]", "#[cfg(any())]");
    if !is_root {
        return text;
    }
    // The root is included into a module, where inner comments and attributes are not allowed.
    text.lines()
        .filter(|line| !line.starts_with("//!") && !line.starts_with("#!"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn read_tree(root: &Path, within: &Path, sources: &mut BTreeMap<PathBuf, String>) -> Outcome<()> {
    for path in sorted(&root.join(within))? {
        let name = within.join(path.file_name().ok_or("a path has no file name")?);
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
    description: String,
    edits: Vec<Edit>,
}

#[derive(Default)]
struct Edit {
    file: String,
    was: String,
    becomes: String,
}

impl Defect {
    /// Parses a defect. Description lines begin with `#`; then, once or more, follow `---- file PATH`, `---- was` and
    /// `---- becomes` with their texts.
    fn read(path: &Path) -> Outcome<Defect> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a defect file has no name")?;
        let (number, name) =
            stem.split_once('_').ok_or_else(|| format!("defects/{stem}.txt: the name must be NN_name"))?;
        let mut defect = Defect {
            number: number.parse()?,
            name: name.replace('_', " "),
            description: String::new(),
            edits: Vec::new(),
        };
        let mut section = "";
        for line in fs::read_to_string(path)?.lines() {
            match line.strip_prefix("---- ").map(str::trim) {
                Some("was") => section = "was",
                Some("becomes") => section = "becomes",
                Some(file) => {
                    let file = file
                        .strip_prefix("file ")
                        .ok_or_else(|| format!("defects/{stem}.txt: unknown section `---- {file}`"))?;
                    defect.edits.push(Edit { file: file.into(), ..Edit::default() });
                    section = "file";
                }
                None => match (section, defect.edits.last_mut()) {
                    ("was", Some(edit)) => edit.was.push_str(&format!("{line}\n")),
                    ("becomes", Some(edit)) => edit.becomes.push_str(&format!("{line}\n")),
                    _ => defect.description.push_str(&format!("{} ", line.trim_start_matches('#').trim())),
                },
            }
        }
        defect.description = defect.description.trim().to_owned();
        if defect.edits.is_empty() {
            return Err(
                format!("defects/{stem}.txt has no edit; add `---- file`, `---- was` and `---- becomes`").into()
            );
        }
        Ok(defect)
    }

    fn plant(&self, sources: &mut BTreeMap<PathBuf, String>) -> Outcome<()> {
        for edit in &self.edits {
            let defect = format!("defect {:02} ({})", self.number, self.name);
            let source = sources.get_mut(Path::new(&edit.file)).ok_or_else(|| {
                format!("{defect}: mendline-core/src/{} does not exist; update the defect", edit.file)
            })?;
            let was = edit.was.trim_end_matches('\n');
            let times = source.matches(was).count();
            if times != 1 {
                return Err(format!(
                    "{defect}: this text must occur exactly once in mendline-core/src/{}, but occurs {times} times; update the defect:\n{was}",
                    edit.file
                )
                .into());
            }
            *source = source.replacen(was, edit.becomes.trim_end_matches('\n'), 1);
        }
        Ok(())
    }
}
