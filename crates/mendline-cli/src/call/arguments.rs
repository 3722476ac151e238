//! The arguments of a tool: JSON from the command line, a file or stdin, and `--arg` values on top of it.

use std::io::Read;

use mendline::observe::escaped::is_harmless;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_text::Members;
use crate::mcp_client::raw;
use crate::tools::tool::{Argument, Tool};
use crate::untrusted_text::{one_line, size};

/// Limit for the size of the arguments: the engine itself accepts messages of 16 MiB.
const LONGEST: u64 = 16 << 20;

/// Number of characters shown on either side of a JSON error.
const AROUND: usize = 60;

/// Arguments as they were given, before the tool's schema is known.
#[derive(Debug)]
pub(crate) struct Arguments {
    given: Members,
    /// `--arg`, as name and text.
    single: Vec<(String, String)>,
}

/// Arguments as they are sent.
#[derive(Debug)]
pub(crate) struct ResolvedArguments(Vec<(String, Box<RawValue>)>);

impl Arguments {
    /// Parses the arguments of the command line.
    pub(crate) fn read(text: Option<&str>, single: &[String]) -> Result<Arguments, String> {
        let (text, source) = match text {
            None => ("{}".to_owned(), "the arguments".to_owned()),
            Some("-") => {
                let mut text = String::new();
                let read = std::io::stdin().lock().take(LONGEST + 1).read_to_string(&mut text);
                read.map_err(|error| format!("the arguments cannot be read from stdin: {error}"))?;
                (text, "stdin".to_owned())
            }
            Some(text) => match text.strip_prefix('@') {
                Some(path) => {
                    let read = std::fs::File::open(path).and_then(|file| {
                        let mut text = String::new();
                        file.take(LONGEST + 1).read_to_string(&mut text).map(|_| text)
                    });
                    (read.map_err(|error| format!("{path} cannot be read: {error}"))?, path.to_owned())
                }
                None => (text.to_owned(), "the arguments".to_owned()),
            },
        };
        if text.len() as u64 > LONGEST {
            return Err(format!("{source}: arguments are limited to {}", size(LONGEST as usize)));
        }
        let given = if text.trim().is_empty() { Members::default() } else { parse(&text, &source)? };
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in single {
            let (name, value) =
                pair.split_once('=').ok_or("--arg is written as KEY=VALUE, for example --arg query=milk")?;
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(format!("--arg {name}= is given twice; a list is written as --arg '{name}=[…]'"));
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(Arguments { given, single: pairs })
    }

    /// Returns the arguments to send to this tool.
    pub(crate) fn for_tool(&self, tool: &Tool) -> Result<ResolvedArguments, String> {
        let mut all = Vec::new();
        for (name, value) in &self.given.0 {
            // The last of several members with one name wins, and `--arg` wins over all of them.
            all.retain(|(known, _)| known != name);
            all.push((name.clone(), value.clone()));
        }
        for (name, text) in &self.single {
            let argument = tool.arguments.iter().find(|argument| argument.name == *name);
            let value = single(name, text, argument)?;
            all.retain(|(known, _)| known != name);
            all.push((name.clone(), value));
        }
        Ok(ResolvedArguments(all))
    }
}

fn single(name: &str, text: &str, argument: Option<&Argument>) -> Result<Box<RawValue>, String> {
    let as_text = || raw(&Value::from(text));
    let as_json = || RawValue::from_string(text.trim().to_owned());
    match argument.and_then(|argument| argument.is_text) {
        Some(true) => Ok(as_text()),
        Some(false) => {
            let kind = argument.map_or_else(|| "another type".to_owned(), |argument| one_line(&argument.kind));
            as_json().map_err(|_| format!("--arg {name}: the tool expects {kind}, written as JSON"))
        }
        None => Ok(as_json().unwrap_or_else(|_| as_text())),
    }
}

impl ResolvedArguments {
    /// Returns the arguments as JSON.
    pub(crate) fn text(&self) -> Box<RawValue> {
        let members: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
        // Valid names and values always form a valid object.
        RawValue::from_string(format!("{{{}}}", members.join(","))).unwrap_or_else(|_| raw(&Value::Null))
    }

    /// Returns hints about mismatches with the tool's schema. The server decides.
    pub(crate) fn hints(&self, tool: &Tool) -> Vec<String> {
        let has = |name: &str| self.0.iter().any(|(known, _)| known == name);
        let missing = tool.arguments.iter().filter(|argument| argument.is_required && !has(&argument.name));
        let mut hints: Vec<String> = missing
            .map(|it| {
                format!(
                    "{} requires `{}` ({}), which is missing",
                    one_line(&tool.name),
                    one_line(&it.name),
                    one_line(&it.kind)
                )
            })
            .collect();
        if tool.takes_others || tool.input.is_none() {
            return hints;
        }
        for (name, _) in self.0.iter().filter(|(name, _)| !tool.arguments.iter().any(|it| it.name == *name)) {
            let known: Vec<&str> = tool.arguments.iter().map(|it| it.name.as_str()).collect();
            let more = match mendline_config::nearest(name, known.iter().copied()) {
                Some(meant) => format!("; did you mean `{}`?", one_line(meant)),
                None => String::new(),
            };
            hints.push(format!("{} has no argument `{}`{more}", one_line(&tool.name), one_line(name)));
        }
        hints
    }
}

/// Parses an object into its members; an error names the position.
fn parse(text: &str, source: &str) -> Result<Members, String> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let said = error.to_string();
        let what = said.split(" at line ").next().unwrap_or_default();
        let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        format!("{source}: not JSON: {what}, at line {line}, column {column}\n\n{}", pointed(shown, column))
    })?;
    Members::of(value)
        .ok_or_else(|| format!("{source}: a tool's arguments are a JSON object, for example '{{\"query\": \"milk\"}}'"))
}

/// Formats a line with a marker under a column, which is counted in bytes and from 1.
fn pointed(line: &str, column: usize) -> String {
    let before: String =
        line.as_bytes().get(..column.saturating_sub(1)).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let at = before.chars().count();
    let from = at.saturating_sub(AROUND);
    let shown: String =
        line.chars().skip(from).take(2 * AROUND).map(|it| if !is_harmless(it) { ' ' } else { it }).collect();
    format!("  {shown}\n  {}^", " ".repeat(at - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> Tool {
        let text = r#"{"name":"t","inputSchema":{"type":"object","required":["key"],"properties":{
            "key":{"type":"string"},"count":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}}"#;
        Tool::of(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    fn sent(text: Option<&str>, single: &[&str]) -> Result<String, String> {
        let single: Vec<String> = single.iter().map(|it| (*it).to_owned()).collect();
        Arguments::read(text, &single)?.for_tool(&tool()).map(|given| given.text().get().to_owned())
    }

    #[test]
    fn arguments_are_sent_as_written() {
        assert_eq!(sent(None, &[]).unwrap(), "{}");
        assert_eq!(sent(Some("  "), &[]).unwrap(), "{}");
        let exact = r#"{"z":1.50,"key":"x","big":123456789012345678901234567890}"#;
        assert_eq!(sent(Some(exact), &[]).unwrap(), exact);
    }

    #[test]
    fn single_argument_has_the_type_of_the_schema() {
        assert_eq!(sent(None, &["key=5", "count=5"]).unwrap(), r#"{"key":"5","count":5}"#);
        assert_eq!(sent(Some(r#"{"key":"a","count":1}"#), &["key=b=c"]).unwrap(), r#"{"count":1,"key":"b=c"}"#);
        assert_eq!(sent(None, &["other=true", "more=plain text"]).unwrap(), r#"{"other":true,"more":"plain text"}"#);
        assert!(sent(None, &["count=five"]).unwrap_err().contains("expects integer"));
        assert!(sent(None, &["tags=a"]).unwrap_err().contains("string[]"));
        assert!(sent(None, &["key"]).unwrap_err().contains("KEY=VALUE"));
        assert!(sent(None, &["key=a", "key=b"]).unwrap_err().contains("twice"));
    }

    #[test]
    fn json_error_is_shown_with_its_position() {
        let complaint = sent(Some("{\"kéy\" 5}"), &[]).unwrap_err();
        assert_eq!(
            complaint,
            "the arguments: not JSON: expected `:`, at line 1, column 9\n\n  {\"kéy\" 5}\n         ^"
        );
        let long = format!("{{\"key\": \"{}\" 5}}", "x".repeat(500));
        let complaint = sent(Some(&long), &[]).unwrap_err();
        let (line, sign) = complaint.split_once("\n\n").unwrap().1.split_once('\n').unwrap();
        assert_eq!((line.chars().nth(sign.find('^').unwrap()), sign.len() < 80), (Some('5'), true), "{complaint}");
        assert!(sent(Some("[1]"), &[]).unwrap_err().contains("JSON object"));
        assert!(sent(Some("@/nonexistent/x"), &[]).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn schema_mismatch_causes_hints_and_is_sent() {
        let given = Arguments::read(Some(r#"{"kex":"x"}"#), &[]).unwrap().for_tool(&tool()).unwrap();
        let hints = given.hints(&tool());
        assert_eq!(
            hints,
            ["t requires `key` (string), which is missing", "t has no argument `kex`; did you mean `key`?"]
        );
        let open = r#"{"name":"t","inputSchema":{"type":"object","additionalProperties":true}}"#;
        let open = Tool::of(&RawValue::from_string(open.to_owned()).unwrap()).unwrap();
        assert!(given.hints(&open).is_empty());
    }
}
