//! Values with two forms: a string or false, an object or false, an array or one string.

use super::{Checker, Item, ItemValue, Owner, TypedValue, wrong};
use crate::file::{Value, ValueKind};
use crate::finding::Finding;
use crate::keys::Key;

impl Checker<'_> {
    pub(super) fn text_or_false(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        match value.kind {
            ValueKind::Flag(false) => Some(TypedValue::Flag(false)),
            ValueKind::Text(_) => self.text(name, value).map(TypedValue::Text),
            _ => self.wrong(name, value, "a string, or false", "\"https://mcp.example.com\""),
        }
    }

    pub(super) fn block_or_false(&mut self, name: &str, value: &Value, keys: &'static [Key]) -> Option<TypedValue> {
        match (value.table(), &value.kind) {
            (Some(_), _) if self.owner == Owner::OtherProgram && !is_ours(value) => {
                self.mask(value);
                let what = format!("Mendline ignores `{name}`: it has no `type`, so it is for the client");
                self.report(Finding::note(value.at.clone(), what));
                Some(TypedValue::Foreign)
            }
            (Some(entries), _) => Some(TypedValue::Block(self.block(entries, keys, false))),
            (None, ValueKind::Flag(false)) => Some(TypedValue::Flag(false)),
            (None, _) => {
                self.mask(value);
                self.wrong(name, value, "an object, or false", "{ \"type\": \"oauth\" }")
            }
        }
    }

    /// Checks an array of strings, which are secrets, and of objects.
    pub(super) fn texts_or_blocks(&mut self, name: &str, value: &Value, keys: &'static [Key]) -> Option<TypedValue> {
        let example = "[\"${GATEWAY_TOKEN}\"]";
        let ValueKind::List(list) = &value.kind else {
            self.mask(value);
            return self.wrong(name, value, "an array of strings and objects", example);
        };
        let mut items = Vec::new();
        for item in list {
            let at = item.at.clone();
            if let Some(entries) = item.table() {
                items.push(Item { at, value: ItemValue::Block(self.block(entries, keys, false)) });
            } else if matches!(item.kind, ValueKind::Text(_)) {
                self.mask(item);
                items.extend(self.text(name, item).map(|text| Item { at, value: ItemValue::Text(text) }));
            } else {
                self.mask(item);
                self.report(wrong(name, item, "a string or an object", example));
            }
        }
        Some(TypedValue::List(items))
    }

    /// Checks words in an array, or in one string that separates them by spaces.
    pub(super) fn separate_words(&mut self, name: &str, value: &Value) -> Option<TypedValue> {
        let words = match &value.kind {
            ValueKind::Text(_) => vec![self.text(name, value)?],
            ValueKind::List(list) => {
                let words: Vec<_> = list.iter().map(|word| self.text(name, word)).collect();
                words.into_iter().collect::<Option<_>>()?
            }
            _ => return self.wrong(name, value, "an array of strings, or one string", "[\"read\", \"write\"]"),
        };
        let words = words.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned);
        Some(TypedValue::TextList(words.collect()))
    }
}

/// Returns whether an object in a file of another program has a form that Mendline knows: its own, or that of Cursor.
fn is_ours(value: &Value) -> bool {
    value.get("type").is_some() || value.get("CLIENT_ID").is_some()
}
