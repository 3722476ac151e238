//! The authorization request and its response.

use mendline::decisions::Secret;

use crate::discovery::Discovered;
use crate::error::OAuthError;
use crate::metadata::Provider;
use crate::pkce::{Verifier, random_text};
use crate::profile::Profile;
use crate::settings::{ResourceSetting, Settings};
use crate::text::shown;
use crate::url::{parameters, push_parameter};

/// The scope for which an authorization server gives a refresh token.
const OFFLINE: &str = "offline_access";

/// The parameter for the pages that the person sees.
const PROMPT: &str = "prompt";

/// The longest code that is accepted.
const MAX_CODE: usize = 4096;

/// One authorization request. State and verifier belong to it alone.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizationRequest {
    pub(crate) url: String,
    pub(crate) verifier: Verifier,
    state: Secret,
    issuer: String,
    names_issuer: bool,
}

/// The result of a response.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The code to exchange.
    Code(Secret),
    /// The authorization server refused, or the response is not to be trusted. The login ends.
    Failed(OAuthError),
    /// The response belongs to another login, or is none. The login goes on.
    Ignored(&'static str),
}

/// The parts of an authorization request that depend on the login.
pub(crate) struct RequestParts<'a> {
    pub(crate) provider: &'a Provider,
    pub(crate) client_id: &'a str,
    pub(crate) redirect: &'a str,
    pub(crate) scopes: &'a [String],
    pub(crate) resource: Option<&'a str>,
    pub(crate) parameters: &'a [(String, String)],
}

impl AuthorizationRequest {
    /// Makes a request with a new state and verifier.
    pub(crate) fn new(parts: &RequestParts<'_>) -> Result<AuthorizationRequest, OAuthError> {
        let provider = parts.provider;
        let Some(endpoint) = &provider.authorization_endpoint else {
            let why = "it names no authorization endpoint".to_owned();
            return Err(OAuthError::Metadata { url: provider.issuer.clone(), why });
        };
        let (state, verifier) = (random_text()?, Verifier::new()?);
        let mut url = endpoint.split('#').next().unwrap_or_default().to_owned();
        url.push(if url.contains('?') { '&' } else { '?' });
        push_parameter(&mut url, "response_type", "code");
        push_parameter(&mut url, "client_id", parts.client_id);
        push_parameter(&mut url, "redirect_uri", parts.redirect);
        push_parameter(&mut url, "state", state.expose());
        push_parameter(&mut url, "code_challenge", &verifier.challenge());
        push_parameter(&mut url, "code_challenge_method", "S256");
        if !parts.scopes.is_empty() {
            push_parameter(&mut url, "scope", &parts.scopes.join(" "));
        }
        if let Some(resource) = parts.resource {
            push_parameter(&mut url, "resource", resource);
        }
        let profile = Profile::of(provider).parameters.iter().copied();
        // OpenID Connect gives no refresh token without it, and a repeated consent does no harm elsewhere.
        let is_offline = parts.scopes.iter().any(|scope| scope == OFFLINE);
        let has_prompt = Profile::of(provider).parameters.iter().any(|(name, _)| *name == PROMPT);
        let profile = profile.chain((is_offline && !has_prompt).then_some((PROMPT, "consent")));
        let configured = parts.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let is_configured = |name: &str| parts.parameters.iter().any(|(it, _)| it == name);
        for (name, value) in profile.filter(|(name, _)| !is_configured(name)).chain(configured) {
            push_parameter(&mut url, name, value);
        }
        let (issuer, names_issuer) = (provider.issuer.clone(), provider.names_issuer);
        Ok(AuthorizationRequest { url, verifier, state, issuer, names_issuer })
    }

    /// Judges the query of a callback.
    pub(crate) fn judge(&self, query: &str) -> Verdict {
        let parameters = parameters(query);
        let one = |name: &str| {
            let mut values = parameters.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str());
            let value = values.next();
            if values.next().is_some() { None } else { value }
        };
        let Some(state) = one("state") else { return Verdict::Ignored("it has no state") };
        if !same(state, self.state.expose()) {
            return Verdict::Ignored("its state is that of another login");
        }
        if let Err(error) = self.check_issuer(one("iss")) {
            return Verdict::Failed(error);
        }
        if let Some(error) = one("error") {
            let description = one("error_description").map(shown);
            return Verdict::Failed(OAuthError::AuthorizationDenied { error: shown(error), description });
        }
        match one("code") {
            Some(code) if !code.is_empty() && code.len() <= MAX_CODE => Verdict::Code(Secret::new(code)),
            _ => Verdict::Ignored("it has no code"),
        }
    }

    /// Judges a pasted text: the whole address, its query, or the code alone.
    pub(crate) fn judge_pasted(&self, text: &str) -> Verdict {
        let text = text.trim().trim_matches(['"', '\'', '<', '>']);
        if let Some((_, query)) = text.split_once('?') {
            return self.judge(query.split('#').next().unwrap_or_default());
        }
        if text.contains("code=") || text.contains("error=") {
            return self.judge(text);
        }
        let is_code = !text.is_empty() && text.len() <= MAX_CODE && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_code || text.contains("://") {
            return Verdict::Ignored("it is neither an address with a code nor a code");
        }
        // PKCE binds a bare code to this login.
        if self.names_issuer {
            return Verdict::Ignored("this authorization server names itself in the address: paste the whole address");
        }
        Verdict::Code(Secret::new(text))
    }

    /// Checks `iss` (RFC 9207): required where announced, and compared as a text where present.
    fn check_issuer(&self, found: Option<&str>) -> Result<(), OAuthError> {
        match found {
            Some(found) if found == self.issuer => Ok(()),
            None if !self.names_issuer => Ok(()),
            found => Err(OAuthError::WrongIssuer { expected: self.issuer.clone(), found: found.map(shown) }),
        }
    }
}

/// The scopes for which an authorization server says who logged in.
const IDENTITY: [&str; 2] = ["openid", "email"];

/// Returns the scopes to request: those of the challenge, else those that the resource lists; then the configured ones
/// and those of the earlier login; `offline_access` only if the authorization server lists it, and so are `openid` and
/// `email`, for an account that is compared with the identity.
pub(crate) fn scopes(settings: &Settings, found: &Discovered, earlier: &[String]) -> Vec<String> {
    let of_server = if found.challenge_scopes.is_empty() { &found.resource_scopes } else { &found.challenge_scopes };
    let mut scopes: Vec<String> = Vec::new();
    let offline = OFFLINE.to_owned();
    let wants_offline = Profile::of(&found.provider).offline_access && found.provider.lists_scope(&offline);
    let has_identity = settings.account.as_ref().is_some_and(|account| account.contains('@'));
    let identity: Vec<String> = IDENTITY.map(str::to_owned).into();
    // `email` has this meaning only beside `openid`.
    let identity = identity.iter().filter(|it| has_identity && found.provider.lists_scope(it));
    let identity = identity.filter(|_| found.provider.lists_scope(IDENTITY[0]));
    let additional = identity.chain(wants_offline.then_some(&offline));
    for scope in of_server.iter().chain(&settings.scopes).chain(earlier).chain(additional) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    // The server may list it although the authorization server does not know it. A person who configures it knows more.
    if !wants_offline && !settings.scopes.contains(&offline) {
        scopes.retain(|scope| *scope != offline);
    }
    scopes
}

/// Returns the `resource` parameter.
pub(crate) fn resource(settings: &Settings, found: &Discovered, refused: bool) -> Option<String> {
    match &settings.resource {
        ResourceSetting::Off => None,
        ResourceSetting::Fixed(resource) => Some(resource.clone()),
        ResourceSetting::Discovered if refused || !Profile::of(&found.provider).resource => None,
        ResourceSetting::Discovered => found.resource.clone(),
    }
}

/// Compares two texts in a time that depends only on their lengths.
fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> Provider {
        Provider {
            issuer: "https://auth.example".to_owned(),
            authorization_endpoint: Some("https://auth.example/authorize?tenant=1".to_owned()),
            ..Provider::default()
        }
    }

    fn request(provider: &Provider, parameters: &[(String, String)]) -> AuthorizationRequest {
        AuthorizationRequest::new(&RequestParts {
            provider,
            client_id: "c d",
            redirect: "http://127.0.0.1:1/callback",
            scopes: &["a".to_owned(), "b".to_owned()],
            resource: Some("https://mcp.example/mcp"),
            parameters,
        })
        .unwrap()
    }

    fn state(request: &AuthorizationRequest) -> String {
        request.state.expose().to_owned()
    }

    #[test]
    fn identity_is_requested_for_an_account_where_listed() {
        let mut settings = Settings { account: Some("me@work".to_owned()), ..Settings::new("https://mcp.example") };
        let mut found = Discovered { provider: provider(), ..Discovered::default() };
        assert!(scopes(&settings, &found, &[]).is_empty());
        found.provider.scopes = Some(vec!["openid".to_owned(), "email".to_owned()]);
        assert_eq!(scopes(&settings, &found, &[]), ["openid", "email"]);
        settings.account = Some("work".to_owned());
        assert!(scopes(&settings, &found, &[]).is_empty());
    }

    #[test]
    fn offline_access_needs_consent_unless_configured() {
        let provider = provider();
        let url = |parameters: &[(String, String)]| {
            let scopes = [OFFLINE.to_owned()];
            let parts = RequestParts {
                provider: &provider,
                client_id: "c",
                redirect: "http://127.0.0.1/",
                scopes: &scopes,
                resource: None,
                parameters,
            };
            AuthorizationRequest::new(&parts).unwrap().url
        };
        assert!(url(&[]).contains("prompt=consent"));
        assert!(!url(&[("prompt".to_owned(), "login".to_owned())]).contains("prompt=consent"));
    }

    #[test]
    fn url_has_all_parameters() {
        let request = request(&provider(), &[("audience".to_owned(), "x".to_owned())]);
        let found = parameters(request.url.split_once('?').unwrap().1);
        let of = |name: &str| found.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
        assert_eq!((of("tenant"), of("response_type"), of("client_id")), (Some("1"), Some("code"), Some("c d")));
        assert_eq!((of("scope"), of("resource")), (Some("a b"), Some("https://mcp.example/mcp")));
        assert_eq!((of("code_challenge_method"), of("audience")), (Some("S256"), Some("x")));
        assert_eq!(of("code_challenge"), Some(request.verifier.challenge().as_str()));
        assert!(!request.url.contains(request.verifier.secret().expose()));
    }

    #[test]
    fn configured_parameter_replaces_that_of_the_profile() {
        let google = Provider {
            issuer: "https://accounts.google.com".to_owned(),
            authorization_endpoint: Some("https://accounts.google.com/o/oauth2/v2/auth".to_owned()),
            ..Provider::default()
        };
        let url = request(&google, &[("prompt".to_owned(), "select_account".to_owned())]).url;
        assert!(url.contains("access_type=offline") && url.contains("prompt=select_account"));
        assert!(!url.contains("prompt=consent"), "{url}");
    }

    #[test]
    fn callback_with_right_state_gives_the_code() {
        let request = request(&provider(), &[]);
        let query = format!("code=x%2By&state={}", state(&request));
        assert_eq!(request.judge(&query), Verdict::Code(Secret::new("x+y")));
        for text in [format!("http://127.0.0.1:1/callback?{query}#f"), query.clone(), format!("  '?{query}' ")] {
            assert_eq!(request.judge_pasted(&text), Verdict::Code(Secret::new("x+y")), "{text}");
        }
        assert_eq!(request.judge_pasted(" bare-code "), Verdict::Code(Secret::new("bare-code")));
    }

    #[test]
    fn callback_with_wrong_state_is_ignored() {
        let request = request(&provider(), &[]);
        let right = state(&request);
        let twice = format!("code=x&state={right}&state={right}");
        let cut = format!("code=x&state={}", &right[1..]);
        for query in ["code=x", "code=x&state=", "code=x&state=wrong", "", twice.as_str(), cut.as_str()] {
            assert!(matches!(request.judge(query), Verdict::Ignored(_)), "{query}");
        }
        for text in ["", "https://evil.example/", "two words", "http://127.0.0.1:1/callback?code=x&state=wrong"] {
            assert!(matches!(request.judge_pasted(text), Verdict::Ignored(_)), "{text}");
        }
        assert!(matches!(request.judge(&format!("state={right}")), Verdict::Ignored(_)));
    }

    #[test]
    fn error_of_the_authorization_server_ends_the_login() {
        let request = request(&provider(), &[]);
        let query = format!("error=access_denied&error_description=no%0Away&state={}", state(&request));
        let Verdict::Failed(error) = request.judge(&query) else { panic!() };
        assert_eq!(error.to_string(), "the authorization server answered access_denied: no way");
    }

    #[test]
    fn issuer_is_compared_as_a_text() {
        let mut with = provider();
        for (names_issuer, iss, accepted) in [
            (true, "&iss=https%3A%2F%2Fauth.example", true),
            (true, "", false),
            (false, "", true),
            (false, "&iss=https%3A%2F%2Fauth.example", true),
            (false, "&iss=https%3A%2F%2Fevil.example", false),
            (true, "&iss=https%3A%2F%2Fauth.example%2F", false),
            (true, "&iss=https%3A%2F%2FAUTH.example", false),
        ] {
            with.names_issuer = names_issuer;
            let request = request(&with, &[]);
            let verdict = request.judge(&format!("code=x&state={}{iss}", state(&request)));
            assert_eq!(matches!(verdict, Verdict::Code(_)), accepted, "{names_issuer} {iss}");
            assert_eq!(matches!(verdict, Verdict::Failed(OAuthError::WrongIssuer { .. })), !accepted);
        }
        with.names_issuer = true;
        assert!(matches!(request(&with, &[]).judge_pasted("bare"), Verdict::Ignored(_)));
    }

    #[test]
    fn scopes_of_the_challenge_come_before_those_of_the_metadata() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut found = Discovered { resource_scopes: list("r1 r2"), ..Discovered::default() };
        let mut settings = Settings::new("https://mcp.example");
        assert_eq!(scopes(&settings, &found, &[]), ["r1", "r2"]);
        found.challenge_scopes = list("c r1");
        settings.scopes = list("mine");
        assert_eq!(scopes(&settings, &found, &list("old c")), ["c", "r1", "mine", "old"]);
        found.provider.scopes = Some(list("openid offline_access"));
        assert_eq!(scopes(&settings, &found, &[]).last().unwrap(), "offline_access");
        assert!(scopes(&Settings::new("https://mcp.example"), &Discovered::default(), &[]).is_empty());
    }

    #[test]
    fn offline_access_is_not_requested_where_it_is_unknown() {
        let found =
            Discovered { resource_scopes: vec!["a".to_owned(), "offline_access".to_owned()], ..Discovered::default() };
        let mut settings = Settings::new("https://mcp.example");
        assert_eq!(scopes(&settings, &found, &[]), ["a"]);
        settings.scopes = vec!["offline_access".to_owned()];
        assert_eq!(scopes(&settings, &found, &[]), ["a", "offline_access"]);
    }

    #[test]
    fn resource_is_discovered_fixed_or_off() {
        let mut found = Discovered { resource: Some("https://mcp.example/".to_owned()), ..Discovered::default() };
        let mut settings = Settings::new("https://mcp.example");
        assert_eq!(
            resource(&settings, &found, false).as_deref(),
            Some("https://mcp.example/"),
            "as the server wrote it"
        );
        assert_eq!(resource(&settings, &found, true), None);
        settings.resource = ResourceSetting::Fixed("urn:x".to_owned());
        assert_eq!(resource(&settings, &found, true).as_deref(), Some("urn:x"));
        settings.resource = ResourceSetting::Off;
        assert_eq!(resource(&settings, &found, false), None);
        settings.resource = ResourceSetting::Discovered;
        found.provider.issuer = "https://login.microsoftonline.com/t".to_owned();
        assert_eq!(resource(&settings, &found, false), None, "the profile says that it is refused");
    }
}
