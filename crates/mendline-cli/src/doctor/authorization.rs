//! Authorization: whether the server accepts our requests, and what it requires.
//!
//! A server that requires a login says so in `WWW-Authenticate`. This module reads the parts of it that tell a person
//! what to do, and uses the credential that the source of the server gives.

use std::time::{Duration, SystemTime};

use mendline::credential::{Credential, Occasion};
use mendline::decisions::config::CredentialKind;
use mendline::observe::redact::Redactor;
use mendline::transport::http::probe::Response;
use mendline::transport::http::{Challenge, Target};

use super::step::Step;
use crate::plan::{Address, Plan};
use crate::status::logins::Login;
use crate::untrusted_text::one_line;

const LAYER: &str = "auth";

/// The credential that the source of a server gives.
pub(crate) struct FoundCredential {
    kind: CredentialKind,
    credential: Option<Credential>,
    /// The reason why there is none.
    why: Option<String>,
    /// The stored login, in words.
    login: Option<String>,
}

impl FoundCredential {
    /// Reads the source once. It opens no browser.
    pub(crate) async fn of(plan: &Plan, address: &Address, limit: Duration, redactor: Redactor) -> FoundCredential {
        let kind = plan.upstream.credential;
        let mut found = FoundCredential { kind, credential: None, why: None, login: None };
        let mut source = match plan.credential_source(redactor.clone(), None) {
            Ok(Some(source)) => source,
            Ok(None) => return found,
            Err(why) => return FoundCredential { why: Some(why), ..found },
        };
        match tokio::time::timeout(limit, source.read(&Occasion::Start)).await {
            Ok(Ok(credential)) => found.credential = credential,
            Ok(Err(error)) => found.why = Some(one_line(&error.to_string())),
            Err(_) => found.why = Some("its source does not answer in time".to_owned()),
        }
        if let Some(credential) = &found.credential {
            let secrets: Vec<_> = credential.headers.iter().map(|(_, value)| value.clone()).collect();
            redactor.learn(&secrets);
        }
        if kind == CredentialKind::Login
            && let Ok((oauth, settings)) = address.login(&plan.upstream.name, redactor)
        {
            let info = mendline_oauth::login_of(oauth.store(), &settings).ok().flatten();
            found.login = info.map(|info| one_line(&Login::of(&info, SystemTime::now()).words()));
        }
        found
    }

    /// Adds the credential to a target.
    pub(crate) fn add_to(&self, target: Target) -> Result<Target, String> {
        let headers = self.credential.iter().flat_map(|credential| &credential.headers);
        let mut target = target;
        for (name, value) in headers {
            target = target.header(name, value).map_err(|fault| fault.to_string())?;
        }
        Ok(target)
    }

    /// Returns the next step for a credential that is missing or refused.
    pub(crate) fn advice(&self, name: &str) -> String {
        match (self.kind, &self.why) {
            (CredentialKind::Login, _) => {
                format!(
                    "Log in: mendline login {name}. If it wants a key instead, write it into `headers`, or use --header"
                )
            }
            (CredentialKind::Source, Some(why)) => format!("Correct the source of the credential: {why}"),
            (CredentialKind::Source, None) => "Renew the credential at its source".to_owned(),
            (CredentialKind::Fixed, _) => "Send a token".to_owned(),
        }
    }
}

/// Finds out where a person logs in, after a refusal. `None` if the server has no login, or has a valid one.
pub(crate) async fn discover(
    answer: &Response,
    address: &Address,
    name: &str,
    found: &FoundCredential,
    limit: Duration,
) -> Option<Result<String, String>> {
    if answer.status != 401 || found.kind != CredentialKind::Login || found.credential.is_some() {
        return None;
    }
    let challenges: Vec<Challenge> = answer.challenges().iter().flat_map(|text| Challenge::parse(text)).collect();
    let (oauth, settings) = address.login(name, Redactor::default()).ok()?;
    let discovered =
        tokio::time::timeout(limit, mendline_oauth::discover(&oauth, &settings, &challenges)).await.ok()?;
    Some(match discovered {
        Ok(discovered) if mendline_oauth::needs_client(&settings, &discovered.provider) => Err(format!(
            "this server registers no clients: create a client at {} and set auth.clientId (and auth.clientSecret), or \
             --client-id; `mendline login` names the redirect URL to register",
            one_line(&discovered.provider.issuer)
        )),
        Ok(discovered) => Ok(format!("the login is at {}", one_line(&discovered.provider.issuer))),
        // Its address may hold a secret, and the trouble is not that of the login.
        Err(error) if error.can_pass() => Ok("its provider cannot be reached now".to_owned()),
        Err(error) => Err(one_line(&error.to_string())),
    })
}

/// Judges the authorization by a response.
pub(crate) fn examine(
    answer: &Response,
    address: &Address,
    name: &str,
    found: &FoundCredential,
    discovered: Option<Result<String, String>>,
) -> Step {
    let has_header = address.header_names().any(|name| name.eq_ignore_ascii_case("authorization"));
    let has_credential = has_header || found.credential.is_some();
    let names: Vec<&str> = address.header_names().collect();
    match answer.status {
        401 | 403 if found.kind != CredentialKind::Fixed && (answer.status == 401 || has_credential) => {
            let mut step = refused(answer, has_credential, &names);
            step = step.details(found.why.iter().map(|why| format!("the credential: {why}")));
            step = step.details(found.login.iter().map(|login| format!("the login: {login}")));
            match discovered {
                // A login cannot be made, for this reason.
                Some(Err(why)) => step.details([format!("no login is possible: {why}")]).advice(why),
                Some(Ok(place)) => step.details([place]).advice(found.advice(name)),
                None => step.advice(found.advice(name)),
            }
        }
        401 | 403 => refused(answer, has_credential, &names),
        300..=399 => Step::skipped(LAYER, "not known: every request is redirected"),
        _ if found.credential.is_some() => match &found.login {
            Some(login) => Step::ok(LAYER, format!("the login is accepted: {login}")),
            None => Step::ok(LAYER, "the credential of its source is accepted"),
        },
        _ if has_credential => Step::ok(LAYER, "the credential in Authorization is accepted"),
        _ if !names.is_empty() => Step::ok(LAYER, format!("no login is required beyond {}", names.join(", "))),
        _ => Step::ok(LAYER, "no login is required"),
    }
    .fact("status", answer.status)
    .fact("credential", has_credential)
}

fn refused(answer: &Response, has_credential: bool, names: &[&str]) -> Step {
    let challenges = answer.challenges();
    let challenge = challenges.iter().flat_map(|text| Challenge::parse(text)).next().unwrap_or_default();
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
    if let Some(place) = &challenge.resource_metadata {
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
