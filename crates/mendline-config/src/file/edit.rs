//! Edits of a file: servers and their keys change, and everything else stays as it was written.
//!
//! Comments, the order of keys, indentation, line ends and trailing commas are kept.

mod toml;

use std::fmt;

use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};

use self::toml::TomlEditor;
use super::{Language, Source, Value, ValueKind, json};
use crate::assignment::{Assignment, KeyPath};
use crate::finding::Finding;

/// The key of the servers in a new file.
const SERVERS: &str = "mcpServers";

/// The keys under which a file has servers.
const SECTIONS: [&str; 3] = [SERVERS, "servers", "context_servers"];

/// A new value.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// A null.
    Null,
    /// A boolean.
    Flag(bool),
    /// A number, as it is written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<NewValue>),
    /// An object, in this order.
    Table(Vec<(String, NewValue)>),
}

impl NewValue {
    /// Returns a string.
    pub fn text(text: impl Into<String>) -> NewValue {
        NewValue::Text(text.into())
    }

    /// Converts a parsed value; `None` if JSON cannot express it.
    pub(crate) fn of(value: &Value) -> Option<NewValue> {
        Some(match &value.kind {
            ValueKind::Null => NewValue::Null,
            ValueKind::Flag(flag) => NewValue::Flag(*flag),
            ValueKind::Number(number) => NewValue::Number(number.clone()),
            ValueKind::Text(text) => NewValue::Text(text.clone()),
            ValueKind::List(list) => NewValue::List(list.iter().map(NewValue::of).collect::<Option<_>>()?),
            ValueKind::Table(entries) => {
                let member = |entry: &super::Entry| Some((entry.key.clone(), NewValue::of(&entry.value)?));
                NewValue::Table(entries.iter().map(member).collect::<Option<_>>()?)
            }
            ValueKind::Date => return None,
        })
    }

    fn input(&self) -> CstInputValue {
        match self {
            NewValue::Null => CstInputValue::Null,
            NewValue::Flag(flag) => CstInputValue::Bool(*flag),
            NewValue::Number(number) => CstInputValue::Number(number.clone()),
            NewValue::Text(text) => CstInputValue::String(text.clone()),
            NewValue::List(list) => CstInputValue::Array(list.iter().map(NewValue::input).collect()),
            NewValue::Table(members) => {
                CstInputValue::Object(members.iter().map(|(key, value)| (key.clone(), value.input())).collect())
            }
        }
    }
}

/// The reason why an edit is not possible.
#[derive(Clone, Debug, PartialEq)]
pub enum EditError {
    /// The file cannot be parsed.
    Syntax(Box<Finding>),
    /// Files of this language are not edited.
    Language,
    /// The file, or this key of it, has to be an object and is none.
    NoObject(Option<String>),
    /// There is a server of this name already.
    Taken,
    /// There is no server of this name.
    Unknown,
    /// The server does not have this key.
    NoKey(KeyPath),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Syntax(finding) => f.write_str(&finding.what),
            EditError::Language => f.write_str("only JSON files can be edited"),
            EditError::NoObject(None) => f.write_str("the file must be an object"),
            EditError::NoObject(Some(key)) => write!(f, "`{key}` must be an object"),
            EditError::Taken => f.write_str("there is a server of this name already"),
            EditError::Unknown => f.write_str("there is no server of this name"),
            EditError::NoKey(path) => write!(f, "the server does not have the key `{path}`"),
        }
    }
}

impl std::error::Error for EditError {}

/// A file that is edited.
pub struct Editor(Tree);

enum Tree {
    Json(JsonEditor),
    Toml(TomlEditor),
}

impl Editor {
    /// Parses a file; an empty one is an empty object. With a section, the servers are below that path of keys.
    pub fn parse(source: &Source, section: Option<&[String]>) -> Result<Editor, EditError> {
        let text = source.text();
        if source.language() == Language::Json && text.trim().is_empty() {
            return JsonEditor::parse(text, section).map(|editor| Editor(Tree::Json(editor)));
        }
        // This parser has the better errors.
        let tree = source.parse().map_err(|finding| EditError::Syntax(Box::new(finding)))?;
        tree.table().ok_or(EditError::NoObject(None))?;
        match source.language() {
            Language::Json => JsonEditor::parse(text, section).map(|editor| Editor(Tree::Json(editor))),
            Language::Toml => {
                let editor = TomlEditor::parse(text, section).ok_or(EditError::Language)?;
                Ok(Editor(Tree::Toml(editor)))
            }
        }
    }

    /// Adds a server after the others. With `replaces`, an existing one is replaced.
    pub fn add(&self, name: &str, entry: &NewValue, replaces: bool) -> Result<(), EditError> {
        match &self.0 {
            Tree::Json(editor) => editor.add(name, entry, replaces),
            Tree::Toml(editor) => editor.add(name, entry, replaces),
        }
    }

    /// Removes a server, with the comments that belong to its line.
    pub fn remove(&self, name: &str) -> Result<(), EditError> {
        match &self.0 {
            Tree::Json(editor) => editor.remove(name),
            Tree::Toml(editor) => editor.remove(name),
        }
    }

    /// Sets a key of a server.
    pub fn set(&self, name: &str, assignment: &Assignment) -> Result<(), EditError> {
        self.json()?.set(name, assignment)
    }

    /// Removes a key of a server, and the objects that become empty by that.
    pub fn unset(&self, name: &str, path: &KeyPath) -> Result<(), EditError> {
        self.json()?.unset(name, path)
    }

    /// Returns the names of the servers.
    pub fn names(&self) -> Vec<String> {
        match &self.0 {
            Tree::Json(editor) => editor.names(),
            Tree::Toml(editor) => editor.names(),
        }
    }

    /// Returns the edited text.
    pub fn text(&self) -> String {
        match &self.0 {
            Tree::Json(editor) => editor.text(),
            Tree::Toml(editor) => editor.text(),
        }
    }

    fn json(&self) -> Result<&JsonEditor, EditError> {
        match &self.0 {
            Tree::Json(editor) => Ok(editor),
            Tree::Toml(_) => Err(EditError::Language),
        }
    }
}

/// A JSON file that is edited.
struct JsonEditor {
    root: CstRootNode,
    /// The path to the object of servers, if it is not one of the usual keys.
    section: Option<Vec<String>>,
}

impl JsonEditor {
    fn parse(text: &str, section: Option<&[String]>) -> Result<JsonEditor, EditError> {
        let root = CstRootNode::parse(text, &json::OPTIONS).map_err(|error| {
            let range = error.range();
            EditError::Syntax(Box::new(Finding::error(range.start..range.end, "this is not JSON")))
        })?;
        Ok(JsonEditor { root, section: section.map(<[String]>::to_vec) })
    }

    fn add(&self, name: &str, entry: &NewValue, replaces: bool) -> Result<(), EditError> {
        match self.find(name) {
            Some(found) if replaces => found.set_value(entry.input()),
            Some(_) => return Err(EditError::Taken),
            None => drop(self.servers()?.append(name, entry.input())),
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), EditError> {
        self.find(name).ok_or(EditError::Unknown)?.remove();
        Ok(())
    }

    fn set(&self, name: &str, assignment: &Assignment) -> Result<(), EditError> {
        let mut table = self.entry(name)?;
        let Some((last, objects)) = assignment.path.steps().split_last() else { return Ok(()) };
        for (depth, key) in objects.iter().enumerate() {
            let path = || assignment.path.steps()[..=depth].join(".");
            table = table.object_value_or_create(key).ok_or_else(|| EditError::NoObject(Some(path())))?;
        }
        match table.get(last) {
            Some(found) => found.set_value(assignment.value.input()),
            None => drop(table.append(last, assignment.value.input())),
        }
        Ok(())
    }

    fn unset(&self, name: &str, path: &KeyPath) -> Result<(), EditError> {
        let mut table = self.entry(name)?;
        let mut found: Vec<CstObjectProp> = Vec::new();
        for key in path.steps() {
            let member = table.get(key).ok_or_else(|| EditError::NoKey(path.clone()))?;
            let inner = member.object_value();
            found.push(member);
            match inner {
                Some(inner) => table = inner,
                None => break,
            }
        }
        if found.len() < path.steps().len() {
            return Err(EditError::NoKey(path.clone()));
        }
        while let Some(member) = found.pop() {
            member.remove();
            let is_empty = |outer: &CstObjectProp| outer.object_value().is_some_and(|it| it.properties().is_empty());
            if !found.last().is_some_and(is_empty) {
                break;
            }
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let tables = self.tables();
        tables.iter().flat_map(CstObject::properties).filter_map(|member| member.decoded_name()).collect()
    }

    fn text(&self) -> String {
        let text = self.root.to_string();
        if text.ends_with('\n') { text } else { text + "\n" }
    }

    /// Returns the existing objects of servers.
    fn tables(&self) -> Vec<CstObject> {
        let Some(root) = self.root.object_value() else { return Vec::new() };
        match &self.section {
            Some(section) => {
                let table = section.iter().try_fold(root, |table, key| table.object_value(key));
                table.into_iter().collect()
            }
            None => SECTIONS.iter().filter_map(|key| root.object_value(key)).collect(),
        }
    }

    fn find(&self, name: &str) -> Option<CstObjectProp> {
        self.tables().iter().find_map(|table| table.get(name))
    }

    fn entry(&self, name: &str) -> Result<CstObject, EditError> {
        let found = self.find(name).ok_or(EditError::Unknown)?;
        found.object_value().ok_or_else(|| EditError::NoObject(Some(name.to_owned())))
    }

    /// Returns the object of servers to add one to, which is created if it does not exist.
    fn servers(&self) -> Result<CstObject, EditError> {
        if let Some(table) = self.tables().into_iter().next() {
            return Ok(table);
        }
        let root = self.root.object_value_or_create().ok_or(EditError::NoObject(None))?;
        let usual = [SERVERS.to_owned()];
        let section = self.section.as_deref().unwrap_or(&usual);
        section.iter().try_fold(root, |table, key| {
            table.object_value_or_create(key).ok_or_else(|| EditError::NoObject(Some(key.clone())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, change: impl Fn(&Editor) -> Result<(), EditError>) -> Result<String, EditError> {
        let editor = Editor::parse(&Source::new("x.json", text), None)?;
        change(&editor)?;
        Ok(editor.text())
    }

    fn command(program: &str) -> NewValue {
        NewValue::Table(vec![
            ("command".to_owned(), NewValue::text(program)),
            ("args".to_owned(), NewValue::List(vec![NewValue::text("-y"), NewValue::text("notes")])),
        ])
    }

    fn set(name: &'static str, line: &'static str) -> impl Fn(&Editor) -> Result<(), EditError> {
        move |editor| editor.set(name, &Assignment::parse(line).unwrap())
    }

    const COMMENTED: &str = "// mine\n{\n    \"$schema\": \"./mendline.schema.json\",\n    /* all */ \"mcpServers\": {\n        // the first\n        \"a\": { \"command\": \"a\" }, // after a\n        \"b\": {\n            \"url\": \"https://b.test/mcp\", // of b\n        },\n    },\n    \"mendline\": { },\n}\n";

    #[test]
    fn added_server_follows_the_others_in_their_notation() {
        let after = edited(COMMENTED, |editor| editor.add("c", &command("npx"), false)).unwrap();
        let added = "        \"b\": {\n            \"url\": \"https://b.test/mcp\", // of b\n        },\n        \"c\": {\n            \"command\": \"npx\",\n            \"args\": [\"-y\", \"notes\"],\n        },\n    },\n";
        let at = COMMENTED.find("        \"b\"").unwrap();
        let rest = COMMENTED.find("    \"mendline\"").unwrap();
        assert_eq!(after, format!("{}{added}{}", &COMMENTED[..at], &COMMENTED[rest..]));
    }

    #[test]
    fn first_server_creates_the_file_and_its_object() {
        for text in ["", "  \n", "{}", "{ }\n"] {
            let after = edited(text, |editor| editor.add("c", &command("npx"), false)).unwrap();
            assert_eq!(
                after.trim_start(),
                "{\n  \"mcpServers\": {\n    \"c\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"notes\"]\n    }\n  }\n}\n",
                "{text:?}"
            );
        }
    }

    #[test]
    fn removed_server_leaves_the_rest_as_it_was() {
        let before = "{\n  \"mcpServers\": {\n    \"a\": {},\n    // of b\n    \"b\": {},\n    \"c\": {}\n  }\n}\n";
        let without = |name: &'static str| edited(before, move |editor| editor.remove(name)).unwrap();
        assert_eq!(without("c"), "{\n  \"mcpServers\": {\n    \"a\": {},\n    // of b\n    \"b\": {}\n  }\n}\n");
        assert_eq!(without("a"), "{\n  \"mcpServers\": {\n    // of b\n    \"b\": {},\n    \"c\": {}\n  }\n}\n");
        assert_eq!(edited(before, |editor| editor.remove("d")), Err(EditError::Unknown));
    }

    #[test]
    fn key_is_set_and_unset_at_its_place() {
        let after = edited(COMMENTED, |editor| {
            set("b", "timeouts.call=2m")(editor)?;
            set("b", "url=https://c.test/mcp")(editor)?;
            set("a", "env.A=1")(editor)
        })
        .unwrap();
        for part in [
            "        // the first\n        \"a\": {\n            \"command\": \"a\",\n            \"env\": {\n                \"A\": \"1\"\n            }\n        }, // after a\n",
            "            \"url\": \"https://c.test/mcp\", // of b\n            \"timeouts\": {\n                \"call\": \"2m\"\n            },\n        },\n    },\n",
        ] {
            assert!(after.contains(part), "{after}");
        }
        let back = edited(&after, |editor| {
            editor.unset("b", &KeyPath::parse("timeouts.call").unwrap())?;
            editor.unset("a", &KeyPath::parse("env.A").unwrap())
        })
        .unwrap();
        assert!(!back.contains("timeouts") && !back.contains("env") && back.contains("// of b"), "{back}");
        let missing = KeyPath::parse("timeouts.total").unwrap();
        assert_eq!(edited(&after, |editor| editor.unset("b", &missing)), Err(EditError::NoKey(missing)));
    }

    #[test]
    fn line_ends_and_tabs_are_kept() {
        let text = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}\r\n\t}\r\n}\r\n";
        let after = edited(text, |editor| editor.add("c", &NewValue::Table(Vec::new()), false)).unwrap();
        assert_eq!(after, "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {},\r\n\t\t\"c\": {}\r\n\t}\r\n}\r\n");
    }

    #[test]
    fn impossible_edit_is_refused_with_the_reason() {
        let add = |text: &str| edited(text, |editor| editor.add("a", &command("x"), false)).unwrap_err();
        assert!(matches!(add("{ \"a\": }"), EditError::Syntax(finding) if finding.at == Some(7..8)));
        assert_eq!(add("[]"), EditError::NoObject(None));
        assert_eq!(add("{\"mcpServers\": []}"), EditError::NoObject(Some("mcpServers".to_owned())));
        assert_eq!(add("{\"servers\": {\"a\": 1}}"), EditError::Taken);
        let deep = edited("{\"mcpServers\": {\"a\": {\"env\": 1}}}", set("a", "env.B=1")).unwrap_err();
        assert_eq!(deep, EditError::NoObject(Some("env".to_owned())));
    }

    #[test]
    fn existing_server_is_replaced_on_demand() {
        let after = edited(COMMENTED, |editor| editor.add("a", &command("npx"), true)).unwrap();
        assert!(after.contains("\"command\": \"npx\"") && after.contains("// after a"), "{after}");
        assert!(after.contains("// the first\n        \"a\": {"), "{after}");
    }

    #[test]
    fn section_below_other_keys_is_edited() {
        let section = ["projects", "/srv/x", "mcpServers"].map(str::to_owned);
        let editor = Editor::parse(&Source::new("x.json", "{\"projects\": {}}"), Some(&section)).unwrap();
        editor.add("a", &NewValue::Table(Vec::new()), false).unwrap();
        assert_eq!(editor.names(), ["a"]);
        assert!(editor.text().contains("\"/srv/x\""), "{}", editor.text());
    }
}
