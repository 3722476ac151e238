//! The settings of a login that a client makes itself.
//!
//! Mendline logs in by itself and does not use tokens of the client, so the settings of a registered client are carried
//! over as flags of `mendline run`. They also stay in the entry, where the client ignores them and `unwrap` leaves them.

use super::dialect::CommandForm;
use super::document::{Entry, Syntax};
use super::tree::{Member, Node, Table, Value};

/// The login of an entry, as far as it says something about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientLogin {
    /// The member that was found first.
    pub(crate) member: String,
    client_id: Option<String>,
    /// As it is written, and its value.
    pub(crate) client_secret: Option<(String, String)>,
    scope: Option<String>,
    resource: Option<String>,
    port: Option<String>,
}

/// Members that hold settings of a login: a table (Claude Code, Gemini CLI, opencode, Cursor), or values of the entry
/// itself (Codex).
const MEMBERS: [&str; 4] = ["oauth", "auth", "scopes", "oauth_resource"];

impl ClientLogin {
    /// Returns the flags of `mendline run` for this login; the secret is in this variable.
    pub(crate) fn flags(&self, secret_variable: &str) -> Vec<String> {
        let secret = self.client_secret.as_ref().map(|_| secret_variable);
        let flags = [
            ("--client-id", self.client_id.as_deref()),
            ("--client-secret-env", secret),
            ("--scope", self.scope.as_deref()),
            ("--resource", self.resource.as_deref()),
            ("--callback-port", self.port.as_deref()),
        ];
        let words = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_owned()]));
        words.flatten().collect()
    }
}

/// Reads the login of an entry: `None` if it has no settings of one, an error if they cannot be carried over.
pub(crate) fn read(entry: &Entry<'_>) -> Result<Option<ClientLogin>, String> {
    let mut found: Option<ClientLogin> = None;
    for member in MEMBERS.iter().filter_map(|key| entry.table.get(key)) {
        if is_off(entry, &member.value) {
            continue;
        }
        if entry.dialect.form == CommandForm::OneList {
            return Err(format!("opencode does not accept {:?} in the entry of a command", member.key));
        }
        if entry.syntax == Syntax::Toml && member.key != "scopes" {
            return Err(format!("Codex does not accept {:?} in the entry of a command", member.key));
        }
        let login = found.get_or_insert_with(|| ClientLogin { member: member.key.clone(), ..ClientLogin::default() });
        match &member.value.value {
            Value::Table(table) => login.settings(entry, table)?,
            _ => login.setting(entry, member)?,
        }
    }
    Ok(found)
}

/// Returns whether a value says that there is no login.
fn is_off(entry: &Entry<'_>, node: &Node) -> bool {
    match &node.value {
        Value::Other => {
            matches!(entry.raw(&node.range), "false" | "null") && entry.dialect.form != CommandForm::OneList
        }
        Value::Table(table) => table.get("enabled").is_some_and(|it| entry.raw(&it.value.range) == "false"),
        _ => false,
    }
}

impl ClientLogin {
    fn settings(&mut self, entry: &Entry<'_>, table: &Table) -> Result<(), String> {
        table.members.iter().try_for_each(|member| self.setting(entry, member))
    }

    fn setting(&mut self, entry: &Entry<'_>, member: &Member) -> Result<(), String> {
        let text = || member.text().map(str::to_owned);
        match member.key.as_str() {
            "clientId" | "client_id" | "CLIENT_ID" => self.client_id = text(),
            "clientSecret" | "client_secret" | "CLIENT_SECRET" => {
                self.client_secret = text().map(|secret| (entry.raw(&member.value.range).to_owned(), secret));
            }
            "scope" | "scopes" => {
                self.scope = text().or_else(|| member.texts().map(|scopes| scopes.join(" ")));
                self.scope.take_if(|scope| scope.is_empty());
            }
            "oauth_resource" | "resource" => self.resource = text(),
            "callbackPort" | "callback_port" => self.port = Some(entry.raw(&member.value.range).to_owned()),
            "enabled" | "authServerMetadataUrl" => {}
            other => {
                return Err(format!("its {other:?} is for the login of the client, and Mendline has no such setting"));
            }
        }
        Ok(())
    }
}
