//! The table of all configuration keys, for the parser, the schema and the guide.
//!
//! A key that is not in this table does not exist. The parser, the schema and the guide use the same table, so they
//! cannot disagree. `lower.rs` implements the meaning of a key.

pub(crate) mod access;
pub(crate) mod auth;

use std::time::Duration;

/// A key.
#[derive(Debug)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The description, in one line.
    pub doc: &'static str,
    /// The default as text; empty if there is none.
    pub default: &'static str,
}

/// The kind of a value.
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A string with expanded variables.
    Text,
    /// A string with expanded variables that is a secret.
    Secret,
    /// A string with expanded variables, or false.
    TextOrFalse,
    /// Words: an array of strings, or one string that separates them by spaces.
    Words,
    /// A URL; its query may be a secret.
    Url,
    /// An array of strings that may be secrets.
    TextList,
    /// An object of strings that may be secrets.
    Pairs,
    /// An object of variables that hold the values.
    Variables,
    /// Milliseconds, or a string with units; with this minimum.
    Duration(Duration),
    /// Seconds as a number.
    Seconds,
    /// Milliseconds as a number.
    Millis,
    /// An integer with minimum and maximum.
    Integer(i64, i64),
    /// A number with minimum and maximum.
    Number(f64, f64),
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An object with these keys.
    Block(&'static [Key]),
    /// An object with these keys, or false.
    BlockOrFalse(&'static [Key]),
    /// An array of strings that are secrets, and of objects with these keys.
    TextsOrBlocks(&'static [Key]),
    /// An object of objects with these keys.
    Each(&'static [Key]),
    /// An object of error codes with one of these strings each.
    Codes(&'static [&'static str]),
    /// An object of HTTP statuses with one of these strings each.
    Statuses(&'static [&'static str]),
    /// A key of another program; Mendline ignores it, for this reason.
    Foreign(&'static str),
    /// A planned key. It is an error with this advice, because a key that is accepted must have an effect. Neither the
    /// schema nor the table lists it.
    Unsupported(&'static str),
}

/// The maximum duration.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, doc, default }
}

/// The top-level keys of Mendline's own file.
pub(crate) const TOP: &[Key] = &[
    key("$schema", Kind::Text, "", "The schema for editors: the output of `mendline schema`."),
    key("mcpServers", Kind::Each(SERVER), "", "The servers by name."),
    key("servers", Kind::Each(SERVER), "", "The servers by name, in VS Code."),
    key("mendline", Kind::Block(MENDLINE), "", "Settings that do not belong to one server."),
    key(
        "inputs",
        Kind::Foreign("VS Code prompts its user for these; write ${VAR} in place of ${input:…}"),
        "",
        "VS Code only.",
    ),
];

/// The name of the server table in Codex.
pub(crate) const CODEX_SERVERS: &str = "mcp_servers";

/// The keys under `mendline`.
pub const MENDLINE: &[Key] = &[
    key("defaults", Kind::Block(POLICIES), "", "Policies for all servers; the policies of a server override them."),
    key("logs", Kind::Block(LOGS), "", "The log files, for `mendline logs`; applies from the next start."),
    access::ACCESS,
    key("store", Kind::Unsupported(GATEWAY), "", "State that several gateways share."),
];

const LOGS: &[Key] = &[
    key(
        "level",
        Kind::Choice(&["off", "error", "warn", "info", "debug"]),
        "info",
        "Minimum level of log lines; off: no files.",
    ),
    key("fileBytes", Kind::Integer(65_536, 1 << 30), "8388608", "Maximum size of one file in bytes."),
    key(
        "totalBytes",
        Kind::Integer(65_536, 1 << 40),
        "67108864",
        "Maximum size of all files in bytes; the oldest are deleted.",
    ),
    key("wire", Kind::Flag, "false", "true: log the messages, too, without secrets."),
];

/// Certificates of one server at a URL.
const TLS: Key = key("tls", Kind::Block(TLS_KEYS), "", "Certificates for an `https://` URL.");

const TLS_KEYS: &[Key] = &[
    key(
        "clientCertificate",
        Kind::Text,
        "",
        "A PEM file with the certificate that proves who the client is (mutual TLS), relative to this file; read again \
         when it changes.",
    ),
    key("clientKey", Kind::Text, "`clientCertificate`", "The PEM file with its key, which only its owner may read."),
    key("authority", Kind::Text, "", "A PEM file with authorities to trust, in addition to those of the system."),
];

/// The keys of a header that is passed on.
pub(crate) const FORWARD_HEADER: &[Key] = &[
    key("from", Kind::Text, "", "The header of the client's request."),
    key("to", Kind::Text, "`from`", "The header of the request to the server."),
    key("format", Kind::Text, "{}", "The value that is sent, such as `Bearer {}`; `{}` stands for the client's."),
];

/// The keys of a server: transport, policies, and keys of other programs.
pub const SERVER: &[Key] = &[
    key(
        "type",
        Kind::Choice(TYPES),
        "derived from the other keys",
        "The transport; for a URL without a type it is detected.",
    ),
    key("command", Kind::Text, "", "The program to start."),
    key("args", Kind::TextList, "[]", "The arguments of the program."),
    key("env", Kind::Pairs, "{}", "Environment variables, in addition to those of Mendline."),
    key(
        "envFile",
        Kind::Text,
        "",
        "A file with environment variables, one NAME=value per line, relative to this file; `env` overrides it.",
    ),
    key("cwd", Kind::Text, "the working directory of Mendline", "The working directory."),
    key("url", Kind::Url, "", "The URL of an HTTP server."),
    key("headers", Kind::Pairs, "{}", "Headers of every request to the URL."),
    key(
        "allowHttp",
        Kind::Flag,
        "false",
        "true: allow unencrypted credentials to an `http://` URL on another machine.",
    ),
    TLS,
    key(
        "forwardHeaders",
        Kind::TextsOrBlocks(FORWARD_HEADER),
        "none",
        "Headers of the clients of `mendline serve` that go to this URL: names such as `\"X-Jira-Token\"`, or objects.",
    ),
    key("disabled", Kind::Flag, "false", "true: do not use this server."),
    AUTO_RECONNECT,
    TIMEOUTS,
    RETRY,
    CIRCUIT_BREAKER,
    RATE_LIMIT,
    KEEP_ALIVE,
    RESUME,
    LIMITS,
    FAILURES,
    auth::AUTH,
    key(
        "allowTools",
        Kind::Words,
        "all",
        "Patterns of tools that clients see and may call; `*` stands for any characters, `?` for one.",
    ),
    key("denyTools", Kind::Words, "none", "Patterns of tools that clients neither see nor may call."),
    key("tools", Kind::Each(TOOL), "{}", "Policies of single tools; they override the hints of the server."),
    CATALOGUE,
    STARTUP,
    SHARING,
    IDLE,
    TRUST_HINTS,
    OWN_TOOLS,
    // Codex.
    key("enabled", Kind::Flag, "true", "Codex: the opposite of `disabled`."),
    key("http_headers", Kind::Pairs, "{}", "Codex: `headers`."),
    key("env_http_headers", Kind::Variables, "{}", "Codex: headers with values from environment variables."),
    key("bearer_token_env_var", Kind::Text, "", "Codex: the environment variable with a bearer token."),
    key("startup_timeout_sec", Kind::Seconds, "", "Codex: `timeouts.handshake` in seconds."),
    key("startup_timeout_ms", Kind::Millis, "", "Codex: `timeouts.handshake` in milliseconds."),
    key("tool_timeout_sec", Kind::Seconds, "", "Codex: `timeouts.call` in seconds."),
    key("env_vars", Kind::Foreign("a server inherits all environment variables of Mendline"), "", "Codex only."),
    // Windsurf and Gemini.
    key("serverUrl", Kind::Url, "", "Windsurf: `url`."),
    key("httpUrl", Kind::Url, "", "Gemini: `url` with `\"type\": \"http\"`."),
    // Keys between a client and its user.
    key("autoApprove", Kind::Foreign(APPROVAL), "", "The client only."),
    key("alwaysAllow", Kind::Foreign(APPROVAL), "", "The client only."),
    key("trust", Kind::Foreign(APPROVAL), "", "The client only."),
    key("default_tools_approval_mode", Kind::Foreign(APPROVAL), "", "The client only."),
    key("alwaysLoad", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("description", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("name", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("icon", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("gallery", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("version", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("dev", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("required", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("supports_parallel_tool_calls", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("experimental_environment", Kind::Foreign(CLIENT_ONLY), "", "The client only."),
    key("sandbox", Kind::Foreign(SANDBOX), "", "The client only."),
    key("sandboxEnabled", Kind::Foreign(SANDBOX), "", "The client only."),
    key("enabled_tools", Kind::Foreign(FILTER), "", "The client only."),
    key("disabled_tools", Kind::Foreign(FILTER), "", "The client only."),
    key("disabledTools", Kind::Foreign(FILTER), "", "The client only."),
    key("includeTools", Kind::Foreign(FILTER), "", "The client only."),
    key("excludeTools", Kind::Foreign(FILTER), "", "The client only."),
    key(
        "timeout",
        Kind::Foreign("some clients mean seconds and some milliseconds; write `timeouts.call`"),
        "",
        "The client only.",
    ),
    key("headersHelper", Kind::Foreign("write `auth` with the type `command`, which runs it"), "", "The client only."),
    key("oauth", Kind::Foreign(LOGIN), "", "The client only."),
    key("scopes", Kind::Foreign(LOGIN), "", "The client only."),
    key("oauth_resource", Kind::Foreign(LOGIN), "", "The client only."),
];

const TYPES: &[&str] = &["stdio", "sse", "http", "streamable-http", "streamableHttp"];
const APPROVAL: &str = "the client handles the approval of tool calls";
const CLIENT_ONLY: &str = "it applies to the client only";
const FILTER: &str = "Mendline forwards every tool; the client still filters them";
const SANDBOX: &str = "Mendline starts servers without a sandbox";
/// The reason why a key for the gateway is not supported.
const GATEWAY: &str = "it is for the gateway, which this version does not have; remove it";
/// The advice for keys about the login of a client.
const LOGIN: &str = "it is for the login of the client; Mendline has its own, with its settings in `auth`";

/// The policies, which may also be defaults for all servers.
pub(crate) const POLICIES: &[Key] = &[
    AUTO_RECONNECT,
    TIMEOUTS,
    RETRY,
    CIRCUIT_BREAKER,
    RATE_LIMIT,
    KEEP_ALIVE,
    RESUME,
    LIMITS,
    FAILURES,
    CATALOGUE,
    STARTUP,
    SHARING,
    IDLE,
    TRUST_HINTS,
    OWN_TOOLS,
];

const AUTO_RECONNECT: Key = key("autoReconnect", Kind::Block(AUTO_RECONNECT_KEYS), "", "Reconnects to a lost server.");
const AUTO_RECONNECT_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: try once when the next call needs the server."),
    key(
        "maxRetries",
        Kind::Integer(-1, 1_000_000),
        "10, and at least two minutes",
        "Attempts before the server is parked; -1: no limit.",
    ),
    key("initialRetryDelay", Kind::Duration(MILLISECOND), "up to 200ms", "The delay before the first attempt."),
    key("maxRetryDelay", Kind::Duration(MILLISECOND), "30s; 2.4s at most while a call waits", "The maximum delay."),
    key("backoffMultiplier", Kind::Number(1.0, 1000.0), "2", "Factor between consecutive delays."),
    key("silent", Kind::Flag, "true", "false: notify the client."),
];

const TIMEOUTS: Key = key("timeouts", Kind::Block(TIMEOUTS_KEYS), "", "Timeouts.");
const TIMEOUTS_KEYS: &[Key] = &[
    key("connect", Kind::Duration(MILLISECOND), "5s", "Connecting to a URL."),
    key(
        "handshake",
        Kind::Duration(MILLISECOND),
        "1m for a command, 10s for a URL and for a command that has started before",
        "Every handshake with the server.",
    ),
    key(
        "attempt",
        Kind::Duration(MILLISECOND),
        "none",
        "Timeout of one attempt; then a repeatable call is sent again.",
    ),
    key("recovery", Kind::Duration(MILLISECOND), "45s", "How long a call waits for an unavailable server."),
    key("call", Kind::Duration(MILLISECOND), "5m", "A call, from its arrival or its last progress."),
    key("total", Kind::Duration(MILLISECOND), "30m", "A call in total."),
];

const RETRY: Key = key("retry", Kind::Block(RETRY_KEYS), "", "Retries of calls.");
const RETRY_KEYS: &[Key] = &[
    key("maxAttempts", Kind::Integer(1, 10), "3", "Maximum number of attempts, when a retry is safe."),
    key("initialDelay", Kind::Duration(MILLISECOND), "500ms", "The first delay; half of it is random, and it doubles."),
    key("maxDelay", Kind::Duration(MILLISECOND), "5s", "The maximum delay."),
    key(
        "codes",
        Kind::Codes(&["never", "reads", "always"]),
        "{\"-32603\": \"reads\"}",
        "The calls to retry after an error with this code.",
    ),
    key(
        "statuses",
        Kind::Statuses(&["never", "reads", "always"]),
        "{}",
        "The calls to retry after this HTTP status without a JSON-RPC response; always: the server did nothing.",
    ),
];

const CIRCUIT_BREAKER: Key =
    key("circuitBreaker", Kind::Block(CIRCUIT_BREAKER_KEYS), "", "Rejects calls of a tool that keeps failing.");
const CIRCUIT_BREAKER_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: disabled."),
    key("failureThreshold", Kind::Integer(1, 10_000), "5", "Consecutive failures that open it …"),
    key("successRate", Kind::Number(0.0, 1.0), "0.5", "… or a success rate below this …"),
    key("window", Kind::Duration(SECOND), "30s", "… within this time …"),
    key("windowCalls", Kind::Integer(1, 10_000), "10", "… with at least this many calls."),
    key("resetTimeout", Kind::Duration(MILLISECOND), "5s, doubling up to 1m", "Time until it is half open."),
    key("successThreshold", Kind::Integer(1, 1000), "2", "Answered calls that close it."),
    key("countToolErrors", Kind::Flag, "false", "true: a result with `isError` is a failure of its tool."),
];

const RATE_LIMIT: Key = key("rateLimit", Kind::Block(RATE_LIMIT_KEYS), "none", "Limits the rate of calls.");
const RATE_LIMIT_KEYS: &[Key] = &[
    key("burst", Kind::Integer(1, 1_000_000), "`perSecond`, rounded up", "Maximum number of calls at once."),
    key("perSecond", Kind::Number(0.001, 1_000_000.0), "", "Calls per second; 0.1 is one in ten seconds."),
];

const KEEP_ALIVE: Key = key("keepAlive", Kind::Block(KEEP_ALIVE_KEYS), "", "Pings on an idle link.");
const KEEP_ALIVE_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: disabled."),
    key("interval", Kind::Duration(SECOND), "30s", "Idle time before a ping."),
    key("timeout", Kind::Duration(MILLISECOND), "10s", "Time for the answer to a ping."),
];

const RESUME: Key = key("resume", Kind::Block(RESUME_KEYS), "", "Resumes a response that was cut.");
const RESUME_KEYS: &[Key] = &[
    key("maxAttempts", Kind::Integer(0, 1000), "10", "Maximum number of attempts without a new event."),
    key("maxTotal", Kind::Integer(0, 100_000), "100", "Maximum number of attempts for one response in total."),
];

const LIMITS: Key = key("limits", Kind::Block(LIMITS_KEYS), "", "Limits.");
const LIMITS_KEYS: &[Key] = &[
    key("inFlight", Kind::Integer(1, 32_767), "256", "Maximum number of calls in flight; further calls wait."),
    key("waiting", Kind::Integer(1, 32_768), "1024", "Maximum number of waiting calls; further calls are rejected."),
    key("messageBytes", Kind::Integer(1024, 256 << 20), "16777216", "Maximum size of a message in bytes."),
];

/// The keys of a tool.
pub(crate) const TOOL: &[Key] = &[
    key("effect", Kind::Choice(&["read", "idempotent", "unsafe"]), "the hints of the server", "The effect of a call."),
    key("timeout", Kind::Duration(MILLISECOND), "`timeouts.call`", "Timeout of its calls."),
    key("limits", Kind::Block(TOOL_LIMITS_KEYS), "", "Limits of its calls, within those of the server."),
    key("rateLimit", Kind::Block(RATE_LIMIT_KEYS), "none", "Limits the rate of its calls."),
    key("circuitBreaker", Kind::Block(CIRCUIT_BREAKER_KEYS), "`circuitBreaker` of the server", "Its breaker."),
    key("approval_mode", Kind::Foreign(APPROVAL), "", "Codex only."),
];

const TOOL_LIMITS_KEYS: &[Key] = &[
    key("inFlight", Kind::Integer(1, 32_767), "none", "Maximum number of its calls in flight; further calls wait."),
    key(
        "waiting",
        Kind::Integer(1, 32_768),
        "none",
        "Maximum number of its waiting calls; further calls are rejected.",
    ),
];

const FAILURES: Key = key(
    "failures",
    Kind::Choice(&["result", "error"]),
    "result",
    "A failed `tools/call` is answered by Mendline as a result with `isError`, for models, or as a JSON-RPC error, for \
     programs.",
);

const CATALOGUE: Key =
    key("catalogue", Kind::Block(CATALOGUE_KEYS), "", "Answers from the list cache while the server is unavailable.");
const CATALOGUE_KEYS: &[Key] = &[key("cache", Kind::Flag, "true", "true: cache the lists and answer from the cache.")];

const STARTUP: Key = key(
    "startup",
    Kind::Choice(&["atOnce", "wait"]),
    "atOnce",
    "atOnce: answer the handshake before the server is up; wait: wait for the server.",
);
const SHARING: Key = key(
    "sharing",
    Kind::Choice(&["shared", "perClient"]),
    "shared for a command, perClient for a URL",
    "`mendline serve`: clients that are alike share a process or session, or each has its own.",
);
const IDLE: Key = key(
    "idle",
    Kind::Duration(SECOND),
    "10m",
    "`mendline serve`: the time after which a command without a client is stopped; the next request starts it.",
);
const OWN_TOOLS: Key = key(
    "ownTools",
    Kind::Flag,
    "false",
    "true: clients see a tool and a resource of Mendline itself, `mendline_status`; for clients that connect afterwards.",
);
const TRUST_HINTS: Key = key("trustHints", Kind::Flag, "true", "true: trust the hints of the server about its tools.");

/// Returns the key with this name.
pub fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(keys: &'static [Key], path: &str, visit: &mut impl FnMut(&str, &'static Key)) {
        for key in keys {
            let path = format!("{path}.{}", key.name);
            visit(&path, key);
            match key.kind {
                Kind::Block(inner) | Kind::BlockOrFalse(inner) | Kind::Each(inner) => walk(inner, &path, visit),
                _ => {}
            }
        }
    }

    #[test]
    fn every_key_is_unique_and_described() {
        let mut seen = std::collections::BTreeSet::new();
        walk(TOP, "", &mut |path, key| {
            assert!(seen.insert(path.to_owned()), "{path} is a duplicate");
            assert!(key.doc.ends_with('.') || key.doc.ends_with('…'), "{path} is not described in a sentence");
        });
        assert!(seen.contains(".mcpServers.autoReconnect.maxRetries"));
    }

    #[test]
    fn every_policy_is_also_a_server_key() {
        for policy in POLICIES {
            assert!(find(SERVER, policy.name).is_some(), "{}", policy.name);
        }
    }
}
