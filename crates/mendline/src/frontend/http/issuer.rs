//! The authorization server whose access tokens open the gateway.
//!
//! Its public keys are read when the first token comes, from the address in its metadata (RFC 8414, OpenID) or from a
//! configured one. They are kept, and read again in the background when they are old, and at once for a token with an
//! unknown key, at most once a minute. Keys that cannot be read again stay in use: an issuer that is down ends no access.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mendline_core::policy::tool_filter::ToolFilter;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::jwt::{Expected, Jwt, JwtFault, Keys};
use super::token::PrincipalLimits;
use crate::transport::http::fetch::{FetchRequest, Fetcher};

/// The shortest time between two requests for the keys.
const INTERVAL: Duration = Duration::from_secs(60);

/// The age from which the keys are read again, so that a key that the issuer has withdrawn ends.
const OLD: Duration = Duration::from_secs(15 * 60);

/// The longest name in a token that is shown as it is. A session id has room for 255 bytes.
const LONGEST_NAME: usize = 120;

/// The beginning of the names of principals that an issuer vouches for. No configured token has such a name.
pub const JWT_PREFIX: &str = "jwt:";

/// The settings of access tokens of an authorization server.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtSettings {
    /// The issuer, as its tokens and its metadata name it.
    pub issuer: String,
    /// The audiences for which a token must be.
    pub audiences: Vec<String>,
    /// The address of the keys; by default the metadata names it.
    pub jwks_url: Option<String>,
    /// The claim that names the principal.
    pub principal_claim: String,
    /// The servers that the tokens open; all if there is no list.
    pub servers: Option<Vec<String>>,
    /// The tools that they may use.
    pub tools: ToolFilter,
    /// The limits of each principal.
    pub limits: PrincipalLimits,
}

/// An authorization server and its keys.
pub struct JwtIssuer {
    settings: JwtSettings,
    fetcher: Fetcher,
    cache: Mutex<Cache>,
    /// Held while the keys are read, so that they are read once for all waiting requests.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Cache {
    keys: Option<Arc<Keys>>,
    read: Option<Instant>,
    tried: Option<Instant>,
}

impl fmt::Debug for JwtIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl JwtIssuer {
    /// Creates an issuer. Nothing is read yet.
    pub fn new(settings: JwtSettings, fetcher: Fetcher) -> JwtIssuer {
        JwtIssuer { settings, fetcher, cache: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &JwtSettings {
        &self.settings
    }

    /// Checks a token. Returns its principal.
    pub(super) async fn principal(self: &Arc<Self>, token: &str, now: SystemTime) -> Result<Arc<str>, JwtFault> {
        let jwt = Jwt::parse(token)?;
        let mut keys = self.lock().keys.clone();
        if keys.as_ref().is_none_or(|keys| !keys.has(&jwt.head)) {
            keys = self.read_once().await;
        } else if self.are_old() {
            let issuer = Arc::clone(self);
            tokio::spawn(async move { issuer.read_once().await });
        }
        let keys = keys.ok_or(JwtFault::NoKeys)?;
        let JwtSettings { issuer, audiences, principal_claim, .. } = &self.settings;
        let name = jwt.verify(&keys, Expected { issuer, audiences, principal_claim }, now)?;
        Ok(principal_of(&name))
    }

    fn are_old(&self) -> bool {
        let cache = self.lock();
        let is_past = |at: Option<Instant>, age: Duration| at.is_none_or(|at| at.elapsed() >= age);
        is_past(cache.read, OLD) && is_past(cache.tried, INTERVAL)
    }

    /// Reads the keys, unless this was tried within the last minute. Returns the last ones.
    async fn read_once(&self) -> Option<Arc<Keys>> {
        let _reading = self.reading.lock().await;
        let is_due = self.lock().tried.is_none_or(|tried| tried.elapsed() >= INTERVAL);
        if is_due {
            self.lock().tried = Some(Instant::now());
            if let Some(keys) = self.fetch_keys().await {
                let mut cache = self.lock();
                (cache.keys, cache.read) = (Some(Arc::new(keys)), Some(Instant::now()));
            }
        }
        self.lock().keys.clone()
    }

    async fn fetch_keys(&self) -> Option<Keys> {
        let url = match &self.settings.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        Keys::parse(&self.fetch(&url).await?)
    }

    /// Returns the address of the keys from the metadata, which must be that of the issuer.
    async fn discover(&self) -> Option<String> {
        for url in metadata_urls(&self.settings.issuer) {
            let Some(text) = self.fetch(&url).await else { continue };
            let Ok(metadata) = serde_json::from_slice::<Value>(&text) else { continue };
            let is_its = metadata["issuer"].as_str() == Some(&self.settings.issuer);
            if let (true, Some(url)) = (is_its, metadata["jwks_uri"].as_str()) {
                return Some(url.to_owned());
            }
        }
        None
    }

    async fn fetch(&self, url: &str) -> Option<Vec<u8>> {
        let response = self.fetcher.fetch(&FetchRequest::get(url)).await.ok()?;
        (response.status == 200).then(|| response.body().to_vec())
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the addresses at which an issuer may have its metadata, in the order in which MCP clients try them.
fn metadata_urls(issuer: &str) -> Vec<String> {
    let issuer = issuer.trim_end_matches('/');
    let path_at = issuer.find("://").and_then(|at| issuer[at + 3..].find('/').map(|path| at + 3 + path));
    let (origin, path) = path_at.map_or((issuer, ""), |at| issuer.split_at(at));
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{issuer}/.well-known/openid-configuration"));
    }
    urls
}

/// Returns the principal of this name. A name that is long, or has characters that are not for logs, is hashed.
fn principal_of(name: &str) -> Arc<str> {
    if name.len() <= LONGEST_NAME && name.chars().all(|c| c.is_ascii_graphic()) {
        return Arc::from(format!("{JWT_PREFIX}{name}"));
    }
    let hash = digest(&SHA256, name.as_bytes());
    let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Arc::from(format!("{JWT_PREFIX}sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_below_the_well_known_paths() {
        assert_eq!(
            metadata_urls("https://issuer.test/"),
            [
                "https://issuer.test/.well-known/oauth-authorization-server",
                "https://issuer.test/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            metadata_urls("https://issuer.test/realms/a"),
            [
                "https://issuer.test/.well-known/oauth-authorization-server/realms/a",
                "https://issuer.test/.well-known/openid-configuration/realms/a",
                "https://issuer.test/realms/a/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn long_or_unprintable_name_is_hashed() {
        assert_eq!(&*principal_of("ann@example.com"), "jwt:ann@example.com");
        for name in ["a b", "a\nb", "ä", &"a".repeat(121)] {
            let principal = principal_of(name);
            assert!(principal.starts_with("jwt:sha256:") && principal.len() == 75, "{principal}");
        }
        assert_ne!(principal_of("a b"), principal_of("a  b"));
    }
}
