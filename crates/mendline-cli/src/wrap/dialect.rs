//! The members of an entry, which clients name differently.
//!
//! Most clients use the names of Claude Desktop: `command`, `args`, `env`, `url`, `headers`. The notation of an entry is
//! recognized by its syntax, its section and its own members, not by the client, so that a file that is given by its
//! path, or copied from one client to another, is read correctly.

use super::document::{Section, Syntax};
use super::tree::{Table, Value};

/// Notation of the command of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandForm {
    /// A program in one member, and its arguments in `args`.
    ProgramAndArgs,
    /// One list with the program and its arguments.
    OneList,
}

/// Names of the members of an entry.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) command: &'static str,
    pub(crate) form: CommandForm,
    pub(crate) environment: &'static str,
    /// The members that may hold a URL; the first is the usual one.
    pub(crate) urls: &'static [&'static str],
    pub(crate) headers: &'static str,
    /// The type of a server that is a command.
    pub(crate) local: &'static str,
    /// The only type of a server at a URL, if there is only one.
    pub(crate) remote: Option<&'static str>,
}

/// The names that most clients use. `httpUrl` is one of Gemini CLI, `serverUrl` one of Windsurf.
const COMMON: Dialect = Dialect {
    command: "command",
    form: CommandForm::ProgramAndArgs,
    environment: "env",
    urls: &["url", "httpUrl", "serverUrl"],
    headers: "headers",
    local: "stdio",
    remote: None,
};

/// Codex.
const CODEX: Dialect = Dialect { urls: &["url"], headers: "http_headers", ..COMMON };

/// opencode.
const OPENCODE: Dialect = Dialect {
    form: CommandForm::OneList,
    environment: "environment",
    urls: &["url"],
    local: "local",
    remote: Some("remote"),
    ..COMMON
};

/// Goose.
const GOOSE: Dialect = Dialect { command: "cmd", environment: "envs", urls: &["uri"], ..COMMON };

/// Zed before 2025, with a table for the command.
const ZED_TABLE: Dialect = Dialect { command: "path", urls: &[], ..COMMON };

impl Dialect {
    /// Recognizes the notation of an entry. Returns it with the table that holds its members.
    pub(crate) fn of<'a>(syntax: Syntax, section: &Section, table: &'a Table) -> (&'static Dialect, &'a Table) {
        let is_in = |name: &str| section.first().is_some_and(|key| key == name);
        let kind = table.get("type").and_then(|kind| kind.text());
        match (syntax, table.get("command").map(|member| &member.value.value)) {
            (Syntax::Toml, _) => (&CODEX, table),
            (Syntax::Yaml, _) if is_in("extensions") => (&GOOSE, table),
            (_, Some(Value::Table(inner))) if is_in("context_servers") => (&ZED_TABLE, inner),
            (_, Some(Value::List(_))) => (&OPENCODE, table),
            (_, None) if matches!(kind, Some("local" | "remote")) => (&OPENCODE, table),
            _ => (&COMMON, table),
        }
    }

    /// Returns the transport that the member of a URL implies, if it implies one.
    pub(crate) fn transport_of(member: &str) -> Option<&'static str> {
        (member == "httpUrl").then_some("http")
    }

    /// Returns whether a name is that of an environment or of headers, in any notation.
    pub(crate) fn holds_secrets(member: &str) -> bool {
        matches!(member, "env" | "envs" | "environment" | "headers" | "http_headers" | "requestOptions")
    }
}
