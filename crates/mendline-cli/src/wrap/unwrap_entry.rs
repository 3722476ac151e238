//! Unwrapping of an entry.
//!
//! Everything is read from the entry itself. Later changes are kept where the original form has a place for them: an
//! added variable, another token, further arguments. Changes without a place, such as a flag that only Mendline knows,
//! are removed and reported.

use super::arguments::WrapArguments;
use super::bridge::{self, header_of};
use super::client_login;
use super::dialect::CommandForm;
use super::document::{Document, Entry, Syntax};
use super::edit::{Edit, apply};
use super::policies::{POLICY, Policies};
use super::secrets::shown_words;
use super::tree::Member;
use super::wrap_entry::{
    CLIENT_SECRET_VARIABLE, Change, REPLACED_ARGS, REPLACED_COMMAND, Verdict, arguments_of, bearer_header,
};

/// Unwraps an entry.
pub(crate) fn unwrap(entry: &Entry<'_>) -> Verdict {
    let (Some(words), Some(command)) = (arguments_of(entry), entry.command()) else { return Verdict::Already };
    // A command that is one list has its arguments there.
    let args = entry.args().unwrap_or(command);
    let unwrapping = Unwrapping { entry, words: &words, command, args };
    let change = match unwrapping.replaced() {
        Some((program, arguments)) => Ok(unwrapping.bring_back(program, arguments)),
        None if words.command.is_some() => unwrapping.command(),
        None => unwrapping.url(),
    };
    change.map_or_else(Verdict::Left, Verdict::Change)
}

struct Unwrapping<'a> {
    entry: &'a Entry<'a>,
    words: &'a WrapArguments,
    command: &'a Member,
    args: &'a Member,
}

impl<'a> Unwrapping<'a> {
    /// Restores the command behind our arguments.
    fn command(&self) -> Result<Change, String> {
        let items = self.entry.arguments().unwrap_or_default();
        let at = self.words.command.ok_or(NOT_OURS)?;
        if self.is_one_list() {
            let all = self.command.items().unwrap_or_default();
            let (first, program) = (all.first().ok_or(NOT_OURS)?, items.get(at).ok_or(NOT_OURS)?);
            return Ok(self.change(vec![Edit::remove(first.range.start..program.range.start)], Vec::new()));
        }
        let (first, program) = (items.first().ok_or(NOT_OURS)?, items.get(at).ok_or(NOT_OURS)?);
        let mut edits = vec![Edit::replace(self.command.value.range.clone(), self.entry.raw(&program.range))];
        match items.get(at + 1) {
            Some(next) => edits.push(Edit::remove(first.range.start..next.range.start)),
            None if self.words.had_no("args") => edits.extend(self.without_args()),
            None => edits.push(Edit::remove(first.range.start..self.entry.past_comma(program.range.end))),
        }
        Ok(self.change(edits, Vec::new()))
    }

    /// Restores the URL from the command, and the headers from the environment.
    fn url(&self) -> Result<Change, String> {
        let Unwrapping { entry, words, command, .. } = self;
        let environment = entry.environment();
        let url = match (&words.url_variable, words.url) {
            (Some(name), _) => {
                let member = environment.and_then(|member| member.table()?.get(name));
                entry.raw(&member.ok_or_else(|| format!("the variable {name} is gone"))?.value.range)
            }
            (None, Some(at)) => {
                let item = entry.arguments().and_then(|items| items.get(at)).ok_or(NOT_OURS)?;
                if !item.text().is_some_and(|url| url.contains("://")) {
                    return Err(NOT_OURS.to_owned());
                }
                entry.raw(&item.range)
            }
            (None, None) => return Err(NOT_OURS.to_owned()),
        };
        let usual = entry.dialect.urls.first().copied().ok_or(NOT_OURS)?;
        let key = words.url_member.as_deref().unwrap_or(usual);
        let mut edits = vec![entry.rename(command, key), Edit::replace(command.value.range.clone(), url)];
        if let Some(kind) = entry.kind().filter(|kind| kind.text() == Some(entry.dialect.local)) {
            let transport = words.transport.as_deref().filter(|transport| *transport != "auto");
            let was = entry.dialect.remote.or(transport).unwrap_or("http");
            let was = entry.syntax.word_like(was, entry.raw(&kind.value.range));
            edits.push(Edit::replace(kind.value.range.clone(), was));
        }
        edits.extend(self.bearer()?);
        let mut notes = Vec::new();
        match environment {
            Some(member) => edits.extend(self.environment(member, &mut notes)?),
            None if words.header_variables.is_empty() => {}
            None => return Err("the variables that hold its headers are gone".to_owned()),
        }
        // An environment of ours is removed together with the arguments before it.
        if !self.is_one_list() && !edits.iter().any(|edit| edit.range.start == command.value.range.end) {
            edits.extend(self.without_args());
        }
        Ok(self.change(edits, notes))
    }

    /// Restores the environment of a server at a URL.
    fn environment(&self, member: &Member, notes: &mut Vec<String>) -> Result<Vec<Edit>, String> {
        let Unwrapping { entry, words, command, args } = self;
        let table = member.table().ok_or("its env is not a table")?;
        let header = |member: &Member| words.header_variables.iter().find(|(_, variable)| *variable == member.key);
        let is_ours = |member: &Member| {
            words.url_variable.as_deref() == Some(member.key.as_str()) || member.key == CLIENT_SECRET_VARIABLE
        };
        if let Some((name, _)) = words.header_variables.iter().find(|(_, variable)| table.get(variable).is_none()) {
            return Err(format!("the variable that holds its header {name} is gone"));
        }
        let others: Vec<&str> = table
            .members
            .iter()
            .filter(|member| header(member).is_none() && !is_ours(member))
            .map(|member| member.key.as_str())
            .collect();
        if words.header_variables.is_empty() {
            if words.had_no("env") && others.is_empty() {
                let is_behind = self.is_one_list() || entry.table.follows(command, args);
                if is_behind && entry.table.follows(args, member) {
                    return Ok(vec![Edit::remove(command.value.range.end..member.value.range.end)]);
                }
                return Ok(entry.without(member));
            }
            let mut edits = entry.without_members(table, is_ours);
            if others.is_empty() && !words.had_no("headers") && entry.headers().is_none() {
                edits.push(entry.rename(member, entry.dialect.headers));
            }
            return Ok(edits);
        }
        if !others.is_empty() {
            notes.push(format!("drops {} from env: a server at a url has no environment", others.join(", ")));
        }
        let mut edits = entry.without_members(table, |member| header(member).is_none());
        let kept = table.members.iter().filter_map(|member| Some((member, &header(member)?.0)));
        edits.extend(kept.map(|(member, name)| entry.rename(member, name)));
        edits.push(entry.rename(member, entry.dialect.headers));
        // An empty environment had its name exchanged with the headers.
        edits.extend(entry.headers().map(|member| entry.rename(member, entry.dialect.environment)));
        Ok(edits)
    }

    /// Restores the bearer token of a Codex entry. The arguments of a server at a URL have no other header.
    fn bearer(&self) -> Result<Vec<Edit>, String> {
        let (entry, member) = (self.entry, self.entry.table.get("env_vars"));
        match (self.words.headers.as_slice(), member.and_then(|member| Some((member, member.items()?)))) {
            ([], _) => Ok(Vec::new()),
            ([header], Some((member, [item])))
                if entry.syntax == Syntax::Toml && item.text().is_some_and(|name| *header == bearer_header(name)) =>
            {
                let value = Edit::replace(member.value.range.clone(), entry.raw(&item.range));
                Ok(vec![entry.rename(member, "bearer_token_env_var"), value])
            }
            _ => Err("its --header was not written by `mendline wrap`".to_owned()),
        }
    }

    /// Returns the original entry of a replaced bridge.
    fn replaced(&self) -> Option<(&'a str, &'a str)> {
        let table = self.entry.environment()?.table()?;
        Some((table.get(REPLACED_COMMAND)?.text()?, table.get(REPLACED_ARGS)?.text()?))
    }

    fn bring_back(&self, program: &str, arguments: &str) -> Change {
        let Unwrapping { entry, words, command, args } = self;
        let mut notes = Vec::new();
        let arguments = self.refreshed(program, arguments, &mut notes);
        let mut edits = vec![
            Edit::replace(command.value.range.clone(), program),
            Edit::replace(args.value.range.clone(), arguments),
        ];
        let ours = |member: &Member| {
            let key = member.key.as_str();
            matches!(key, REPLACED_COMMAND | REPLACED_ARGS | CLIENT_SECRET_VARIABLE)
                || words.url_variable.as_deref() == Some(key)
                || words.header_variables.iter().any(|(_, variable)| variable == key)
        };
        if let Some((member, table)) = entry.environment().and_then(|member| Some((member, member.table()?))) {
            if !words.had_no("env") || !table.members.iter().all(ours) {
                edits.extend(entry.without_members(table, ours));
            } else if entry.table.follows(args, member) {
                edits.push(Edit::remove(args.value.range.end..member.value.range.end));
            } else {
                edits.extend(entry.without(member));
            }
        }
        Change { edits, notes, ..Change::default() }
    }

    /// Returns the original arguments of the bridge, with header values that were changed since.
    fn refreshed(&self, program: &str, arguments: &str, notes: &mut Vec<String>) -> String {
        let syntax = self.entry.syntax;
        let text = match syntax {
            // A list of lines is indented like the rest of its file.
            Syntax::Yaml => format!("command: {program}\nargs:\n{}{arguments}\n", self.indentation()),
            Syntax::Json => format!("{{\"command\": {program}, \"args\": {arguments}}}"),
            Syntax::Toml => format!("command = {program}\nargs = {arguments}\n"),
        };
        let edits = Document::parse(&text, syntax).ok().and_then(|document| {
            let (program, args) = (document.root.get("command")?.text()?, document.root.get("args")?);
            let bridge = bridge::read(program, &args.texts()?)?.ok()?;
            let stale = self.words.header_variables.iter().filter_map(|(name, variable)| {
                let value = self.entry.environment()?.table()?.get(variable)?.text()?;
                let fresh = (name.clone(), value.to_owned());
                (!bridge.headers.contains(&fresh)).then_some(fresh)
            });
            let mut edits = Vec::new();
            for (name, value) in stale {
                let items = args.items()?;
                let header = items.windows(2).find(|pair| {
                    let named = pair[1].text().and_then(|header| header_of(header).ok());
                    pair[0].text() == Some("--header") && named.is_some_and(|(other, _)| other == name)
                });
                match header {
                    Some(pair) => {
                        let start = args.value.range.start;
                        let range = pair[1].range.start - start..pair[1].range.end - start;
                        edits.push(Edit::replace(range, syntax.quoted(&format!("{name}: {value}"))));
                    }
                    None => notes.push(format!("the header {name} comes back as it was before wrapping")),
                }
            }
            Some(edits)
        });
        apply(arguments, &edits.unwrap_or_default())
    }

    /// Returns the blanks before the arguments in their line.
    fn indentation(&self) -> &'a str {
        let before = &self.entry.text[..self.args.value.range.start];
        let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        &line[..line.len() - line.trim_start().len()]
    }

    fn is_one_list(&self) -> bool {
        self.entry.dialect.form == CommandForm::OneList
    }

    fn without_args(&self) -> Vec<Edit> {
        if self.entry.table.follows(self.command, self.args) {
            return vec![Edit::remove(self.command.value.range.end..self.args.value.range.end)];
        }
        self.entry.without(self.args)
    }

    fn change(&self, edits: Vec<Edit>, mut notes: Vec<String>) -> Change {
        // A policy that the entry has, too, is not lost.
        let kept = Policies::of(self.entry).words;
        let policies = self.words.policies.iter().filter(|word| !kept.contains(word));
        let policies = policies.map(|word| shown_words([POLICY, word.as_str()]));
        // The settings of a login of the client are still in the entry.
        let is_of_client = matches!(client_login::read(self.entry), Ok(Some(_)));
        let login = self.words.login.iter().filter(|_| !is_of_client).cloned();
        let dropped: Vec<String> = self.words.foreign.iter().cloned().chain(login).chain(policies).collect();
        if !dropped.is_empty() {
            notes.push(format!("drops {}, which only Mendline understands", dropped.join(", ")));
        }
        Change { edits, notes, ..Change::default() }
    }
}

const NOT_OURS: &str = "it was not written by `mendline wrap`";
