//! Headers of a client that go to one server, because the configuration names them.
//!
//! Without a rule nothing is passed on, and a rule concerns one server: its requests go to one origin. The values are
//! secrets of the client. They are part of what clients must have in common to share a session, so the calls of one
//! client never run with the value of another. The token that opened the gateway is not passed on.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use mendline_core::Secret;
use mendline_core::config::ForwardedHeader;
use ring::digest::{Context, SHA256};

use super::access::LOCAL;

/// The longest value of a client that is passed on.
const LONGEST: usize = 16 * 1024;

/// The headers of one request of a client that go to the server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ForwardedValues(Vec<(Cow<'static, str>, Arc<str>)>);

impl fmt::Debug for ForwardedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl ForwardedValues {
    /// Returns the values of a request of this principal.
    pub(super) fn of(rules: &[ForwardedHeader], headers: &HeaderMap, principal: &str) -> ForwardedValues {
        let mut values: Vec<(Cow<'static, str>, Arc<str>)> = Vec::new();
        for rule in rules {
            // A principal with a token has sent it in this header.
            if rule.from.eq_ignore_ascii_case(AUTHORIZATION.as_str()) && principal != LOCAL {
                continue;
            }
            let value = headers.get(&rule.from).and_then(|value| value.to_str().ok());
            if let Some(value) = value.filter(|value| !value.is_empty() && value.len() <= LONGEST) {
                let sent = rule.format.replacen("{}", value, 1);
                values.push((Cow::Owned(rule.to.to_ascii_lowercase()), Arc::from(sent)));
            }
        }
        ForwardedValues(values)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn headers(&self) -> Vec<(Cow<'static, str>, Arc<str>)> {
        self.0.clone()
    }

    /// The values as secrets, with and without a scheme.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        let parts = |value: &str| value.split_once(' ').map(|(_, rest)| Secret::new(rest));
        self.0.iter().flat_map(|(_, value)| [Some(Secret::new(&**value)), parts(value)]).flatten().collect()
    }

    /// Returns the name under which clients of a principal share: that of the principal, and a hash of the values.
    pub(super) fn share_name(&self, principal: &Arc<str>) -> Arc<str> {
        if self.is_empty() {
            return Arc::clone(principal);
        }
        let mut hash = Context::new(&SHA256);
        for (name, value) in &self.0 {
            for part in [name.as_bytes(), value.as_bytes()] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let mut shared = format!("{principal}\n");
        for byte in hash.finish().as_ref() {
            // Writing to a string cannot fail.
            let _ = write!(shared, "{byte:02x}");
        }
        Arc::from(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(from: &str, to: &str, format: &str) -> ForwardedHeader {
        ForwardedHeader { from: from.to_owned(), to: to.to_owned(), format: format.to_owned() }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_named_headers_are_passed_on() {
        let given = headers(&[("x-jira-token", "canary"), ("authorization", "Bearer mine"), ("cookie", "a=b")]);
        assert!(ForwardedValues::of(&[], &given, LOCAL).is_empty());
        let values = ForwardedValues::of(&[rule("X-Jira-Token", "Authorization", "Bearer {}")], &given, "ann");
        let sent = values.headers();
        assert_eq!((sent.len(), &*sent[0].0, &*sent[0].1), (1, "authorization", "Bearer canary"));
        assert!(!format!("{values:?}").contains("canary"));
    }

    #[test]
    fn token_of_the_gateway_is_not_passed_on() {
        let (given, rules) =
            (headers(&[("authorization", "Bearer mine")]), [rule("Authorization", "Authorization", "{}")]);
        assert!(ForwardedValues::of(&rules, &given, "ann").is_empty());
        assert!(!ForwardedValues::of(&rules, &given, LOCAL).is_empty(), "without tokens it is not one of the gateway");
    }

    #[test]
    fn other_values_have_another_name() {
        let (ann, rules) = (Arc::from("ann"), [rule("x-a", "x-a", "{}"), rule("x-b", "x-b", "{}")]);
        let name = |pairs: &[(&'static str, &str)]| ForwardedValues::of(&rules, &headers(pairs), &ann).share_name(&ann);
        assert_eq!(&*name(&[]), "ann");
        assert_eq!(name(&[("x-a", "1")]), name(&[("x-a", "1")]));
        assert_ne!(name(&[("x-a", "1")]), name(&[("x-a", "2")]));
        assert_ne!(name(&[("x-a", "1")]), name(&[("x-b", "1")]));
    }
}
