//! The keys of the gateway's access, below `mendline.access`.

use super::{Key, Kind, RATE_LIMIT_KEYS, key};

/// Access to the gateway.
pub(crate) const ACCESS: Key = key(NAME, Kind::Block(ACCESS_KEYS), "", "Access to the gateway, `mendline serve`.");

/// The name of the block. Its mistakes concern the gateway only.
pub(crate) const NAME: &str = "access";

const ACCESS_KEYS: &[Key] = &[
    key(
        "hosts",
        Kind::Words,
        "loopback names",
        "Host names under which clients address the gateway, such as `mcp.example.com`; with a port, at that port only.",
    ),
    key(
        "origins",
        Kind::Words,
        "none",
        "Origins of web pages that may use the gateway, such as `http://localhost:6274`.",
    ),
    key(
        "proxies",
        Kind::Words,
        "none",
        "Addresses of proxies in front of the gateway, such as `127.0.0.1` or `10.0.0.0/8`. Their headers `Forwarded` and \
         `X-Forwarded-*` count; requests from there always need a token.",
    ),
    key("tls", Kind::Block(TLS_KEYS), "", "TLS of the gateway; applies from the next start."),
    key(
        "tokens",
        Kind::TextsOrBlocks(TOKEN),
        "none",
        "Tokens that open the gateway: strings such as `\"${GATEWAY_TOKEN}\"`, or objects. If there are any, every \
         request needs one.",
    ),
    key(
        "jwt",
        Kind::Block(JWT_KEYS),
        "",
        "Access tokens of an authorization server (JSON Web Tokens) that open the gateway, too. With it, every request \
         needs a token.",
    ),
    key(
        "dangerAllowAnyone",
        Kind::Flag,
        "false",
        "true: every client that reaches the address may use every server, without a token and as any user of this machine.",
    ),
    key(
        "audit",
        Kind::Choice(&["off", "calls"]),
        "off",
        "calls: write a line for each tool call to `audit.log` in the state directory: who, what, outcome, duration.",
    ),
    key(
        "log",
        Kind::Choice(&["off", "requests"]),
        "off",
        "requests: write a line for each request to `access.log` in the state directory: who, from where, what, status, \
         duration, bytes.",
    ),
    key("limits", Kind::Block(LIMITS_KEYS), "", "Limits of the gateway."),
];

const TLS_KEYS: &[Key] = &[
    key(
        "certificate",
        Kind::Text,
        "",
        "A PEM file with the certificate of the gateway and its chain, relative to this file; read again when it changes.",
    ),
    key("key", Kind::Text, "`certificate`", "The PEM file with its key, which only its owner may read."),
];

const JWT_KEYS: &[Key] = &[
    key("issuer", Kind::Url, "", "The authorization server, as its tokens name it (`iss`)."),
    key(
        "audience",
        Kind::Words,
        "",
        "The audiences for which a token must be (`aud`), such as the URL of the gateway.",
    ),
    key("jwksUrl", Kind::Url, "named by its metadata", "The URL of its public keys."),
    key("principalClaim", Kind::Text, "sub", "The claim that names the principal, for logs, sessions and limits."),
    key("servers", Kind::Words, "all", "The servers that the tokens open."),
    key("tools", Kind::Block(TOOLS), "all", "The tools that the tokens may list and call."),
];

const LIMITS_KEYS: &[Key] = &[
    key(
        "connections",
        Kind::Integer(1, 1_000_000),
        "8192",
        "Maximum number of open connections; further ones are answered with 503.",
    ),
    key(
        "sessions",
        Kind::Integer(1, 1_000_000),
        "16384",
        "Maximum number of sessions of one token; the one that was idle for the longest time goes.",
    ),
];

/// The keys of one token.
pub(crate) const TOKEN: &[Key] = &[
    key("name", Kind::Text, "derived from the hash", "The name of its owner, for logs and limits."),
    key("token", Kind::Secret, "", "The token itself; at least 16 characters."),
    key("hash", Kind::Text, "", "In place of `token`: its SHA-256 as `sha256:` and 64 hexadecimal digits."),
    key("servers", Kind::Words, "all", "The servers that it opens."),
    key("tools", Kind::Block(TOOLS), "all", "The tools that it may list and call."),
    key("expires", Kind::Text, "never", "The time at which it ends, such as `2027-01-31` or `2027-01-31T12:00:00Z`."),
    key("rateLimit", Kind::Block(RATE_LIMIT_KEYS), "none", "Limits the rate of its requests."),
    key(
        "inFlight",
        Kind::Integer(1, 32_767),
        "2048",
        "Maximum number of its requests in flight; further ones are rejected.",
    ),
];

const TOOLS: &[Key] = &[
    key("allow", Kind::Words, "all", "Patterns of allowed names; `*` stands for any characters, `?` for one."),
    key("deny", Kind::Words, "none", "Patterns of denied names; they take precedence."),
];
