//! Access to the gateway: hosts, origins and tokens.
//!
//! Mistakes here concern the gateway only: `mendline run` needs no token, so an unset variable of a token does not stop
//! it.

use std::ops::Range;
use std::time::SystemTime;

use mendline::frontend::http::{AccessToken, JWT_PREFIX, JwtSettings, Network, PrincipalLimits, TokenHash};

use super::Settings;
use super::auth::beside;
use super::endpoint::CertificatePaths;
use super::policies::{rate_limit, tool_filter};
use crate::check::{Block, Checker, Item, ItemValue, TypedValue};
use crate::finding::{Finding, Scope};
use crate::nearest::nearest;

/// The shortest token. A shorter one can be guessed.
const SHORTEST: usize = 16;

/// The longest name: a session id has room for 255 bytes.
const LONGEST_NAME: usize = 64;

/// The name of requests without a token.
const RESERVED: &str = "local";

/// Access to the gateway, as the file configures it.
#[derive(Clone, Debug, Default)]
pub struct AccessSettings {
    /// Host names of the gateway.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use it.
    pub origins: Vec<String>,
    /// Addresses of proxies.
    pub proxies: Vec<Network>,
    /// The certificate of the gateway.
    pub tls: Option<CertificatePaths>,
    /// Tokens.
    pub tokens: Vec<AccessToken>,
    /// Access tokens of an authorization server.
    pub jwt: Option<JwtSettings>,
    /// Every client that reaches the address may use it.
    pub danger_allow_anyone: bool,
    /// Whether tool calls are written to the audit log.
    pub audit: bool,
    /// Whether requests are written to the access log.
    pub log: bool,
    /// The limit of open connections, if configured.
    pub connections: Option<usize>,
    /// The limit of sessions of one principal, if configured.
    pub sessions: Option<usize>,
}

pub(crate) fn access(top: &Block, checker: &mut Checker<'_>, servers: &[String]) -> AccessSettings {
    let settings = Settings { own: top, defaults: &Block::default() };
    let scope = std::mem::replace(&mut checker.scope, Scope::Gateway);
    let access = AccessSettings {
        hosts: hosts(settings, checker),
        origins: origins(settings, checker),
        proxies: proxies(settings, checker),
        tls: tls(settings, checker),
        tokens: tokens(settings, checker, servers),
        jwt: jwt(settings, checker, servers),
        danger_allow_anyone: settings.flag("mendline.access.dangerAllowAnyone").unwrap_or_default(),
        audit: settings.choice("mendline.access.audit") == Some("calls"),
        log: settings.choice("mendline.access.log") == Some("requests"),
        connections: settings.count("mendline.access.limits.connections").map(|most| most as usize),
        sessions: settings.count("mendline.access.limits.sessions").map(|most| most as usize),
    };
    let has_tokens = ["tokens", "jwt"].iter().any(|key| settings.find(&format!("mendline.access.{key}")).is_some());
    if access.danger_allow_anyone && has_tokens {
        let at = settings.own_span("mendline.access.dangerAllowAnyone").unwrap_or(0..0);
        let what = "`dangerAllowAnyone` makes `tokens` useless: requests without a token are served, too";
        checker.report(Finding::error(at, what).help("remove one of them"));
    }
    checker.scope = scope;
    access
}

fn hosts(settings: Settings<'_>, checker: &mut Checker<'_>) -> Vec<String> {
    let hosts = settings.words("mendline.access.hosts");
    let at = settings.own_span("mendline.access.hosts").unwrap_or(0..0);
    for host in hosts.iter().filter(|host| host.is_empty() || host.contains(['/', '@', '*', ' '])) {
        let what = format!("{host:?} is not a host name");
        let help = "for example \"mcp.example.com\" or \"mcp.example.com:8443\"";
        checker.report(Finding::error(at.clone(), what).help(help));
    }
    hosts.to_vec()
}

fn proxies(settings: Settings<'_>, checker: &mut Checker<'_>) -> Vec<Network> {
    let at = settings.own_span("mendline.access.proxies").unwrap_or(0..0);
    let mut proxies = Vec::new();
    for text in settings.words("mendline.access.proxies") {
        match text.parse() {
            Ok(network) => proxies.push(network),
            Err(_) => {
                let what = format!("{text:?} is not an address or a range of addresses");
                let help = "for example \"127.0.0.1\" or \"10.0.0.0/8\"";
                checker.report(Finding::error(at.clone(), what).help(help));
            }
        }
    }
    proxies
}

fn tls(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<CertificatePaths> {
    settings.find("mendline.access.tls")?;
    let path = |name: &str| settings.text(name).map(|path| beside(path, checker));
    let (certificate, key) = (path("mendline.access.tls.certificate"), path("mendline.access.tls.key"));
    let Some(certificate) = certificate else {
        let at = settings.own_span("mendline.access.tls").unwrap_or(0..0);
        let what = "`tls` has no `certificate`";
        checker.report(Finding::error(at, what).help("add \"certificate\": \"gateway.pem\""));
        return None;
    };
    let key = key.unwrap_or_else(|| certificate.clone());
    Some(CertificatePaths { certificate, key })
}

fn origins(settings: Settings<'_>, checker: &mut Checker<'_>) -> Vec<String> {
    let origins = settings.words("mendline.access.origins");
    let at = settings.own_span("mendline.access.origins").unwrap_or(0..0);
    for origin in origins {
        let host = origin.split_once("://").map(|(_, host)| host).filter(|host| !host.is_empty());
        if host.is_none_or(|host| host.contains(['/', '?', '#', '@'])) {
            let what = format!("{origin:?} is not an origin: a scheme, a host and a port");
            checker.report(Finding::error(at.clone(), what).help("for example \"http://localhost:6274\""));
        }
    }
    origins.to_vec()
}

fn tokens(settings: Settings<'_>, checker: &mut Checker<'_>, servers: &[String]) -> Vec<AccessToken> {
    let Some(TypedValue::List(items)) = settings.find("mendline.access.tokens").map(|found| &found.value) else {
        return Vec::new();
    };
    let mut tokens: Vec<AccessToken> = Vec::new();
    for item in items {
        let Some(token) = token(item, checker, servers) else { continue };
        let (what, help) = if tokens.iter().any(|other| other.hash == token.hash) {
            ("this token is in the list twice".to_owned(), "remove one of them")
        } else if tokens.iter().any(|other| other.name == token.name) {
            (format!("two tokens have the name {:?}", token.name), "rename one of them")
        } else {
            tokens.push(token);
            continue;
        };
        checker.report(Finding::error(item.at.clone(), what).help(help));
    }
    tokens
}

fn jwt(settings: Settings<'_>, checker: &mut Checker<'_>, servers: &[String]) -> Option<JwtSettings> {
    let at = settings.own_span("mendline.access.jwt")?;
    let text = |name: &str| settings.text(&format!("mendline.access.jwt.{name}")).map(str::to_owned);
    let is_url = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    let audiences = settings.words("mendline.access.jwt.audience").to_vec();
    let jwks_url = text("jwksUrl");
    let issuer = text("issuer").unwrap_or_default();
    let problem = if !is_url(&issuer) {
        Some(("`jwt` needs an `issuer` that is a URL", "add \"issuer\": \"https://login.example.com\""))
    } else if audiences.is_empty() {
        Some((
            "`jwt` needs an `audience`: without it, tokens for other services would open the gateway",
            "add \"audience\": \"https://mcp.example.com\"",
        ))
    } else if jwks_url.as_deref().is_some_and(|url| !is_url(url)) {
        Some(("`jwksUrl` is not a URL", "for example \"https://login.example.com/keys\""))
    } else {
        None
    };
    if let Some((what, help)) = problem {
        checker.report(Finding::error(at, what).help(help));
        return None;
    }
    let (allow, deny) = ("mendline.access.jwt.tools.allow", "mendline.access.jwt.tools.deny");
    Some(JwtSettings {
        issuer,
        audiences,
        jwks_url,
        principal_claim: text("principalClaim").unwrap_or_else(|| "sub".to_owned()),
        servers: known_servers(settings, "mendline.access.jwt.servers", checker, servers),
        tools: tool_filter(settings, allow, deny),
        limits: PrincipalLimits::default(),
    })
}

fn token(item: &Item, checker: &mut Checker<'_>, servers: &[String]) -> Option<AccessToken> {
    match &item.value {
        ItemValue::Text(text) => {
            check_length(text, &item.at, checker)?;
            let hash = TokenHash::of(text);
            Some(AccessToken::new(&derived_name(&hash), hash))
        }
        ItemValue::Block(block) => {
            let settings = Settings { own: block, defaults: &Block::default() };
            let hash = hash(settings, &item.at, checker)?;
            let name = match settings.text("name") {
                Some(name) => checked_name(name, settings, checker)?,
                None => derived_name(&hash),
            };
            let servers = known_servers(settings, "servers", checker, servers);
            let expires = match settings.text("expires") {
                Some(text) => Some(expiry(text, settings, checker)?),
                None => None,
            };
            check_rate_limit(settings, checker)?;
            let mut token = AccessToken::new(&name, hash);
            token.servers = servers;
            token.tools = tool_filter(settings, "tools.allow", "tools.deny");
            token.expires = expires;
            token.limits.rate = rate_limit(settings);
            token.limits.in_flight = settings.count("inFlight").unwrap_or(token.limits.in_flight);
            Some(token)
        }
    }
}

/// Returns the name of a token without one. It does not depend on the order of the tokens, because sessions belong to
/// the name.
fn derived_name(hash: &TokenHash) -> String {
    let digits = hash.to_string();
    format!("token-{}", digits.get(7..15).unwrap_or_default())
}

fn checked_name(name: &str, settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<String> {
    let problem = if name.is_empty() || name.len() > LONGEST_NAME {
        format!("a name has 1 to {LONGEST_NAME} bytes")
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        "a name has no spaces and control characters".to_owned()
    } else if name.starts_with(JWT_PREFIX) {
        format!("names with {JWT_PREFIX:?} are those of access tokens of `jwt`")
    } else if name == RESERVED {
        format!("{RESERVED:?} is the name of requests without a token")
    } else {
        return Some(name.to_owned());
    };
    let at = settings.own_span("name").unwrap_or(0..0);
    checker.report(Finding::error(at, problem).help("for example \"ci\""));
    None
}

fn hash(settings: Settings<'_>, at: &Range<usize>, checker: &mut Checker<'_>) -> Option<TokenHash> {
    // A value that is wrong in itself was reported before.
    match (settings.text("token"), settings.text("hash")) {
        (Some(token), None) => {
            check_length(token, &settings.own_span("token").unwrap_or(at.clone()), checker)?;
            Some(TokenHash::of(token))
        }
        (None, Some(text)) => {
            let hash = text.parse().ok();
            if hash.is_none() {
                let what = "`hash` must be `sha256:` and 64 hexadecimal digits";
                let at = settings.own_span("hash").unwrap_or(at.clone());
                let help = "printf %s \"$TOKEN\" | sha256sum prints the digits";
                checker.report(Finding::error(at, what).help(help));
            }
            hash
        }
        (Some(_), Some(_)) => {
            let at = settings.own_span("hash").unwrap_or(at.clone());
            checker.report(Finding::error(at, "`token` and `hash` mean the same").help("remove one of them"));
            None
        }
        (None, None) => {
            let is_reported = checker
                .findings
                .iter()
                .any(|found| found.at.as_ref().is_some_and(|found| at.start <= found.start && found.end <= at.end));
            if !is_reported {
                let what = "this token has neither `token` nor `hash`";
                checker.report(Finding::error(at.clone(), what).help("add \"token\": \"${GATEWAY_TOKEN}\""));
            }
            None
        }
    }
}

fn check_length(token: &str, at: &Range<usize>, checker: &mut Checker<'_>) -> Option<()> {
    let problem = if token.chars().count() < SHORTEST {
        format!("a token of fewer than {SHORTEST} characters can be guessed")
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        "a token has only visible ASCII characters, because it is sent in a header".to_owned()
    } else {
        return Some(());
    };
    checker.report(Finding::error(at.clone(), problem).help("`openssl rand -hex 24` prints a good one"));
    None
}

fn known_servers(
    settings: Settings<'_>,
    key: &str,
    checker: &mut Checker<'_>,
    servers: &[String],
) -> Option<Vec<String>> {
    let at = settings.own_span(key)?;
    let named = settings.words(key);
    for name in named.iter().filter(|name| !servers.contains(name)) {
        let what = format!("there is no server {name:?} in this file");
        let help = match nearest(name, servers.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("the servers are: {}", servers.join(", ")),
        };
        checker.report(Finding::error(at.clone(), what).help(help));
    }
    Some(named.to_vec())
}

fn expiry(text: &str, settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<SystemTime> {
    let is_date = text.len() == "2027-01-31".len();
    let time = if is_date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let parsed = humantime::parse_rfc3339(&time).ok();
    if parsed.is_none() {
        let at = settings.own_span("expires").unwrap_or(0..0);
        let what = format!("{text:?} is not a date, or a time in UTC");
        checker.report(Finding::error(at, what).help("for example \"2027-01-31\" or \"2027-01-31T12:00:00Z\""));
    }
    parsed
}

fn check_rate_limit(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<()> {
    if settings.find("rateLimit").is_none() || settings.find("rateLimit.perSecond").is_some() {
        return Some(());
    }
    let at = settings.own_span("rateLimit").unwrap_or(0..0);
    checker.report(Finding::error(at, "`rateLimit` has no `perSecond`").help("add `perSecond`"));
    None
}
