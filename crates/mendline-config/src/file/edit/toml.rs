//! Edits of a TOML file, which Codex has: whole servers are added and removed.

use std::cell::RefCell;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{EditError, NewValue};
use crate::keys::CODEX_SERVERS;

/// A TOML file that is edited.
pub(super) struct TomlEditor {
    document: RefCell<DocumentMut>,
    /// The path of keys to the servers.
    section: Vec<String>,
}

impl TomlEditor {
    /// Parses a text that is known to be TOML.
    pub(super) fn parse(text: &str, section: Option<&[String]>) -> Option<TomlEditor> {
        let section = section.map_or_else(|| vec![CODEX_SERVERS.to_owned()], <[String]>::to_vec);
        Some(TomlEditor { document: RefCell::new(text.parse().ok()?), section })
    }

    pub(super) fn add(&self, name: &str, entry: &NewValue, replaces: bool) -> Result<(), EditError> {
        let mut document = self.document.borrow_mut();
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for key in &self.section {
            let item = table.entry(key).or_insert_with(|| {
                let mut implicit = Table::new();
                implicit.set_implicit(true);
                Item::Table(implicit)
            });
            table = item.as_table_like_mut().ok_or_else(|| EditError::NoObject(Some(key.clone())))?;
        }
        if table.contains_key(name) && !replaces {
            return Err(EditError::Taken);
        }
        let NewValue::Table(members) = entry else { return Err(EditError::NoObject(Some(name.to_owned()))) };
        let mut server = Table::new();
        for (key, value) in members {
            server.insert(key, Item::Value(converted(value).ok_or(EditError::Language)?));
        }
        table.insert(name, Item::Table(server));
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), EditError> {
        let mut document = self.document.borrow_mut();
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for key in &self.section {
            let item = table.get_mut(key).ok_or(EditError::Unknown)?;
            table = item.as_table_like_mut().ok_or(EditError::Unknown)?;
        }
        table.remove(name).map(drop).ok_or(EditError::Unknown)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let document = self.document.borrow();
        let root: &dyn TableLike = document.as_table();
        let table = self.section.iter().try_fold(root, |table, key| table.get(key)?.as_table_like());
        table.map(|table| table.iter().map(|(name, _)| name.to_owned()).collect()).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        self.document.borrow().to_string()
    }
}

fn converted(value: &NewValue) -> Option<Value> {
    Some(match value {
        NewValue::Null => return None,
        NewValue::Flag(flag) => Value::from(*flag),
        NewValue::Number(number) => match number.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => Value::from(number.parse::<f64>().ok()?),
        },
        NewValue::Text(text) => Value::from(text.as_str()),
        NewValue::List(list) => Value::Array(list.iter().map(converted).collect::<Option<Array>>()?),
        NewValue::Table(members) => {
            let mut table = InlineTable::new();
            for (key, value) in members {
                table.insert(key, converted(value)?);
            }
            Value::InlineTable(table)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::*;

    const CODEX: &str = "# mine\nmodel = \"x\" # the model\n\n[mcp_servers.a]\ncommand = \"a\" # of a\n\n[profiles.fast]\nmodel = \"y\"\n";

    fn edited(text: &str, change: impl Fn(&Editor) -> Result<(), EditError>) -> Result<String, EditError> {
        let editor = Editor::parse(&Source::new("config.toml", text), None)?;
        change(&editor)?;
        Ok(editor.text())
    }

    fn entry() -> NewValue {
        NewValue::Table(vec![
            ("command".to_owned(), NewValue::text("mendline")),
            ("args".to_owned(), NewValue::List(vec![NewValue::text("run"), NewValue::text("notes")])),
        ])
    }

    #[test]
    fn server_is_added_and_removed_and_comments_stay() {
        let after = edited(CODEX, |editor| editor.add("notes", &entry(), false)).unwrap();
        assert!(
            after.contains("[mcp_servers.notes]\ncommand = \"mendline\"\nargs = [\"run\", \"notes\"]\n"),
            "{after}"
        );
        for kept in ["# mine\n", "# the model\n", "[mcp_servers.a]\ncommand = \"a\" # of a\n", "[profiles.fast]\n"] {
            assert!(after.contains(kept), "{after}");
        }
        assert_eq!(edited(&after, |editor| editor.remove("notes")).unwrap(), CODEX);
        let first = edited("", |editor| editor.add("notes", &entry(), false)).unwrap();
        assert_eq!(first, "[mcp_servers.notes]\ncommand = \"mendline\"\nargs = [\"run\", \"notes\"]\n");
    }

    #[test]
    fn impossible_edit_is_refused() {
        assert_eq!(edited(CODEX, |editor| editor.add("a", &entry(), false)), Err(EditError::Taken));
        assert_eq!(edited(CODEX, |editor| editor.remove("b")), Err(EditError::Unknown));
        let set = |editor: &Editor| editor.set("a", &Assignment::parse("cwd=/").unwrap());
        assert_eq!(edited(CODEX, set), Err(EditError::Language));
        assert!(matches!(edited("a = ", |_| Ok(())), Err(EditError::Syntax(_))));
    }
}
