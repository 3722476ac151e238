//! Which parts of a file are not for showing.
//!
//! A diff shows the lines around a change, and those are full of tokens. What stands in an environment, in headers, behind
//! flags that carry credentials and in a URL's query is hidden, in the old text and in the new one alike. A value that only
//! names a variable is shown: that is what a person wants to see.

use super::credential;
use super::document::Document;
use super::tree::{Node, Range, Table, Value};

/// The ranges of a text that are not shown, in order.
pub(crate) fn hidden(document: &Document<'_>) -> Vec<Range> {
    let mut found = Vec::new();
    in_table(&document.root, false, &mut found);
    found.sort_by_key(|range: &Range| range.start);
    found
}

fn in_table(table: &Table, secret: bool, found: &mut Vec<Range>) {
    for member in &table.members {
        let holds = secret || matches!(member.key.as_str(), "env" | "headers" | "http_headers");
        in_node(&member.value, holds || credential::is_secret(&member.key), found);
    }
}

fn in_node(node: &Node, secret: bool, found: &mut Vec<Range>) {
    match &node.value {
        Value::Text(text) if hides(text, secret) => found.push(node.range.clone()),
        Value::Table(table) => in_table(table, secret, found),
        Value::List(items) => {
            let mut before = "";
            for item in items {
                in_node(item, secret || is_carrier(before), found);
                before = item.text().unwrap_or_default();
            }
        }
        Value::Text(_) | Value::Other => {}
    }
}

/// Whether the word behind this one is a credential.
fn is_carrier(flag: &str) -> bool {
    let names_a_secret = flag.starts_with("--") && credential::is_secret(flag);
    flag == "--header" || (names_a_secret && !flag.contains('=') && !flag.ends_with("-env"))
}

fn hides(text: &str, secret: bool) -> bool {
    if text.is_empty() || only_names(text) {
        return false;
    }
    let url_with_more = text.contains("://") && text.contains(['?', '@']);
    let assigned = text.starts_with("--") && text.split_once('=').is_some_and(|(flag, _)| credential::is_secret(flag));
    secret || url_with_more || (assigned && !text.starts_with("--header-env")) || text.contains("Bearer ")
}

/// Whether a text holds nothing itself but names variables, perhaps behind a header's name and a scheme.
fn only_names(text: &str) -> bool {
    let mut around = String::new();
    let mut rest = text;
    let mut named = false;
    while let Some((before, (inside, after))) =
        rest.split_once("${").and_then(|cut| Some((cut.0, cut.1.split_once('}')?)))
    {
        // A default is a value.
        if inside.contains(":-") {
            return false;
        }
        named = true;
        around.push_str(before);
        rest = after;
    }
    around.push_str(rest);
    let value = around.rsplit(':').next().unwrap_or_default().trim();
    named && (value.is_empty() || ["Bearer", "Basic", "Token"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::document::Syntax;

    #[test]
    fn a_name_of_a_variable_is_no_secret() {
        for text in ["${X}", "Bearer ${input:key}", "Authorization: Bearer ${X}", "X-Key:${X}", "${A} ${B}"] {
            assert!(only_names(text), "{text}");
        }
        for text in ["", "x", "Bearer abc", "${X:-abc}", "Bearer ${X", "abc ${X}", "${X} abc", "X-Key: abc${X}"] {
            assert!(!only_names(text), "{text}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_hidden_and_nothing_else() {
        let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "--header", "A: s1", "--api-key=s2", "x", "Bearer s3",
            "--token", "s4", "https://x/?s5", "https://x/y", "--header-env", "A=B"], "env": {"K": "s6", "V": "${X}", "N": 1},
            "headers": {"H": "s7 ${X}"}, "apiKey": "s8"}}}"#;
        let document = Document::parse(text, Syntax::Json).unwrap();
        let hidden = hidden(&document);
        let mut shown = text.to_owned();
        for range in hidden.iter().rev() {
            shown.replace_range(range.clone(), "…");
        }
        for secret in ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("${X}") && shown.contains("https://x/y") && shown.contains("A=B"), "{shown}");
        assert_eq!(hidden.len(), 8, "{shown}");
    }
}
