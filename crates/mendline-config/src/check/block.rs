//! Checked values: of the correct type, within their ranges, with their variables expanded.

use std::ops::Range;
use std::time::Duration;

use crate::keys::Key;

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
    List(Vec<Item>),
    Codes(Vec<(i64, &'static str)>),
    Foreign,
}

/// An element of an array, and its span.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub at: Range<usize>,
    pub value: ItemValue,
}

/// An element of an array of strings and objects.
#[derive(Clone, Debug)]
pub(crate) enum ItemValue {
    Text(String),
    Block(Block),
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
