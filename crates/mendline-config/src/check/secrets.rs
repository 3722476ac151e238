//! The parts of a file that must not be shown.

use super::Checker;
use crate::file::{Value, ValueKind};

impl Checker<'_> {
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
    pub(super) fn mask_url(&mut self, value: &Value) {
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
