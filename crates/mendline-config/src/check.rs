//! Checks the values of a file by the table of keys, and reports a finding for each mistake.
//!
//! A [`CheckedValue`] has the correct type, is within its range, and has its variables expanded. A wrong value is left
//! out and checking continues, so that one pass finds every mistake. The checker also collects the parts of the file
//! that must not be shown.

mod alternatives;

use std::ops::Range;
use std::time::Duration;

use crate::Environment;
use crate::file::{Entry, Value, ValueKind};
use crate::finding::Finding;
use crate::keys::{self, Key, Kind};
use crate::nearest::nearest;
use crate::variables::{expand, is_plain_variable_name};

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

/// The checked values of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub values: Vec<CheckedValue>,
}

/// A key with its checked value and their spans.
#[derive(Clone, Debug)]
pub(crate) struct CheckedValue {
    pub key: &'static Key,
    pub key_at: Range<usize>,
    pub at: Range<usize>,
    pub value: TypedValue,
}

/// A checked value by its kind.
#[derive(Clone, Debug)]
pub(crate) enum TypedValue {
    Flag(bool),
    Text(String),
    TextList(Vec<String>),
    Pairs(Vec<Pair>),
    Duration(Duration),
    Integer(i64),
    Number(f64),
    Choice(&'static str),
    Block(Block),
    Each(Vec<(String, Block)>),
    Codes(Vec<(i64, &'static str)>),
    Foreign,
}

/// A name and a text that may be a secret.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub name: String,
    pub name_at: Range<usize>,
    pub text: String,
    /// The text is in the file itself, not in a variable.
    pub is_literal: bool,
}

impl Block {
    /// Returns the value at this path of keys.
    pub fn find(&self, path: &str) -> Option<&CheckedValue> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let found = self.values.iter().find(|found| found.key.name == first)?;
        match (rest, &found.value) {
            (None, _) => Some(found),
            (Some(rest), TypedValue::Block(block)) => block.find(rest),
            _ => None,
        }
    }
}

/// Checks values by the table of keys and collects findings.
pub(crate) struct Checker<'a> {
    pub environment: &'a Environment,
    pub owner: Owner,
    pub findings: Vec<Finding>,
    /// Spans that must not be shown.
    pub secrets: Vec<Range<usize>>,
    /// The server whose keys are being checked.
    pub server: Option<String>,
    /// The variables that this server sets itself. They override those of the environment.
    pub server_variables: Vec<(String, String)>,
}

impl<'a> Checker<'a> {
    pub fn new(environment: &'a Environment, owner: Owner) -> Self {
        let (findings, secrets, server_variables) = (Vec::new(), Vec::new(), Vec::new());
        Checker { environment, owner, findings, secrets, server: None, server_variables }
    }

    pub fn report(&mut self, mut finding: Finding) {
        finding.server.clone_from(&self.server);
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
            if let Some(value) = self.value(key, entry) {
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

    /// Returns a text with its variables expanded.
    fn text(&mut self, name: &str, value: &Value) -> Option<String> {
        let ValueKind::Text(text) = &value.kind else {
            self.report(wrong(name, value, "a string", "\"…\""));
            return None;
        };
        let text = self.expanded(text, &value.at)?;
        if text.contains('\0') {
            self.report(
                Finding::error(value.at.clone(), format!("`{name}` contains a NUL character"))
                    .help("remove the NUL character"),
            );
            return None;
        }
        Some(text)
    }

    fn expanded(&mut self, text: &str, at: &Range<usize>) -> Option<String> {
        match expand(text, |name| self.lookup(name)) {
            Ok(text) => Some(text),
            Err(fault) => {
                let finding = Finding::error(at.clone(), fault.what).help(fault.help);
                self.report(if fault.is_unset { finding.with_environment() } else { finding });
                None
            }
        }
    }

    /// Returns the value of a variable: of the server that is being checked, or else of the environment.
    fn lookup(&self, name: &str) -> Option<String> {
        let own = self.server_variables.iter().find(|(known, _)| known == name);
        own.map(|(_, value)| value.clone()).or_else(|| self.environment.variable(name))
    }

    fn words(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        let ValueKind::List(list) = &value.kind else {
            return self.wrong(name, value, "an array of strings", "[\"…\"]");
        };
        let words: Vec<_> = list.iter().map(|word| self.text(name, word)).collect();
        words.into_iter().collect::<Option<_>>().map(TypedValue::TextList)
    }

    fn pairs(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        let Some(entries) = value.table() else {
            return self.wrong(name, value, "an object of strings", "{ \"NAME\": \"text\" }");
        };
        let mut pairs: Vec<Pair> = Vec::new();
        for entry in entries {
            if pairs.iter().any(|pair| pair.name == entry.key) {
                self.report_duplicate(entry, "name");
                continue;
            }
            if entry.value.kind == ValueKind::Null {
                continue;
            }
            let is_literal = matches!(&entry.value.kind, ValueKind::Text(text) if !text.contains("${"));
            if let Some(text) = self.text(&entry.key, &entry.value) {
                pairs.push(Pair { name: entry.key.clone(), name_at: entry.key_at.clone(), text, is_literal });
            }
        }
        Some(TypedValue::Pairs(pairs))
    }

    /// Checks names with the variables that hold their values.
    fn variables(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        let Some(entries) = value.table() else {
            return self.wrong(name, value, "an object of variable names", "{ \"NAME\": \"VAR\" }");
        };
        let mut pairs = Vec::new();
        for entry in entries {
            let Some(variable) = self.text(&entry.key, &entry.value) else { continue };
            if let Some(text) = self.variable(&variable, &entry.value.at) {
                pairs.push(Pair { name: entry.key.clone(), name_at: entry.key_at.clone(), text, is_literal: false });
            }
        }
        Some(TypedValue::Pairs(pairs))
    }

    /// Returns the value of a variable.
    pub fn variable(&mut self, variable: &str, at: &Range<usize>) -> Option<String> {
        if variable.is_empty() || !variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            // It may be the secret itself.
            self.secrets.push(at.clone());
            self.report(
                Finding::error(at.clone(), "this is not the name of an environment variable")
                    .help("write the name of the variable that holds the value, for example API_TOKEN"),
            );
            return None;
        }
        let value = self.lookup(variable);
        if value.is_none() {
            let what = match is_plain_variable_name(variable) {
                true => format!("the variable {variable} is not set"),
                false => "the variable that is named here is not set".to_owned(),
            };
            self.report(
                Finding::error(at.clone(), what).help("set it in the environment of Mendline").with_environment(),
            );
        }
        value
    }

    fn duration(&mut self, name: &str, value: &Value, least: Duration) -> Option<Duration> {
        let shown = humantime::format_duration;
        let expected = format!(
            "a duration from {} to {} (milliseconds as a number, or a string with units)",
            shown(least),
            shown(keys::LONGEST)
        );
        let example = if least.as_secs() > 0 { "\"30s\"" } else { "\"2s\" or 2000" };
        let duration = match &value.kind {
            ValueKind::Number(number) => number.parse().ok().map(Duration::from_millis),
            ValueKind::Text(text) => {
                let text = self.expanded(text, &value.at)?;
                humantime::parse_duration(&text).ok()
            }
            _ => None,
        };
        let within = duration.filter(|duration| (least..=keys::LONGEST).contains(duration));
        if within.is_none() {
            self.report(wrong(name, value, &expected, example));
        }
        within
    }

    fn counted(&mut self, name: &str, value: &Value, unit: f64, units: &str) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse::<f64>().ok().map(|number| number * unit),
            _ => None,
        };
        let most = keys::LONGEST.as_secs_f64();
        match number.filter(|seconds| (0.001..=most).contains(seconds)) {
            Some(seconds) => Some(TypedValue::Duration(Duration::from_secs_f64(seconds))),
            None => self.wrong(name, value, &format!("a number of {units}, at most 30 days"), "30"),
        }
    }

    fn whole(&mut self, name: &str, value: &Value, least: i64, most: i64) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse().ok().filter(|number| (least..=most).contains(number)),
            _ => None,
        };
        match number {
            Some(number) => Some(TypedValue::Integer(number)),
            None => {
                let example = least.max(1).min(most).to_string();
                self.wrong(name, value, &format!("an integer from {least} to {most}"), &example)
            }
        }
    }

    fn real(&mut self, name: &str, value: &Value, least: f64, most: f64) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse::<f64>().ok().filter(|number| (least..=most).contains(number)),
            _ => None,
        };
        match number {
            Some(number) => Some(TypedValue::Number(number)),
            None => {
                let example = if least < 1.0 { "0.5" } else { "1.5" };
                self.wrong(name, value, &format!("a number from {least} to {most}"), example)
            }
        }
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

    /// Masks all texts in a value, because they may be secrets.
    pub fn mask(&mut self, value: &Value) {
        match &value.kind {
            ValueKind::Text(_) => self.secrets.push(value.at.clone()),
            ValueKind::List(list) => list.iter().for_each(|value| self.mask(value)),
            ValueKind::Table(entries) => entries.iter().for_each(|entry| self.mask(&entry.value)),
            ValueKind::Null | ValueKind::Flag(_) | ValueKind::Number(_) | ValueKind::Date => {}
        }
    }

    /// Masks the query of a URL and everything before an `@`.
    fn mask_url(&mut self, value: &Value) {
        let ValueKind::Text(text) = &value.kind else { return self.mask(value) };
        // The text begins after a quote. Escapes would shift the offsets; then all of it is masked.
        let (start, is_plain) = (value.at.start + 1, value.at.len() == text.len() + 2);
        if !is_plain {
            return self.mask(value);
        }
        let authority = text.find("://").map_or(0, |at| at + 3);
        if let Some(at) = text.rfind('@') {
            self.secrets.push(start + authority..start + at.max(authority));
        }
        if let Some(at) = text.find(['?', '#']) {
            self.secrets.push(start + at + 1..start + text.len());
        }
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
