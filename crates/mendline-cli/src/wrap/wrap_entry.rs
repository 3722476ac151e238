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
use mendline_config::{Name, start_of_arguments};

use super::arguments::{ALLOW_HTTP, ENTRY_URL, RUN, WITHOUT, WrapArguments};
use super::bridge::{self, Bridge};
use super::client_login::{self, ClientLogin};
use super::credential;
use super::dialect::{CommandForm, Dialect};
use super::document::{Entry, Syntax};
use super::edit::Edit;
use super::policies::Policies;
use super::program::Program;
use super::randomness::is_open_url;
use super::secrets::only_names;
use super::tree::{Member, Value};
use crate::plan::exposure::exposed;

/// The variable for a URL that may be a secret.
pub(crate) const URL_VARIABLE: &str = "MENDLINE_URL";

/// The variable for the secret of a registered client.
pub(crate) const CLIENT_SECRET_VARIABLE: &str = "MENDLINE_CLIENT_SECRET";

/// The variables for the original entry of a replaced bridge, as it was written.
pub(crate) const REPLACED_COMMAND: &str = "MENDLINE_REPLACED_COMMAND";
pub(crate) const REPLACED_ARGS: &str = "MENDLINE_REPLACED_ARGS";

/// Members that require a feature of the client that Mendline does not have, or that no flag of `run` has.
const UNSUPPORTED: [&str; 8] = [
    "headersHelper",
    "authProviderType",
    "env_http_headers",
    "bearer_token",
    "tls",
    "requestOptions",
    "apiKey",
    "socket",
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
    let words = entry.words()?;
    let at = start_of_arguments(&words)?;
    // Positions are those in the list of arguments, which does not have the program.
    Some(WrapArguments::read(&words[at..])?.moved_by(at - 1))
}

/// Wraps an entry. With `named`, an entry is wrapped even if it may rely on a login of the client.
pub(crate) fn wrap(entry: &Entry<'_>, program: &Program, named: bool) -> Verdict {
    if arguments_of(entry).is_some() {
        return Verdict::Already;
    }
    let policies = Policies::of(entry);
    let wrapping = Wrapping { entry, program, name: Name::sanitized(entry.name).to_string(), policies: &policies };
    let urls: Vec<&Member> = entry.urls().collect();
    let change = match (entry.command(), urls.as_slice()) {
        (Some(command), []) => wrapping.command(command),
        (None, [url]) => wrapping.url(url, named),
        (Some(_), _) => Err("it has both a command and a url".to_owned()),
        (None, [one, other, ..]) => Err(format!("it has both {:?} and {:?}", one.key, other.key)),
        (None, []) => Err(without_server(entry)),
    };
    match change {
        Ok(mut change) => {
            change.notes.extend(policies.notes);
            Verdict::Change(change)
        }
        Err(reason) => Verdict::Left(reason),
    }
}

/// Returns the reason why an entry without a command and a URL is left.
fn without_server(entry: &Entry<'_>) -> String {
    let source = entry.table.get("source").and_then(Member::text);
    if source == Some("extension") || (source.is_none() && entry.table.get("settings").is_some()) {
        return "an extension of the client starts it".to_owned();
    }
    "it has neither a command nor a url".to_owned()
}

struct Wrapping<'a> {
    entry: &'a Entry<'a>,
    program: &'a Program,
    name: String,
    policies: &'a Policies,
}

impl Wrapping<'_> {
    fn command(&self, command: &Member) -> Result<Change, String> {
        let entry = self.entry;
        match entry.kind().map(Member::text) {
            None => {}
            Some(Some(kind)) if kind == entry.dialect.local => {}
            Some(kind) => return Err(unknown_type(kind)),
        }
        if entry.table.get("dev").is_some() {
            return Err("it has \"dev\": a debugger would be attached to Mendline instead of the server".to_owned());
        }
        if entry.dialect.form == CommandForm::OneList {
            return self.moved_in_list(command);
        }
        let program = command.text().ok_or("its command is not a text")?;
        let args = entry.args();
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
        let Wrapping { entry, name, policies, .. } = self;
        let mut words = owned([RUN, "--name", name]);
        words.extend(policies.arguments());
        if args.is_none() {
            words.extend(owned([WITHOUT, "args"]));
        }
        words.push("--".to_owned());
        let mut tokens = self.arguments(&words);
        tokens.push(entry.raw(&command.value.range).to_owned());
        let mut edits = vec![Edit::replace(command.value.range.clone(), self.command_token())];
        match args.map(|args| (args, args.items().unwrap_or_default())) {
            Some((args, [first, ..])) => {
                edits.push(Edit::insert(first.range.start, entry.items_like(args, &tokens, true)));
            }
            Some((args, [])) => edits.push(Edit::insert(args.value.range.start + 1, tokens.join(", "))),
            None => edits[0].text += &entry.member_after(command, "args", &Syntax::list(&tokens)),
        }
        words.extend(owned(command.text().into_iter().chain(arguments.iter().copied())));
        Change { edits, notes: note.into_iter().collect(), arguments: words, variables: Vec::new() }
    }

    /// Moves a command that is one list behind our arguments.
    fn moved_in_list(&self, command: &Member) -> Result<Change, String> {
        let Wrapping { entry, name, policies, .. } = self;
        let line = command.texts().ok_or("its command is not a list of texts")?;
        let first = command.items().and_then(|items| items.first()).ok_or("its command is empty")?;
        let mut words = owned([RUN, "--name", name]);
        words.extend(policies.arguments());
        words.push("--".to_owned());
        let tokens = [vec![self.command_token()], self.arguments(&words)].concat();
        let edits = vec![Edit::insert(first.range.start, entry.items_like(command, &tokens, true))];
        words.extend(owned(line));
        Ok(Change { edits, arguments: words, ..Change::default() })
    }

    /// Returns the program as it is written.
    fn command_token(&self) -> String {
        self.entry.syntax.quoted(&self.program.command)
    }

    /// Returns the arguments as they are written, with those of the launcher before them.
    fn arguments(&self, words: &[String]) -> Vec<String> {
        let before = self.program.before.iter().map(AsRef::as_ref);
        before.chain(words.iter().map(String::as_str)).map(|word| self.entry.syntax.quoted(word)).collect()
    }

    fn url(&self, url: &Member, named: bool) -> Result<Change, String> {
        let Wrapping { entry, name, .. } = self;
        let address = url.text().ok_or("its url is not a text")?;
        self.check_members()?;
        let transport = self.transport(url)?;
        let headers = self.headers()?;
        let login = client_login::read(entry)?;
        let bearer = entry.table.get("bearer_token_env_var").filter(|_| entry.syntax == Syntax::Toml);
        let bearer_variable = bearer.map(|bearer| bearer.text().ok_or("its bearer_token_env_var is not a text"));
        let bearer_variable = bearer_variable.transpose()?;
        check_target(address, headers.fields.iter().map(|field| (field.name, field.value)))?;
        let has_credential = bearer.is_some()
            || credential::any(headers.fields.iter().map(|field| field.name))
            || address.split_once('?').is_some_and(|(_, query)| credential::is_secret(query));
        if !named && (login.is_some() || !has_credential && !credential::is_local(address)) {
            return Err(logged_in_by_client(login.as_ref(), name));
        }

        let open = is_open_url(address);
        let mut words = self.url_words(url, transport, &headers, bearer_variable, login.as_ref());
        let fields = headers.fields.iter().map(|field| (field.name, field.value));
        let credentials = bearer.map(|_| ("Authorization", "")).or(login.as_ref().map(|_| ("Authorization", "")));
        let exposed = exposed(address, fields.chain(credentials));
        words.extend(exposed.iter().map(|_| ALLOW_HTTP.to_owned()));

        let mut hidden = Vec::new();
        if !open {
            hidden.push((URL_VARIABLE.to_owned(), entry.raw(&url.value.range).to_owned(), address.to_owned()));
        }
        if let Some((raw, secret)) = login.as_ref().and_then(|login| login.client_secret.clone()) {
            hidden.push((CLIENT_SECRET_VARIABLE.to_owned(), raw, secret));
        }
        let environment = headers.member.or(entry.environment());
        if !hidden.is_empty() && environment.is_none() {
            words.extend(owned([WITHOUT, "env"]));
        } else if !hidden.is_empty() && headers.member.is_none() && entry.headers().is_none() {
            words.extend(owned([WITHOUT, "headers"]));
        }
        let mut tokens = self.arguments(&words);
        if open {
            tokens.push(entry.raw(&url.value.range).to_owned());
            words.push(address.to_owned());
        } else {
            tokens.extend(self.tokens(&["--url-env", URL_VARIABLE]));
            words.extend(owned(["--url-env", URL_VARIABLE]));
        }

        let mut become_command = self.command_line_after(url, tokens);
        let mut edits = vec![entry.rename(url, entry.dialect.command)];
        let mut variables: Vec<(String, String)> =
            headers.fields.iter().map(|field| (field.variable.clone(), field.value.to_owned())).collect();
        if !hidden.is_empty() {
            let written: Vec<_> = hidden.iter().map(|(name, raw, _)| (name.clone(), raw.clone())).collect();
            match environment {
                Some(member) => edits.push(entry.members_into(member, &written).ok_or(NO_PLACE)?),
                None => {
                    let members = entry.braces(&written);
                    become_command += &entry.member_after(url, entry.dialect.environment, &members);
                }
            }
            variables.extend(hidden.into_iter().map(|(name, _, value)| (name, value)));
        }
        edits.push(Edit::replace(url.value.range.clone(), become_command));
        if let Some(kind) = entry.kind() {
            let local = entry.syntax.word_like(entry.dialect.local, entry.raw(&kind.value.range));
            edits.push(Edit::replace(kind.value.range.clone(), local));
        }
        edits.extend(headers.edits(entry));
        if let Some(bearer) = bearer {
            edits.push(entry.rename(bearer, "env_vars"));
            edits.push(Edit::insert(bearer.value.range.start, "["));
            edits.push(Edit::insert(bearer.value.range.end, "]"));
        }
        let mut notes: Vec<String> = exposed.as_deref().map(unencrypted).into_iter().collect();
        notes.extend(login.map(|_| format!("log in once: mendline login {name}")));
        Ok(Change { edits, notes, arguments: words, variables })
    }

    /// Returns the arguments for a server at a URL, without the URL.
    fn url_words(
        &self,
        url: &Member,
        transport: Option<&str>,
        headers: &Headers<'_>,
        bearer_variable: Option<&str>,
        login: Option<&ClientLogin>,
    ) -> Vec<String> {
        let mut words = owned([RUN, "--name", &self.name]);
        words.extend(self.policies.arguments());
        words.extend(transport.iter().flat_map(|transport| owned(["--transport", transport])));
        if url.key != self.entry.dialect.urls[0] {
            words.extend(owned([ENTRY_URL, &url.key]));
        }
        for field in &headers.fields {
            words.extend(["--header-env".to_owned(), format!("{}={}", field.name, field.variable)]);
        }
        if let Some(variable) = bearer_variable {
            words.extend(["--header".to_owned(), bearer_header(variable)]);
        }
        words.extend(login.iter().flat_map(|login| login.flags(CLIENT_SECRET_VARIABLE)));
        words
    }

    /// Checks that a server at a URL has no member that Mendline cannot take over.
    fn check_members(&self) -> Result<(), String> {
        let table = self.entry.table;
        if let Some(key) = UNSUPPORTED.iter().find(|key| table.get(key).is_some()) {
            return Err(format!("its {key:?} is for the client, and Mendline cannot take it over"));
        }
        match ["args", "env_vars", "transport"].iter().find(|key| table.get(key).is_some()) {
            Some(key) => Err(format!("it has {key:?} beside its url")),
            None => Ok(()),
        }
    }

    /// Formats the command and its arguments in the place of a URL.
    fn command_line_after(&self, url: &Member, tokens: Vec<String>) -> String {
        match self.entry.dialect.form {
            CommandForm::ProgramAndArgs => {
                self.command_token() + &self.entry.member_after(url, "args", &Syntax::list(&tokens))
            }
            CommandForm::OneList => Syntax::list(&[vec![self.command_token()], tokens].concat()),
        }
    }

    /// Returns the transport for the arguments, if the entry names one.
    fn transport(&self, url: &Member) -> Result<Option<&str>, String> {
        match self.entry.kind().map(Member::text) {
            None => Ok(Dialect::transport_of(&url.key)),
            Some(Some(kind)) if self.entry.dialect.remote == Some(kind) => Ok(None),
            Some(kind) if self.entry.dialect.remote.is_some() => Err(unknown_type(kind)),
            Some(Some("http")) if self.entry.http_falls_back => Ok(Some("auto")),
            Some(Some(kind @ ("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "sse"))) => {
                Ok(Some(kind))
            }
            Some(kind) => Err(unknown_type(kind)),
        }
    }

    fn headers(&self) -> Result<Headers<'_>, String> {
        let entry = self.entry;
        let Some(member) = entry.headers() else { return Ok(Headers::default()) };
        let Value::Table(table) = &member.value.value else { return Err("its headers are not a table".to_owned()) };
        let environment = entry.environment();
        // Goose writes both, empty or not, and ignores headers of a command.
        let is_goose = entry.dialect.command == "cmd";
        let is_empty = |member: &Member| member.table().is_some_and(|table| table.members.is_empty());
        match environment {
            Some(_) if is_goose && table.members.is_empty() => return Ok(Headers::default()),
            Some(environment) if is_goose && is_empty(environment) => {}
            Some(environment) => return Err(format!("it has {:?} beside its headers", environment.key)),
            None => {}
        }
        let mut taken = BTreeSet::new();
        let mut fields = Vec::new();
        for header in &table.members {
            let value = header.text().ok_or_else(|| format!("its header {:?} is not a text", header.key))?;
            if !entry.is_plain(header) {
                return Err(format!("its header {:?} is written with escapes", header.key));
            }
            if is_goose && value.contains('$') {
                return Err(format!("its header {:?} has a variable, which Goose expands for a url alone", header.key));
            }
            fields.push(Field {
                member: header,
                name: &header.key,
                value,
                variable: variable(&header.key, &mut taken),
            });
        }
        Ok(Headers { member: Some(member), fields, environment })
    }

    /// Replaces the entry of a bridge, and keeps the original in the environment.
    fn replaced(&self, bridge: &Bridge, command: &Member, args: &Member) -> Result<Change, String> {
        let Wrapping { entry, name, policies, .. } = self;
        check_target(&bridge.url, bridge.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        let environment = entry.environment();
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
        let mut list = entry.list_like(args, &self.arguments(&words));
        let mut edits = vec![Edit::replace(command.value.range.clone(), self.command_token())];
        match environment {
            Some(member) => edits.push(entry.members_into(member, &written).ok_or(NO_PLACE)?),
            None => list += &entry.member_after(args, entry.dialect.environment, &entry.braces(&written)),
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
    /// The empty environment beside them.
    environment: Option<&'a Member>,
}

impl Headers<'_> {
    /// Makes the headers the environment. An empty environment takes their name.
    fn edits(&self, entry: &Entry<'_>) -> Vec<Edit> {
        let mut edits: Vec<Edit> = Vec::new();
        edits.extend(self.member.map(|member| entry.rename(member, entry.dialect.environment)));
        edits.extend(self.environment.map(|member| entry.rename(member, entry.dialect.headers)));
        edits.extend(self.fields.iter().map(|field| entry.rename(field.member, &field.variable)));
        edits
    }
}

struct Field<'a> {
    member: &'a Member,
    name: &'a str,
    value: &'a str,
    variable: String,
}

/// Returns the reason to leave an entry whose client may be logged in.
fn logged_in_by_client(login: Option<&ClientLogin>, name: &str) -> String {
    let why = match login {
        Some(login) => format!("its {:?} is a login of the client", login.member),
        None => "it has no credential, and the client may be logged in".to_owned(),
    };
    format!("{why}; --server {name} wraps it, and then `mendline login {name}` logs in")
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
