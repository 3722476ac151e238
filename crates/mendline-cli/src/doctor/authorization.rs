//! Authorization: whether the server accepts our requests, and what it requires.
//!
//! A server that requires a login says so in `WWW-Authenticate`. This module reads the parts of it that tell a person
//! what to do.

use mendline::transport::http::probe::Response;

use super::step::Step;
use crate::plan::Address;

const LAYER: &str = "auth";

/// The relevant parts of a challenge.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    error: Option<String>,
    description: Option<String>,
    scope: Option<String>,
    realm: Option<String>,
    /// URL of the metadata about the login.
    metadata: Option<String>,
}

/// Judges the authorization by a response.
pub(crate) fn examine(answer: &Response, address: &Address) -> Step {
    let has_credential = address.header_names().any(|name| name.eq_ignore_ascii_case("authorization"));
    let names: Vec<&str> = address.header_names().collect();
    match answer.status {
        401 | 403 => refused(answer, has_credential, &names),
        300..=399 => Step::skipped(LAYER, "not known: every request is redirected"),
        _ if has_credential => Step::ok(LAYER, "the credential in Authorization is accepted"),
        _ if !names.is_empty() => Step::ok(LAYER, format!("no login is required beyond {}", names.join(", "))),
        _ => Step::ok(LAYER, "no login is required"),
    }
    .fact("status", answer.status)
    .fact("credential", has_credential)
}

fn refused(answer: &Response, has_credential: bool, names: &[&str]) -> Step {
    let challenges = answer.challenges();
    let challenge = challenges.iter().map(|text| Challenge::read(text)).next().unwrap_or_default();
    let status = answer.status;
    let mut words = match (status, has_credential) {
        (401, false) => "the server requires a login (401)".to_owned(),
        (401, true) => "the server does not accept the credential in Authorization (401)".to_owned(),
        (_, false) => "the server forbids access (403)".to_owned(),
        (_, true) => "the credential is valid, but lacks permission (403)".to_owned(),
    };
    if let Some(said) = challenge.description.as_ref().or(challenge.error.as_ref()) {
        words.push_str(&format!(": {said}"));
    }
    let mut step = Step::failed(LAYER, words).fact("challenges", challenges);
    if let Some(place) = &challenge.metadata {
        step = step.details([format!("the login is described at {}", without_query(place))]);
    }
    if let Some(scope) = &challenge.scope {
        step = step.details([format!("required scopes: {scope}")]);
    }
    if let Some(realm) = &challenge.realm {
        step = step.details([format!("realm: {realm}")]);
    }
    let kind = if challenge.scheme.is_empty() { "Bearer" } else { challenge.scheme.as_str() };
    let advice = match (status, has_credential) {
        (401, false) if !names.is_empty() => format!(
            "The configured {} is not enough. Send a token, too: --header 'Authorization: {kind} ${{TOKEN}}', or \
             `headers` in the configuration file",
            names.join(", ")
        ),
        (401, false) => format!(
            "Get a token from its operator and send it: --header 'Authorization: {kind} ${{TOKEN}}', or `headers` in the \
             configuration file"
        ),
        (401, true) => "The credential may have expired, or belong to another server. Get a new one".to_owned(),
        (_, true) => "Ask its operator for permission, or for a token with the required scopes".to_owned(),
        (_, false) => "It may require a token, or reject your network (a firewall, a VPN, an Origin)".to_owned(),
    };
    let step = step.advice(advice);
    // Without a credential, 403 may have another reason than a missing login.
    if status == 401 || has_credential { step.needs_login() } else { step }
}

fn without_query(place: &str) -> &str {
    place.split(['?', '#']).next().unwrap_or_default()
}

impl Challenge {
    /// Parses the first challenge of a header: a scheme and its parameters.
    fn read(text: &str) -> Challenge {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let mut challenge = Challenge { scheme: scheme.to_owned(), ..Challenge::default() };
        for (name, value) in parameters(rest) {
            let place = match name.to_ascii_lowercase().as_str() {
                "error" => &mut challenge.error,
                "error_description" => &mut challenge.description,
                "scope" => &mut challenge.scope,
                "realm" => &mut challenge.realm,
                "resource_metadata" => &mut challenge.metadata,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        challenge
    }
}

/// Parses `name=value` and `name="value"`, separated by commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_owned();
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut characters = quoted.char_indices();
                let mut end = quoted.len();
                while let Some((at, character)) = characters.next() {
                    match character {
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                        other => value.push(other),
                    }
                }
                (value, &quoted[end..])
            }
            None => {
                let (value, left) = after.split_once(',').unwrap_or((after, ""));
                (value.trim().to_owned(), left)
            }
        };
        found.push((name, value));
        rest = left;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_parameters_are_parsed() {
        let read = Challenge::read(
            r#"Bearer realm="notes", error="invalid_token", error_description="it \"expired\", sorry", scope="a b", resource_metadata="https://x.test/.well-known/y?z""#,
        );
        assert_eq!(read.scheme, "Bearer");
        assert_eq!(read.description.as_deref(), Some(r#"it "expired", sorry"#));
        assert_eq!((read.scope.as_deref(), read.realm.as_deref()), (Some("a b"), Some("notes")));
        assert_eq!(read.metadata.as_deref().map(without_query), Some("https://x.test/.well-known/y"));
        assert_eq!(Challenge::read("Basic realm=x").realm.as_deref(), Some("x"));
    }

    #[test]
    fn broken_challenge_is_parsed_as_far_as_possible() {
        for text in ["", "Bearer", "Bearer =", "Bearer a=\"", "Bearer a=\"\\", ",,,=\"x\"=", "Bearer error=\"é"] {
            let _ = Challenge::read(text);
        }
        assert_eq!(Challenge::read("Bearer error=\"half").error.as_deref(), Some("half"));
    }
}
