//! `auth` of a server at a URL.

use std::ops::Range;
use std::path::{Path, PathBuf};

use mendline::decisions::Secret;
use mendline::transport::http::Target;

use super::Settings;
use crate::auth::{
    Auth, ClientAuthMethod, ClientCredentials, ClientProof, CredentialHeader, KeyringUse, LoginStart, OAuth, Resource,
};
use crate::check::{Checker, TypedValue};
use crate::file::{Entry, Value, ValueKind};
use crate::finding::Finding;
use crate::keys::auth::{AuthType, TYPES};
use crate::nearest::nearest;
use crate::variables::is_plain_variable_name;

/// Reads `auth`; `Ok(None)` means that it is not written. A mistake is reported.
pub(super) fn auth(entry: &Entry, settings: Settings<'_>, checker: &mut Checker<'_>) -> Result<Option<Auth>, ()> {
    let Some(written) = entry.value.get("auth").filter(|value| value.kind != ValueKind::Null) else { return Ok(None) };
    let found = settings.own.find("auth").ok_or(())?;
    match found.value {
        TypedValue::Flag(false) => return Ok(Some(Auth::Off)),
        TypedValue::Foreign => return Ok(None),
        _ => {}
    }
    let kind = auth_type(written, settings, &found.key_at, checker).ok_or(())?;
    let reader = AuthReader { settings, written, kind };
    reader.check_keys(checker)?;
    let auth = match kind.name {
        "none" => Some(Auth::Off),
        "env" => reader.variable(checker),
        "file" => reader.file(checker),
        "command" => reader.command(checker),
        "clientCredentials" => reader.client_credentials(checker),
        _ => reader.oauth(checker),
    };
    auth.map(Some).ok_or(())
}

/// Returns the type. Cursor writes none.
fn auth_type(
    written: &Value,
    settings: Settings<'_>,
    key_at: &Range<usize>,
    checker: &mut Checker<'_>,
) -> Option<&'static AuthType> {
    let name = match settings.choice("auth.type") {
        Some(name) => name,
        None if written.get("type").is_some() => return None,
        None if written.get("CLIENT_ID").is_some() => "oauth",
        None => {
            let what = "`auth` has no `type`";
            // The keys that are there show which one is meant.
            let has = |kind: &&AuthType| kind.required.iter().any(|key| written.get(key).is_some());
            let meant = TYPES.iter().find(has).or(TYPES.first())?;
            checker.report(Finding::error(key_at.clone(), what).help(format!("write {}", meant.example)));
            return None;
        }
    };
    TYPES.iter().find(|kind| kind.name == name)
}

struct AuthReader<'a> {
    settings: Settings<'a>,
    written: &'a Value,
    kind: &'static AuthType,
}

impl AuthReader<'_> {
    /// Reports keys of other types, and required keys that are missing.
    fn check_keys(&self, checker: &mut Checker<'_>) -> Result<(), ()> {
        let kind = self.kind;
        let mut is_right = true;
        let known = || kind.required.iter().chain(kind.optional).copied();
        for entry in self.written.table().unwrap_or_default() {
            let is_elsewhere = |kind: &AuthType| [kind.required, kind.optional].concat().contains(&entry.key.as_str());
            if entry.value.kind == ValueKind::Null || known().any(|key| key == entry.key) {
                continue;
            }
            // An unknown key is already reported.
            if TYPES.iter().any(is_elsewhere) {
                let what = format!("`{}` does not belong to the type `{}`", entry.key, kind.name);
                let help = match nearest(&entry.key, known()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("for example {}", kind.example),
                };
                checker.report(Finding::error(entry.key_at.clone(), what).help(help));
                is_right = false;
            }
        }
        let is_missing = |key: &&&str| self.written.get(key).is_none_or(|value| value.kind == ValueKind::Null);
        if let Some(missing) = kind.required.iter().find(is_missing) {
            let what = format!("`auth` of the type `{}` has no `{missing}`", kind.name);
            checker.report(Finding::error(self.written.at.clone(), what).help(format!("for example {}", kind.example)));
            is_right = false;
        }
        if is_right { Ok(()) } else { Err(()) }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.settings.text(&format!("auth.{key}")).map(str::to_owned)
    }

    fn at(&self, key: &str) -> Range<usize> {
        self.settings.own_span(&format!("auth.{key}")).unwrap_or_else(|| self.written.at.clone())
    }

    /// Returns a text that may not be empty. An empty one is an error.
    fn filled(&self, key: &str, checker: &mut Checker<'_>) -> Result<Option<String>, ()> {
        match self.text(key) {
            Some(text) if text.trim().is_empty() => {
                let what = format!("`{key}` is empty");
                checker.report(Finding::error(self.at(key), what).help(format!("write a value, or remove `{key}`")));
                Err(())
            }
            text => Ok(text),
        }
    }

    fn variable(&self, checker: &mut Checker<'_>) -> Option<Auth> {
        let name = self.text("variable")?;
        let at = self.at("variable");
        if !is_plain_variable_name(&name) {
            // It may be the secret itself.
            checker.secrets.push(at.clone());
            let what = "`variable` must be the name of an environment variable";
            checker.report(Finding::error(at, what).help("for example \"API_TOKEN\"; ${…} is not needed here"));
            return None;
        }
        if checker.environment.variable(&name).is_none_or(|value| value.is_empty()) {
            let what = format!("the variable {name} is not set");
            checker.report(Finding::warning(at, what).help("set it before the client starts").with_environment());
        }
        Some(Auth::Variable { name, header: self.header(checker)? })
    }

    fn file(&self, checker: &mut Checker<'_>) -> Option<Auth> {
        let path = self.filled("path", checker).ok()??;
        Some(Auth::File { path: beside(&path, checker), header: self.header(checker)? })
    }

    fn command(&self, checker: &mut Checker<'_>) -> Option<Auth> {
        // A wrong value is already reported.
        self.settings.own.find("auth.command")?;
        let command = self.settings.words("auth.command").to_vec();
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            let what = "`command` is empty";
            checker.report(Finding::error(self.at("command"), what).help(format!("for example {}", self.kind.example)));
            return None;
        }
        let timeout = self.settings.duration("auth.timeout");
        Some(Auth::Command { command, timeout, header: self.header(checker)? })
    }

    /// Returns the header of the credential.
    fn header(&self, checker: &mut Checker<'_>) -> Option<CredentialHeader> {
        let default = CredentialHeader::default();
        let name = self.filled("header", checker).ok()?.unwrap_or(default.name);
        let format = self.text("format").unwrap_or(default.format);
        if format.matches("{}").count() != 1 {
            let what = "`format` must have one `{}`, for the credential";
            checker.report(Finding::error(self.at("format"), what).help("for example \"Bearer {}\""));
            return None;
        }
        let probe = Target::parse("https://localhost/").ok()?;
        if let Err(fault) = probe.header(&name, &Secret::new(format.replace("{}", "x"))) {
            let key = if self.text("header").is_some() { "header" } else { "format" };
            let help = "for example \"header\": \"X-Api-Key\", \"format\": \"{}\"";
            checker.report(Finding::error(self.at(key), fault.to_string()).help(help));
            return None;
        }
        Some(CredentialHeader { name, format })
    }

    fn oauth(&self, checker: &mut Checker<'_>) -> Option<Auth> {
        let settings = self.settings;
        let client_id = self.filled("clientId", checker).ok()?.or_else(|| self.text("CLIENT_ID"));
        let client_secret = self.text("clientSecret").or_else(|| self.text("CLIENT_SECRET")).map(Secret::new);
        if client_secret.is_some() && client_id.is_none() {
            let what = "`clientSecret` needs the id of the client";
            checker.report(Finding::error(self.at("clientSecret"), what).help("add `\"clientId\": \"…\"`"));
            return None;
        }
        let redirect_path = self.text("redirect.path");
        if redirect_path.as_deref().is_some_and(|path| !path.starts_with('/') || path.contains(['?', '#', ' '])) {
            let what = "`path` must begin with `/` and have no query";
            checker.report(Finding::error(self.at("redirect.path"), what).help("for example \"/oauth/callback\""));
            return None;
        }
        let parameters = settings.pairs("auth.parameters").iter();
        Some(Auth::OAuth(Box::new(OAuth {
            client_id,
            client_secret,
            client_metadata_url: self.url("clientMetadataUrl", checker).ok()?,
            scopes: settings.words("auth.scopes").to_vec(),
            account: self.filled("account", checker).ok()?,
            redirect_host: settings.choice("auth.redirect.host").map(str::to_owned),
            redirect_port: settings.whole("auth.redirect.port").and_then(|port| u16::try_from(port).ok()),
            redirect_path,
            resource: self.resource(),
            parameters: parameters.map(|pair| (pair.name.clone(), Secret::new(pair.text.clone()))).collect(),
            authorization_endpoint: self.url("authorizationEndpoint", checker).ok()?,
            token_endpoint: self.url("tokenEndpoint", checker).ok()?,
            method: self.method(),
            sends_id_token: settings.choice("auth.bearer") == Some("idToken"),
            allow_private: settings.flag("auth.allowPrivate").unwrap_or_default(),
            start: match settings.choice("auth.login") {
                Some("never") => LoginStart::Never,
                _ => LoginStart::Auto,
            },
            keyring: settings.choice("auth.keyring").and_then(KeyringUse::parse),
        })))
    }

    fn client_credentials(&self, checker: &mut Checker<'_>) -> Option<Auth> {
        let settings = self.settings;
        let proof = match (self.text("clientSecret"), self.filled("privateKey", checker).ok()?) {
            (Some(secret), None) => ClientProof::Secret(Secret::new(secret)),
            (None, Some(path)) => ClientProof::PrivateKey {
                path: beside(&path, checker),
                algorithm: settings.choice("auth.algorithm").unwrap_or("ES256"),
                key_id: self.text("keyId"),
            },
            (Some(_), Some(_)) => {
                let what = "`auth` has both a `clientSecret` and a `privateKey`";
                checker.report(Finding::error(self.at("privateKey"), what).help("remove one of the two"));
                return None;
            }
            (None, None) => {
                let what = "`auth` of the type `clientCredentials` has neither a `clientSecret` nor a `privateKey`";
                checker.report(
                    Finding::error(self.written.at.clone(), what).help(format!("for example {}", self.kind.example)),
                );
                return None;
            }
        };
        for key in ["algorithm", "keyId"] {
            if matches!(proof, ClientProof::Secret(_)) && self.written.get(key).is_some() {
                let what = format!("`{key}` has no effect without a `privateKey`");
                checker.report(Finding::error(self.at(key), what).help(format!("remove `{key}`")));
                return None;
            }
        }
        Some(Auth::ClientCredentials(Box::new(ClientCredentials {
            client_id: self.filled("clientId", checker).ok()??,
            proof,
            scopes: settings.words("auth.scopes").to_vec(),
            resource: self.resource(),
            audience: self.filled("audience", checker).ok()?,
            token_endpoint: self.url("tokenEndpoint", checker).ok()?,
            method: self.method(),
            allow_private: settings.flag("auth.allowPrivate").unwrap_or_default(),
        })))
    }

    fn resource(&self) -> Resource {
        match self.settings.own.find("auth.resource").map(|found| &found.value) {
            Some(TypedValue::Text(text)) => Resource::Fixed(text.clone()),
            Some(TypedValue::Flag(false)) => Resource::Off,
            _ => Resource::Discovered,
        }
    }

    fn method(&self) -> Option<ClientAuthMethod> {
        Some(match self.settings.choice("auth.tokenEndpointAuthMethod")? {
            "client_secret_basic" => ClientAuthMethod::Basic,
            "client_secret_post" => ClientAuthMethod::Post,
            _ => ClientAuthMethod::None,
        })
    }

    /// Returns a URL that a secret may go to.
    fn url(&self, key: &str, checker: &mut Checker<'_>) -> Result<Option<String>, ()> {
        let Some(url) = self.filled(key, checker)? else { return Ok(None) };
        let why = match Target::parse(&url) {
            Ok(target) if target.origin().to_string().starts_with("https://") => None,
            Ok(target) if is_loopback(&target.origin().to_string()) => None,
            Ok(_) => Some(format!("`{key}` must begin with https://")),
            Err(_) => Some(format!("`{key}` is not a URL")),
        };
        match why {
            None => Ok(Some(url)),
            Some(what) => {
                let help = "for example \"https://login.example.com/oauth\"";
                checker.report(Finding::error(self.at(key), what).help(help));
                Err(())
            }
        }
    }
}

/// Returns whether an origin is on this machine.
fn is_loopback(origin: &str) -> bool {
    let authority = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns a path that is relative to the configuration file.
pub(super) fn beside(path: &str, checker: &Checker<'_>) -> PathBuf {
    let environment = checker.environment;
    match (path.strip_prefix("~/"), &environment.home, &environment.directory) {
        (Some(rest), Some(home), _) => home.join(rest),
        (_, _, Some(directory)) => directory.join(path),
        _ => Path::new(path).to_owned(),
    }
}
