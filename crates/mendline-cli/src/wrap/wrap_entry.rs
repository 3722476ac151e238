//! Wrapping of an entry.
//!
//! An entry is changed in place and nowhere else. A command moves behind `run --`, word for word. A server at a URL
//! becomes a command: `url` becomes `command`, `headers` becomes `env`, each under a name that the arguments record, so
//! that a secret stays in one place and never appears on a command line, which every list of processes shows.
//!
//! The client expands `${VAR}`, `${env:VAR}` and `${input:…}`, in `env` as in `headers`, and in `args` as in `url`, so
//! all expansions keep working. For the same reason the arguments name variables without `${}` (`--header-env`): in
//! `--header 'A: ${B}'` the client would look for `B` in its own environment, where it is not set.
//!
//! An entry that cannot be wrapped is left unchanged, with the reason.

use std::collections::BTreeSet;

use mendline::decisions::Secret;
use mendline::transport::http::Target;

use super::arguments::{ALLOW_HTTP, RUN, WITHOUT, WrapArguments};
use super::bridge::{self, Bridge};
use super::credential;
use super::document::{Entry, Syntax};
use super::edit::Edit;
use super::policies::Policies;
use super::randomness::is_open_url;
use super::secrets::only_names;
use super::tree::{Member, Value};
use crate::plan::exposure::exposed;
use mendline_config::Name;

/// The variable for a URL that may be a secret.
pub(crate) const URL_VARIABLE: &str = "MENDLINE_URL";

/// The variable for the secret of a registered client.
pub(crate) const CLIENT_SECRET_VARIABLE: &str = "MENDLINE_CLIENT_SECRET";

/// The variables for the original entry of a replaced bridge, as it was written.
pub(crate) const REPLACED_COMMAND: &str = "MENDLINE_REPLACED_COMMAND";
pub(crate) const REPLACED_ARGS: &str = "MENDLINE_REPLACED_ARGS";

/// Members that require a feature of the client that Mendline does not have, or that no flag of `run` has.
const UNSUPPORTED: [&str; 9] = [
    "headersHelper",
    "oauth",
    "auth",
    "authProviderType",
    "scopes",
    "oauth_resource",
    "env_http_headers",
    "bearer_token",
    "tls",
];

/// Decision about an entry.
pub(crate) enum Verdict {
    Change(Change),
    /// There is nothing to change.
    Already,
    /// It is left unchanged, for this reason.
    Left(String),
}

/// The change of an entry.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) edits: Vec<Edit>,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
    /// The arguments that the entry must have afterwards.
    pub(crate) arguments: Vec<String>,
    /// Variables that its environment must hold afterwards.
    pub(crate) variables: Vec<(String, String)>,
}

/// Returns the arguments of an entry that runs Mendline.
pub(crate) fn arguments_of(entry: &Entry<'_>) -> Option<WrapArguments> {
    let program = entry.table.get("command")?.text()?;
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    if !is_our_name(name) {
        return None;
    }
    WrapArguments::read(&entry.table.get("args")?.texts()?)
}

/// Returns whether a program of this name is Mendline, by which wrapped entries are recognized.
pub(crate) fn is_our_name(name: &str) -> bool {
    name.starts_with("mendline")
}

/// Wraps an entry. With `named`, an entry is wrapped even if it may rely on a login of the client.
pub(crate) fn wrap(entry: &Entry<'_>, binary: &str, named: bool) -> Verdict {
    if arguments_of(entry).is_some() {
        return Verdict::Already;
    }
    let policies = Policies::of(entry);
    let wrapping = Wrapping { entry, binary, name: Name::sanitized(entry.name).to_string(), policies: &policies };
    let change = match (entry.table.get("command"), entry.table.get("url")) {
        (Some(command), None) => wrapping.command(command),
        (None, Some(url)) => wrapping.url(url, named),
        (Some(_), Some(_)) => Err("it has both a command and a url".to_owned()),
        (None, None) => Err("it has neither a command nor a url".to_owned()),
    };
    match change {
        Ok(mut change) => {
            change.notes.extend(policies.notes);
            Verdict::Change(change)
        }
        Err(reason) => Verdict::Left(reason),
    }
}

struct Wrapping<'a> {
    entry: &'a Entry<'a>,
    binary: &'a str,
    name: String,
    policies: &'a Policies,
}

impl Wrapping<'_> {
    fn command(&self, command: &Member) -> Result<Change, String> {
        let program = command.text().ok_or("its command is not a text")?;
        match self.entry.table.get("type").map(Member::text) {
            None | Some(Some("stdio")) => {}
            Some(kind) => return Err(unknown_type(kind)),
        }
        if self.entry.table.get("dev").is_some() {
            return Err("it has \"dev\": a debugger would be attached to Mendline instead of the server".to_owned());
        }
        let args = self.entry.table.get("args");
        let arguments = match args {
            Some(args) => args.texts().ok_or("its args are not a list of texts")?,
            None => Vec::new(),
        };
        let mut note = None;
        if let (Some(args), Some(read)) = (args, bridge::read(program, &arguments)) {
            match read.and_then(|bridge| self.replaced(&bridge, command, args)) {
                Ok(change) => return Ok(change),
                Err(reason) => note = Some(format!("kept as a command behind Mendline: {reason}")),
            }
        }
        Ok(self.moved(command, args, &arguments, note))
    }

    /// Moves the command behind our arguments, as it was written, and leaves its own arguments in place.
    fn moved(&self, command: &Member, args: Option<&Member>, arguments: &[&str], note: Option<String>) -> Change {
        let Wrapping { entry, binary, name, policies } = self;
        let mut words = owned([RUN, "--name", name]);
        words.extend(policies.arguments());
        if args.is_none() {
            words.extend(owned([WITHOUT, "args"]));
        }
        words.push("--".to_owned());
        let mut tokens = self.tokens(&words);
        tokens.push(entry.raw(&command.value.range).to_owned());
        let mut edits = vec![Edit::replace(command.value.range.clone(), entry.syntax.quoted(binary))];
        match args.map(|args| (args, args.items().unwrap_or_default())) {
            Some((_, [first, ..])) => {
                edits.push(Edit::insert(first.range.start, tokens.join(", ") + &entry.item_gap(first.range.start)));
            }
            Some((args, [])) => edits.push(Edit::insert(args.value.range.start + 1, tokens.join(", "))),
            None => edits[0].text += &entry.member_after(command, "args", &Syntax::list(&tokens)),
        }
        words.extend(owned(command.text().into_iter().chain(arguments.iter().copied())));
        Change { edits, notes: note.into_iter().collect(), arguments: words, variables: Vec::new() }
    }

    fn url(&self, url: &Member, named: bool) -> Result<Change, String> {
        let Wrapping { entry, binary, name, policies } = self;
        let address = url.text().ok_or("its url is not a text")?;
        if let Some(key) = UNSUPPORTED.iter().find(|key| entry.table.get(key).is_some()) {
            return Err(format!("its {key:?} is for the client, and Mendline cannot take it over"));
        }
        if let Some(key) =
            ["args", "env_vars", "transport", "transportType"].iter().find(|key| entry.table.get(key).is_some())
        {
            return Err(format!("it has {key:?} beside its url"));
        }
        let transport = self.transport()?;
        let headers = self.headers()?;
        let bearer = entry.table.get("bearer_token_env_var").filter(|_| entry.syntax == Syntax::Toml);
        let bearer_variable = bearer.map(|bearer| bearer.text().ok_or("its bearer_token_env_var is not a text"));
        let bearer_variable = bearer_variable.transpose()?;
        check_target(address, headers.fields.iter().map(|field| (field.name, field.value)))?;
        let has_credential = bearer.is_some()
            || credential::any(headers.fields.iter().map(|field| field.name))
            || address.split_once('?').is_some_and(|(_, query)| credential::is_secret(query));
        if !has_credential && !credential::is_local(address) && !named {
            return Err(format!(
                "it has no credential, and the client may be logged in; --server {name} wraps it, and then `mendline login {name}` logs in"
            ));
        }

        let open = is_open_url(address);
        let mut words = owned([RUN, "--name", name]);
        words.extend(policies.arguments());
        words.extend(transport.iter().flat_map(|transport| owned(["--transport", transport])));
        for field in &headers.fields {
            words.extend(["--header-env".to_owned(), format!("{}={}", field.name, field.variable)]);
        }
        if let Some(variable) = bearer_variable {
            words.extend(["--header".to_owned(), bearer_header(variable)]);
        }
        let fields = headers.fields.iter().map(|field| (field.name, field.value));
        let exposed = exposed(address, fields.chain(bearer.map(|_| ("Authorization", ""))));
        words.extend(exposed.iter().map(|_| ALLOW_HTTP.to_owned()));
        let environment = headers.member.or(entry.table.get("env"));
        if !open && environment.is_none() {
            words.extend(owned([WITHOUT, "env"]));
        }
        let mut tokens = self.tokens(&words);
        if open {
            tokens.push(entry.raw(&url.value.range).to_owned());
            words.push(address.to_owned());
        } else {
            tokens.extend(self.tokens(&["--url-env", URL_VARIABLE]));
            words.extend(owned(["--url-env", URL_VARIABLE]));
        }

        let mut become_command = entry.syntax.quoted(binary) + &entry.member_after(url, "args", &Syntax::list(&tokens));
        let mut edits = vec![entry.rename(url, "command")];
        let mut variables: Vec<(String, String)> =
            headers.fields.iter().map(|field| (field.variable.clone(), field.value.to_owned())).collect();
        if !open {
            let hidden = [(URL_VARIABLE.to_owned(), entry.raw(&url.value.range).to_owned())];
            match environment {
                Some(member) => edits.push(entry.members_into(member, &hidden).ok_or(NO_PLACE)?),
                None => become_command += &entry.member_after(url, "env", &entry.braces(&hidden)),
            }
            variables.push((URL_VARIABLE.to_owned(), address.to_owned()));
        }
        edits.push(Edit::replace(url.value.range.clone(), become_command));
        if let Some(kind) = entry.table.get("type") {
            edits.push(Edit::replace(kind.value.range.clone(), entry.syntax.quoted("stdio")));
        }
        if let Some(member) = headers.member {
            edits.push(entry.rename(member, "env"));
        }
        edits.extend(headers.fields.iter().map(|field| entry.rename(field.member, &field.variable)));
        if let Some(bearer) = bearer {
            edits.push(entry.rename(bearer, "env_vars"));
            edits.push(Edit::insert(bearer.value.range.start, "["));
            edits.push(Edit::insert(bearer.value.range.end, "]"));
        }
        Ok(Change {
            edits,
            notes: exposed.as_deref().map(unencrypted).into_iter().collect(),
            arguments: words,
            variables,
        })
    }

    /// Returns the transport for the arguments, if the entry names one.
    fn transport(&self) -> Result<Option<&str>, String> {
        match self.entry.table.get("type").map(Member::text) {
            None => Ok(None),
            Some(Some("http")) if self.entry.http_falls_back => Ok(Some("auto")),
            Some(Some(kind @ ("http" | "streamable-http" | "streamableHttp" | "sse"))) => Ok(Some(kind)),
            Some(kind) => Err(unknown_type(kind)),
        }
    }

    fn headers(&self) -> Result<Headers<'_>, String> {
        let entry = self.entry;
        let Some(member) = entry.table.get(headers_key(entry.syntax)) else { return Ok(Headers::default()) };
        let Value::Table(table) = &member.value.value else { return Err("its headers are not a table".to_owned()) };
        if entry.table.get("env").is_some() {
            return Err("it has \"env\" beside its headers".to_owned());
        }
        let mut taken = BTreeSet::new();
        let mut fields = Vec::new();
        for header in &table.members {
            let value = header.text().ok_or_else(|| format!("its header {:?} is not a text", header.key))?;
            if !entry.is_plain(header) {
                return Err(format!("its header {:?} is written with escapes", header.key));
            }
            fields.push(Field {
                member: header,
                name: &header.key,
                value,
                variable: variable(&header.key, &mut taken),
            });
        }
        Ok(Headers { member: Some(member), fields })
    }

    /// Replaces the entry of a bridge, and keeps the original in the environment.
    fn replaced(&self, bridge: &Bridge, command: &Member, args: &Member) -> Result<Change, String> {
        let Wrapping { entry, binary, name, policies } = self;
        check_target(&bridge.url, bridge.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        let environment = entry.table.get("env");
        let existing = environment.map(|member| member.table().ok_or("its env is not a table")).transpose()?;
        let mut taken: BTreeSet<String> =
            existing.iter().flat_map(|table| table.members.iter().map(|member| member.key.clone())).collect();
        if [URL_VARIABLE, CLIENT_SECRET_VARIABLE, REPLACED_COMMAND, REPLACED_ARGS]
            .iter()
            .any(|name| taken.contains(*name))
        {
            return Err("its env has a variable of Mendline's".to_owned());
        }
        let mut words = owned([RUN, "--name", name]);
        words.extend(policies.arguments());
        words.extend(bridge.log_level.iter().flat_map(|level| owned(["--log-level", level])));
        words.extend(bridge.transport.iter().flat_map(|transport| owned(["--transport", transport])));
        let mut variables = vec![
            (REPLACED_COMMAND.to_owned(), entry.raw(&command.value.range).to_owned()),
            (REPLACED_ARGS.to_owned(), entry.raw(&args.value.range).to_owned()),
        ];
        for (header, value) in &bridge.headers {
            if value.contains("${") {
                if !only_names(value) {
                    return Err(format!("its header {header} holds a variable and something else"));
                }
                // The bridge expanded the variable if the client did not, and so does Mendline.
                words.extend(["--header".to_owned(), format!("{header}: {value}")]);
            } else {
                let variable = variable(header, &mut taken);
                words.extend(["--header-env".to_owned(), format!("{header}={variable}")]);
                variables.push((variable, value.clone()));
            }
        }
        if let Some(login) = &bridge.login {
            words.extend(login.flags(CLIENT_SECRET_VARIABLE));
            variables.extend(login.client_secret.iter().map(|it| (CLIENT_SECRET_VARIABLE.to_owned(), it.clone())));
        }
        let headers = bridge.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let exposed = exposed(&bridge.url, headers.chain(bridge.login.as_ref().map(|_| ("Authorization", ""))));
        words.extend(exposed.iter().map(|_| ALLOW_HTTP.to_owned()));
        if environment.is_none() {
            words.extend(owned([WITHOUT, "env"]));
        }
        if is_open_url(&bridge.url) {
            words.push(bridge.url.clone());
        } else {
            words.extend(owned(["--url-env", URL_VARIABLE]));
            variables.push((URL_VARIABLE.to_owned(), bridge.url.clone()));
        }
        let written: Vec<(String, String)> =
            variables.iter().map(|(name, value)| (name.clone(), entry.syntax.quoted(value))).collect();
        let mut list = Syntax::list(&self.tokens(&words));
        let mut edits = vec![Edit::replace(command.value.range.clone(), entry.syntax.quoted(binary))];
        match environment {
            Some(member) => edits.push(entry.members_into(member, &written).ok_or(NO_PLACE)?),
            None => list += &entry.member_after(args, "env", &entry.braces(&written)),
        }
        edits.push(Edit::replace(args.value.range.clone(), list));
        let replaces = match bridge.login {
            Some(_) => format!("replaces the bridge that was there; log in once: mendline login {name}"),
            None => "replaces the bridge that was there".to_owned(),
        };
        let notes = std::iter::once(replaces).chain(exposed.as_deref().map(unencrypted)).collect();
        Ok(Change { edits, notes, arguments: words, variables })
    }

    fn tokens(&self, words: &[impl AsRef<str>]) -> Vec<String> {
        words.iter().map(|word| self.entry.syntax.quoted(word.as_ref())).collect()
    }
}

/// Returns the warning about an entry that works only without encryption.
fn unencrypted(what: &str) -> String {
    format!("warning: {what}, as before; --allow-http keeps it working, https:// would be safer")
}

const NO_PLACE: &str = "there is no place for a variable in its env";

/// The headers of an entry.
#[derive(Default)]
struct Headers<'a> {
    member: Option<&'a Member>,
    fields: Vec<Field<'a>>,
}

struct Field<'a> {
    member: &'a Member,
    name: &'a str,
    value: &'a str,
    variable: String,
}

/// Returns the key of the headers.
pub(crate) fn headers_key(syntax: Syntax) -> &'static str {
    match syntax {
        Syntax::Json => "headers",
        Syntax::Toml => "http_headers",
    }
}

/// Returns the header for a bearer token in a variable. Codex expands nothing in arguments, so the variable may be
/// named there.
pub(crate) fn bearer_header(variable: &str) -> String {
    format!("Authorization: Bearer ${{{variable}}}")
}

/// Returns the name of the variable for this header, before duplicates are numbered.
pub(crate) fn variable_base(header: &str) -> String {
    let plain: String =
        header.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("MENDLINE_HEADER_{plain}")
}

/// Returns an unused variable for a header.
fn variable(header: &str, taken: &mut BTreeSet<String>) -> String {
    let base = variable_base(header);
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let free = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(base);
    taken.insert(free.clone());
    free
}

/// Checks whether `mendline run` would accept this URL and these headers.
fn check_target<'a>(url: &str, headers: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), String> {
    // Values that the client expands later cannot be checked now.
    let known = |text: &str, otherwise: &str| if text.contains('$') { otherwise } else { text }.to_owned();
    let target = Target::parse(&known(url, "http://localhost/"));
    let mut target = target.map_err(|fault| format!("its url cannot be used: {fault}"))?;
    for (name, value) in headers {
        let value = Secret::new(known(value.trim(), "x"));
        target = target.header(name, &value).map_err(|fault| fault.to_string())?;
    }
    Ok(())
}

fn unknown_type(kind: Option<&str>) -> String {
    match kind {
        Some(kind) => format!("its type {kind:?} is not one that Mendline knows"),
        None => "its type is not a text".to_owned(),
    }
}

fn owned<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}
