//! `server.json`, the entry in the MCP registry. Clients that install from the registry get Mendline in front of a
//! server that the user names.

use serde_json::{Value, json};

use super::files::write;
use super::release::{DESCRIPTION, REGISTRY_NAME, REPOSITORY, Release};

/// The published schema that the entry follows.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Writes the entry.
pub(crate) fn build(release: &Release) -> Result<(), String> {
    write(&release.out.join("server.json"), &format!("{:#}\n", entry(&release.version)))
}

fn entry(version: &str) -> Value {
    let package = |registry: &str, base: &str, runtime: &str| {
        json!({
            "registryType": registry,
            "registryBaseUrl": base,
            "identifier": "mendline",
            "version": version,
            "runtimeHint": runtime,
            "transport": { "type": "stdio" },
            "packageArguments": [
                { "type": "positional", "value": "run" },
                {
                    "type": "positional",
                    "valueHint": "server",
                    "description": "URL of an MCP server, or its name in the configuration file of Mendline",
                    "placeholder": "https://mcp.example.com/mcp",
                    "isRequired": true,
                },
            ],
        })
    };
    json!({
        "$schema": SCHEMA,
        "name": REGISTRY_NAME,
        "title": "Mendline",
        "description": DESCRIPTION,
        "websiteUrl": "https://mendline.dev",
        "repository": { "url": REPOSITORY, "source": "github" },
        "version": version,
        "packages": [
            package("npm", "https://registry.npmjs.org", "npx"),
            package("pypi", "https://pypi.org", "uvx"),
        ],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::entry;

    #[test]
    fn entry_has_the_same_version_everywhere() {
        let entry = entry("1.2.3");
        assert_eq!(entry["version"], "1.2.3");
        assert!(entry["packages"].as_array().unwrap().iter().all(|package| package["version"] == "1.2.3"));
    }

    /// No package has the schema, so the members that it requires are named here.
    #[test]
    fn entry_has_the_members_that_the_schema_requires() {
        let entry = entry("1.2.3");
        let missing = |of: &Value, keys: &[&str]| -> Vec<String> {
            let is_text = |key: &&&str| of[**key].as_str().is_none_or(str::is_empty);
            keys.iter().filter(is_text).map(|key| (*key).to_owned()).collect()
        };
        assert_eq!(missing(&entry, &["$schema", "name", "description", "version"]), [""; 0]);
        let (owner, name) = entry["name"].as_str().unwrap().split_once('/').unwrap();
        let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        assert!(!owner.is_empty() && !name.is_empty() && is_plain(owner) && is_plain(name), "{owner}/{name}");
        assert!(entry["description"].as_str().unwrap().len() <= 100);
        assert_eq!(missing(&entry["repository"], &["url", "source"]), [""; 0]);
        for package in entry["packages"].as_array().unwrap() {
            assert_eq!(missing(package, &["registryType", "identifier"]), [""; 0]);
            assert_eq!(missing(&package["transport"], &["type"]), [""; 0]);
            for argument in package["packageArguments"].as_array().unwrap() {
                assert_eq!(argument["type"], "positional");
                assert!(argument["value"].is_string() || argument["valueHint"].is_string(), "{argument}");
            }
        }
    }
}
