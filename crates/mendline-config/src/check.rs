//! Checks the values of a file by the table of keys, and reports a finding for each mistake.
//!
//! A [`CheckedValue`] has the correct type, is within its range, and has its variables expanded. A wrong value is left
//! out and checking continues, so that one pass finds every mistake. The checker also collects the parts of the file
//! that must not be shown.

mod alternatives;
mod block;
mod numbers;
mod secrets;
mod texts;

use std::ops::Range;

pub(crate) use self::block::{Block, CheckedValue, Item, ItemValue, Pair, TypedValue};
use crate::Environment;
use crate::file::{Entry, Value, ValueKind};
use crate::finding::{Finding, Scope};
use crate::keys::{self, Key, Kind};
use crate::nearest::nearest;

/// The owner of a file, which decides how an unknown key is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Mendline: an unknown key is a mistake.
    Mendline,
    /// Another program: an unknown key belongs to that program.
    OtherProgram,
}

/// The key of the variables that a server sets itself.
pub(crate) const ENV: &str = "env";

/// Checks values by the table of keys and collects findings.
pub(crate) struct Checker<'a> {
    pub environment: &'a Environment,
    pub owner: Owner,
    pub findings: Vec<Finding>,
    /// Spans that must not be shown.
    pub secrets: Vec<Range<usize>>,
    /// The server whose keys are being checked.
    pub server: Option<String>,
    /// The keys that are being checked are those of the gateway.
    pub scope: Scope,
    /// The variables that this server sets itself. They override those of the environment.
    pub server_variables: Vec<(String, String)>,
}

impl<'a> Checker<'a> {
    pub fn new(environment: &'a Environment, owner: Owner) -> Self {
        let (findings, secrets, server_variables) = (Vec::new(), Vec::new(), Vec::new());
        Checker { environment, owner, findings, secrets, server: None, scope: Scope::Servers, server_variables }
    }

    pub fn report(&mut self, mut finding: Finding) {
        finding.server.clone_from(&self.server);
        finding.scope = self.scope;
        self.findings.push(finding);
    }

    /// Reports a mistake: an error in a file of Mendline, a warning in a file of another program.
    pub fn report_mistake(&mut self, at: Range<usize>, what: String, help: Option<String>) {
        let mut finding = match self.owner {
            Owner::Mendline => Finding::error(at, what),
            Owner::OtherProgram => Finding::warning(at, what),
        };
        finding.help = help;
        self.report(finding);
    }

    /// Checks an object. `is_shared` means that other programs have keys here, too.
    pub fn block(&mut self, entries: &[Entry], keys: &'static [Key], is_shared: bool) -> Block {
        let mut block = Block::default();
        for (index, entry) in entries.iter().enumerate() {
            if entries[..index].iter().any(|before| before.key == entry.key) {
                self.report_duplicate(entry, "key");
                self.mask(&entry.value);
                continue;
            }
            let Some(key) = keys::find(keys, &entry.key) else {
                self.mask(&entry.value);
                self.report_unknown_key(entry, keys, is_shared);
                continue;
            };
            if entry.value.kind == ValueKind::Null {
                // Tools write null for an absent value.
                continue;
            }
            let scope = self.scope;
            if key.name == keys::access::NAME {
                self.scope = Scope::Gateway;
            }
            let value = self.value(key, entry);
            self.scope = scope;
            if let Some(value) = value {
                block.values.push(CheckedValue {
                    key,
                    key_at: entry.key_at.clone(),
                    at: entry.value.at.clone(),
                    value,
                });
            }
        }
        block
    }

    pub fn report_duplicate(&mut self, entry: &Entry, what: &str) {
        let help = "remove one of them".to_owned();
        self.report_mistake(entry.key_at.clone(), format!("duplicate {what} `{}`", entry.key), Some(help));
    }

    fn report_unknown_key(&mut self, entry: &Entry, keys: &'static [Key], is_shared: bool) {
        let usable = keys.iter().filter(|key| !matches!(key.kind, Kind::Foreign(_) | Kind::Unsupported(_)));
        let usable = usable.map(|key| key.name);
        let meant = nearest(&entry.key, usable.clone());
        let what = format!("unknown key `{}`", entry.key);
        let help = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let all: Vec<_> = usable.filter(|name| !name.contains('_')).collect();
                format!("known keys: {}", all.join(", "))
            }
        };
        let at = entry.key_at.clone();
        let finding = match self.owner {
            Owner::OtherProgram if is_shared && meant.is_none() => {
                Finding::note(at, format!("Mendline does not know `{}` and ignores it", entry.key))
            }
            Owner::OtherProgram if is_shared => Finding::warning(at, what).help(help),
            _ => Finding::error(at, what).help(help),
        };
        self.report(finding);
    }

    fn value(&mut self, key: &'static Key, entry: &Entry) -> Option<TypedValue> {
        let (name, value) = (key.name, &entry.value);
        match &key.kind {
            Kind::Flag => match value.kind {
                ValueKind::Flag(flag) => Some(TypedValue::Flag(flag)),
                _ => self.wrong(name, value, "true or false", "true"),
            },
            Kind::Text => self.text(name, value).map(TypedValue::Text),
            Kind::Secret => {
                self.mask(value);
                self.text(name, value).map(TypedValue::Text)
            }
            Kind::TextOrFalse => self.text_or_false(name, value),
            Kind::Words => self.separate_words(name, value),
            Kind::Url => {
                self.mask_url(value);
                self.text(name, value).map(TypedValue::Text)
            }
            Kind::TextList => {
                self.mask(value);
                self.words(name, value)
            }
            Kind::Pairs if name == ENV => {
                self.mask(value);
                // The variables of a server are expanded from the environment, and not from each other.
                let variables = std::mem::take(&mut self.server_variables);
                let pairs = self.pairs(name, value);
                self.server_variables = variables;
                pairs
            }
            Kind::Pairs => {
                self.mask(value);
                self.pairs(name, value)
            }
            Kind::Variables => {
                self.mask(value);
                self.variables(name, value)
            }
            Kind::Duration(least) => self.duration(name, value, *least).map(TypedValue::Duration),
            Kind::Seconds => self.counted(name, value, 1.0, "seconds"),
            Kind::Millis => self.counted(name, value, 0.001, "milliseconds"),
            Kind::Integer(least, most) => self.whole(name, value, *least, *most),
            Kind::Number(least, most) => self.real(name, value, *least, *most),
            Kind::Choice(words) => self.choice(name, value, words).map(TypedValue::Choice),
            Kind::Block(keys) => match value.table() {
                Some(entries) => Some(TypedValue::Block(self.block(entries, keys, false))),
                None => {
                    self.mask(value);
                    self.wrong(name, value, "an object", "{}")
                }
            },
            Kind::BlockOrFalse(keys) => self.block_or_false(name, value, keys),
            Kind::TextsOrBlocks(keys) => self.texts_or_blocks(name, value, keys),
            Kind::Each(keys) => self.each(name, value, keys),
            Kind::Codes(words) => self.codes(name, value, words),
            Kind::Statuses(words) => self.statuses(name, value, words),
            Kind::Foreign(why) => {
                self.mask(value);
                self.report(Finding::note(entry.key_at.clone(), format!("Mendline ignores `{name}`: {why}")));
                Some(TypedValue::Foreign)
            }
            Kind::Unsupported(instead) => {
                self.mask(value);
                // In a file of another program the key may belong to that program.
                let what = format!("`{name}` is not supported yet");
                self.report_mistake(entry.key_at.clone(), what, Some((*instead).to_owned()));
                None
            }
        }
    }

    fn wrong(&mut self, name: &str, value: &Value, expected: &str, example: &str) -> Option<TypedValue> {
        self.report(wrong(name, value, expected, example));
        None
    }

    fn choice(&mut self, name: &str, value: &Value, words: &'static [&'static str]) -> Option<&'static str> {
        let given = match &value.kind {
            ValueKind::Text(text) => Some(self.expanded(text, &value.at)?),
            _ => None,
        };
        let chosen = words.iter().copied().find(|word| given.as_deref() == Some(word));
        if chosen.is_none() {
            let mut finding = wrong(name, value, &format!("one of {}", words.join(", ")), "");
            let meant = given.and_then(|given| nearest(&given, words.iter().copied()));
            finding.help = Some(match meant {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => format!("for example \"{}\"", words.first().copied().unwrap_or_default()),
            });
            self.report(finding);
        }
        chosen
    }

    fn each(&mut self, name: &str, value: &Value, keys: &'static [Key]) -> Option<TypedValue> {
        let Some(entries) = value.table() else {
            self.mask(value);
            return self.wrong(name, value, "an object of objects", "{ \"name\": {} }");
        };
        let mut blocks: Vec<(String, Block)> = Vec::new();
        for entry in entries {
            if blocks.iter().any(|(before, _)| *before == entry.key) {
                self.report_duplicate(entry, "name");
            } else if let Some(inner) = entry.value.table() {
                let block = self.block(inner, keys, false);
                blocks.push((entry.key.clone(), block));
            } else {
                self.mask(&entry.value);
                self.report(wrong(&entry.key, &entry.value, "an object", "{}"));
            }
        }
        Some(TypedValue::Each(blocks))
    }

    fn codes(&mut self, name: &str, value: &Value, words: &'static [&'static str]) -> Option<TypedValue> {
        let Some(entries) = value.table() else {
            return self.wrong(name, value, "an object of error codes", "{ \"-32603\": \"never\" }");
        };
        let mut codes: Vec<(i64, &'static str)> = Vec::new();
        for entry in entries {
            let Ok(code) = entry.key.parse::<i64>() else {
                let what = format!("`{}` is not an error code, because it is not an integer", entry.key);
                self.report(Finding::error(entry.key_at.clone(), what).help("for example \"-32603\""));
                continue;
            };
            if codes.iter().any(|(before, _)| *before == code) {
                self.report_duplicate(entry, "code");
            } else if let Some(word) = self.choice(&entry.key, &entry.value, words) {
                codes.push((code, word));
            }
        }
        Some(TypedValue::Codes(codes))
    }

    fn statuses(&mut self, name: &str, value: &Value, words: &'static [&'static str]) -> Option<TypedValue> {
        let Some(entries) = value.table() else {
            return self.wrong(name, value, "an object of HTTP statuses", "{ \"502\": \"never\" }");
        };
        let mut statuses: Vec<(i64, &'static str)> = Vec::new();
        for entry in entries {
            let problem = match entry.key.parse::<u16>() {
                Ok(401) => Some("a missing login has its own handling"),
                Ok(421) => Some("a misdirected request has its own handling"),
                Ok(300..600) if entry.key.len() == 3 => None,
                _ => Some("it is not an integer from 300 to 599"),
            };
            let status = entry.key.parse().unwrap_or_default();
            if let Some(problem) = problem {
                let what = format!("`{}` cannot be a key of `{name}`: {problem}", entry.key);
                self.report(Finding::error(entry.key_at.clone(), what).help("for example \"502\""));
            } else if statuses.iter().any(|(before, _)| *before == status) {
                self.report_duplicate(entry, "status");
            } else if let Some(word) = self.choice(&entry.key, &entry.value, words) {
                statuses.push((status, word));
            }
        }
        Some(TypedValue::Codes(statuses))
    }
}

fn wrong(name: &str, value: &Value, expected: &str, example: &str) -> Finding {
    let found = match &value.kind {
        ValueKind::Number(number) if expected.contains("number") || expected.contains("integer") => number.clone(),
        ValueKind::Text(_) if expected.contains("string with units") => "another string".to_owned(),
        ValueKind::Text(_) if expected.starts_with("one of") => "another string".to_owned(),
        _ => value.kind_name().to_owned(),
    };
    let help = match &value.kind {
        ValueKind::Number(number) if expected == "a string" => format!("write it in quotes: \"{number}\""),
        ValueKind::Flag(flag) if expected == "a string" => format!("write it in quotes: \"{flag}\""),
        _ => format!("for example {example}"),
    };
    Finding::error(value.at.clone(), format!("`{name}` must be {expected}, not {found}")).help(help)
}
