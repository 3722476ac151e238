//! Values of single keys of a server, as a command line gives them: `timeouts.call=2m`, `env.TOKEN=${TOKEN}`.
//!
//! The table of keys tells which keys exist and of which kind their values are, so that a number is written as a number
//! and a duration as a string. Whether a value is valid is decided by the check of the changed file, which can show the
//! key.

use std::fmt;

use crate::file::{NewValue, json};
use crate::keys::{self, Key, Kind};
use crate::nearest::nearest;

/// A key of a server by its path, and its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The keys from the entry to the value.
    pub path: KeyPath,
    /// The value.
    pub value: NewValue,
}

/// The path of a key in the entry of a server; it has at least one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

/// The reason why an assignment cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentError {
    /// It has no `=`.
    Form,
    /// No key has this name.
    Unknown {
        /// The path up to the unknown key.
        key: String,
        /// The nearest key, with its path, if one is near.
        meant: Option<String>,
        /// The keys that exist there.
        known: Vec<&'static str>,
    },
    /// The key is an object: one of its keys is needed.
    Object {
        /// Its path.
        key: String,
        /// An example of a path below it.
        example: String,
    },
    /// The key is no object.
    NoObject {
        /// Its path.
        key: String,
    },
    /// The key is an array, and the value is not written as one.
    List {
        /// Its path.
        key: String,
    },
    /// The value begins like JSON and is not JSON.
    Json {
        /// Its path.
        key: String,
        /// The problem.
        why: String,
    },
    /// The key exists only for other programs or is not supported yet.
    Unsupported {
        /// Its path.
        key: String,
        /// The advice.
        why: &'static str,
    },
}

impl fmt::Display for AssignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssignmentError::Form => {
                f.write_str("a key and its value are written as KEY=VALUE, for example timeouts.call=2m")
            }
            AssignmentError::Unknown { key, meant: Some(meant), .. } => {
                write!(f, "there is no key `{key}`; did you mean `{meant}`?")
            }
            AssignmentError::Unknown { key, meant: None, known } => {
                write!(f, "there is no key `{key}`; the keys there are {}", known.join(", "))
            }
            AssignmentError::Object { key, example } => {
                write!(f, "`{key}` is an object; write one of its keys, for example `{example}`")
            }
            AssignmentError::NoObject { key } => write!(f, "`{key}` has no keys of its own"),
            AssignmentError::List { key } => {
                write!(f, "`{key}` is an array; write it as JSON, for example '{key}=[\"one\", \"two\"]'")
            }
            AssignmentError::Json { key, why } => write!(f, "the value of `{key}` is not JSON: {why}"),
            AssignmentError::Unsupported { key, why } => write!(f, "`{key}` cannot be used: {why}"),
        }
    }
}

impl std::error::Error for AssignmentError {}

impl Assignment {
    /// Parses `KEY=VALUE`. The key is a path with dots.
    pub fn parse(text: &str) -> Result<Assignment, AssignmentError> {
        let (path, value) = text.split_once('=').ok_or(AssignmentError::Form)?;
        let found = Found::of(path.trim())?;
        let value = found.value(value)?;
        Ok(Assignment { path: KeyPath(found.steps), value })
    }

    /// Creates an assignment below an object of the entry, such as one variable of `env`.
    pub fn below(object: &str, key: &str, value: &str) -> Assignment {
        let path = KeyPath(vec![object.to_owned(), key.to_owned()]);
        Assignment { path, value: NewValue::Text(value.to_owned()) }
    }
}

impl KeyPath {
    /// Parses the path of a key, such as `timeouts.call`.
    pub fn parse(text: &str) -> Result<KeyPath, AssignmentError> {
        Found::of(text.trim()).map(|found| KeyPath(found.steps))
    }

    /// Returns the keys from the entry to the value.
    pub fn steps(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A path that exists in the table of keys.
struct Found {
    steps: Vec<String>,
    /// The kind of the value; `None` for a member of an object of strings.
    kind: Option<&'static Kind>,
}

impl Found {
    fn of(path: &str) -> Result<Found, AssignmentError> {
        let mut found = Found { steps: Vec::new(), kind: None };
        found.descend(path, keys::SERVER)?;
        Ok(found)
    }

    fn descend(&mut self, path: &str, keys: &'static [Key]) -> Result<(), AssignmentError> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let Some(key) = keys::find(keys, first) else { return Err(self.unknown(first, keys)) };
        self.steps.push(key.name.to_owned());
        self.kind = Some(&key.kind);
        let Some(rest) = rest else { return self.check_leaf(&key.kind) };
        match &key.kind {
            Kind::Block(inner) | Kind::BlockOrFalse(inner) => self.descend(rest, inner),
            Kind::Each(inner) => {
                let (member, inner_path) = member_and_key(rest, inner).ok_or_else(|| self.object(&key.kind))?;
                self.steps.push(member.to_owned());
                self.descend(inner_path, inner)
            }
            Kind::Pairs | Kind::Variables | Kind::Codes(_) | Kind::Statuses(_) => {
                self.steps.push(rest.to_owned());
                self.kind = None;
                Ok(())
            }
            _ => Err(AssignmentError::NoObject { key: self.path() }),
        }
    }

    fn check_leaf(&self, kind: &Kind) -> Result<(), AssignmentError> {
        match kind {
            Kind::Unsupported(why) => Err(AssignmentError::Unsupported { key: self.path(), why }),
            _ => Ok(()),
        }
    }

    fn unknown(&self, name: &str, keys: &'static [Key]) -> AssignmentError {
        let below = |name: &str| self.steps.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        let is_offered = |key: &&Key| !matches!(key.kind, Kind::Foreign(_) | Kind::Unsupported(_));
        let known: Vec<&'static str> = keys.iter().filter(is_offered).map(|key| key.name).collect();
        let meant = nearest(name, known.iter().copied()).map(below).or_else(|| anywhere(name));
        AssignmentError::Unknown { key: below(name), meant, known }
    }

    fn object(&self, kind: &Kind) -> AssignmentError {
        let example = match kind {
            Kind::Block(inner) | Kind::BlockOrFalse(inner) => inner.first().map_or("…", |key| key.name).to_owned(),
            Kind::Each(inner) => format!("NAME.{}", inner.first().map_or("…", |key| key.name)),
            Kind::Codes(_) => "-32603".to_owned(),
            Kind::Statuses(_) => "503".to_owned(),
            _ => "NAME".to_owned(),
        };
        AssignmentError::Object { key: self.path(), example: format!("{}.{example}", self.path()) }
    }

    fn path(&self) -> String {
        self.steps.join(".")
    }

    /// Returns the value of a text, by the kind of the key.
    fn value(&self, text: &str) -> Result<NewValue, AssignmentError> {
        let Some(kind) = self.kind else { return Ok(NewValue::Text(text.to_owned())) };
        let text_or = |json: Option<NewValue>| Ok(json.unwrap_or_else(|| NewValue::Text(text.to_owned())));
        match kind {
            Kind::Flag => text_or(flag(text)),
            Kind::TextOrFalse => text_or(flag(text).filter(|value| *value == NewValue::Flag(false))),
            Kind::Duration(_) | Kind::Seconds | Kind::Millis | Kind::Integer(..) | Kind::Number(..) => {
                text_or(number(text))
            }
            Kind::Text | Kind::Secret | Kind::Url | Kind::Choice(_) | Kind::Unsupported(_) => text_or(None),
            Kind::Words if !text.starts_with('[') => text_or(None),
            Kind::TextList if !text.starts_with('[') => Err(AssignmentError::List { key: self.path() }),
            Kind::Words | Kind::TextList => self.json(text),
            Kind::BlockOrFalse(_) if text == "false" => Ok(NewValue::Flag(false)),
            Kind::Foreign(_) => text_or(self.json(text).ok()),
            _ if text.starts_with('{') => self.json(text),
            _ => Err(self.object(kind)),
        }
    }

    fn json(&self, text: &str) -> Result<NewValue, AssignmentError> {
        let parsed = json::parse(text).map_err(|finding| finding.what);
        let value = parsed.and_then(|value| NewValue::of(&value).ok_or_else(|| "it holds a date".to_owned()));
        value.map_err(|why| {
            let why = why.strip_prefix("this is not JSON: ").unwrap_or(&why).to_owned();
            AssignmentError::Json { key: self.path(), why }
        })
    }
}

/// Splits a path below an object of objects. Names of members may contain dots, so the longest known path of keys at the
/// end counts.
fn member_and_key<'a>(path: &'a str, inner: &'static [Key]) -> Option<(&'a str, &'a str)> {
    let dots = path.match_indices('.').map(|(at, _)| (&path[..at], &path[at + 1..]));
    let is_key = |key: &str| keys::find(inner, key.split('.').next().unwrap_or(key)).is_some();
    let mut splits: Vec<_> = dots.filter(|(member, _)| !member.is_empty()).collect();
    let known = splits.iter().position(|(_, key)| is_key(key));
    known.map(|at| splits[at]).or_else(|| splits.pop())
}

/// Returns the only path of a key with this name below the objects of a server, if there is exactly one.
fn anywhere(name: &str) -> Option<String> {
    let mut paths = keys::SERVER.iter().filter_map(|key| match &key.kind {
        Kind::Block(inner) => keys::find(inner, name).map(|found| format!("{}.{}", key.name, found.name)),
        _ => None,
    });
    paths.next().filter(|_| paths.next().is_none())
}

fn flag(text: &str) -> Option<NewValue> {
    text.parse().ok().map(NewValue::Flag)
}

fn number(text: &str) -> Option<NewValue> {
    let value = json::parse(text).ok().and_then(|value| NewValue::of(&value))?;
    matches!(value, NewValue::Number(_)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, NewValue) {
        let assignment = Assignment::parse(text).unwrap();
        (assignment.path.steps().join("|"), assignment.value)
    }

    fn text(text: &str) -> NewValue {
        NewValue::Text(text.to_owned())
    }

    #[test]
    fn kind_of_the_key_decides_the_notation() {
        for (line, path, value) in [
            ("timeouts.call=2m", "timeouts|call", text("2m")),
            ("autoReconnect.maxRetries=5", "autoReconnect|maxRetries", NewValue::Number("5".to_owned())),
            ("autoReconnect.maxRetries=many", "autoReconnect|maxRetries", text("many")),
            (
                "autoReconnect.initialRetryDelay=2000",
                "autoReconnect|initialRetryDelay",
                NewValue::Number("2000".into()),
            ),
            ("disabled=true", "disabled", NewValue::Flag(true)),
            ("command=true", "command", text("true")),
            ("cwd=5", "cwd", text("5")),
            ("env.A=1", "env|A", text("1")),
            ("env.A.B==", "env|A.B", text("=")),
            ("env.EMPTY=", "env|EMPTY", text("")),
            ("args=[\"-y\", \"x\"]", "args", NewValue::List(vec![text("-y"), text("x")])),
            ("tools.search.timeout=30s", "tools|search|timeout", text("30s")),
            ("tools.a.b.limits.inFlight=3", "tools|a.b|limits|inFlight", NewValue::Number("3".into())),
            ("retry.codes.-32603=always", "retry|codes|-32603", text("always")),
            ("description=my notes", "description", text("my notes")),
        ] {
            assert_eq!(parsed(line), (path.to_owned(), value), "{line}");
        }
    }

    #[test]
    fn wrong_key_is_refused_with_the_nearest_one() {
        for (line, words) in [
            ("timeouts.cal=2m", "did you mean `timeouts.call`?"),
            ("timeout.call=2m", "`timeout` has no keys of its own"),
            ("maxRetries=2", "did you mean `autoReconnect.maxRetries`?"),
            ("xyzzy=2", "the keys there are type, command"),
            ("timeouts=2m", "write one of its keys, for example `timeouts.connect`"),
            ("tools.search=30s", "for example `tools.NAME.effect`"),
            ("env=A", "for example `env.NAME`"),
            ("args=-y", "write it as JSON, for example 'args=[\"one\", \"two\"]'"),
            ("args=[\"-y\"", "is not JSON"),
            ("timeouts.call", "written as KEY=VALUE"),
        ] {
            let error = Assignment::parse(line).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
        assert_eq!(KeyPath::parse("timeouts").unwrap().steps(), ["timeouts"], "an object can be removed as a whole");
    }
}
