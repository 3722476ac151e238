//! Policies outside a file: `timeouts.call=2m`, by the paths of the configuration keys.
//!
//! `mendline wrap` carries the policies of an entry over to its arguments in this form. They are checked by the table
//! of keys, like those of a file.

use std::fmt;
use std::time::Duration;

use mendline::decisions::UpstreamConfig;

use super::{Settings, policies};
use crate::Environment;
use crate::check::{Block, Checker, Owner};
use crate::file::{Entry, Value, ValueKind};
use crate::finding::Finding;
use crate::keys::{self, Key, Kind};

/// The reason why a policy is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// It is not of the form `KEY=VALUE`.
    Form,
    /// It is about a tool and not of the form `tools.NAME.KEY=VALUE`.
    ToolForm,
    /// The key is an object, and one of its keys is needed.
    Object {
        /// The key.
        key: String,
        /// One of its keys.
        example: String,
    },
    /// The key is given twice.
    Twice {
        /// The key.
        key: String,
    },
    /// No policy has this key.
    Unknown {
        /// The first part of the key.
        key: String,
        /// The nearest one, if one is near.
        meant: Option<String>,
    },
    /// The key or its value is invalid.
    Invalid {
        /// The problem.
        what: String,
        /// What to do.
        help: Option<String>,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Form => f.write_str("a policy is written as KEY=VALUE, for example timeouts.call=2m"),
            PolicyError::ToolForm => f.write_str(
                "a policy of a tool is written as tools.NAME.KEY=VALUE, for example tools.search.timeout=30s",
            ),
            PolicyError::Object { key, example } => {
                write!(f, "`{key}` is an object; write one of its keys, for example `{key}.{example}`")
            }
            PolicyError::Twice { key } => write!(f, "`{key}` is given twice; remove one of them"),
            PolicyError::Unknown { key, meant: Some(meant) } => {
                write!(f, "`{key}` is not a policy; did you mean `{meant}`?")
            }
            PolicyError::Unknown { key, meant: None } => {
                write!(f, "`{key}` is not a policy; policies are {}", known().join(", "))
            }
            PolicyError::Invalid { what, help: Some(help) } => write!(f, "{what}; {help}"),
            PolicyError::Invalid { what, help: None } => f.write_str(what),
        }
    }
}

impl std::error::Error for PolicyError {}

/// The keys of policies.
fn known() -> Vec<&'static str> {
    keys::POLICIES.iter().map(|key| key.name).chain([TOOLS]).filter(|name| is_policy(name)).collect()
}

/// A set of policies.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    block: Block,
}

/// The key of the policies of single tools. It is not in the table of policies, which may be defaults for all servers.
const TOOLS: &str = "tools";

impl PolicySet {
    /// Parses policies of the form `timeouts.call=2m`. The error names the first wrong one.
    pub fn parse<'a>(
        policies: impl IntoIterator<Item = &'a str>,
        environment: &Environment,
    ) -> Result<PolicySet, PolicyError> {
        let mut root: Vec<Entry> = Vec::new();
        for policy in policies {
            let (path, value) = policy.split_once('=').ok_or(PolicyError::Form)?;
            insert(&mut root, &steps(path)?, value.trim())
                .ok_or_else(|| PolicyError::Twice { key: path.to_owned() })?;
        }
        let mut checker = Checker::new(environment, Owner::Mendline);
        let block = checker.block(&root, keys::SERVER, false);
        let settings = Settings { own: &block, defaults: &Block::default() };
        policies::check_contradictions(settings, &mut checker);
        match checker.findings.into_iter().find(Finding::is_error) {
            None => Ok(PolicySet { block }),
            Some(Finding { what, help, .. }) => Err(PolicyError::Invalid { what, help }),
        }
    }

    /// Applies the policies over those of a server.
    pub fn apply(&self, upstream: &mut UpstreamConfig) {
        policies::apply_own(self.settings(), upstream);
    }

    /// Returns the connect timeout, if it is set.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.settings().duration("timeouts.connect")
    }

    /// Returns the maximum size of a message, if it is set.
    pub fn message_bytes(&self) -> Option<usize> {
        self.settings().whole("limits.messageBytes").and_then(|most| usize::try_from(most).ok())
    }

    fn settings(&self) -> Settings<'_> {
        const NO_DEFAULTS: &Block = &Block { values: Vec::new() };
        Settings { own: &self.block, defaults: NO_DEFAULTS }
    }
}

/// Returns whether a key of a server is a policy, or an object of policies.
pub fn is_policy(name: &str) -> bool {
    name == TOOLS || keys::find(keys::POLICIES, name).is_some_and(|key| !matches!(key.kind, Kind::Unsupported(_)))
}

/// Returns the keys of a path. The name of a tool may contain dots.
fn steps(path: &str) -> Result<Vec<&str>, PolicyError> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    if !is_policy(first) {
        let meant = crate::nearest::nearest(first, known()).map(str::to_owned);
        return Err(PolicyError::Unknown { key: first.to_owned(), meant });
    }
    let mut steps = vec![first];
    match rest {
        Some(rest) if first == TOOLS => {
            let (tool, key) = rest.rsplit_once('.').ok_or(PolicyError::ToolForm)?;
            match tool.rsplit_once('.').filter(|(_, block)| is_key_of_block(block, key)) {
                Some((tool, block)) => steps.extend([tool, block, key]),
                None => steps.extend([tool, key]),
            }
        }
        Some(rest) => steps.extend(rest.split('.')),
        None => {}
    }
    match (keys::find(keys::SERVER, first), steps.len()) {
        // An object has no value of its own.
        (Some(Key { kind: Kind::Block(inner), .. }), 1) => {
            let example = inner.first().map_or("", |key| key.name);
            Err(PolicyError::Object { key: first.to_owned(), example: example.to_owned() })
        }
        (Some(Key { kind: Kind::Each(_), .. }), 1) => Err(PolicyError::ToolForm),
        _ => Ok(steps),
    }
}

/// Returns whether a tool has an object of this name with this key.
fn is_key_of_block(block: &str, key: &str) -> bool {
    let Some(Key { kind: Kind::Block(inner), .. }) = keys::find(keys::TOOL, block) else { return false };
    keys::find(inner, key).is_some()
}

/// Inserts a value; `None` if it is there already.
fn insert(entries: &mut Vec<Entry>, steps: &[&str], text: &str) -> Option<()> {
    let (first, rest) = steps.split_first()?;
    let known = entries.iter().position(|entry| entry.key == *first);
    if rest.is_empty() {
        if known.is_some() {
            return None;
        }
        entries.push(entry(first, value(text)));
        return Some(());
    }
    let at = known.unwrap_or_else(|| {
        entries.push(entry(first, ValueKind::Table(Vec::new())));
        entries.len() - 1
    });
    match &mut entries[at].value.kind {
        ValueKind::Table(inner) => insert(inner, rest, text),
        _ => None,
    }
}

fn entry(key: &str, kind: ValueKind) -> Entry {
    Entry { key: key.to_owned(), key_at: 0..0, value: Value { at: 0..0, kind } }
}

/// Returns a value by its form: no text that a policy accepts looks like a number or a boolean.
fn value(text: &str) -> ValueKind {
    match text {
        "true" => ValueKind::Flag(true),
        "false" => ValueKind::Flag(false),
        number if number.parse::<f64>().is_ok() => ValueKind::Number(number.to_owned()),
        text => ValueKind::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use mendline::decisions::config::{Breaker, FailureForm, KeepAlive, OnError, OpenFor};
    use mendline::decisions::policy::effect::Effect;

    use super::*;

    fn parse(policies: &[&str]) -> Result<PolicySet, String> {
        let environment = Environment::new(|name| (name == "T").then(|| "9s".to_owned()));
        PolicySet::parse(policies.iter().copied(), &environment).map_err(|error| error.to_string())
    }

    fn applied(policies: &[&str]) -> UpstreamConfig {
        let mut upstream = UpstreamConfig::child("notes", "x");
        parse(policies).unwrap().apply(&mut upstream);
        upstream
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn u03_policies_are_applied_by_their_paths() {
        let set = [
            "autoReconnect.maxRetries=-1",
            "timeouts.call=2m",
            "timeouts.handshake=7000",
            "timeouts.recovery=${T}",
            "timeouts.connect=3s",
            "retry.codes.-32000=always",
            "circuitBreaker.resetTimeout=1m",
            "circuitBreaker.successRate=0.25",
            "limits.messageBytes=2048",
            "startup=wait",
            "trustHints=false",
            "tools.a.b.effect=read",
            "tools.a.b.timeout=30s",
            "tools.a.b.limits.inFlight=3",
            "tools.a.b.circuitBreaker.failureThreshold=4",
            "tools.limits.effect=idempotent",
            "retry.statuses.502=never",
            "failures=error",
        ];
        let upstream = applied(&set);
        assert_eq!(upstream.reconnect.attempts, u32::MAX);
        let timeouts = &upstream.timeouts;
        assert_eq!((timeouts.call, timeouts.handshake, timeouts.recovery), (seconds(120), seconds(7), seconds(9)));
        assert_eq!(upstream.retry.codes.get(&-32000), Some(&OnError::Always));
        let breaker = upstream.breaker.unwrap();
        assert_eq!((breaker.open_for, breaker.success_rate), (OpenFor::Exactly(seconds(60)), 0.25));
        assert!(!upstream.trust_hints);
        assert_eq!(
            (upstream.tools["a.b"].effect, upstream.tools["a.b"].timeout),
            (Some(Effect::Read), Some(seconds(30)))
        );
        assert_eq!(upstream.tools["a.b"].in_flight, Some(3));
        assert_eq!(upstream.tools["a.b"].breaker, Some(Some(Breaker { failures: 4, ..breaker })));
        assert_eq!(upstream.tools["limits"].effect, Some(Effect::Idempotent));
        assert_eq!(upstream.retry.statuses.get(&502), Some(&OnError::Never));
        assert_eq!(upstream.failures, FailureForm::Error);
        let parsed = parse(&set).unwrap();
        assert_eq!((parsed.connect_timeout(), parsed.message_bytes()), (Some(seconds(3)), Some(2048)));
    }

    #[test]
    fn u03_policies_keep_the_values_that_they_do_not_name() {
        let mut upstream = UpstreamConfig::child("notes", "x");
        upstream.keep_alive = Some(KeepAlive { interval: seconds(5), timeout: seconds(2) });
        upstream.breaker = None;
        upstream.reconnect.attempts = 4;
        parse(&["keepAlive.timeout=3s"]).unwrap().apply(&mut upstream);
        assert_eq!(upstream.keep_alive, Some(KeepAlive { interval: seconds(5), timeout: seconds(3) }));
        assert_eq!((upstream.breaker, upstream.reconnect.attempts), (None, 4));
        assert_eq!(format!("{:?}", applied(&[])), format!("{:?}", UpstreamConfig::child("notes", "x")));
    }

    #[test]
    fn u03_wrong_policy_is_refused_with_correction() {
        for (policies, words) in [
            (&["timeouts"][..], "KEY=VALUE"),
            (&["timeouts=5s"], "`timeouts` is an object; write one of its keys"),
            (&["timeout.call=5s"], "did you mean `timeouts`?"),
            (&["command=x"], "`command` is not a policy"),
            (&["env.A=x"], "`env` is not a policy"),
            (&["auth.token=x"], "`auth` is not a policy"),
            (&["disabled=true"], "`disabled` is not a policy"),
            (&["timeouts.cal=5s"], "did you mean `call`?"),
            (&["timeouts.call=soon"], "must be a duration"),
            (&["timeouts.call=NaN"], "must be a duration"),
            (&["timeouts.call=${NOT_SET}"], "NOT_SET is not set"),
            (&["timeouts.call=5s", "timeouts.call=6s"], "given twice"),
            (&["timeouts.call=2m", "timeouts.total=1m"], "longer than `total`"),
            (&["timeouts.call.x=2m"], "must be a duration"),
            (&["tools.search=read"], "tools.NAME.KEY=VALUE"),
            (&["tools.search.limits.inFlight=0"], "from 1 to 32767"),
            (&["tools.search.limits=5"], "must be an object"),
            (&["failures=exception"], "must be one of"),
            (&["retry.statuses.99=never"], "from 300 to 599"),
            (&["tools.search.effect=safe"], "must be one of"),
            (&["startup.x=1", "startup=wait"], "given twice"),
        ] {
            let error = parse(policies).unwrap_err();
            assert!(error.contains(words), "{policies:?}: {error}");
        }
    }
}
