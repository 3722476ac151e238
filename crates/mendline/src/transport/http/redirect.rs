//! The rules for following a redirect.
//!
//! A redirect is followed only within its origin, so that credentials stay there, and only if it keeps the request
//! unchanged. 307 and 308 mean "send the same request to another URL", which also proves that it was not processed. The
//! other statuses would turn a message into a GET.

use http::StatusCode;
use http::header;
use http::response::Parts;
use mendline_core::reason::RefusalReason;

use super::origin::Location;

/// The most redirects of one exchange.
const MAX_REDIRECTS: u32 = 3;

/// Returns the target of a redirect as the response gives it; `None` if the response is no redirect.
pub(super) fn target_of(parts: &Parts) -> Option<String> {
    if !parts.status.is_redirection() {
        return None;
    }
    // A value that is not text becomes one that no URL may contain.
    Some(parts.headers.get(header::LOCATION)?.to_str().unwrap_or("\u{fffd}").trim().to_owned())
}

/// Returns the location where the request goes next, or the reason why it is not followed. The reason names origins
/// only: the rest of a URL may be secret.
pub(super) fn follow(status: StatusCode, from: &Location, to: &str, so_far: u32) -> Result<Location, RefusalReason> {
    let home = &from.origin;
    let refused =
        |problem: String| RefusalReason::Redirect { from: home.to_string(), status: status.as_u16(), problem };
    let Ok(location) = from.resolve(to) else {
        return Err(refused("to something that is not a URL".to_owned()));
    };
    let there = &location.origin;
    if there != home {
        return Err(refused(format!("to {there}, where nothing may be sent")));
    }
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return Err(refused(format!("to another page of {there}; only 307 and 308 can be followed")));
    }
    if so_far == MAX_REDIRECTS {
        return Err(refused(format!("to {there} again, after {MAX_REDIRECTS} times")));
    }
    Ok(location)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    #[test]
    fn only_redirect_with_location_has_target() {
        let parts = |status: u16, to: Option<&'static [u8]>| {
            let mut response = Response::builder().status(status);
            if let Some(to) = to {
                response = response.header("location", to);
            }
            response.body(()).unwrap().into_parts().0
        };
        assert_eq!(target_of(&parts(307, Some(b" /x"))).as_deref(), Some("/x"));
        assert_eq!(target_of(&parts(304, None)), None);
        assert_eq!(target_of(&parts(201, Some(b"/x"))), None);
        let invalid = target_of(&parts(302, Some(b"/\xff"))).unwrap();
        assert!(Location::parse("http://x.test/").unwrap().resolve(&invalid).is_err());
    }
}
