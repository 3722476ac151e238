//! `server.json`, the entry in the MCP registry. Clients that install from the registry get Mendline in front of a
//! server that the user names.

use serde_json::{Value, json};

use super::files::write;
use super::release::{DESCRIPTION, REGISTRY_NAME, Release};

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
        "version": version,
        "packages": [
            package("npm", "https://registry.npmjs.org", "npx"),
            package("pypi", "https://pypi.org", "uvx"),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn entry_has_the_same_version_everywhere() {
        let entry = entry("1.2.3");
        assert_eq!(entry["version"], "1.2.3");
        assert!(entry["packages"].as_array().unwrap().iter().all(|package| package["version"] == "1.2.3"));
    }
}
