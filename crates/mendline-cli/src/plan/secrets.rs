//! Secrets of a plan, which logs must not show: headers, parts of URLs, and variables and arguments that are
//! credentials by their names.

use std::ffi::OsString;

use mendline::decisions::Secret;
use mendline::observe::redact::{holds_a_secret, secrets_of_hidden_url, secrets_of_url};

use super::{Endpoint, Plan};
use crate::wrap::credential;

impl Plan {
    /// Returns all secrets of the plan.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        // A child inherits our environment, and any message may contain the password of a proxy.
        let mut secrets = of_variables(std::env::vars_os());
        match &self.endpoint {
            Endpoint::Child(command) => {
                secrets.extend(of_variables(command.environment.iter().cloned()));
                secrets.extend(of_arguments(&command.arguments));
            }
            Endpoint::Remote(address) => {
                let of_url = if address.is_hidden { secrets_of_hidden_url } else { secrets_of_url };
                secrets.extend(of_url(address.url.expose()));
                secrets.extend(address.auth_secrets());
                secrets
                    .extend(address.headers.iter().filter(|(name, _)| !is_open(name)).map(|(_, value)| value.clone()));
            }
        }
        secrets
    }
}

/// Returns whether the values of a header are public.
fn is_open(name: &str) -> bool {
    ["accept", "content-type", "user-agent", "accept-language"].iter().any(|open| name.eq_ignore_ascii_case(open))
}

/// Returns the secrets of variables: those of secret names, and those in URLs.
pub(crate) fn of_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Secret> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let secret = |(name, value): (String, String)| {
        // A proxy is often named without a scheme.
        let is_url = value.contains("://") || name.to_ascii_lowercase().ends_with("_proxy");
        let of_url = if is_url { secrets_of_url(&value) } else { Vec::new() };
        of_url.into_iter().chain(holds_a_secret(&name).then(|| Secret::new(value)))
    };
    variables.into_iter().filter_map(text).flat_map(secret).collect()
}

/// Finds the secrets of a command line: `--token X`, `--token=X`, and passwords in URLs.
pub(crate) fn of_arguments(arguments: &[OsString]) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut carries = false;
    for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
        let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
        let is_secret = name.starts_with('-') && credential::is_secret(name);
        match value {
            _ if argument.contains("://") => secrets.extend(secrets_of_url(argument)),
            Some(value) if is_secret => secrets.push(Secret::new(value)),
            _ if carries => secrets.push(Secret::new(argument)),
            _ => {}
        }
        carries = is_secret && value.is_none();
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(secrets: &[Secret]) -> Vec<&str> {
        secrets.iter().map(Secret::expose).collect()
    }

    #[test]
    fn secrets_are_found_in_arguments() {
        let line = ["x", "--api-key", "s1", "--verbose", "--token=s2", "postgres://me:s3@db/x", "--port", "80"];
        let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
        let secrets = of_arguments(&arguments);
        assert!(["s1", "s2", "s3"].iter().all(|secret| exposed(&secrets).contains(secret)), "{:?}", exposed(&secrets));
        assert!(!exposed(&secrets).contains(&"80"));
    }

    #[test]
    fn secrets_are_found_in_variables_and_urls() {
        let variables = [("GITHUB_TOKEN", "s1"), ("PATH", "/bin"), ("DATABASE_URL", "postgres://me:s2@db/x")];
        let secrets = of_variables(variables.map(|(name, value)| (name.into(), value.into())));
        assert!(["s1", "s2"].iter().all(|secret| exposed(&secrets).contains(secret)), "{:?}", exposed(&secrets));
        assert!(!exposed(&secrets).contains(&"/bin"));
    }

    #[test]
    fn s10_password_of_proxy_without_scheme_is_secret() {
        let secrets = of_variables([("HTTPS_PROXY".into(), "me:hunter2@proxy.test:3128".into())]);
        let header = "Basic bWU6aHVudGVyMg==";
        assert!(
            exposed(&secrets).contains(&"hunter2") && exposed(&secrets).contains(&header),
            "{:?}",
            exposed(&secrets)
        );
    }
}
