//! The keys of `auth`: the source of the credential of a server at a URL.
//!
//! All types share one object. [`TYPES`] says which keys belong to which type.

use super::{Key, Kind, SECOND, key};

/// The key of a server.
pub(super) const AUTH: Key = key(
    "auth",
    Kind::BlockOrFalse(KEYS),
    "a login by OAuth, if the server asks for one and `headers` has no `Authorization`",
    "The source of the credential of a server at a URL; false: none but `headers`.",
);

/// The keys of `auth`.
pub(crate) const KEYS: &[Key] = &[
    key("type", Kind::Choice(TYPE_NAMES), "", "The type of the source."),
    key("variable", Kind::Text, "", "env: the environment variable that holds the credential."),
    key(
        "path",
        Kind::Text,
        "",
        "file: the file that holds the credential, relative to this file; it is read again when it changes.",
    ),
    key("command", Kind::TextList, "", "command: the program that prints the credential, and its arguments."),
    key("timeout", Kind::Duration(SECOND), "10s", "command: time limit of the program."),
    key("header", Kind::Text, "Authorization", "env, file, command: the header of the credential."),
    key("format", Kind::Text, "Bearer {}", "env, file, command: the value of the header; `{}` is the credential."),
    key("clientId", Kind::Text, "registered by Mendline", "oauth, clientCredentials: the id of a registered client."),
    key("clientSecret", Kind::Secret, "", "oauth, clientCredentials: the secret of the client."),
    key(
        "clientMetadataUrl",
        Kind::Url,
        "",
        "oauth: the URL of a client id metadata document, which is the client id where the provider supports it.",
    ),
    key(
        "scopes",
        Kind::Words,
        "what the server asks for",
        "oauth, clientCredentials: the scopes to request, as an array or separated by spaces.",
    ),
    key(
        "account",
        Kind::Text,
        "",
        "oauth: the account of this login, for several logins to one URL; a login with another identity is refused.",
    ),
    key("redirect", Kind::Block(REDIRECT), "", "oauth: the address on this machine that the browser returns to."),
    key(
        "resource",
        Kind::TextOrFalse,
        "found by discovery",
        "oauth, clientCredentials: the resource indicator, sent as written; false: none.",
    ),
    key("parameters", Kind::Pairs, "{}", "oauth: further parameters of the authorization request."),
    key("authorizationEndpoint", Kind::Url, "found by discovery", "oauth: the URL that the browser opens."),
    key("tokenEndpoint", Kind::Url, "found by discovery", "oauth, clientCredentials: the URL that gives tokens."),
    key(
        "tokenEndpointAuthMethod",
        Kind::Choice(METHODS),
        "what the provider supports",
        "oauth, clientCredentials: how the client authenticates itself at the token endpoint.",
    ),
    key(
        "bearer",
        Kind::Choice(&["accessToken", "idToken"]),
        "accessToken",
        "oauth: the token that is sent to the server.",
    ),
    key(
        "allowPrivate",
        Kind::Flag,
        "false",
        "oauth, clientCredentials: true: the provider may have a private address although the server has a public one.",
    ),
    key(
        "login",
        Kind::Choice(&["auto", "never"]),
        "auto",
        "oauth: auto: open the browser when a login is needed and a person is there; never: only `mendline login` does.",
    ),
    key(
        "keyring",
        Kind::Choice(&["auto", "always", "never"]),
        "auto",
        "oauth: auto: the login is sealed with a key in the system keyring, if there is one; always: only so; never: not.",
    ),
    key("privateKey", Kind::Text, "", "clientCredentials: a file with the private key (PEM), relative to this file."),
    key(
        "algorithm",
        Kind::Choice(&["ES256", "RS256", "EdDSA"]),
        "ES256",
        "clientCredentials: the signature algorithm of the private key.",
    ),
    key("keyId", Kind::Text, "", "clientCredentials: the id of the private key."),
    key("audience", Kind::Text, "", "clientCredentials: the audience of the requested token."),
    // Cursor.
    key("CLIENT_ID", Kind::Text, "", "Cursor: `clientId`."),
    key("CLIENT_SECRET", Kind::Secret, "", "Cursor: `clientSecret`."),
];

const REDIRECT: &[Key] = &[
    key("host", Kind::Choice(&["127.0.0.1", "localhost"]), "127.0.0.1", "The host of the address."),
    key("port", Kind::Integer(1, 65_535), "a free port", "The port, if the provider accepts only one."),
    key("path", Kind::Text, "/callback", "The path, if the provider accepts only one."),
];

const METHODS: &[&str] = &["none", "client_secret_basic", "client_secret_post"];

/// A type of `auth`, with the keys that belong to it.
pub(crate) struct AuthType {
    pub name: &'static str,
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
    /// The shortest valid object, for messages.
    pub example: &'static str,
}

const TYPE_NAMES: &[&str] = &["oauth", "env", "file", "command", "clientCredentials", "none"];

/// The types of `auth`.
pub(crate) const TYPES: &[AuthType] = &[
    AuthType {
        name: "oauth",
        required: &[],
        optional: &[
            "clientId",
            "clientSecret",
            "clientMetadataUrl",
            "scopes",
            "account",
            "redirect",
            "resource",
            "parameters",
            "authorizationEndpoint",
            "tokenEndpoint",
            "tokenEndpointAuthMethod",
            "bearer",
            "allowPrivate",
            "login",
            "keyring",
            "CLIENT_ID",
            "CLIENT_SECRET",
        ],
        example: r#"{ "type": "oauth" }"#,
    },
    AuthType {
        name: "env",
        required: &["variable"],
        optional: &["header", "format"],
        example: r#"{ "type": "env", "variable": "API_TOKEN" }"#,
    },
    AuthType {
        name: "file",
        required: &["path"],
        optional: &["header", "format"],
        example: r#"{ "type": "file", "path": "token" }"#,
    },
    AuthType {
        name: "command",
        required: &["command"],
        optional: &["timeout", "header", "format"],
        example: r#"{ "type": "command", "command": ["pass", "show", "api-token"] }"#,
    },
    AuthType {
        name: "clientCredentials",
        required: &["clientId"],
        optional: &[
            "clientSecret",
            "privateKey",
            "algorithm",
            "keyId",
            "scopes",
            "resource",
            "audience",
            "tokenEndpoint",
            "tokenEndpointAuthMethod",
            "allowPrivate",
        ],
        example: r#"{ "type": "clientCredentials", "clientId": "…", "clientSecret": "${CLIENT_SECRET}" }"#,
    },
    AuthType { name: "none", required: &[], optional: &[], example: r#"{ "type": "none" }"# },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_auth_key_belongs_to_the_types_that_it_names() {
        assert_eq!(TYPES.iter().map(|kind| kind.name).collect::<Vec<_>>(), TYPE_NAMES);
        for key in KEYS.iter().filter(|key| key.name != "type") {
            let owners: Vec<_> = TYPES
                .iter()
                .filter(|kind| kind.required.contains(&key.name) || kind.optional.contains(&key.name))
                .map(|kind| kind.name)
                .collect();
            let named = key.doc.split(": ").next().unwrap_or_default();
            if named == "Cursor" {
                continue;
            }
            assert_eq!(named, owners.join(", "), "{}", key.name);
        }
    }
}
