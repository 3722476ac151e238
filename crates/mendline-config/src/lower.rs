//! Lowers the checked values of a server to its endpoint and policies.
//!
//! Single values are valid here; this module checks combinations. A server with contradictory values is left out, and
//! its name stays known.

mod access;
mod auth;
mod endpoint;
mod forward_headers;
mod logs;
mod policies;
mod policy_set;

use std::ops::Range;
use std::time::Duration;

use mendline::decisions::UpstreamConfig;

use crate::Loaded;
use crate::check::{Block, CheckedValue, Checker, Owner, Pair, TypedValue};
use crate::file::Entry;
use crate::finding::Finding;
use crate::keys;
use crate::name::Name;
pub use access::AccessSettings;
pub(crate) use access::access;
pub use endpoint::{CertificatePaths, Endpoint, Tls};
pub use logs::LogSettings;
pub(crate) use logs::logs;
pub use policy_set::{PolicyError, PolicySet, is_policy};

/// A valid server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name, as written.
    pub name: String,
    /// The owner of its file.
    pub owner: Owner,
    /// It is disabled.
    pub is_disabled: bool,
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// Its policies.
    pub policies: UpstreamConfig,
    /// The maximum size of a message, if configured.
    pub message_bytes: Option<usize>,
    /// The number of literal values that look like secrets.
    pub literal_secrets: usize,
}

/// The settings of a server and the defaults for all servers; the settings of the server take precedence.
#[derive(Clone, Copy)]
struct Settings<'a> {
    own: &'a Block,
    defaults: &'a Block,
}

impl<'a> Settings<'a> {
    fn find(&self, path: &str) -> Option<&'a CheckedValue> {
        self.own.find(path).or_else(|| self.defaults.find(path))
    }

    fn flag(&self, path: &str) -> Option<bool> {
        match self.find(path)?.value {
            TypedValue::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn text(&self, path: &str) -> Option<&'a str> {
        match &self.find(path)?.value {
            TypedValue::Text(text) => Some(text),
            _ => None,
        }
    }

    fn words(&self, path: &str) -> &'a [String] {
        match self.find(path).map(|found| &found.value) {
            Some(TypedValue::TextList(words)) => words,
            _ => &[],
        }
    }

    fn pairs(&self, path: &str) -> &'a [Pair] {
        match self.find(path).map(|found| &found.value) {
            Some(TypedValue::Pairs(pairs)) => pairs,
            _ => &[],
        }
    }

    fn choice(&self, path: &str) -> Option<&'static str> {
        match self.find(path)?.value {
            TypedValue::Choice(word) => Some(word),
            _ => None,
        }
    }

    fn duration(&self, path: &str) -> Option<Duration> {
        match self.find(path)?.value {
            TypedValue::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    fn whole(&self, path: &str) -> Option<i64> {
        match self.find(path)?.value {
            TypedValue::Integer(number) => Some(number),
            _ => None,
        }
    }

    fn count(&self, path: &str) -> Option<u32> {
        self.whole(path).and_then(|number| u32::try_from(number).ok())
    }

    fn real(&self, path: &str) -> Option<f64> {
        match self.find(path)?.value {
            TypedValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the span of a value of the server itself.
    fn own_span(&self, path: &str) -> Option<Range<usize>> {
        self.own.find(path).map(|found| found.at.clone())
    }
}

/// Returns the defaults for all servers.
pub(crate) fn defaults(top: &Block, checker: &mut Checker<'_>) -> Block {
    let defaults = match top.find("mendline.defaults").map(|found| &found.value) {
        Some(TypedValue::Block(block)) => block.clone(),
        _ => Block::default(),
    };
    // Contradictions in the defaults are reported once, not for every server.
    let own = Settings { own: &defaults, defaults: &Block::default() };
    policies::check_contradictions(own, checker);
    defaults
}

/// Checks one server and adds it, if it is valid.
pub(crate) fn server(entry: &Entry, defaults: &Block, checker: &mut Checker<'_>, loaded: &mut Loaded) {
    if loaded.names.contains(&entry.key) {
        checker.mask(&entry.value);
        return checker.report_duplicate(entry, "server");
    }
    loaded.names.push(entry.key.clone());
    checker.server = Some(entry.key.clone());
    let before = checker.findings.len();
    let shown = name(entry, checker, loaded);
    match entry.value.table() {
        Some(entries) => {
            checker.server_variables = endpoint::own_variables(&entry.value, checker);
            let own = checker.block(entries, keys::SERVER, true);
            checker.server_variables.clear();
            let settings = Settings { own: &own, defaults };
            check_enabled(settings, checker);
            policies::check_contradictions(settings, checker);
            let endpoint = endpoint::endpoint(entry, settings, checker);
            let forwarded =
                forward_headers::forward_headers(settings, endpoint.as_ref().map(|(endpoint, _)| endpoint), checker);
            let is_right = !checker.findings[before..].iter().any(Finding::is_error);
            if let (Some((endpoint, literal_secrets)), true) = (endpoint, is_right) {
                let mut upstream = endpoint.upstream(&shown);
                match endpoint {
                    Endpoint::Wrapped { .. } => policies::apply_own(settings, &mut upstream),
                    _ => policies::apply(settings, &mut upstream),
                }
                upstream.forward_headers = forwarded;
                loaded.servers.push(Server {
                    name: entry.key.clone(),
                    owner: checker.owner,
                    is_disabled: is_disabled(settings),
                    endpoint,
                    policies: upstream,
                    message_bytes: settings.whole("limits.messageBytes").and_then(|most| usize::try_from(most).ok()),
                    literal_secrets,
                });
            }
        }
        None => {
            checker.mask(&entry.value);
            let what = format!("the server `{}` must be an object, not {}", entry.key, entry.value.kind_name());
            checker.report(Finding::error(entry.value.at.clone(), what).help("for example { \"command\": \"…\" }"));
        }
    }
    checker.server = None;
}

/// Returns its name in logs and errors. Clients allow names that Mendline cannot use as a prefix of tool names; those
/// are sanitized.
fn name(entry: &Entry, checker: &mut Checker<'_>, loaded: &Loaded) -> String {
    let sanitized = Name::sanitized(&entry.key).to_string();
    if entry.key.contains("__") || entry.key.is_empty() {
        let why = entry.key.parse::<Name>().err().map(|why| why.to_string()).unwrap_or_default();
        checker.report_mistake(entry.key_at.clone(), why, Some(format!("for example `{sanitized}`")));
    } else if entry.key != sanitized {
        let what = format!("`{}` appears as `{sanitized}` in logs and errors", entry.key);
        let why = "a name may have at most 64 letters, digits, `-` and `_`";
        checker.report(Finding::note(entry.key_at.clone(), what).help(why));
    }
    let is_taken = |other: &&Server| other.name != entry.key && other.policies.name == sanitized;
    if let Some(other) = loaded.servers.iter().find(is_taken) {
        let what = format!("`{}` and `{}` have the same name `{sanitized}` in logs and errors", other.name, entry.key);
        checker.report_mistake(entry.key_at.clone(), what, Some("rename one of them".to_owned()));
    }
    sanitized
}

fn is_disabled(settings: Settings<'_>) -> bool {
    settings.flag("disabled").unwrap_or_else(|| settings.flag("enabled") == Some(false))
}

/// Reports contradictory `disabled` and `enabled`.
fn check_enabled(settings: Settings<'_>, checker: &mut Checker<'_>) {
    if let (Some(true), Some(true)) = (settings.flag("disabled"), settings.flag("enabled")) {
        let at = settings.own_span("enabled").unwrap_or(0..0);
        checker.report_mistake(
            at,
            "`disabled` and `enabled` contradict each other".to_owned(),
            Some("remove one of them".to_owned()),
        );
    }
}
