//! The content of a configuration file, and the byte range of each value.
//!
//! Only texts, lists and tables are interpreted; other values stay as they are. Every value has its byte range, because
//! a file is changed only by replacing ranges: everything else stays as its owner wrote it, including comments and
//! blanks.

/// A range of bytes of the whole file.
pub(crate) type Range = std::ops::Range<usize>;

/// A value and its range.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) range: Range,
    pub(crate) value: Value,
}

/// A value, as far as it is interpreted.
#[derive(Debug)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    Table(Table),
    /// A table with dotted members (`env.KEY = …`), to which nothing can be added.
    Dotted(Table),
    Other,
}

/// Members in the order of the file.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) members: Vec<Member>,
    pub(crate) shape: Shape,
}

/// Notation of a table, which determines how a member is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Between braces, with commas between its members.
    Braces,
    /// Under a header, each member on its line.
    Lines,
    /// The items of a list, each with its name in it.
    Items,
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// With its quotes, if it has any.
    pub(crate) key_range: Range,
    pub(crate) value: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.key == key)
    }

    /// Returns the table of this name.
    pub(crate) fn table(&self, key: &str) -> Option<&Table> {
        match &self.get(key)?.value.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns whether `later` directly follows `earlier`.
    pub(crate) fn follows(&self, earlier: &Member, later: &Member) -> bool {
        let at = |wanted: &Member| self.members.iter().position(|member| std::ptr::eq(member, wanted));
        matches!((at(earlier), at(later)), (Some(earlier), Some(later)) if later == earlier + 1)
    }
}

impl Member {
    pub(crate) fn text(&self) -> Option<&str> {
        self.value.text()
    }

    /// Returns all items, if it is a list of texts and nothing else.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        self.items()?.iter().map(Node::text).collect()
    }

    pub(crate) fn items(&self) -> Option<&[Node]> {
        match &self.value.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.value.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl Node {
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}
