//! Words about logins and their failures.

use std::time::{Duration, SystemTime};

use mendline::control::words::span_ms;
use mendline_oauth::{LoginInfo, OAuthError};

use crate::cli::{NEEDS_LOGIN, NEGATIVE};
use crate::named::Refusal;
use crate::untrusted_text::one_line;

/// Returns the refusal of a command about a login.
pub(crate) fn failed(operation: &str, name: &str, error: &OAuthError) -> Refusal {
    let code = match error {
        OAuthError::NoLogin { .. } | OAuthError::LoginEnded { .. } => NEEDS_LOGIN,
        _ => NEGATIVE,
    };
    let words = format!("error: cannot {operation} {}: {}", one_line(name), one_line(&error.to_string()));
    Refusal { words, code }
}

/// Returns who is logged in, as far as that is known.
pub(crate) fn who(info: &LoginInfo) -> Option<String> {
    let known = info.identity.as_ref().and_then(|identity| identity.shown()).map(str::to_owned);
    known.or_else(|| info.account.clone().filter(|_| !info.unverified))
}

/// Returns a time in relation to now: `in 42 min`, or `3 h ago`.
pub(crate) fn until(time: SystemTime, now: SystemTime) -> String {
    let span = |duration: Duration| span_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    match time.duration_since(now) {
        Ok(left) => format!("in {}", span(left)),
        Err(passed) => format!("{} ago", span(passed.duration())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_shown_in_relation_to_now() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let (later, earlier) = (now + Duration::from_secs(60), now - Duration::from_secs(60));
        assert!(until(later, now).starts_with("in 1"), "{}", until(later, now));
        assert!(until(earlier, now).ends_with(" ago"), "{}", until(earlier, now));
    }
}
