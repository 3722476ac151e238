//! The access rules of `mendline serve`: from flags, the configuration file and the tokens that Mendline has made.
//!
//! Off loopback there is no gateway without a token. If none is configured, one is made at the first start and shown
//! once; its hash is stored, so that the next start needs nothing.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mendline::frontend::http::token_file::TokenRights;
use mendline::frontend::http::{
    Access, AccessToken, JwtIssuer, JwtSettings, ServerTls, TokenHash, WithoutToken, token_file,
};
use mendline_config::{AccessSettings, CertificatePaths};

use crate::access_flags::AccessOptions;
use crate::plan::credential::issuer_client;
use crate::stored_tokens;

/// The name of the token that the first start makes.
const FIRST: &str = "first";

/// The shortest token of a variable.
const SHORTEST: usize = 16;

/// The rules, and a new token that the user must see.
pub(crate) struct GatewayAccess {
    pub(crate) access: Access,
    pub(crate) made: Option<MadeToken>,
    pub(crate) tls: Option<ServerTls>,
    /// Whether tool calls are written to the audit log.
    pub(crate) audit: bool,
    /// Whether requests are written to the access log.
    pub(crate) log: bool,
}

/// A token that was just made.
pub(crate) struct MadeToken {
    name: String,
    token: String,
    /// The file with its hash; none if there is no state directory.
    stored: Option<String>,
}

impl MadeToken {
    fn new(name: &str, made: &token_file::NewToken, state: Option<&Path>) -> MadeToken {
        let stored = state.map(|state| token_file::path(state).display().to_string());
        MadeToken { name: name.to_owned(), token: made.token.clone(), stored }
    }

    /// The text for the user, with the token.
    pub(crate) fn words(&self) -> String {
        let kept = match &self.stored {
            Some(file) => format!("It is shown only now; its hash is stored in {file}."),
            None => "There is no state directory to store it in, so the next start makes another one.".to_owned(),
        };
        format!(
            "made the access token {:?}:\n\n    {}\n\n{kept}\nClients send it as 'Authorization: Bearer TOKEN'.",
            self.name, self.token
        )
    }
}

/// Returns the rules of access at this address, and makes the tokens that are asked for.
pub(crate) fn prepare(
    options: &AccessOptions,
    settings: &AccessSettings,
    listen: SocketAddr,
    state: Option<&Path>,
) -> io::Result<GatewayAccess> {
    let mut made = None;
    if let Some(name) = &options.stored.new_token {
        let state = state.ok_or_else(|| io::Error::other("there is no state directory for the token; set HOME"))?;
        let rights = stored_tokens::rights(&options.stored)?;
        made = Some(MadeToken::new(name, &token_file::add(state, name, rights)?, Some(state)));
    }
    let mut access = rules(options, settings, None, listen, state)?;
    if access.without_token == WithoutToken::Refused && access.tokens.is_empty() && access.jwt.is_none() {
        let new = match state {
            Some(state) => token_file::add(state, FIRST, TokenRights::default())?,
            None => token_file::make(FIRST)?,
        };
        made = Some(MadeToken::new(FIRST, &new, state));
        access.tokens.push(new.stored);
    }
    let tls = match certificate(options, settings) {
        Some(files) => Some(read_certificate(&files)?),
        None => None,
    };
    Ok(GatewayAccess { access, made, tls, audit: settings.audit, log: settings.log || options.access_log })
}

/// Returns the rules of access at this address. The keys of an issuer that the last rules have are used again.
pub(crate) fn rules(
    options: &AccessOptions,
    settings: &AccessSettings,
    last: Option<&Access>,
    listen: SocketAddr,
    state: Option<&Path>,
) -> io::Result<Access> {
    let with = |own: &[String], flags: &[String]| own.iter().chain(flags).cloned().collect();
    let mut tokens = settings.tokens.clone();
    if let Some(variable) = &options.token_env {
        tokens.push(of_variable(variable)?);
    }
    let is_configured = !tokens.is_empty() || settings.jwt.is_some();
    add_stored(&mut tokens, state)?;
    let is_open = settings.danger_allow_anyone || options.danger_allow_anyone;
    let without_token = match (is_open, listen.ip().to_canonical().is_loopback()) {
        (true, _) => WithoutToken::Anyone,
        (false, true) if !is_configured => WithoutToken::OwnUser,
        (false, _) => WithoutToken::Refused,
    };
    let default = Access::default();
    Ok(Access {
        hosts: with(&settings.hosts, &options.hosts),
        origins: with(&settings.origins, &options.origins),
        proxies: settings.proxies.iter().chain(&options.proxies).copied().collect(),
        tokens,
        jwt: settings.jwt.as_ref().map(|jwt| issuer(jwt, last)).transpose()?,
        without_token,
        connections: settings.connections.unwrap_or(default.connections),
        sessions: settings.sessions.unwrap_or(default.sessions),
    })
}

fn issuer(settings: &JwtSettings, last: Option<&Access>) -> io::Result<Arc<JwtIssuer>> {
    let known = last.and_then(|last| last.jwt.as_ref()).filter(|last| last.settings() == settings);
    match known {
        Some(known) => Ok(Arc::clone(known)),
        None => Ok(Arc::new(JwtIssuer::new(settings.clone(), issuer_client().map_err(io::Error::other)?))),
    }
}

/// Returns the files of the certificate. Those of the flags take precedence.
pub(crate) fn certificate(options: &AccessOptions, settings: &AccessSettings) -> Option<CertificatePaths> {
    let of_flags = options.tls_certificate.as_ref().map(|certificate| CertificatePaths {
        certificate: certificate.clone(),
        key: options.tls_key.as_ref().unwrap_or(certificate).clone(),
    });
    of_flags.or_else(|| settings.tls.clone())
}

fn read_certificate(files: &CertificatePaths) -> io::Result<ServerTls> {
    ServerTls::read(&files.certificate, &files.key)
        .map_err(|fault| io::Error::other(format!("the certificate of the gateway cannot be used: {fault}")))
}

/// Adds the stored tokens. A configured token of the same name stays the only one.
fn add_stored(tokens: &mut Vec<AccessToken>, state: Option<&Path>) -> io::Result<()> {
    let Some(state) = state else { return Ok(()) };
    for stored in token_file::read(state)? {
        if !tokens.iter().any(|token| token.name == stored.name) {
            tokens.push(stored);
        }
    }
    Ok(())
}

fn of_variable(variable: &str) -> io::Result<AccessToken> {
    let problem = |what: &str| io::Error::other(format!("--token-env {variable}: {what}"));
    let token = std::env::var(variable).map_err(|_| problem("the variable is not set, or not text"))?;
    if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(problem("a token has at least 16 visible ASCII characters; `openssl rand -hex 24` prints one"));
    }
    Ok(AccessToken::new(variable, TokenHash::of(&token)))
}
