//! May a request follow a redirect?
//!
//! Only within its origin, so that credentials stay where they belong, and only if the redirect keeps the request as it
//! is: 307 and 308 say "not here, send the same there", which also proves that it was not processed. The others would
//! turn a message into a page to look at.

use http::StatusCode;
use http::header;
use http::response::Parts;

use super::origin::Location;

/// How often one exchange is sent on.
const MAX_REDIRECTS: u32 = 3;

/// Where a redirect leads, as it says it; `None` if this is not one.
pub(super) fn target_of(parts: &Parts) -> Option<String> {
    if !parts.status.is_redirection() {
        return None;
    }
    // A place that is not even text leads nowhere that can be compared with anything.
    Some(parts.headers.get(header::LOCATION)?.to_str().unwrap_or("\u{fffd}").trim().to_owned())
}

/// The place where the request goes next, or words that say why it goes nowhere. They name origins only: what follows
/// in a URL may be a secret.
pub(super) fn follow(status: StatusCode, from: &Location, to: &str, so_far: u32) -> Result<Location, String> {
    let home = &from.origin;
    let redirects = format!("{home} redirects ({})", status.as_u16());
    let Ok(location) = from.resolve(to) else {
        return Err(format!("{redirects} to something that is not a URL"));
    };
    let there = &location.origin;
    if there != home {
        return Err(format!("{redirects} to {there}, where nothing may be sent"));
    }
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return Err(format!("{redirects} to another page of {there}; only 307 and 308 can be followed"));
    }
    if so_far == MAX_REDIRECTS {
        return Err(format!("{redirects} to {there} again, after {MAX_REDIRECTS} times"));
    }
    Ok(location)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    #[test]
    fn only_a_redirect_that_names_a_place_leads_somewhere() {
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
        let nowhere = target_of(&parts(302, Some(b"/\xff"))).unwrap();
        assert!(Location::parse("http://x.test/").unwrap().resolve(&nowhere).is_err());
    }
}
