//! Checks texts, alone and in lists and objects, and expands their variables.

use std::ops::Range;

use super::{Checker, Pair, TypedValue, wrong};
use crate::file::{Value, ValueKind};
use crate::finding::Finding;
use crate::variables::{expand, is_plain_variable_name};

impl Checker<'_> {
    /// Returns a text with its variables expanded.
    pub(super) fn text(&mut self, name: &str, value: &Value) -> Option<String> {
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

    pub(super) fn expanded(&mut self, text: &str, at: &Range<usize>) -> Option<String> {
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

    pub(super) fn words(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        let ValueKind::List(list) = &value.kind else {
            return self.wrong(name, value, "an array of strings", "[\"…\"]");
        };
        let words: Vec<_> = list.iter().map(|word| self.text(name, word)).collect();
        words.into_iter().collect::<Option<_>>().map(TypedValue::TextList)
    }

    pub(super) fn pairs(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
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
    pub(super) fn variables(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
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
}
