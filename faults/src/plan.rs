//! Rules that select the fault of a request.
//!
//! A rule names a fault, the requests that it applies to, and when it is injected: at the n-th of these requests, at
//! the first few, at every one, or for a time after the rule was added. Each rule counts its own requests. The first
//! rule that injects its fault takes the request, and later rules do not count it, so that two rules on the same
//! requests apply one after the other.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::HttpRequest;
use crate::fault::{self, Fault};

/// A fault and the condition under which it is injected.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The name of the fault.
    pub fault: String,
    /// Only requests of this JSON-RPC method. Without this, `tool` and `verb`, the fault's own choice applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Only calls of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Only requests with this HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// The requests at which the fault is injected.
    #[serde(default)]
    pub when: When,
    /// The time of the fault: before or after the tool runs.
    #[serde(default)]
    pub timing: Timing,
    /// A parameter of the fault, such as seconds, bytes or a status; see the fault's file.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

impl Rule {
    /// Injects this fault at every request that it applies to, after the tool has run.
    pub fn new(fault: &str) -> Rule {
        Rule {
            fault: fault.to_owned(),
            method: None,
            tool: None,
            verb: None,
            when: When::Every,
            timing: Timing::After,
            value: Value::Null,
        }
    }

    /// Injects it only at the n-th request, from 1.
    pub fn nth(self, nth: u64) -> Rule {
        Rule { when: When::Nth(nth), ..self }
    }

    /// Injects it only at the first requests.
    pub fn first(self, count: u64) -> Rule {
        Rule { when: When::First(count), ..self }
    }

    /// Injects it only for this long.
    pub fn during(self, time: Duration) -> Rule {
        Rule { when: When::ForMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    /// Injects it before the tool runs.
    pub fn before(self) -> Rule {
        Rule { timing: Timing::Before, ..self }
    }

    /// Applies it only to calls of this tool.
    pub fn tool(self, tool: &str) -> Rule {
        Rule { tool: Some(tool.to_owned()), ..self }
    }

    /// Applies it only to requests of this JSON-RPC method.
    pub fn method(self, method: &str) -> Rule {
        Rule { method: Some(method.to_owned()), ..self }
    }

    /// Applies it only to requests with this HTTP method.
    pub fn verb(self, verb: &str) -> Rule {
        Rule { verb: Some(verb.to_owned()), ..self }
    }

    /// Sets the parameter of the fault.
    pub fn value(self, value: impl Into<Value>) -> Rule {
        Rule { value: value.into(), ..self }
    }

    /// Returns whether the rule applies to a request.
    fn is_about(&self, fault: &Fault, request: &HttpRequest) -> bool {
        let matches = |filter: &Option<String>, what: &str| filter.as_deref().is_none_or(|filter| filter == what);
        let is_narrowed = self.method.is_some() || self.tool.is_some() || self.verb.is_some();
        (is_narrowed || (fault.applies_to)(request))
            && matches(&self.method, &request.what())
            && matches(&self.tool, request.tool().unwrap_or_default())
            && matches(&self.verb, request.verb.as_str())
    }
}

/// The requests at which a fault is injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Every request.
    #[default]
    Every,
    /// The n-th request, from 1.
    Nth(u64),
    /// The first so many requests.
    First(u64),
    /// All requests for so many milliseconds.
    ForMs(u64),
}

/// The time of a fault: before or after the tool runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Timing {
    /// The tool does not run.
    Before,
    /// The tool runs, and then the fault answers.
    #[default]
    After,
}

/// The error for a fault name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown fault {:?}; `mendline-faults list` prints all names", self.0)
    }
}

impl std::error::Error for UnknownFault {}

/// A fault that answers the current request.
pub(crate) struct InjectedFault {
    pub(crate) fault: &'static Fault,
    pub(crate) timing: Timing,
    pub(crate) value: Value,
}

/// All rules, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Plan(Mutex<Vec<ActiveRule>>);

#[derive(Debug)]
struct ActiveRule {
    rule: Rule,
    fault: &'static Fault,
    since: Instant,
    matched: u64,
}

impl Plan {
    pub(crate) fn add(&self, rule: Rule) -> Result<(), UnknownFault> {
        let fault = fault::by_name(&rule.fault).ok_or_else(|| UnknownFault(rule.fault.clone()))?;
        self.rules().push(ActiveRule { rule, fault, since: Instant::now(), matched: 0 });
        Ok(())
    }

    pub(crate) fn clear(&self) {
        self.rules().clear();
    }

    pub(crate) fn list(&self) -> Vec<Rule> {
        self.rules().iter().map(|active| active.rule.clone()).collect()
    }

    /// Selects the fault for this request.
    pub(crate) fn select(&self, request: &HttpRequest) -> Option<InjectedFault> {
        let mut rules = self.rules();
        let active = rules.iter_mut().find_map(|active| active.count(request).then_some(active))?;
        Some(InjectedFault { fault: active.fault, timing: active.rule.timing, value: active.rule.value.clone() })
    }

    fn rules(&self) -> MutexGuard<'_, Vec<ActiveRule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRule {
    /// Counts a request if the rule applies to it. Returns whether the fault is injected.
    fn count(&mut self, request: &HttpRequest) -> bool {
        if !self.rule.is_about(self.fault, request) {
            return false;
        }
        self.matched += 1;
        match self.rule.when {
            When::Every => true,
            When::Nth(nth) => self.matched == nth,
            When::First(count) => self.matched <= count,
            When::ForMs(milliseconds) => self.since.elapsed() < Duration::from_millis(milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(tool: &str) -> HttpRequest {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool } });
        HttpRequest::post("/mcp", &text.to_string())
    }

    fn selected(plan: &Plan, request: &HttpRequest) -> Option<&'static str> {
        plan.select(request).map(|injected| injected.fault.name)
    }

    #[tokio::test(start_paused = true)]
    async fn rule_counts_only_its_own_requests() {
        let plan = Plan::default();
        plan.add(Rule::new("h26_500").tool("lookup").nth(2)).unwrap();
        plan.add(Rule::new("h27_502").first(1)).unwrap();
        assert_eq!(selected(&plan, &call("lookup")), Some("h27_502"), "the first lookup is the second rule's");
        assert_eq!(selected(&plan, &call("big")), None);
        assert_eq!(selected(&plan, &call("lookup")), Some("h26_500"));
        assert_eq!(selected(&plan, &call("lookup")), None);
        let other = HttpRequest::post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        plan.add(Rule::new("h26_500").method("tools/list")).unwrap();
        assert_eq!(selected(&plan, &other), Some("h26_500"));
    }

    #[tokio::test(start_paused = true)]
    async fn timed_rule_ends_after_its_duration() {
        let plan = Plan::default();
        plan.add(Rule::new("h26_500").during(Duration::from_secs(1))).unwrap();
        assert_eq!(selected(&plan, &call("lookup")), Some("h26_500"));
        tokio::time::advance(Duration::from_millis(1_001)).await;
        assert_eq!(selected(&plan, &call("lookup")), None);
    }

    #[test]
    fn rule_is_read_from_json_and_errors_are_named() {
        let rule: Rule = serde_json::from_value(json!({ "fault": "h26_500", "when": { "nth": 2 } })).unwrap();
        assert_eq!((rule.when, rule.timing), (When::Nth(2), Timing::After));
        assert!(serde_json::from_value::<Rule>(json!({ "fault": "h26_500", "wen": "every" })).is_err());
        let refused = Plan::default().add(Rule::new("kindness")).unwrap_err();
        assert_eq!(refused.to_string(), "unknown fault \"kindness\"; `mendline-faults list` prints all names");
    }
}
