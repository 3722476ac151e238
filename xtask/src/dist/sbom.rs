//! The bill of materials: the crates in the program, as CycloneDX 1.6.
//!
//! It has no serial number, which would be random, and its time is that of the release.

use serde_json::{Value, json};

use super::crates::{self, Crate};
use super::release::Release;
use crate::command::CommandLine;

/// The file name.
pub(crate) fn file_name(release: &Release) -> String {
    format!("{}.cdx.json", release.archive())
}

/// Returns the bill of materials.
pub(crate) fn text(release: &Release) -> Result<String, String> {
    let date = ["--utc", "--date", &format!("@{}", release.epoch), "+%Y-%m-%dT%H:%M:%SZ"];
    let time = CommandLine::new("date", &date).output()?;
    let bill = bill(&crates::all(release.platform.triple)?, time.trim());
    let bill = bill.ok_or("mendline-cli is not among its own crates")?;
    Ok(format!("{bill:#}\n"))
}

fn bill(all: &[Crate], time: &str) -> Option<Value> {
    let program = all.iter().find(|one| one.name == "mendline-cli")?;
    let dependencies: Vec<Value> = all
        .iter()
        .map(|one| {
            let uses: Vec<String> = one.uses.iter().map(|(name, version)| purl(name, version)).collect();
            json!({ "ref": purl(&one.name, &one.version), "dependsOn": uses })
        })
        .collect();
    let others = all.iter().filter(|one| one.name != program.name);
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "timestamp": time, "component": component(program, "application") },
        "components": others.map(|one| component(one, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

fn component(one: &Crate, kind: &str) -> Value {
    let purl = purl(&one.name, &one.version);
    let mut component = json!({
        "type": kind,
        "bom-ref": purl,
        "name": one.name,
        "version": one.version,
        "purl": purl,
        "scope": "required",
        // Old crates write a slash for "or".
        "licenses": [{ "expression": one.licence.replace('/', " OR ") }],
    });
    if let Some(checksum) = &one.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bill_lists_crates_with_hashes_and_dependencies() {
        let one = |name: &str, uses: &[&str]| Crate {
            name: name.into(),
            version: "1.0.0".into(),
            licence: "MIT/Apache-2.0".into(),
            folder: "/x".into(),
            is_ours: false,
            checksum: Some("ab".into()),
            uses: uses.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect::<BTreeSet<_>>(),
        };
        let bill = bill(&[one("deep", &[]), one("mendline-cli", &["deep"])], "2026-01-01T00:00:00Z").unwrap();
        assert_eq!(bill["components"].as_array().unwrap().len(), 1);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab");
        assert_eq!(bill["dependencies"][1]["dependsOn"][0], "pkg:cargo/deep@1.0.0");
    }
}
