//! The reasons why a request is refused, with the status and the words for the client and its operator.

use std::fmt;

use super::jwt::JwtFault;

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The `Host` is missing or not known.
    Host(String),
    /// The `Origin` is not known.
    Origin(String),
    /// There is no token, or a wrong one.
    Token,
    /// The token with this name has expired.
    Expired(String),
    /// The access token of the authorization server is refused.
    Jwt(JwtFault),
    /// The connection is from another user of this machine.
    User(u32),
    /// The user at the other end of the connection is not known.
    UnknownUser,
    /// The request came through a proxy, by this header, and has no token.
    Forwarded(String),
    /// The request came through a proxy that the configuration names, and has no token.
    Proxied,
    /// The token does not open this server.
    Server,
}

impl Denied {
    /// The HTTP status.
    pub fn status(&self) -> http::StatusCode {
        match self {
            Denied::Host(_) => http::StatusCode::MISDIRECTED_REQUEST,
            Denied::Origin(_) | Denied::Server | Denied::User(_) | Denied::UnknownUser => http::StatusCode::FORBIDDEN,
            Denied::Jwt(JwtFault::NoKeys) => http::StatusCode::SERVICE_UNAVAILABLE,
            Denied::Token | Denied::Expired(_) | Denied::Jwt(_) | Denied::Forwarded(_) | Denied::Proxied => {
                http::StatusCode::UNAUTHORIZED
            }
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ADD_TOKEN: &str = "add a token to the configuration: \"mendline\": { \"access\": { \"tokens\": \
                                 [\"${GATEWAY_TOKEN}\"] } }";
        match self {
            Denied::Host(host) => write!(
                f,
                "the host {host:?} is not allowed; add it to the configuration: \"mendline\": {{ \"access\": {{ \"hosts\": \
                 [{host:?}] }} }}"
            ),
            Denied::Origin(origin) => write!(
                f,
                "the origin {origin:?} is not allowed; add it to the configuration: \"mendline\": {{ \"access\": {{ \
                 \"origins\": [{origin:?}] }} }}"
            ),
            Denied::Token => f.write_str("a token is required: send it as 'Authorization: Bearer TOKEN'"),
            Denied::Jwt(fault) => fault.fmt(f),
            Denied::Expired(name) => write!(f, "the token {name:?} has expired; ask its owner for a new one"),
            Denied::User(uid) => write!(
                f,
                "the request comes from another user of this machine (uid {uid}), who needs a token; {ADD_TOKEN}"
            ),
            Denied::UnknownUser => {
                write!(f, "the system does not say which user sent the request, so it needs a token; {ADD_TOKEN}")
            }
            Denied::Forwarded(header) => write!(
                f,
                "the request came through a proxy (it has the header {header}), so it is not one of the local user and \
                 needs a token; {ADD_TOKEN}"
            ),
            Denied::Proxied => write!(
                f,
                "the request came from an address of `access.proxies`, so it is not one of the local user and needs a \
                 token; {ADD_TOKEN}"
            ),
            Denied::Server => f.write_str("this token does not open this server"),
        }
    }
}
