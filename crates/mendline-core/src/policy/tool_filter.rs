//! Which tools of a server a client sees and may call.
//!
//! Two lists of patterns: allowed names and denied names. A denied name stays denied if it is allowed, too. The same
//! filter decides about an entry of `tools/list` and about `tools/call`, so a hidden tool cannot be called by a client
//! that knows its name.

use bytes::Bytes;
use mendline_wire::Message;

/// A pattern for names: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<char>);

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut position) = (0, 0);
        // The last star, and the end of the text that it stands for.
        let mut star: Option<(usize, usize)> = None;
        while position < name.len() {
            match self.0.get(at) {
                Some('*') => {
                    star = Some((at, position));
                    at += 1;
                }
                Some(&c) if c == '?' || c == name[position] => (at, position) = (at + 1, position + 1),
                _ => {
                    let Some((star_at, end)) = star else { return false };
                    star = Some((star_at, end + 1));
                    (at, position) = (star_at + 1, end + 1);
                }
            }
        }
        self.0[at..].iter().all(|c| *c == '*')
    }
}

/// The tools that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If there is a list, all others are denied.
    allow: Option<Vec<Pattern>>,
    deny: Vec<Pattern>,
}

impl ToolFilter {
    /// Creates a filter of two lists of patterns. Without a list of allowed tools, all tools are allowed.
    pub fn new<T: AsRef<str>>(allow: Option<&[T]>, deny: &[T]) -> ToolFilter {
        let patterns =
            |list: &[T]| list.iter().map(|text| Pattern(text.as_ref().chars().collect())).collect::<Vec<_>>();
        ToolFilter { allow: allow.map(patterns), deny: patterns(deny) }
    }

    /// Returns whether it allows every tool.
    pub fn allows_all(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Returns whether it allows a tool.
    pub fn allows(&self, tool: &str) -> bool {
        let is_named = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(tool));
        self.allow.as_deref().is_none_or(is_named) && !is_named(&self.deny)
    }

    /// Returns an answer to `tools/list` without the tools that it denies; nothing if the answer stays as it is.
    ///
    /// An answer is recognized by its form, so this can be applied to any message.
    pub fn without_denied(&self, answer: &Message) -> Option<Message> {
        if self.allows_all() {
            return None;
        }
        let list = answer.value()?.at(&["tools"]).filter(|list| list.raw().starts_with(b"["))?;
        let is_allowed = |name: Option<std::borrow::Cow<'_, str>>| name.is_none_or(|name| self.allows(&name));
        if list.elements(&[]).all(|tool| is_allowed(tool.get_str(&["name"]))) {
            return None;
        }
        let (text, span) = (answer.text(), list.span());
        let mut shorter = text.get(..span.start as usize + 1)?.to_vec();
        let mut is_first = true;
        for tool in list.elements(&[]).filter(|tool| is_allowed(tool.get_str(&["name"]))) {
            if !std::mem::take(&mut is_first) {
                shorter.push(b',');
            }
            shorter.extend_from_slice(tool.raw());
        }
        shorter.extend_from_slice(text.get(span.end as usize - 1..)?);
        Message::parse(Bytes::from(shorter)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(allow: Option<&[&str]>, deny: &[&str]) -> ToolFilter {
        ToolFilter::new(allow, deny)
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is_match) in [
            ("read", "read", true),
            ("read", "reads", false),
            ("read_*", "read_file", true),
            ("read_*", "thread_file", false),
            ("*_file", "read_file", true),
            ("*a*b", "xaab", true),
            ("*a*b", "xaabc", false),
            ("?", "ä", true),
            ("?", "", false),
            ("*", "", true),
            ("", "x", false),
            ("Read", "read", false),
        ] {
            assert_eq!(Pattern(pattern.chars().collect()).matches(name), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn denied_tool_stays_denied_when_allowed() {
        let both = filter(Some(&["read_*", "list"]), &["read_secret*"]);
        assert!(both.allows("read_file") && both.allows("list"));
        assert!(!both.allows("read_secrets") && !both.allows("write_file"));
        assert!(filter(None, &["drop*"]).allows("write") && !filter(None, &["drop*"]).allows("drop_table"));
        assert!(!filter(Some(&[]), &[]).allows("any"), "an empty list allows nothing");
        assert!(ToolFilter::default().allows("any") && ToolFilter::default().allows_all());
    }

    #[test]
    fn denied_tools_leave_the_list_and_the_rest_stays() {
        let page = |tools: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"x":1, "tools": [{tools}],"nextCursor":"c"}}}}"#);
            Message::parse(Bytes::from(text)).unwrap()
        };
        let (add, drop, odd) = (r#"{"name":"add", "a":[1,2]}"#, r#"{"name":"drop"}"#, r#"{"title":"x"}"#);
        let deny = filter(None, &["drop"]);
        let shorter = |tools: &str| deny.without_denied(&page(tools)).map(|page| page.text().clone());
        assert_eq!(shorter(&format!("{add} , {drop},{odd}")), Some(page(&format!("{add},{odd}")).text().clone()));
        assert_eq!(shorter(drop), Some(page("").text().clone()));
        assert_eq!(shorter(&format!("{add},{odd}")), None, "nothing is denied");
        assert_eq!(shorter(""), None);
        for other in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"tools":{"name":"drop"}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        ] {
            let message = Message::parse(Bytes::copy_from_slice(other.as_bytes())).unwrap();
            assert!(deny.without_denied(&message).is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn star_around_a_part_matches_every_name_with_it(before in "[a-c*?]{0,6}", part in "[a-c]{0,4}", after in "[a-c]{0,6}") {
            let name = format!("{before}{part}{after}");
            let pattern = format!("*{part}*");
            prop_assert!(Pattern(pattern.chars().collect()).matches(&name));
        }
    }
}
