//! The identity of a server: its command or URL, and its credentials.
//!
//! Two entries with the same command and different tokens are two servers: lists that one account may see must not be
//! shown to the other. So everything that distinguishes a server is part of its identity, each part with its length, so
//! that two lists of parts never give the same bytes. Only a keyed hash leaves this module, as a file name. Without
//! this user's key, it reveals no command line, URL or token, not even to guessing.
//!
//! A child inherits the whole environment. Variables that change with every login would change the identity, so only
//! variables whose names suggest a credential are part of it.

use std::ffi::OsStr;

use mendline_core::Secret;
use ring::hmac;

/// The parts that distinguish a server from others.
#[derive(Clone)]
pub struct Identity {
    parts: Vec<u8>,
    secrets: Vec<Secret>,
}

impl Identity {
    /// The identity of a server over stdio.
    pub fn child(
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
        directory: Option<&std::path::Path>,
    ) -> Identity {
        let mut identity = Identity { parts: Vec::new(), secrets: Vec::new() };
        identity.part(b"child");
        identity.part(directory.map_or(b"", |path| path.as_os_str().as_encoded_bytes()));
        for word in command {
            identity.part(word.as_ref().as_encoded_bytes());
        }
        identity
    }

    /// The identity of a server at a URL.
    pub fn remote(url: &str) -> Identity {
        let mut identity = Identity { parts: Vec::new(), secrets: Vec::new() };
        identity.part(b"remote");
        identity.part(url.as_bytes());
        identity
    }

    /// Adds a credential: a header, or a variable of the environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &Secret) -> Identity {
        self.part(b"credential");
        self.part(name.to_ascii_lowercase().as_bytes());
        self.part(value.expose().as_bytes());
        self.secrets.push(value.clone());
        self
    }

    /// Adds those of these variables that are credentials.
    #[must_use]
    pub fn with_environment(self, variables: impl IntoIterator<Item = (String, String)>) -> Identity {
        let mut credentials: Vec<_> = variables.into_iter().filter(|(name, _)| is_credential(name)).collect();
        credentials.sort();
        credentials.into_iter().fold(self, |identity, (name, value)| identity.with(&name, &Secret::new(value)))
    }

    /// Returns the file name of this server for the user with this key.
    pub(super) fn name(&self, key: &hmac::Key) -> String {
        let tag = hmac::sign(key, &self.parts);
        tag.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the secrets, which must never be written to disk or logs.
    pub(super) fn into_secrets(self) -> Vec<Secret> {
        self.secrets
    }

    fn part(&mut self, bytes: &[u8]) {
        self.parts.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.parts.extend_from_slice(bytes);
    }
}

/// Returns whether the name of a variable suggests a credential or an account.
pub(crate) fn is_credential(name: &str) -> bool {
    const ENDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"];
    const WORDS: [&str; 8] = ["PASS", "AUTH", "CREDENTIAL", "CREDENTIALS", "PAT", "ACCOUNT", "PROFILE", "TENANT"];
    let name = name.to_ascii_uppercase();
    // The socket of an agent differs after every login and identifies no account.
    let is_socket = name.ends_with("_SOCK");
    !is_socket && name.split('_').any(|word| WORDS.contains(&word) || ENDS.iter().any(|end| word.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(identity: &Identity) -> String {
        identity.name(&hmac::Key::new(hmac::HMAC_SHA256, b"of this user"))
    }

    #[test]
    fn command_directory_url_and_credential_distinguish_servers() {
        let token = |value: &str| Secret::new(value.to_owned());
        let here = Some(std::path::Path::new("/here"));
        let all = [
            Identity::child(["npx", "notes"], here),
            Identity::child(["npx", "notes"], None),
            Identity::child(["npxn", "otes"], here),
            Identity::child(["npx", "notes", ""], here),
            Identity::child(["npx", "notes"], here).with("TOKEN", &token("a")),
            Identity::child(["npx", "notes"], here).with("TOKEN", &token("b")),
            Identity::remote("https://a.example/mcp"),
            Identity::remote("https://a.example/mcp").with("authorization", &token("a")),
            Identity::remote("https://a.example/mcp").with("authorization", &token("b")),
            Identity::remote("https://a.example/mcp").with("x-key", &token("b")),
        ];
        let mut names: Vec<String> = all.iter().map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!(name(&all[0]), name(&Identity::child(["npx", "notes"], here)));
    }

    #[test]
    fn name_depends_on_the_key_of_the_user() {
        let server = Identity::remote("https://a.example/mcp");
        assert_ne!(name(&server), server.name(&hmac::Key::new(hmac::HMAC_SHA256, b"of another user")));
    }

    #[test]
    fn only_credential_variables_are_part_of_identity() {
        for name in ["GITHUB_TOKEN", "OPENAI_API_KEY", "openai_apikey", "DB_PASSWORD", "AWS_PROFILE", "NOTION_PAT"] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["PATH", "TERM", "SSH_AUTH_SOCK", "XAUTHORITY", "KEYBOARD", "WINDOWID", "PWD", "COMPASS"] {
            assert!(!is_credential(name), "{name}");
        }
        let with = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            name(&Identity::child(["notes"], None).with_environment(variables))
        };
        assert_eq!(with(&[("A_TOKEN", "1"), ("B_KEY", "2")]), with(&[("TERM", "x"), ("B_KEY", "2"), ("A_TOKEN", "1")]));
        assert_ne!(with(&[("A_TOKEN", "1")]), with(&[("A_TOKEN", "2")]));
    }
}
