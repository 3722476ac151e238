//! Flags of the login to a server at a URL. They override `auth` of an entry.

use clap::Args;
use mendline::decisions::Secret;
use mendline_config::{Auth, KeyringUse, LoginStart, OAuth, Resource, is_plain_variable_name};

/// The flags of a login.
#[derive(Args, Clone, Default)]
pub(crate) struct LoginFlags {
    /// Account of the login, for several logins to one URL; a login with another identity is refused
    #[arg(long, value_name = "ACCOUNT", help_heading = HEADING)]
    account: Option<String>,

    /// Id of a client that is registered at the provider [default: Mendline registers one]
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    client_id: Option<String>,

    /// Environment variable that holds the secret of the client
    #[arg(long, value_name = "VARIABLE", requires = "client_id", help_heading = HEADING)]
    client_secret_env: Option<String>,

    /// URL of a client id metadata document, for providers that support it
    #[arg(long, value_name = "URL", help_heading = HEADING)]
    client_metadata_url: Option<String>,

    /// Scopes to request, in addition to those that the server asks for; may be repeated
    #[arg(long, value_name = "SCOPES", help_heading = HEADING)]
    scope: Vec<String>,

    /// Resource indicator, sent as written; none: no such parameter [default: found by discovery]
    #[arg(long, value_name = "URI|none", help_heading = HEADING)]
    resource: Option<String>,

    /// Port on this machine that the browser returns to [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = HEADING)]
    callback_port: Option<u16>,

    /// Host that the browser returns to: 127.0.0.1 or localhost [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", value_parser = ["127.0.0.1", "localhost"], hide_possible_values = true, help_heading = HEADING)]
    callback_host: Option<String>,

    /// Path that the browser returns to [default: /callback]
    #[arg(long, value_name = "PATH", value_parser = path, help_heading = HEADING)]
    callback_path: Option<String>,

    /// auto: open the browser when a login is needed and a person is there; never: only `mendline login` does
    /// [default: auto]
    #[arg(long, value_name = "auto|never", value_enum, hide_possible_values = true, help_heading = HEADING)]
    login: Option<LoginFlag>,

    /// auto: seal the stored login with a key in the system keyring, if there is one; always: store it only so; never:
    /// do not seal it [default: $MENDLINE_KEYRING, else auto]
    #[arg(long, value_name = "auto|always|never", value_parser = keyring_use, help_heading = HEADING)]
    keyring: Option<KeyringUse>,
}

const HEADING: &str = "Login";

/// Values of `--login`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LoginFlag {
    /// The browser opens when a login is needed.
    Auto,
    /// Only `mendline login` opens it.
    Never,
}

impl LoginFlags {
    /// Returns the name of a flag that is set, if one is.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let set = [
            ("--account", self.account.is_some()),
            ("--client-id", self.client_id.is_some()),
            ("--client-metadata-url", self.client_metadata_url.is_some()),
            ("--scope", !self.scope.is_empty()),
            ("--resource", self.resource.is_some()),
            ("--callback-port", self.callback_port.is_some()),
            ("--callback-host", self.callback_host.is_some()),
            ("--callback-path", self.callback_path.is_some()),
            ("--login", self.login.is_some()),
            ("--keyring", self.keyring.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map(|(flag, _)| flag)
    }

    /// Returns the flags as words of a command line. `--login` has no meaning for a login.
    pub(crate) fn words(&self) -> Vec<String> {
        let port = self.callback_port.map(|port| port.to_string());
        let keyring = self.keyring.map(|keyring| format!("{keyring:?}").to_lowercase());
        let flags = [
            ("--account", &self.account),
            ("--client-id", &self.client_id),
            ("--client-secret-env", &self.client_secret_env),
            ("--client-metadata-url", &self.client_metadata_url),
            ("--resource", &self.resource),
            ("--callback-port", &port),
            ("--callback-host", &self.callback_host),
            ("--callback-path", &self.callback_path),
            ("--keyring", &keyring),
        ];
        let set = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]));
        let scopes = self.scope.iter().map(|scope| ["--scope".to_owned(), scope.clone()]);
        set.chain(scopes).flatten().collect()
    }

    /// Applies the flags to the written `auth`. `variable` is the lookup of environment variables.
    pub(crate) fn apply(
        &self,
        written: Option<Auth>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Auth>, String> {
        let Some(flag) = self.first() else { return Ok(written) };
        let mut oauth = match written {
            None => OAuth::default(),
            Some(Auth::OAuth(oauth)) => *oauth,
            Some(_) => return Err(format!("{flag} is for a login, and `auth` of the entry has another type")),
        };
        if let Some(id) = &self.client_id {
            oauth.client_id = Some(id.clone());
            oauth.client_secret = match &self.client_secret_env {
                Some(name) => Some(Secret::new(secret(name, variable)?)),
                None => None,
            };
        }
        oauth.account = self.account.clone().or(oauth.account);
        oauth.client_metadata_url = self.client_metadata_url.clone().or(oauth.client_metadata_url);
        oauth.scopes.extend(self.scope.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned));
        match self.resource.as_deref() {
            Some("none") => oauth.resource = Resource::Off,
            Some(resource) => oauth.resource = Resource::Fixed(resource.to_owned()),
            None => {}
        }
        oauth.redirect_port = self.callback_port.or(oauth.redirect_port);
        oauth.redirect_host = self.callback_host.clone().or(oauth.redirect_host);
        oauth.redirect_path = self.callback_path.clone().or(oauth.redirect_path);
        oauth.keyring = self.keyring.or(oauth.keyring);
        match self.login {
            Some(LoginFlag::Never) => oauth.start = LoginStart::Never,
            Some(LoginFlag::Auto) => oauth.start = LoginStart::Auto,
            None => {}
        }
        Ok(Some(Auth::OAuth(Box::new(oauth))))
    }
}

fn keyring_use(text: &str) -> Result<KeyringUse, &'static str> {
    KeyringUse::parse(text).ok_or("must be auto, always or never")
}

fn path(text: &str) -> Result<String, &'static str> {
    match text.starts_with('/') && !text.contains(['?', '#', ' ']) {
        true => Ok(text.to_owned()),
        false => Err("must begin with / and have no query"),
    }
}

/// Returns the secret in a variable. The name is shown only if it is certainly one.
fn secret(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let found = variable(name).filter(|value| !value.is_empty());
    found.ok_or_else(|| match is_plain_variable_name(name) {
        true => format!("--client-secret-env: the variable {name} is not set"),
        false => "--client-secret-env takes the name of an environment variable, not the secret".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        login: LoginFlags,
    }

    fn flags(words: &[&str]) -> LoginFlags {
        Line::try_parse_from(std::iter::once(&"x").chain(words)).unwrap().login
    }

    fn lookup(name: &str) -> Option<String> {
        (name == "SECRET").then(|| "canary".to_owned())
    }

    #[test]
    fn login_flags_override_the_entry() {
        let oauth = OAuth { account: Some("a".to_owned()), redirect_port: Some(1), ..OAuth::default() };
        let words = ["--client-id", "id", "--client-secret-env", "SECRET", "--scope", "r w", "--resource", "none"];
        let applied = flags(&words).apply(Some(Auth::OAuth(Box::new(oauth))), &lookup).unwrap();
        let Some(Auth::OAuth(oauth)) = applied else { panic!("a login") };
        assert_eq!((oauth.client_id.as_deref(), oauth.account.as_deref()), (Some("id"), Some("a")));
        assert_eq!(oauth.client_secret.as_ref().map(Secret::expose), Some("canary"));
        assert_eq!(
            (oauth.scopes.join(" "), oauth.resource, oauth.redirect_port),
            ("r w".to_owned(), Resource::Off, Some(1))
        );
        assert_eq!(flags(&[]).apply(None, &lookup), Ok(None));
    }

    #[test]
    fn login_flag_without_a_login_is_refused() {
        let why = flags(&["--login", "never"]).apply(Some(Auth::Off), &lookup).unwrap_err();
        assert!(why.contains("--login is for a login"), "{why}");
        let why = flags(&["--client-id", "x", "--client-secret-env", "s3cret!"]).apply(None, &lookup).unwrap_err();
        assert!(!why.contains("s3cret"), "{why}");
    }
}
