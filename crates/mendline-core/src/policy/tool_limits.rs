//! The configured limits of single tools.
//!
//! An expensive tool may bear two calls at a time on a server that bears hundreds. Its further calls wait; they never
//! delay the calls of other tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::limit::Limit;
use crate::config::ToolPolicy;
use crate::moment::Moment;
use crate::reason::RefusalReason;
use crate::request::ClientRequest;

/// The tools with limits of their own.
#[derive(Clone, Debug, Default)]
pub struct ToolLimits {
    tools: BTreeMap<Arc<str>, ToolLimit>,
}

#[derive(Clone, Debug)]
struct ToolLimit {
    policy: ToolPolicy,
    rate: Option<Limit>,
}

/// Calls in flight by tool. Only tools with limits are counted.
pub type Counts = BTreeMap<Arc<str>, usize>;

impl ToolLimits {
    /// Reads the limits from the configuration of the tools.
    pub fn new(configured: &BTreeMap<String, ToolPolicy>) -> ToolLimits {
        let own = |(tool, policy): (&String, &ToolPolicy)| {
            let is_limited = policy.in_flight.is_some() || policy.waiting.is_some() || policy.rate_limit.is_some();
            let rate = policy.rate_limit.map(|limit| Limit::new(limit).of_tool());
            is_limited.then(|| (Arc::from(tool.as_str()), ToolLimit { policy: *policy, rate }))
        };
        ToolLimits { tools: configured.iter().filter_map(own).collect() }
    }

    /// Applies a new configuration. A changed rate limit starts with a full burst.
    pub fn reconfigure(&mut self, configured: &BTreeMap<String, ToolPolicy>) {
        let mut new = ToolLimits::new(configured);
        for (tool, limit) in &mut new.tools {
            if let Some(old) = self.tools.remove(tool).filter(|old| old.policy.rate_limit == limit.policy.rate_limit) {
                limit.rate = old.rate;
            }
        }
        *self = new;
    }

    /// Returns whether no tool has limits, which is the usual case.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The called tool, if it has limits.
    pub fn of(&self, call: &ClientRequest) -> Option<Arc<str>> {
        // Most configurations have none: the call is not parsed.
        if self.tools.is_empty() {
            return None;
        }
        self.tools.get_key_value(call.tool()?.as_ref()).map(|(tool, _)| Arc::clone(tool))
    }

    /// Returns whether a call of this tool may be sent now, with this many of its calls in flight.
    pub fn admits(&self, tool: &str, in_flight: usize, now: Moment) -> bool {
        let Some(limit) = self.tools.get(tool) else { return true };
        limit.policy.in_flight.is_none_or(|most| in_flight < most) && self.slot_after(tool, 0, now) <= now
    }

    /// The time at which the rate of this tool admits a call that has `ahead` others before it.
    pub fn slot_after(&self, tool: &str, ahead: usize, now: Moment) -> Moment {
        self.rate_of(tool).map_or(now, |rate| rate.slot_after(ahead, now))
    }

    /// Records a call of this tool.
    pub fn take(&mut self, tool: &str, now: Moment) {
        if let Some(rate) = self.tools.get_mut(tool).and_then(|limit| limit.rate.as_mut()) {
            rate.try_take(now);
        }
    }

    /// The limit of its waiting calls.
    pub fn waiting(&self, tool: &str) -> Option<usize> {
        self.tools.get(tool)?.policy.waiting
    }

    /// The limit of its calls in flight and waiting calls together, if both are limited.
    pub fn capacity(&self, tool: &str) -> Option<usize> {
        let policy = &self.tools.get(tool)?.policy;
        Some(policy.in_flight?.saturating_add(policy.waiting?))
    }

    /// Returns the reason why its calls wait for their rate limit, if they have one.
    pub fn rate_reason(&self, tool: &str) -> Option<RefusalReason> {
        self.rate_of(tool).map(Limit::reason)
    }

    fn rate_of(&self, tool: &str) -> Option<&Limit> {
        self.tools.get(tool)?.rate.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use mendline_wire::Message;

    use super::*;
    use crate::config::RateLimit;

    fn limits(policy: ToolPolicy) -> ToolLimits {
        ToolLimits::new(&[("slow".to_owned(), policy), ("free".to_owned(), ToolPolicy::default())].into())
    }

    fn call(tool: &str) -> ClientRequest {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
        ClientRequest::new(Message::parse(Bytes::from(text)).unwrap())
    }

    #[test]
    fn only_tools_with_limits_are_limited() {
        let limits = limits(ToolPolicy { in_flight: Some(2), ..ToolPolicy::default() });
        assert_eq!(limits.of(&call("slow")).as_deref(), Some("slow"));
        assert_eq!((limits.of(&call("free")), limits.of(&call("other"))), (None, None));
        assert!(limits.admits("slow", 1, Moment::ZERO) && !limits.admits("slow", 2, Moment::ZERO));
        assert!(limits.admits("free", 99, Moment::ZERO));
    }

    #[test]
    fn rate_of_a_tool_survives_a_reload_that_keeps_it() {
        let rate = Some(RateLimit { burst: 1, per_second: 1.0 });
        let policy = ToolPolicy { rate_limit: rate, ..ToolPolicy::default() };
        let mut limits = limits(policy);
        limits.take("slow", Moment::ZERO);
        assert!(!limits.admits("slow", 0, Moment::ZERO));
        limits.reconfigure(&[("slow".to_owned(), ToolPolicy { in_flight: Some(9), ..policy })].into());
        assert!(!limits.admits("slow", 0, Moment::ZERO));
        assert!(limits.admits("slow", 0, Moment::ZERO + Duration::from_secs(1)));
        let other = Some(RateLimit { burst: 2, per_second: 1.0 });
        limits.reconfigure(&[("slow".to_owned(), ToolPolicy { rate_limit: other, ..policy })].into());
        assert!(limits.admits("slow", 0, Moment::ZERO));
    }
}
