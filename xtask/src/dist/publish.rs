//! The crates for crates.io: what their manifests must say, and `cargo package`.

use std::path::Path;

use serde_json::Value;

use super::program::LICENCES;
use crate::command::CommandLine;

/// Checks the manifests and the files of all published crates. Returns their names.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let printed = CommandLine::cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_str(&printed).map_err(|why| format!("cargo metadata: {why}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let published: Vec<&Value> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    let mut problems = different_versions(&published);
    let mut names = Vec::new();
    for package in published {
        let name = package["name"].as_str().unwrap_or_default();
        problems.extend(problems_of(package).into_iter().map(|problem| format!("{name}: {problem}")));
        let files = CommandLine::cargo(&["package", "--list", "--allow-dirty", "--package", name]).output()?;
        let missing = LICENCES.iter().chain(&["README.md"]).filter(|file| !files.lines().any(|line| line == **file));
        problems.extend(missing.map(|file| format!("{name}: {file} is missing")));
        names.push(name.to_owned());
    }
    if problems.is_empty() { Ok(names) } else { Err(problems.join("\n")) }
}

/// Returns the crates, and the dependencies on crates of this repository, whose version is not that of `mendline-cli`.
fn different_versions(packages: &[&Value]) -> Vec<String> {
    let program = packages.iter().find(|package| package["name"] == "mendline-cli");
    let Some(version) = program.and_then(|package| package["version"].as_str()) else {
        return vec!["cargo metadata has no version of mendline-cli".into()];
    };
    let mut problems = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        if package["version"] != version {
            problems.push(format!("{name}: the version is {}, and not {version}", package["version"]));
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // Dependencies of the tests may have no version: cargo leaves them out of the package.
        for dependency in dependencies.filter(|it| it["path"].is_string() && it["req"] != "*") {
            if dependency["req"] != format!("^{version}") {
                let (on, found) = (&dependency["name"], &dependency["req"]);
                problems.push(format!("{name}: the dependency on {on} has the version {found}, and not {version}"));
            }
        }
    }
    problems
}

/// Packages all published crates and compiles each from its package.
pub(crate) fn package() -> Result<(), String> {
    let names = check()?;
    let mut args = vec!["package", "--locked", "--allow-dirty"];
    args.extend(names.iter().flat_map(|name| ["--package", name]));
    CommandLine::cargo(&args).run()
}

/// Returns what the manifest of a published crate lacks.
fn problems_of(package: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for key in ["description", "license", "homepage", "repository", "readme", "rust_version"] {
        if package[key].as_str().is_none_or(str::is_empty) {
            problems.push(format!("`{}` is missing", key.replace('_', "-")));
        }
    }
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    if let (Some(folder), Some(readme)) = (manifest.parent(), package["readme"].as_str())
        && !folder.join(readme).is_file()
    {
        problems.push(format!("the readme {readme} does not exist"));
    }
    let texts = |key: &str| -> Vec<String> {
        let values = package[key].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let keywords = texts("keywords");
    if keywords.is_empty() || keywords.len() > 5 || keywords.iter().any(|word| !is_keyword(word)) {
        problems.push("`keywords` must be one to five words of at most 20 letters".into());
    }
    let categories = texts("categories");
    if categories.is_empty() || categories.len() > 5 {
        problems.push("`categories` must be one to five".into());
    }
    if package["metadata"]["docs"]["rs"].is_null() {
        problems.push("`package.metadata.docs.rs` is missing".into());
    }
    problems
}

fn is_keyword(word: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+".contains(&byte);
    word.len() <= 20 && word.starts_with(|first: char| first.is_ascii_alphanumeric()) && word.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_of_all_crates_must_be_equal() {
        let package = |name: &str, version: &str, req: &str| {
            let on = json!([{ "name": "mendline-wire", "path": "/x", "req": req }, { "name": "serde", "req": "^1.0" }]);
            json!({ "name": name, "version": version, "dependencies": on })
        };
        let (program, wire) = (package("mendline-cli", "1.2.3", "^1.2.3"), package("mendline-wire", "1.2.3", "*"));
        assert_eq!(different_versions(&[&program, &wire]), [""; 0]);
        let (old, late) = (package("mendline-wire", "1.2.2", "*"), package("mendline", "1.2.3", "^1.2.2"));
        let found = different_versions(&[&program, &old, &late]);
        assert!(found.len() == 2 && found[0].contains("mendline-wire") && found[1].contains("dependency"), "{found:?}");
        assert_eq!(different_versions(&[&wire]).len(), 1);
    }

    #[test]
    fn incomplete_manifest_is_described() {
        let complete = json!({
            "description": "d", "license": "MIT", "homepage": "h", "repository": "r", "readme": "Cargo.toml",
            "rust_version": "1.95",
            "manifest_path": concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "keywords": ["mcp"], "categories": ["config"], "metadata": { "docs": { "rs": {} } },
        });
        assert_eq!(problems_of(&complete), [""; 0]);
        for (key, value, problem) in [
            ("description", json!(null), "`description` is missing"),
            ("repository", json!(null), "`repository` is missing"),
            ("readme", json!("NONE.md"), "the readme NONE.md does not exist"),
            ("keywords", json!(["two words"]), "`keywords`"),
            ("categories", json!([]), "`categories`"),
            ("metadata", json!(null), "docs.rs"),
        ] {
            let mut package = complete.clone();
            package[key] = value;
            let found = problems_of(&package);
            assert!(found.len() == 1 && found[0].contains(problem), "{found:?}");
        }
    }
}
