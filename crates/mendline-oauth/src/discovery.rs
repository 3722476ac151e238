//! Discovery: from a server's refusal to its authorization server.
//!
//! The order is that of MCP: the metadata that the challenge names, then the well-known paths of the server; then the
//! metadata of the authorization server, with the path of the issuer inserted or appended. A server of the revision
//! 2025-03-26 has no metadata of the resource; its own origin is the authorization server, or names another one, whose
//! own metadata is then used.
//!
//! A document that is missing or no metadata is skipped. One that is about another server ends the discovery: a token
//! for it could be used elsewhere. The documents of a chain are limited to three kinds, so there are no loops.

use mendline::decisions::Secret;
use mendline::transport::http::Challenge;

use crate::OAuth;
use crate::error::OAuthError;
use crate::http::{Fate, Request};
use crate::metadata::{Provider, ResourceMetadata};
use crate::settings::Settings;
use crate::text::{quoted, shown};
use crate::url::{AddressRule, Parts, covers};

/// The most authorization servers of one resource that are tried.
const MAX_SERVERS: usize = 5;

/// The revision without a handshake.
const MODERN: &str = "2026-07-28";

/// The result of a discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The authorization server.
    pub provider: Provider,
    /// The resource that the metadata of the server names, as it writes it.
    pub resource: Option<String>,
    /// The scopes that the challenge of the server asks for.
    pub challenge_scopes: Vec<String>,
    /// The scopes that the metadata of the server lists.
    pub resource_scopes: Vec<String>,
}

/// Finds the authorization server of an MCP server. Without challenges the server is asked for them first.
///
/// # Errors
///
/// When the server asks for no login, metadata contradicts it, or a server cannot be reached.
pub async fn discover(oauth: &OAuth, settings: &Settings, challenges: &[Challenge]) -> Result<Discovered, OAuthError> {
    let rule = AddressRule::of(settings);
    let search = Search { oauth, server: &settings.server, rule };
    let asked;
    let was_asked = challenges.is_empty() && !has_endpoints(settings);
    let (challenges, refused) = if was_asked {
        asked = search.ask_server().await?;
        (asked.0.as_slice(), asked.1)
    } else {
        (challenges, true)
    };
    let challenge = challenges.iter().find(|it| it.scheme.eq_ignore_ascii_case("bearer")).or(challenges.first());
    let scopes = challenge.and_then(|it| it.scope.as_deref()).unwrap_or_default();
    let mut found = if has_endpoints(settings) {
        Discovered { provider: configured(settings), ..Discovered::default() }
    } else {
        let mut metadata = search.resource(challenge.and_then(|it| it.resource_metadata.as_deref())).await?;
        if metadata.is_none() && !was_asked {
            // A refusal for another reason, such as a missing scope, may lack what the first one has.
            let first = search.ask_server().await?.0;
            let named = first.iter().find_map(|it| it.resource_metadata.as_deref());
            if named.is_some() {
                metadata = search.resource(named).await?;
            }
        }
        search.run(metadata, refused).await?
    };
    found.challenge_scopes = scopes.split_whitespace().map(str::to_owned).collect();
    if let Some(endpoint) = &settings.authorization_endpoint {
        found.provider.authorization_endpoint = Some(endpoint.clone());
    }
    if let Some(endpoint) = &settings.token_endpoint {
        found.provider.token_endpoint.clone_from(endpoint);
    }
    Ok(found)
}

/// Returns the issuers that the metadata of a server names now; `None` if there is none.
pub(crate) async fn current_issuers(
    oauth: &OAuth,
    settings: &Settings,
    challenges: &[Challenge],
) -> Option<Vec<String>> {
    let rule = AddressRule::of(settings);
    let search = Search { oauth, server: &settings.server, rule };
    let named = challenges.iter().find_map(|it| it.resource_metadata.as_deref())?;
    let metadata = search.resource(Some(named)).await.ok()??;
    (!metadata.authorization_servers.is_empty()).then_some(metadata.authorization_servers)
}

/// Returns whether the endpoints are configured, so that nothing is discovered.
pub(crate) fn has_endpoints(settings: &Settings) -> bool {
    settings.authorization_endpoint.is_some() && settings.token_endpoint.is_some()
}

/// The authorization server whose endpoints are configured.
fn configured(settings: &Settings) -> Provider {
    let token_endpoint = settings.token_endpoint.clone().unwrap_or_default();
    let issuer = Parts::of(&token_endpoint).map_or_else(|| token_endpoint.clone(), |parts| parts.origin.to_owned());
    let authorization_endpoint = settings.authorization_endpoint.clone();
    Provider { issuer, token_endpoint, authorization_endpoint, pkce: true, ..Provider::default() }
}

/// One discovery.
struct Search<'a> {
    oauth: &'a OAuth,
    server: &'a str,
    rule: AddressRule<'a>,
}

impl Search<'_> {
    /// Finds the authorization server of the resource with this metadata.
    async fn run(&self, metadata: Option<ResourceMetadata>, refused: bool) -> Result<Discovered, OAuthError> {
        let Some(metadata) = metadata else { return self.origin_as_issuer(refused).await };
        let resource = metadata.resource.clone().or_else(|| Some(self.server.to_owned()));
        let scopes = metadata.scopes.clone();
        if metadata.authorization_servers.is_empty() {
            let found = self.origin_as_issuer(refused).await?;
            return Ok(Discovered { resource, resource_scopes: scopes, ..found });
        }
        let mut first_error = None;
        for issuer in metadata.authorization_servers.iter().take(MAX_SERVERS) {
            match self.provider(issuer).await {
                Ok(Some(provider)) => {
                    return Ok(Discovered { provider, resource, resource_scopes: scopes, ..Discovered::default() });
                }
                Ok(None) => {
                    let why = "it has no metadata of an authorization server".to_owned();
                    first_error.get_or_insert(OAuthError::Metadata { url: shown(issuer), why });
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or(OAuthError::NoLoginOffered { server: self.server.to_owned() }))
    }

    /// Asks the server for its challenge. Returns it, and whether the server refused the request. A server with an
    /// anonymous handshake gives it for another request.
    async fn ask_server(&self) -> Result<(Vec<Challenge>, bool), OAuthError> {
        let client = serde_json::json!({"name": "mendline", "version": env!("CARGO_PKG_VERSION")});
        let handshake = serde_json::json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client},
        });
        let asked = self.ask_with(&handshake, &[]).await?;
        if asked.1 {
            return Ok(asked);
        }
        let list = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": {"_meta": {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": client,
                "io.modelcontextprotocol/clientCapabilities": {},
            }},
        });
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")];
        // Only its refusal counts: a server of an earlier revision has no answer without a session.
        Ok(self.ask_with(&list, &headers).await.ok().filter(|asked| asked.1).unwrap_or(asked))
    }

    async fn ask_with(
        &self,
        body: &serde_json::Value,
        headers: &[(&str, &str)],
    ) -> Result<(Vec<Challenge>, bool), OAuthError> {
        let mut request = Request::json(self.server, Secret::new(body.to_string()));
        let accept = ("Accept", "application/json, text/event-stream");
        let named = std::iter::once(&accept).chain(headers);
        request.headers = named.map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        match self.oauth.http.send(request).await {
            Ok(response) => {
                let headers = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
                let challenges = headers.flat_map(|(_, value)| Challenge::parse(value)).collect();
                Ok((challenges, matches!(response.status, 401 | 403)))
            }
            // A server with an anonymous handshake may keep the response open; its metadata decides.
            Err(error) if error.fate == Fate::MayBeReceived => Ok((Vec::new(), false)),
            Err(error) => Err(OAuthError::Unavailable { url: self.server.to_owned(), why: error.why }),
        }
    }

    /// Finds the metadata of the resource.
    async fn resource(&self, named: Option<&str>) -> Result<Option<ResourceMetadata>, OAuthError> {
        if let Some(url) = named {
            self.rule.check("resource metadata", url)?;
        }
        let mut candidates: Vec<String> = named.map(str::to_owned).into_iter().collect();
        if let Some(parts) = Parts::of(self.server) {
            let path = parts.path.trim_end_matches('/');
            let well_known = format!("{}/.well-known/oauth-protected-resource", parts.origin);
            if !path.is_empty() {
                candidates.push(format!("{well_known}{path}"));
            }
            candidates.push(well_known);
        }
        candidates.dedup();
        let parse = |body: &str| Ok(ResourceMetadata::parse(body));
        let Some(found) = self.first(&candidates, parse).await? else { return Ok(None) };
        match &found.resource {
            Some(resource) if !covers(resource, self.server) => {
                Err(OAuthError::ResourceMismatch { server: self.server.to_owned(), resource: shown(resource) })
            }
            _ => Ok(Some(found)),
        }
    }

    /// Finds the metadata of an authorization server.
    async fn provider(&self, issuer: &str) -> Result<Option<Provider>, OAuthError> {
        self.rule.check("issuer", issuer)?;
        let rule = self.rule;
        let found = self.first(&candidates_of(issuer), |body| Provider::parse(body, rule)).await?;
        if let Some(provider) = &found {
            provider.check_issuer(issuer)?;
        }
        Ok(found)
    }

    /// The origin of the server as its authorization server (2025-03-26). If its metadata names another issuer, only
    /// the metadata of that issuer counts: endpoints of the server's copy could lead the code, and the secret of a
    /// client that is registered at the issuer, to another place (mix-up).
    async fn origin_as_issuer(&self, refused: bool) -> Result<Discovered, OAuthError> {
        let Some(parts) = Parts::of(self.server) else {
            return Err(OAuthError::NoLoginOffered { server: self.server.to_owned() });
        };
        let rule = self.rule;
        let found = self.first(&candidates_of(parts.origin), |body| Provider::parse(body, rule)).await?;
        let provider = match found {
            Some(copy) if copy.check_issuer(parts.origin).is_err() => match self.provider(&copy.issuer).await? {
                Some(provider) => provider,
                None => return Err(mismatch(parts.origin, &copy.issuer)),
            },
            Some(provider) => provider,
            None if refused => Provider::with_default_endpoints(parts.origin),
            None => return Err(OAuthError::NoLoginOffered { server: self.server.to_owned() }),
        };
        Ok(Discovered { provider, ..Discovered::default() })
    }

    /// Returns the first document that can be parsed. A server that cannot be reached is an error only if no other
    /// document was found.
    async fn first<T>(
        &self,
        candidates: &[String],
        parse: impl Fn(&str) -> Result<Option<T>, OAuthError>,
    ) -> Result<Option<T>, OAuthError> {
        let mut unavailable = None;
        for url in candidates {
            match self.oauth.http.send(Request::get(url.as_str())).await {
                Ok(response) if response.is_success() => {
                    if let Some(found) = parse(response.body.expose())? {
                        return Ok(Some(found));
                    }
                }
                Ok(response) if response.status >= 500 || response.status == 429 => {
                    let why = format!("HTTP {}", response.status);
                    unavailable.get_or_insert(OAuthError::Unavailable { url: shown(url), why });
                }
                Ok(_) => {}
                Err(error) if error.fate == Fate::NotAllowed => {
                    return Err(OAuthError::Metadata {
                        url: shown(url),
                        why: quoted(&self.oauth.redactor, &error.why),
                    });
                }
                Err(error) => {
                    let why = quoted(&self.oauth.redactor, &error.why);
                    unavailable.get_or_insert(OAuthError::Unavailable { url: shown(url), why });
                }
            }
        }
        unavailable.map_or(Ok(None), Err)
    }
}

fn mismatch(expected: &str, found: &str) -> OAuthError {
    OAuthError::IssuerMismatch { expected: shown(expected), found: shown(found) }
}

/// The addresses of an issuer's metadata in the order of MCP.
fn candidates_of(issuer: &str) -> Vec<String> {
    let Some(parts) = Parts::of(issuer) else { return Vec::new() };
    let (origin, path) = (parts.origin, parts.path.trim_end_matches('/'));
    let mut candidates = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        candidates.push(format!("{origin}{path}/.well-known/openid-configuration"));
        candidates.push(format!("{origin}{path}/.well-known/oauth-authorization-server"));
    }
    candidates
}

#[cfg(test)]
mod tests;
