//! Entries of clients with a notation of their own, in that of Mendline, so that every command can use them.
//!
//! `mendline_config` reads JSON and TOML with the members that most clients use. opencode, Goose, Continue and older
//! files of Zed have other syntax or other names; their entries are translated here, by the same parser and the same
//! recognition as for `wrap`.

use mendline_config::{Environment, ForeignEntry, Loaded, NewValue, Source, is_policy, load_foreign};

use super::dialect::CommandForm;
use super::document::{Document, Entry, Section, Syntax};
use super::tree::{Member, Node, Value};

/// Members with the same name and meaning in every notation.
const COMMON: [&str; 3] = ["cwd", "disabled", "auth"];

/// Loads the servers of a section, if its notation has to be translated; returns the source otherwise.
pub(crate) fn load(source: Source, section: &[String]) -> Result<Loaded, Source> {
    let syntax = Syntax::of(source.path());
    let key = section.first().map_or("", String::as_str);
    if syntax != Syntax::Yaml && !matches!(key, "mcp" | "context_servers") {
        return Err(source);
    }
    let section = &section.to_vec();
    let entries = match Document::parse(source.text(), syntax) {
        Ok(document) if syntax != Syntax::Yaml && has_plain_members(&document, section) => return Err(source),
        Ok(document) => Ok(entries(&document, section)),
        Err(fault) => Err(format!("it cannot be read as {}: {fault}", syntax.title())),
    };
    Ok(load_foreign(source, entries, Environment::of_process()))
}

/// Loads the servers of a whole file, if its notation has to be translated; returns the source otherwise.
pub(crate) fn load_file(source: Source) -> Result<Loaded, Source> {
    let syntax = Syntax::of(source.path());
    let sections = Document::parse(source.text(), syntax).map(|document| document.sections()).unwrap_or_default();
    let is_translated = |section: &&Section| syntax == Syntax::Yaml || section[0] == "mcp" && section.len() == 1;
    match (sections.first(), syntax) {
        (Some(first), _) if is_translated(&first) => load(source, first),
        (None, Syntax::Yaml) => load(source, &["mcpServers".to_owned()]),
        _ => Err(source),
    }
}

/// Returns whether the entries of Zed have no table for the command.
fn has_plain_members(document: &Document<'_>, section: &Section) -> bool {
    let has_table = |member: &Member| {
        let command = member.table().and_then(|table| table.get("command"));
        command.is_some_and(|command| command.table().is_some())
    };
    section.first().is_some_and(|key| key == "context_servers") && !document.servers(section).iter().any(has_table)
}

fn entries(document: &Document<'_>, section: &Section) -> Vec<ForeignEntry> {
    let servers = document.servers(section).iter().filter(|member| document.is_server(section, member));
    let entry = |member: &Member| ForeignEntry {
        name: member.key.clone(),
        at: member.key_range.clone(),
        value: document.entry(section, member).map_or(NewValue::Null, |entry| NewValue::Table(members(&entry, member))),
    };
    servers.map(entry).collect()
}

/// Returns the members of an entry under their usual names.
fn members(entry: &Entry<'_>, outer: &Member) -> Vec<(String, NewValue)> {
    let text = |node: &Node| value(entry, node);
    let mut members: Vec<(String, NewValue)> = Vec::new();
    let mut put = |key: &str, value: Option<NewValue>| members.extend(value.map(|value| (key.to_owned(), value)));
    match (entry.dialect.form, entry.command()) {
        (CommandForm::OneList, Some(command)) => {
            let items = command.items().unwrap_or_default();
            put("command", items.first().and_then(text));
            put("args", Some(NewValue::List(items.iter().skip(1).filter_map(text).collect())));
        }
        (CommandForm::ProgramAndArgs, Some(command)) => {
            put("command", text(&command.value));
            put("args", entry.args().and_then(|args| text(&args.value)));
        }
        (_, None) => {}
    }
    let url = entry.urls().next();
    put("env", entry.environment().filter(|_| url.is_none()).and_then(|member| text(&member.value)));
    put("url", url.and_then(|url| text(&url.value)));
    put("headers", entry.headers().and_then(|member| text(&member.value)));
    put("type", entry.kind().and_then(Member::text).and_then(kind).map(NewValue::text));
    let table = outer.table().map_or(&[][..], |table| &table.members);
    for member in table {
        if COMMON.contains(&member.key.as_str()) || is_policy(&member.key) {
            put(&member.key, text(&member.value));
        }
        if member.key == "enabled" && entry.raw(&member.value.range) == "false" {
            put("disabled", Some(NewValue::Flag(true)));
        }
    }
    members
}

/// Returns the type of a server under its usual name; `None` if the other members imply it.
fn kind(written: &str) -> Option<&str> {
    match written {
        "local" | "remote" => None,
        "streamable_http" => Some("http"),
        other => Some(other),
    }
}

fn value(entry: &Entry<'_>, node: &Node) -> Option<NewValue> {
    Some(match &node.value {
        Value::Text(text) => NewValue::Text(with_variables(text)),
        Value::List(items) => NewValue::List(items.iter().filter_map(|item| value(entry, item)).collect()),
        Value::Table(table) | Value::Dotted(table) => {
            let member = |member: &Member| Some((member.key.clone(), value(entry, &member.value)?));
            NewValue::Table(table.members.iter().filter_map(member).collect())
        }
        Value::Other => match entry.raw(&node.range) {
            "true" => NewValue::Flag(true),
            "false" => NewValue::Flag(false),
            number if number.parse::<f64>().is_ok() => NewValue::Number(number.to_owned()),
            _ => return None,
        },
    })
}

/// Returns a text with the variables of opencode, `{env:NAME}`, in the form of Mendline.
fn with_variables(text: &str) -> String {
    let mut parts = text.split("{env:");
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) => written += &format!("${{{name}}}{rest}"),
            None => written += &format!("{{env:{part}"),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use mendline_config::Endpoint;

    use super::*;

    fn loaded(file: &str, text: &str, section: &[&str]) -> Loaded {
        let section: Section = section.iter().map(|key| (*key).to_owned()).collect();
        load(Source::new(file, text), &section).unwrap_or_else(|_| panic!("{file} is not translated"))
    }

    fn line(loaded: &Loaded, name: &str) -> String {
        let server = loaded.server(name).unwrap_or_else(|| panic!("{name}: {:?}", loaded.findings));
        match &server.endpoint {
            Endpoint::Command { program, arguments, environment, .. } => {
                let variables = environment.iter().map(|(name, value)| format!("{name}={}", value.expose()));
                let words = variables.chain([program.clone()]).chain(arguments.iter().cloned());
                words.collect::<Vec<_>>().join(" ")
            }
            Endpoint::Url { url, headers, .. } => {
                let names = headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
                format!("{} {}", url.expose(), names.join(" "))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn servers_of_opencode_are_known() {
        let loaded = loaded("opencode.jsonc", include_str!("../../tests/clients/opencode.jsonc"), &["mcp"]);
        assert_eq!(
            line(&loaded, "everything"),
            "MY_ENV_VAR=my_env_var_value npx -y @modelcontextprotocol/server-everything"
        );
        assert_eq!(line(&loaded, "short"), "notes-server");
        assert_eq!(line(&loaded, "keyed"), "https://api.example.com/mcp?key=s-1 ");
        let reason = loaded.obstacles("remote")[0].what.clone();
        assert!(reason.contains("MY_API_KEY"), "the variable is not set: {reason}");
        let newer = super::tests::loaded(
            "opencode.json",
            include_str!("../../tests/clients/opencode2.json"),
            &["mcp", "servers"],
        );
        assert_eq!(line(&newer, "my-server"), "npx -y example-mcp-server");
    }

    #[test]
    fn servers_of_goose_are_known() {
        let loaded = loaded("config.yaml", include_str!("../../tests/clients/goose.yaml"), &["extensions"]);
        assert!(!loaded.names.contains(&"developer".to_owned()), "{:?}", loaded.names);
        assert_eq!(line(&loaded, "github"), "npx -y @modelcontextprotocol/server-github");
        assert_eq!(line(&loaded, "fetch"), "TOKEN=s-1 uvx mcp-server-fetch --ignore-robots-txt");
        assert!(loaded.server("fetch").unwrap().is_disabled && !loaded.server("github").unwrap().is_disabled);
        assert_eq!(line(&loaded, "remote"), "https://api.example.com/mcp Authorization X-Team");
    }

    #[test]
    fn servers_of_continue_and_older_zed_are_known() {
        let loaded = loaded("config.yaml", include_str!("../../tests/clients/continue.yaml"), &["mcpServers"]);
        assert_eq!(line(&loaded, "SQLite MCP"), "npx -y mcp-sqlite /path/to/your/database.db");
        assert_eq!(line(&loaded, "bare"), "notes-server");
        assert_eq!(line(&loaded, "Local"), "http://localhost:3000/mcp ");
        let zed =
            super::tests::loaded("settings.json", include_str!("../../tests/clients/zed.json"), &["context_servers"]);
        assert_eq!(line(&zed, "older"), "K=v /opt/bin/server run");
        assert_eq!(line(&zed, "notes"), "npx -y notes-server");
    }

    #[test]
    fn notation_that_the_configuration_parses_is_not_translated() {
        for (file, text, key) in [
            ("mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#, "mcpServers"),
            ("config.toml", "[mcp_servers.a]\ncommand = \"x\"\n", "mcp_servers"),
            ("settings.json", r#"{"context_servers": {"a": {"command": "x"}}}"#, "context_servers"),
        ] {
            assert!(load(Source::new(file, text), &[key.to_owned()]).is_err(), "{file}");
        }
    }
}
