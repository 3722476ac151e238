//! Headers of the clients of a gateway that go to a server.

use std::ops::Range;

use mendline::decisions::config::ForwardedHeader;

use super::{Endpoint, Settings};
use crate::check::{Block, Checker, ItemValue, TypedValue};
use crate::finding::Finding;

/// Headers that Mendline sets itself.
const OWN: [&str; 9] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "te",
    "transfer-encoding",
];

/// Returns the rules of a server, or reports findings.
pub(super) fn forward_headers(
    settings: Settings<'_>,
    endpoint: Option<&Endpoint>,
    checker: &mut Checker<'_>,
) -> Vec<ForwardedHeader> {
    let Some(found) = settings.find("forwardHeaders") else { return Vec::new() };
    let TypedValue::List(items) = &found.value else { return Vec::new() };
    if !matches!(endpoint, None | Some(Endpoint::Url { .. })) {
        let what = "`forwardHeaders` needs a `url`: a command gets no headers";
        checker.report(Finding::error(found.at.clone(), what).help("remove it"));
        return Vec::new();
    }
    let mut rules: Vec<ForwardedHeader> = Vec::new();
    for item in items {
        let rule = match &item.value {
            ItemValue::Text(name) => {
                Some(ForwardedHeader { from: name.clone(), to: name.clone(), format: "{}".to_owned() })
            }
            ItemValue::Block(block) => of_block(block, &item.at, checker),
        };
        let Some(rule) = rule else { continue };
        match problem(&rule, &rules) {
            None => rules.push(rule),
            Some((what, help)) => checker.report(Finding::error(item.at.clone(), what).help(help)),
        }
    }
    rules
}

fn of_block(block: &Block, at: &Range<usize>, checker: &mut Checker<'_>) -> Option<ForwardedHeader> {
    let settings = Settings { own: block, defaults: &Block::default() };
    let text = |name: &str| settings.text(name).map(str::to_owned);
    let Some(from) = text("from") else {
        let what = "this header has no `from`";
        checker.report(Finding::error(at.clone(), what).help("add \"from\": \"X-Jira-Token\""));
        return None;
    };
    let to = text("to").unwrap_or_else(|| from.clone());
    Some(ForwardedHeader { from, to, format: text("format").unwrap_or_else(|| "{}".to_owned()) })
}

fn problem(rule: &ForwardedHeader, others: &[ForwardedHeader]) -> Option<(String, &'static str)> {
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
        !name.is_empty() && name.len() <= 128 && name.bytes().all(is_part)
    };
    let to = rule.to.to_ascii_lowercase();
    if !is_name(&rule.from) || !is_name(&rule.to) {
        Some(("the name of a header has only letters, digits and `-`".to_owned(), "for example \"X-Jira-Token\""))
    } else if OWN.contains(&&*to) || to.starts_with("mcp-") || to.starts_with("proxy-") {
        Some((format!("Mendline sets the header {} itself", rule.to), "choose another header"))
    } else if rule.format.matches("{}").count() != 1 || !rule.format.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        Some(("`format` must have `{}` once, in visible ASCII characters".to_owned(), "for example \"Bearer {}\""))
    } else if others.iter().any(|other| other.to.eq_ignore_ascii_case(&rule.to)) {
        Some((format!("two headers go to {}", rule.to), "remove one of them"))
    } else {
        None
    }
}
