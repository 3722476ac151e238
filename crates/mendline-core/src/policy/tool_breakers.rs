//! Breakers per tool: one failing tool does not block the others.
//!
//! A healthy server can have an unhealthy tool. So timeouts and internal errors are counted per tool. Only a tool that
//! has failed has a breaker; a healthy one is removed, and without failing tools no name is parsed. The number of
//! breakers is bounded, because names come from outside.

use std::collections::BTreeMap;

use super::breaker::{Breaker, Sign, Transition};
use crate::config::{self, ToolPolicy};
use crate::defaults;
use crate::moment::Moment;
use crate::request::ClientRequest;
use crate::rng::SeededRng;

/// The breakers of the tools that have failed.
#[derive(Clone, Debug, Default)]
pub struct ToolBreakers {
    policy: Option<config::Breaker>,
    /// The policies of tools with their own.
    own: BTreeMap<String, Option<config::Breaker>>,
    tools: BTreeMap<String, Breaker>,
}

impl ToolBreakers {
    /// Breakers without a failed tool.
    pub fn new(policy: Option<config::Breaker>, configured: &BTreeMap<String, ToolPolicy>) -> ToolBreakers {
        ToolBreakers { policy, own: own(configured), tools: BTreeMap::new() }
    }

    /// Applies a new policy.
    pub fn reconfigure(&mut self, policy: Option<config::Breaker>, configured: &BTreeMap<String, ToolPolicy>) {
        (self.policy, self.own) = (policy, own(configured));
        let own = &self.own;
        let policy_of = |tool: &str| own.get(tool).copied().unwrap_or(policy);
        self.tools.retain(|tool, _| policy_of(tool).is_some());
        self.tools.iter_mut().for_each(|(tool, breaker)| breaker.reconfigure(policy_of(tool)));
    }

    /// The policy of this tool.
    fn policy_of(&self, tool: &str) -> Option<config::Breaker> {
        self.own.get(tool).copied().unwrap_or(self.policy)
    }

    /// Returns whether a result with `isError` counts as a failure of the called tool.
    pub fn counts_tool_errors(&self, call: &ClientRequest) -> bool {
        let counts = |policy: Option<config::Breaker>| policy.is_some_and(|policy| policy.count_tool_errors);
        // Most configurations have no tool with its own policy: the call is not parsed.
        if self.own.is_empty() {
            return counts(self.policy);
        }
        counts(tool_of(call).map_or(self.policy, |tool| self.policy_of(&tool)))
    }

    /// Returns whether no tool has failed, which is the usual case.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The number of breakers.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// The breaker of the called tool, if it has one.
    pub fn of(&self, call: &ClientRequest) -> Option<&Breaker> {
        if self.tools.is_empty() {
            return None;
        }
        self.tools.get(&tool_of(call)?)
    }

    /// Returns the breaker of this tool.
    pub fn named(&self, tool: &str) -> Option<&Breaker> {
        self.tools.get(tool)
    }

    /// Makes this call the trial of its tool.
    pub fn begin_trial(&mut self, request: &ClientRequest, call: u64) -> Option<(String, Transition)> {
        let tool = tool_of(request)?;
        let transition = self.tools.get_mut(&tool)?.begin_trial(call)?;
        Some((tool, transition))
    }

    /// Records that this call is sent.
    pub fn note_sent(&mut self, call: u64, now: Moment) {
        self.tools.values_mut().for_each(|breaker| breaker.note_sent(call, now));
    }

    /// Records that this call waits to be sent again.
    pub fn note_waits(&mut self, call: u64) {
        self.tools.values_mut().for_each(|breaker| breaker.note_waits(call));
    }

    /// Records the end of this call.
    pub fn note_ended(&mut self, call: u64) {
        self.tools.values_mut().for_each(|breaker| breaker.note_ended(call));
    }

    /// Records the result of an attempt of this call.
    pub fn note(
        &mut self,
        request: &ClientRequest,
        call: u64,
        sign: Sign,
        now: Moment,
        rng: &mut SeededRng,
    ) -> Option<(String, Transition)> {
        let is_off = self.policy.is_none() && self.own.is_empty();
        if is_off || (sign == Sign::Healthy && self.tools.is_empty()) {
            return None;
        }
        let tool = tool_of(request)?;
        let policy = self.policy_of(&tool);
        if policy.is_some() && sign != Sign::Healthy && !self.tools.contains_key(&tool) && self.make_room(now) {
            self.tools.insert(tool.clone(), Breaker::new(policy));
        }
        let breaker = self.tools.get_mut(&tool)?;
        let transition = breaker.note(call, sign, now, rng);
        if breaker.is_healthy(now) {
            self.tools.remove(&tool);
        }
        transition.map(|transition| (tool, transition))
    }

    /// Records the result of the trial of a half-open breaker, which has ended already.
    pub fn note_trial(
        &mut self,
        request: &ClientRequest,
        sign: Sign,
        now: Moment,
        rng: &mut SeededRng,
    ) -> Option<(String, Transition)> {
        let tool = tool_of(request)?;
        let transition = self.tools.get_mut(&tool)?.note_trial(sign, now, rng)?;
        Some((tool, transition))
    }

    /// Makes room for one more, if need be by removing a closed one. Returns whether there is room.
    fn make_room(&mut self, now: Moment) -> bool {
        if self.tools.len() < defaults::TOOL_BREAKERS {
            return true;
        }
        self.tools.retain(|_, breaker| !breaker.is_healthy(now));
        if self.tools.len() >= defaults::TOOL_BREAKERS {
            let idle = self.tools.iter().find(|(_, breaker)| breaker.is_closed()).map(|(tool, _)| tool.clone());
            return idle.is_some_and(|tool| self.tools.remove(&tool).is_some());
        }
        true
    }
}

/// Reads the policies of the tools with their own.
fn own(configured: &BTreeMap<String, ToolPolicy>) -> BTreeMap<String, Option<config::Breaker>> {
    let own = |(tool, policy): (&String, &ToolPolicy)| Some((bounded(tool), policy.breaker?));
    configured.iter().filter_map(own).collect()
}

/// A name comes from outside, so its kept length is bounded.
fn bounded(name: &str) -> String {
    name.chars().take(defaults::TOOL_NAME).collect()
}

/// The name of the called tool.
pub fn tool_of(call: &ClientRequest) -> Option<String> {
    call.tool().map(|name| bounded(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::breaker::{Admission, BreakerState};
    use bytes::Bytes;
    use mendline_wire::Message;
    use std::time::Duration;

    fn call(tool: &str) -> ClientRequest {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
        ClientRequest::new(Message::parse(Bytes::from(text)).unwrap())
    }

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn breakers() -> (ToolBreakers, SeededRng) {
        (ToolBreakers::new(Some(config::Breaker::default()), &BTreeMap::new()), SeededRng::new(1))
    }

    fn fail(breakers: &mut ToolBreakers, tool: &str, second: u64, rng: &mut SeededRng) -> Option<(String, Transition)> {
        breakers.note(
            &call(tool),
            second,
            Sign::Failed(at(second), at(second) + Duration::from_millis(1)),
            at(second) + Duration::from_millis(1),
            rng,
        )
    }

    #[test]
    fn only_the_failing_tool_is_blocked() {
        let (mut breakers, mut rng) = breakers();
        for second in 0..4 {
            assert_eq!(fail(&mut breakers, "bad", second, &mut rng), None);
        }
        let (tool, transition) = fail(&mut breakers, "bad", 4, &mut rng).expect("the fifth");
        assert!(tool == "bad" && matches!(transition, Transition::Opened(..)));
        assert!(matches!(breakers.of(&call("bad")).unwrap().admits(at(5)), Admission::Blocked(Some(_))));
        assert!(breakers.of(&call("good")).is_none());
    }

    #[test]
    fn healthy_tools_have_no_breaker() {
        let (mut breakers, mut rng) = breakers();
        breakers.note(&call("good"), 1, Sign::Healthy, at(0), &mut rng);
        assert!(breakers.is_empty());
        fail(&mut breakers, "bad", 1, &mut rng);
        breakers.note(&call("bad"), 2, Sign::Healthy, at(2), &mut rng);
        assert_eq!(breakers.len(), 1, "the window still has the failure");
        breakers.note(&call("bad"), 3, Sign::Healthy, at(60), &mut rng);
        assert!(breakers.is_empty());
    }

    #[test]
    fn breakers_are_bounded_and_open_ones_are_not_evicted() {
        let (mut breakers, mut rng) = breakers();
        for second in 0..5 {
            fail(&mut breakers, "bad", second, &mut rng);
        }
        for n in 0..10 * defaults::TOOL_BREAKERS {
            fail(&mut breakers, &format!("tool{n}"), 5, &mut rng);
            assert!(breakers.len() <= defaults::TOOL_BREAKERS);
        }
        assert_eq!(breakers.of(&call("bad")).unwrap().state(), BreakerState::Open);
    }

    #[test]
    fn other_methods_have_no_tool_breaker() {
        let (mut breakers, mut rng) = breakers();
        let list = ClientRequest::new(
            Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)).unwrap(),
        );
        assert_eq!(breakers.note(&list, 1, Sign::Failed(at(0), at(1)), at(1), &mut rng), None);
        assert!(breakers.is_empty());
    }

    #[test]
    fn tool_breakers_without_policy_stay_empty() {
        let mut breakers = ToolBreakers::new(None, &BTreeMap::new());
        fail(&mut breakers, "bad", 1, &mut SeededRng::new(1));
        assert!(breakers.is_empty());
    }

    #[test]
    fn tool_can_have_its_own_breaker_policy() {
        let usual = config::Breaker::default();
        let with = |breaker| ToolPolicy { breaker: Some(breaker), ..ToolPolicy::default() };
        let quick = with(Some(config::Breaker { failures: 1, count_tool_errors: true, ..usual }));
        let tools = [("quick".to_owned(), quick), ("never".to_owned(), with(None))].into();
        let mut breakers = ToolBreakers::new(Some(usual), &tools);
        let mut rng = SeededRng::new(1);
        assert!(breakers.counts_tool_errors(&call("quick")) && !breakers.counts_tool_errors(&call("usual")));
        assert!(fail(&mut breakers, "quick", 1, &mut rng).is_some());
        for second in 1..9 {
            assert_eq!(fail(&mut breakers, "never", second, &mut rng), None);
        }
        assert!(breakers.named("never").is_none());
        breakers.reconfigure(Some(usual), &[("quick".to_owned(), with(None))].into());
        assert!(breakers.named("quick").is_none(), "its breaker is turned off");
        let mut only = ToolBreakers::new(None, &tools);
        assert!(fail(&mut only, "quick", 1, &mut rng).is_some());
        assert!(fail(&mut only, "usual", 1, &mut rng).is_none() && only.len() == 1);
    }

    #[test]
    fn unanswered_trial_yields_unless_it_waits() {
        let (mut breakers, mut rng) = breakers();
        for second in 0..5 {
            fail(&mut breakers, "bad", second, &mut rng);
            fail(&mut breakers, "worse", second, &mut rng);
        }
        assert_eq!(breakers.len(), 2);
        let long_after = at(1_000);
        breakers.begin_trial(&call("bad"), 9);
        breakers.note_sent(9, at(20));
        assert_eq!(breakers.of(&call("bad")).unwrap().admits(long_after), Admission::Trial);
        breakers.note_waits(9);
        assert!(matches!(breakers.of(&call("bad")).unwrap().admits(long_after), Admission::Blocked(_)));
    }

    #[test]
    fn tool_trial_admits_one_call() {
        let (mut breakers, mut rng) = breakers();
        for second in 0..5 {
            fail(&mut breakers, "bad", second, &mut rng);
        }
        assert_eq!(breakers.begin_trial(&call("bad"), 9), Some(("bad".into(), Transition::HalfOpened)));
        assert!(matches!(breakers.of(&call("bad")).unwrap().admits(at(20)), Admission::Blocked(_)));
        breakers.note_ended(9);
        assert_eq!(breakers.of(&call("bad")).unwrap().admits(at(20)), Admission::Trial);
        breakers.begin_trial(&call("bad"), 10);
        breakers.note(&call("bad"), 10, Sign::Healthy, at(21), &mut rng);
        breakers.begin_trial(&call("bad"), 11);
        let closed = breakers.note(&call("bad"), 11, Sign::Healthy, at(22), &mut rng);
        assert_eq!(closed, Some(("bad".into(), Transition::Closed)));
        assert!(breakers.is_empty());
    }
}
