//! Profiles of authorization servers: deviations from the specifications, as data.
//!
//! A profile is found by the host of the issuer or of the authorization endpoint. Settings of the operator come first.
//! What is found out at run time is stored with the issuer and applies as if a profile had it.
//!
//! Two deviations need no profile. A server with an anonymous handshake refuses only `tools/call`; the metadata at its
//! well-known paths leads to the login. A server that does not rotate refresh tokens sends none; the old one is kept.

use crate::metadata::Provider;
use crate::settings::RedirectHost;
use crate::url::Parts;

/// The deviations of an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name for people.
    pub name: &'static str,
    /// The hosts; a host below one of them has the profile, too.
    hosts: &'static [&'static str],
    /// Whether it registers clients dynamically, although its metadata may say so.
    pub registers: bool,
    /// The only host of redirect URLs that it accepts.
    pub redirect_host: Option<RedirectHost>,
    /// The port of the redirect URL that its clients have.
    pub redirect_port: Option<u16>,
    /// The path of the redirect URL that its clients have.
    pub redirect_path: Option<&'static str>,
    /// Whether it accepts the `resource` parameter.
    pub resource: bool,
    /// Additional parameters of the authorization request.
    pub parameters: &'static [(&'static str, &'static str)],
    /// Whether `offline_access` may be requested, if it is listed.
    pub offline_access: bool,
}

/// An authorization server that follows the specifications.
const STANDARD: Profile = Profile {
    name: "standard",
    hosts: &[],
    registers: true,
    redirect_host: None,
    redirect_port: None,
    redirect_path: None,
    resource: true,
    parameters: &[],
    offline_access: true,
};

/// All profiles.
const PROFILES: &[Profile] = &[
    // A refresh token comes only with these parameters, and only with a new consent. It is not rotated.
    Profile {
        name: "Google",
        hosts: &["accounts.google.com", "googleapis.com"],
        registers: false,
        parameters: &[("access_type", "offline"), ("prompt", "consent")],
        offline_access: false,
        ..STANDARD
    },
    // Scopes name the resource, and the parameter is refused beside them. Native clients have localhost.
    Profile {
        name: "Microsoft Entra",
        hosts: &[
            "login.microsoftonline.com",
            "login.microsoftonline.us",
            "login.partner.microsoftonline.cn",
            "sts.windows.net",
        ],
        registers: false,
        redirect_host: Some(RedirectHost::Localhost),
        resource: false,
        ..STANDARD
    },
    // Clients of the official MCP server have this redirect URL. Errors come with the status 200.
    Profile {
        name: "Slack",
        hosts: &["slack.com"],
        registers: false,
        redirect_host: Some(RedirectHost::Localhost),
        redirect_port: Some(3118),
        redirect_path: Some("/callback"),
        ..STANDARD
    },
    // Errors come with the status 200; refresh tokens exist only for apps with expiring tokens.
    Profile { name: "GitHub", hosts: &["github.com"], registers: false, offline_access: false, ..STANDARD },
    // Redirect URLs of registered clients must have https or localhost.
    Profile {
        name: "Salesforce",
        hosts: &["salesforce.com", "force.com"],
        registers: false,
        redirect_host: Some(RedirectHost::Localhost),
        ..STANDARD
    },
];

impl Profile {
    /// Returns the profile of an authorization server.
    pub fn of(provider: &Provider) -> &'static Profile {
        let urls = [Some(provider.issuer.as_str()), provider.authorization_endpoint.as_deref()];
        let hosts = urls.into_iter().flatten().filter_map(|url| Some(Parts::of(url)?.host.to_ascii_lowercase()));
        let hosts: Vec<String> = hosts.collect();
        PROFILES.iter().find(|profile| hosts.iter().any(|host| profile.has(host))).unwrap_or(&STANDARD)
    }

    fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|it| host.strip_suffix(it).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(issuer: &str) -> &'static Profile {
        Profile::of(&Provider { issuer: issuer.to_owned(), ..Provider::default() })
    }

    #[test]
    fn profile_is_found_by_host_and_below_it() {
        assert_eq!(of("https://accounts.google.com").name, "Google");
        assert_eq!(of("https://LOGIN.microsoftonline.com/tenant/v2.0").name, "Microsoft Entra");
        assert_eq!(of("https://mcp.slack.com").name, "Slack");
        assert_eq!(of("https://acme.my.salesforce.com").name, "Salesforce");
        for other in ["https://evilslack.com", "https://slack.com.evil.example", "https://auth.example", "x"] {
            assert_eq!(of(other).name, "standard", "{other}");
        }
    }

    #[test]
    fn profile_is_found_by_authorization_endpoint() {
        let provider = Provider {
            issuer: "https://mcp.example".to_owned(),
            authorization_endpoint: Some("https://github.com/login/oauth/authorize".to_owned()),
            ..Provider::default()
        };
        assert_eq!(Profile::of(&provider).name, "GitHub");
    }

    #[test]
    fn google_asks_for_offline_access_by_parameters() {
        let google = of("https://accounts.google.com");
        assert_eq!(google.parameters, [("access_type", "offline"), ("prompt", "consent")]);
        assert!(!google.offline_access && !google.registers && google.resource);
    }

    #[test]
    fn entra_has_localhost_and_no_resource() {
        let entra = of("https://login.microsoftonline.com/t/v2.0");
        assert_eq!(entra.redirect_host, Some(RedirectHost::Localhost));
        assert!(!entra.resource && !entra.registers && entra.offline_access);
    }

    #[test]
    fn slack_has_a_fixed_redirect_url() {
        let slack = of("https://slack.com");
        assert_eq!((slack.redirect_port, slack.redirect_path), (Some(3118), Some("/callback")));
        assert_eq!(slack.redirect_host, Some(RedirectHost::Localhost));
    }
}
