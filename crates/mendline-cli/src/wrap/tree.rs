//! What a configuration file holds, and where each piece of it stands.
//!
//! Only what wrapping has to understand is understood: texts, lists and tables. Everything else keeps its place and is
//! nobody's business. Every piece knows its range of bytes, since a file is changed by replacing ranges and in no other way:
//! what is not replaced stays as its owner wrote it, comments, blanks and all.

/// Where something stands: bytes of the whole file.
pub(crate) type Range = std::ops::Range<usize>;

/// A value and its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) range: Range,
    pub(crate) value: Value,
}

/// A value, as far as it matters.
#[derive(Debug)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    Table(Table),
    /// A table whose members are written with dots (`env.KEY = …`): nothing can be put into it.
    Dotted(Table),
    Other,
}

/// Members in the order of the file.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) members: Vec<Member>,
    pub(crate) shape: Shape,
}

/// How a table is written, which says how a member is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Between braces, with commas between its members.
    Braces,
    /// Under a header of its own, each member on its line.
    Lines,
}

/// A name and what it stands for.
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

    /// The table of this name.
    pub(crate) fn table(&self, key: &str) -> Option<&Table> {
        match &self.get(key)?.value.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Whether `later` comes right after `earlier`.
    pub(crate) fn follows(&self, earlier: &Member, later: &Member) -> bool {
        let at = |wanted: &Member| self.members.iter().position(|member| std::ptr::eq(member, wanted));
        matches!((at(earlier), at(later)), (Some(earlier), Some(later)) if later == earlier + 1)
    }
}

impl Member {
    pub(crate) fn text(&self) -> Option<&str> {
        self.value.text()
    }

    /// All items, if it is a list of texts and nothing else.
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
