//! The access rules of `mendline serve`: from flags, the configuration file and the tokens that Mendline has made.
//!
//! Off loopback there is no gateway without a token. If none is configured, one is made at the first start and shown
//! once; its hash is stored, so that the next start needs nothing.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use mendline::frontend::http::{Access, AccessToken, ConnectionLimits, TokenHash, WithoutToken, token_file};
use mendline_config::AccessSettings;

use crate::cli::AccessOptions;

/// The name of the token that the first start makes.
const FIRST: &str = "first";

/// The shortest token of a variable.
const SHORTEST: usize = 16;

/// The rules, and a new token that the user must see.
pub(crate) struct GatewayAccess {
    pub(crate) access: Access,
    pub(crate) made: Option<MadeToken>,
    pub(crate) limits: ConnectionLimits,
    /// Whether tool calls are written to the audit log.
    pub(crate) audit: bool,
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

/// Returns the rules of access at this address.
pub(crate) fn prepare(
    options: &AccessOptions,
    settings: AccessSettings,
    listen: SocketAddr,
    state: Option<&Path>,
) -> io::Result<GatewayAccess> {
    let AccessSettings { mut hosts, mut origins, mut tokens, danger_allow_anyone, audit, connections, sessions } =
        settings;
    hosts.extend(options.hosts.iter().cloned());
    origins.extend(options.origins.iter().cloned());
    if let Some(variable) = &options.token_env {
        tokens.push(of_variable(variable)?);
    }
    let is_configured = !tokens.is_empty();
    let mut made = None;
    if let Some(name) = &options.new_token {
        let state = state.ok_or_else(|| io::Error::other("there is no state directory for the token; set HOME"))?;
        made = Some(MadeToken::new(name, &token_file::add(state, name)?, Some(state)));
    }
    add_stored(&mut tokens, state)?;
    let is_open = danger_allow_anyone || options.danger_allow_anyone;
    let without_token = match (is_open, listen.ip().is_loopback()) {
        (true, _) => WithoutToken::Anyone,
        (false, true) if !is_configured => WithoutToken::OwnUser,
        (false, _) => WithoutToken::Refused,
    };
    if without_token == WithoutToken::Refused && tokens.is_empty() {
        let new = match state {
            Some(state) => token_file::add(state, FIRST)?,
            None => token_file::make(FIRST)?,
        };
        made = Some(MadeToken::new(FIRST, &new, state));
        tokens.push(new.stored);
    }
    let mut limits = ConnectionLimits::default();
    limits.connections = connections.unwrap_or(limits.connections);
    let mut access = Access { hosts, origins, tokens, without_token, ..Access::default() };
    access.sessions = sessions.unwrap_or(access.sessions);
    Ok(GatewayAccess { access, made, limits, audit })
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
