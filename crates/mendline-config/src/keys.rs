//! Every key that a configuration may have: one table for the parser, the schema and the page in the guide.
//!
//! A key that is not in here does not exist, and one that is in here is read, described and offered by editors: the three
//! cannot disagree, because there is only this. What a key *means* is said where it is lowered (`lower.rs`).

use std::time::Duration;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What may stand behind it.
    pub kind: Kind,
    /// What it is for, in one line.
    pub doc: &'static str,
    /// What holds when it is not there, in words; empty: nothing.
    pub default: &'static str,
}

/// What may stand behind a key.
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// Text, with variables put in.
    Text,
    /// A URL: text of which what comes after `?` is nobody's business.
    Url,
    /// A list of texts that may hold secrets.
    TextList,
    /// Names and texts that may hold secrets.
    Pairs,
    /// Names, and the variables that hold their values.
    Variables,
    /// Milliseconds, or text with units; at least so long.
    Duration(Duration),
    /// Seconds as a number.
    Seconds,
    /// Milliseconds as a number.
    Millis,
    /// A whole number from … to ….
    Integer(i64, i64),
    /// A number from … to ….
    Number(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Further keys.
    Block(&'static [Key]),
    /// Names, and further keys for each.
    Each(&'static [Key]),
    /// Error codes, and one of these words for each.
    Codes(&'static [&'static str]),
    /// Another program's: known, and of no use here, for this reason.
    Foreign(&'static str),
    /// Planned and not built. It is refused, with what to do until then, because a key that is accepted and does nothing
    /// is a promise that is not kept. Neither the schema nor the table offers it.
    Unsupported(&'static str),
}

/// The longest time that can be meant.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, doc, default }
}

/// What may stand at the top of Mendline's own file.
pub const TOP: &[Key] = &[
    key("$schema", Kind::Text, "", "Where editors find the schema: the output of `mendline schema`."),
    key("mcpServers", Kind::Each(SERVER), "", "The servers by name."),
    key("servers", Kind::Each(SERVER), "", "The same, as VS Code calls it."),
    key("mendline", Kind::Block(MENDLINE), "", "Everything that is not a server."),
    key(
        "inputs",
        Kind::Foreign("VS Code asks its user for these; write ${VAR} where ${input:…} stands"),
        "",
        "VS Code's.",
    ),
];

/// What Codex calls the servers.
pub const CODEX_SERVERS: &str = "mcp_servers";

/// What may stand under `mendline`.
pub const MENDLINE: &[Key] = &[
    key("defaults", Kind::Block(POLICIES), "", "Policies for all servers; what a server says itself wins."),
    key("logs", Kind::Block(LOGS), "", "What is kept in log files, for `mendline logs`; holds from the next start on."),
    key("access", Kind::Unsupported(GATEWAY), "", "Who may use the gateway."),
    key("store", Kind::Unsupported(GATEWAY), "", "What several gateways share."),
];

const LOGS: &[Key] = &[
    key(
        "level",
        Kind::Choice(&["off", "error", "warn", "info", "debug"]),
        "info",
        "What is worth a line; off: no files.",
    ),
    key("fileBytes", Kind::Integer(65_536, 1 << 30), "8388608", "How much one file holds before the next is begun."),
    key(
        "totalBytes",
        Kind::Integer(65_536, 1 << 40),
        "67108864",
        "How much all files hold together before the oldest go.",
    ),
    key("wire", Kind::Flag, "false", "Whether the messages themselves are kept, too, without secrets."),
];

/// What may be said about one server: how it is reached, the policies for it, and what other programs have there.
pub const SERVER: &[Key] = &[
    key("type", Kind::Choice(TYPES), "told by the other keys", "How it is reached; over HTTP, left out: found out."),
    key("command", Kind::Text, "", "The program to run."),
    key("args", Kind::TextList, "[]", "Its arguments."),
    key("env", Kind::Pairs, "{}", "Variables to set on top of Mendline's own."),
    key(
        "envFile",
        Kind::Text,
        "",
        "A file with more of them, one NAME=value a line, its path from where this file lies; `env` wins.",
    ),
    key("cwd", Kind::Text, "where Mendline runs", "Where to run it."),
    key("url", Kind::Url, "", "Where it lives, when it is not a command."),
    key("headers", Kind::Pairs, "{}", "Headers for every request to the URL."),
    key(
        "allowHttp",
        Kind::Flag,
        "false",
        "true: credentials may go to an `http://` URL on another machine, unencrypted.",
    ),
    key("disabled", Kind::Flag, "false", "Not to be used."),
    AUTO_RECONNECT,
    TIMEOUTS,
    RETRY,
    CIRCUIT_BREAKER,
    RATE_LIMIT,
    KEEP_ALIVE,
    RESUME,
    LIMITS,
    key("auth", Kind::Unsupported("use `headers` with ${VAR}"), "", "How to log in."),
    key("tools", Kind::Each(TOOL), "{}", "What holds for single tools, whatever the server says of them."),
    CATALOGUE,
    STARTUP,
    SHARING,
    TRUST_HINTS,
    // Codex.
    key("enabled", Kind::Flag, "true", "Codex's opposite of `disabled`."),
    key("http_headers", Kind::Pairs, "{}", "Codex's `headers`."),
    key("env_http_headers", Kind::Variables, "{}", "Codex's headers whose values are in variables."),
    key("bearer_token_env_var", Kind::Text, "", "Codex's variable that holds a bearer token."),
    key("startup_timeout_sec", Kind::Seconds, "", "Codex's `timeouts.handshake`."),
    key("startup_timeout_ms", Kind::Millis, "", "The same in milliseconds."),
    key("tool_timeout_sec", Kind::Seconds, "", "Codex's `timeouts.call`."),
    key("env_vars", Kind::Foreign("a server gets all of Mendline's own variables"), "", "Codex's."),
    // Windsurf and Gemini.
    key("serverUrl", Kind::Url, "", "Windsurf's `url`."),
    key("httpUrl", Kind::Url, "", "Gemini's `url` with `\"type\": \"http\"`."),
    // What is between a client and its user, and goes on to be.
    key("autoApprove", Kind::Foreign(ASKED), "", "The client's."),
    key("alwaysAllow", Kind::Foreign(ASKED), "", "The client's."),
    key("trust", Kind::Foreign(ASKED), "", "The client's."),
    key("default_tools_approval_mode", Kind::Foreign(ASKED), "", "The client's."),
    key("alwaysLoad", Kind::Foreign(CLIENTS), "", "The client's."),
    key("description", Kind::Foreign(CLIENTS), "", "The client's."),
    key("name", Kind::Foreign(CLIENTS), "", "The client's."),
    key("icon", Kind::Foreign(CLIENTS), "", "The client's."),
    key("gallery", Kind::Foreign(CLIENTS), "", "The client's."),
    key("version", Kind::Foreign(CLIENTS), "", "The client's."),
    key("dev", Kind::Foreign(CLIENTS), "", "The client's."),
    key("required", Kind::Foreign(CLIENTS), "", "The client's."),
    key("supports_parallel_tool_calls", Kind::Foreign(CLIENTS), "", "The client's."),
    key("experimental_environment", Kind::Foreign(CLIENTS), "", "The client's."),
    key("sandbox", Kind::Foreign(SANDBOX), "", "The client's."),
    key("sandboxEnabled", Kind::Foreign(SANDBOX), "", "The client's."),
    key("enabled_tools", Kind::Foreign(FILTER), "", "The client's."),
    key("disabled_tools", Kind::Foreign(FILTER), "", "The client's."),
    key("disabledTools", Kind::Foreign(FILTER), "", "The client's."),
    key("includeTools", Kind::Foreign(FILTER), "", "The client's."),
    key("excludeTools", Kind::Foreign(FILTER), "", "The client's."),
    key(
        "timeout",
        Kind::Foreign("some clients mean seconds and some milliseconds; write `timeouts.call`"),
        "",
        "The client's.",
    ),
    key("headersHelper", Kind::Foreign("Mendline does not run it; write `headers` with ${VAR}"), "", "The client's."),
    key("oauth", Kind::Foreign(LOGIN), "", "The client's."),
    key("scopes", Kind::Foreign(LOGIN), "", "The client's."),
    key("oauth_resource", Kind::Foreign(LOGIN), "", "The client's."),
];

const TYPES: &[&str] = &["stdio", "sse", "http", "streamable-http", "streamableHttp"];
const ASKED: &str = "whom the client asks before a tool is called is the client's business";
const CLIENTS: &str = "it concerns the client only";
const FILTER: &str = "Mendline passes every tool on; the client still leaves them out";
const SANDBOX: &str = "Mendline starts servers without a sandbox";
/// The reason why a key for the gateway is not supported.
const GATEWAY: &str = "it is for the gateway, which this version does not have; remove it";
/// What is said of everything that is about logging in.
pub const LOGIN: &str = "Mendline does not log in yet; write `headers` with ${VAR}";

/// The policies, which may also be defaults for all servers.
pub const POLICIES: &[Key] = &[
    AUTO_RECONNECT,
    TIMEOUTS,
    RETRY,
    CIRCUIT_BREAKER,
    RATE_LIMIT,
    KEEP_ALIVE,
    RESUME,
    LIMITS,
    CATALOGUE,
    STARTUP,
    SHARING,
    TRUST_HINTS,
];

const AUTO_RECONNECT: Key =
    key("autoReconnect", Kind::Block(AUTO_RECONNECT_KEYS), "", "When a lost server is dialed again.");
const AUTO_RECONNECT_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: a lost server is tried once when the next call needs it."),
    key(
        "maxRetries",
        Kind::Integer(-1, 1_000_000),
        "10, but not before two minutes",
        "Tries before it is only looked at now and then; -1: no end.",
    ),
    key("initialRetryDelay", Kind::Duration(MILLISECOND), "up to 200ms", "The wait before the first try."),
    key("maxRetryDelay", Kind::Duration(MILLISECOND), "30s; 5s at most while a call waits", "The longest wait."),
    key("backoffMultiplier", Kind::Number(1.0, 1000.0), "2", "How many times longer each wait is than the one before."),
    key("silent", Kind::Flag, "true", "false: the client is told."),
];

const TIMEOUTS: Key = key("timeouts", Kind::Block(TIMEOUTS_KEYS), "", "How long what may take.");
const TIMEOUTS_KEYS: &[Key] = &[
    key("connect", Kind::Duration(MILLISECOND), "5s", "A connection to a URL."),
    key("handshake", Kind::Duration(MILLISECOND), "1m for a command, 10s for a URL", "A new session's greeting."),
    key("recovery", Kind::Duration(MILLISECOND), "45s", "A call's wait for a server that is not there."),
    key("call", Kind::Duration(MILLISECOND), "5m", "A call, from its arrival or its last progress."),
    key("total", Kind::Duration(MILLISECOND), "30m", "A call in all."),
];

const RETRY: Key = key("retry", Kind::Block(RETRY_KEYS), "", "When a call is sent again.");
const RETRY_KEYS: &[Key] = &[
    key("maxAttempts", Kind::Integer(1, 10), "3", "How often in all, when it is safe."),
    key("initialDelay", Kind::Duration(MILLISECOND), "100ms", "The first wait; doubles, with chance."),
    key("maxDelay", Kind::Duration(MILLISECOND), "5s", "The longest wait."),
    key(
        "codes",
        Kind::Codes(&["never", "reads", "always"]),
        "{\"-32603\": \"reads\"}",
        "Which calls are sent again after an error with this code.",
    ),
];

const CIRCUIT_BREAKER: Key = key(
    "circuitBreaker",
    Kind::Block(CIRCUIT_BREAKER_KEYS),
    "",
    "When calls are held back from a server or a tool that is sick.",
);
const CIRCUIT_BREAKER_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: never."),
    key("failureThreshold", Kind::Integer(1, 10_000), "5", "So many failures in a row open it …"),
    key("successRate", Kind::Number(0.0, 1.0), "0.5", "… or fewer successes than this share …"),
    key("window", Kind::Duration(SECOND), "30s", "… over this time …"),
    key("windowCalls", Kind::Integer(1, 10_000), "10", "… with at least so many calls in it."),
    key("resetTimeout", Kind::Duration(MILLISECOND), "5s, doubling up to 1m", "How long it stays open."),
    key("successThreshold", Kind::Integer(1, 1000), "2", "So many answered calls close it again."),
    key("countToolErrors", Kind::Flag, "false", "Whether a result with `isError` is a failure of its tool."),
];

const RATE_LIMIT: Key = key("rateLimit", Kind::Block(RATE_LIMIT_KEYS), "none", "How many calls in what time.");
const RATE_LIMIT_KEYS: &[Key] = &[
    key("burst", Kind::Integer(1, 1_000_000), "`perSecond`, rounded up", "So many at once after a pause."),
    key("perSecond", Kind::Number(0.001, 1_000_000.0), "", "So many in the long run; 0.1 is one in ten seconds."),
];

const KEEP_ALIVE: Key = key("keepAlive", Kind::Block(KEEP_ALIVE_KEYS), "", "How an idle line is tested.");
const KEEP_ALIVE_KEYS: &[Key] = &[
    key("enabled", Kind::Flag, "true", "false: never."),
    key("interval", Kind::Duration(SECOND), "30s", "After so long a silence."),
    key("timeout", Kind::Duration(MILLISECOND), "10s", "How long the server has to answer."),
];

const RESUME: Key = key("resume", Kind::Block(RESUME_KEYS), "", "What becomes of a response that broke off.");
const RESUME_KEYS: &[Key] =
    &[key("maxAttempts", Kind::Integer(0, 1000), "10", "How often it is asked for again without anything new in it.")];

const LIMITS: Key = key("limits", Kind::Block(LIMITS_KEYS), "", "How much at once.");
const LIMITS_KEYS: &[Key] = &[
    key("inFlight", Kind::Integer(1, 32_767), "256", "Calls that are with the server; others wait."),
    key("waiting", Kind::Integer(1, 32_768), "1024", "Calls that wait; others are refused at once."),
    key("messageBytes", Kind::Integer(1024, 256 << 20), "16777216", "The longest message."),
];

const TOOL: &[Key] = &[
    key(
        "effect",
        Kind::Choice(&["read", "idempotent", "unsafe"]),
        "what the server says",
        "What it does to the world.",
    ),
    key("timeout", Kind::Duration(MILLISECOND), "`timeouts.call`", "How long its calls may take."),
    key("approval_mode", Kind::Foreign(ASKED), "", "Codex's."),
];

const CATALOGUE: Key = key("catalogue", Kind::Block(CATALOGUE_KEYS), "", "What is answered while the server is away.");
const CATALOGUE_KEYS: &[Key] =
    &[key("cache", Kind::Flag, "true", "Whether its lists are kept and answered from there.")];

const STARTUP: Key =
    key("startup", Kind::Choice(&["atOnce", "wait"]), "atOnce", "Whether a client's greeting waits for the server.");
const SHARING: Key =
    key("sharing", Kind::Unsupported(GATEWAY), "", "One child for all clients of the gateway, or one each.");
const TRUST_HINTS: Key =
    key("trustHints", Kind::Flag, "true", "Whether what a server says about its own tools is believed.");

/// The key of this name.
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
                Kind::Block(inner) | Kind::Each(inner) => walk(inner, &path, visit),
                _ => {}
            }
        }
    }

    #[test]
    fn no_key_stands_there_twice_and_each_says_what_it_is_for() {
        let mut seen = std::collections::BTreeSet::new();
        walk(TOP, "", &mut |path, key| {
            assert!(seen.insert(path.to_owned()), "{path} is there twice");
            assert!(key.doc.ends_with('.') || key.doc.ends_with('…'), "{path} is not described in a sentence");
        });
        assert!(seen.contains(".mcpServers.autoReconnect.maxRetries"));
    }

    #[test]
    fn every_policy_is_a_key_of_a_server_too() {
        for policy in POLICIES {
            assert!(find(SERVER, policy.name).is_some(), "{}", policy.name);
        }
    }
}
