//! `auth`: the source of the credential of a server at a URL.

use std::path::Path;
use std::time::Duration;

use mendline_config::{Auth, ClientProof, CredentialHeader, Endpoint, LoginStart, RenderStyle, Resource};

use crate::{SECRET, describe, loaded, server, wrong};

fn auth(written: &str) -> Option<Auth> {
    let text = format!(
        r#"{{ "mendline": {{}}, "mcpServers": {{ "a": {{ "url": "https://x.test/", "auth": {written} }} }} }}"#
    );
    match server("/home/me/config.json", &text, "a").endpoint {
        Endpoint::Url { auth, .. } => auth,
        other => panic!("{other:?}"),
    }
}

fn auth_mistakes(written: &str) -> Vec<String> {
    wrong(&format!(r#""url": "https://x.test/", "auth": {written}"#))
}

#[test]
fn auth_names_a_source_of_each_type() {
    let bearer = CredentialHeader::default();
    let name = "A_TOKEN".to_owned();
    assert_eq!(
        auth(r#"{ "type": "env", "variable": "A_TOKEN" }"#),
        Some(Auth::Variable { name, header: bearer.clone() })
    );
    let path = Path::new("/home/me/secrets/token").to_owned();
    let header = CredentialHeader { name: "X-Api-Key".to_owned(), format: "{}".to_owned() };
    assert_eq!(
        auth(r#"{ "type": "file", "path": "secrets/token", "header": "X-Api-Key", "format": "{}" }"#),
        Some(Auth::File { path, header }),
        "a path is relative to the file"
    );
    let command = vec!["op".to_owned(), "read".to_owned(), SECRET.to_owned()];
    assert_eq!(
        auth(r#"{ "type": "command", "command": ["op", "read", "${A_TOKEN}"], "timeout": "3s" }"#),
        Some(Auth::Command { command, timeout: Some(Duration::from_secs(3)), header: bearer })
    );
    for off in ["false", r#"{ "type": "none" }"#] {
        assert_eq!(auth(off), Some(Auth::Off));
    }
    assert_eq!(auth("null"), None);
}

#[test]
fn auth_of_a_login_keeps_every_setting() {
    let Some(Auth::OAuth(oauth)) = auth(
        r#"{ "type": "oauth", "clientId": "id", "clientSecret": "${A_TOKEN}", "scopes": "read write",
             "account": "me@work", "redirect": { "host": "localhost", "port": 3334, "path": "/cb" }, "resource": false,
             "parameters": { "prompt": "consent" }, "tokenEndpoint": "http://localhost:1/token", "bearer": "idToken",
             "tokenEndpointAuthMethod": "client_secret_post", "allowPrivate": true, "login": "never" }"#,
    ) else {
        panic!("a login")
    };
    assert_eq!((oauth.client_id.as_deref(), oauth.account.as_deref()), (Some("id"), Some("me@work")));
    assert_eq!(oauth.client_secret.as_ref().map(|secret| secret.expose()), Some(SECRET));
    assert_eq!(oauth.scopes, ["read", "write"]);
    assert_eq!((oauth.redirect_host.as_deref(), oauth.redirect_port), (Some("localhost"), Some(3334)));
    assert_eq!((oauth.redirect_path.as_deref(), oauth.resource), (Some("/cb"), Resource::Off));
    assert_eq!(oauth.start, LoginStart::Never);
    assert!(oauth.sends_id_token && oauth.allow_private);
    let Some(Auth::OAuth(oauth)) = auth(r#"{ "type": "oauth", "scopes": ["a", "b c"], "resource": "x://y/" }"#) else {
        panic!("a login")
    };
    assert_eq!((oauth.scopes.join("|"), oauth.resource), ("a|b|c".to_owned(), Resource::Fixed("x://y/".to_owned())));
}

#[test]
fn auth_of_a_program_has_one_proof() {
    let Some(Auth::ClientCredentials(with_key)) = auth(
        r#"{ "type": "clientCredentials", "clientId": "id", "privateKey": "key.pem", "algorithm": "EdDSA", "keyId": "k" }"#,
    ) else {
        panic!("client credentials")
    };
    let path = Path::new("/home/me/key.pem").to_owned();
    assert_eq!(with_key.proof, ClientProof::PrivateKey { path, algorithm: "EdDSA", key_id: Some("k".to_owned()) });
    for (keys, words) in [
        ("", "neither a `clientSecret` nor a `privateKey`"),
        (r#", "clientSecret": "x", "privateKey": "y""#, "both a `clientSecret` and a `privateKey`; remove one"),
        (r#", "clientSecret": "x", "keyId": "y""#, "`keyId` has no effect without a `privateKey`"),
    ] {
        let mistakes = auth_mistakes(&format!(r#"{{ "type": "clientCredentials", "clientId": "id"{keys} }}"#));
        assert!(mistakes.len() == 1 && mistakes[0].contains(words), "{mistakes:?}");
    }
}

#[test]
fn auth_mistakes_say_what_to_write() {
    for (written, words) in [
        (r#"{ "type": "oath" }"#, "did you mean \"oauth\"?"),
        (
            r#"{ "variable": "A_TOKEN" }"#,
            "`auth` has no `type`; write { \"type\": \"env\", \"variable\": \"API_TOKEN\" }",
        ),
        (r#"{}"#, "`auth` has no `type`; write { \"type\": \"oauth\" }"),
        (r#"{ "type": "env" }"#, "`auth` of the type `env` has no `variable`; for example { \"type\": \"env\""),
        (r#"{ "type": "file", "path": "x", "variable": "y" }"#, "`variable` does not belong to the type `file`"),
        (r#"{ "type": "oauth", "clientid": "x" }"#, "did you mean `clientId`?"),
        (r#"{ "type": "oauth", "clientSecret": "x" }"#, "`clientSecret` needs the id of the client"),
        (r#"{ "type": "oauth", "tokenEndpoint": "http://x.test/" }"#, "`tokenEndpoint` must begin with https://"),
        (r#"{ "type": "oauth", "redirect": { "path": "cb" } }"#, "`path` must begin with `/`"),
        (r#"{ "type": "oauth", "redirect": { "host": "example.com" } }"#, "one of 127.0.0.1, localhost"),
        (r#"{ "type": "env", "variable": "not a name" }"#, "must be the name of an environment variable"),
        (r#"{ "type": "file", "path": "" }"#, "`path` is empty"),
        (r#"{ "type": "command", "command": [] }"#, "`command` is empty"),
        (r#"{ "type": "command", "command": "op read" }"#, "an array of strings"),
        (r#"{ "type": "file", "path": "x", "format": "Bearer" }"#, "`format` must have one `{}`"),
        (r#"{ "type": "file", "path": "x", "header": "a b" }"#, "for example \"header\": \"X-Api-Key\""),
        ("true", "an object, or false"),
    ] {
        let mistakes = auth_mistakes(written);
        assert!(mistakes.len() == 1 && mistakes[0].contains(words), "{written}: {mistakes:?}");
    }
}

#[test]
fn auth_contradicts_a_header_and_a_command() {
    let both = r#""url": "https://x.test/", "headers": { "authorization": "x" }, "auth": { "type": "oauth" }"#;
    let mistakes = wrong(both);
    assert!(mistakes.len() == 1 && mistakes[0].contains("both `auth` and `headers` set the header"), "{mistakes:?}");
    let other = r#""url": "https://x.test/", "headers": { "X-Team": "x" }, "auth": { "type": "oauth" }"#;
    assert!(wrong(other).is_empty());
    let mistakes = wrong(r#""command": "x", "auth": { "type": "oauth" }"#);
    assert!(mistakes.len() == 1 && mistakes[0].contains("`auth` applies to servers at a URL only"), "{mistakes:?}");
}

#[test]
fn auth_secrets_are_never_shown() {
    let text = r#"{ "mendline": {}, "mcpServers": { "a": { "url": "https://x.test/", "auth":
        { "type": "oauth", "clientSecret": "canary", "parameters": { "k": "canary" }, "command": ["canary"] } } } }"#;
    let loaded = loaded("config.json", text);
    let rendered = loaded.render(&loaded.findings, RenderStyle::Plain);
    assert!(loaded.has_errors() && !rendered.contains("canary"), "{rendered}");
    let kept = auth(r#"{ "type": "oauth", "clientId": "x", "clientSecret": "canary" }"#);
    assert!(!format!("{kept:?}").contains("canary"));
}

#[test]
fn auth_of_a_client_is_read_if_its_form_is_known() {
    let cursor =
        r#"{ "mcpServers": { "a": { "url": "https://x.test/", "auth": { "CLIENT_ID": "x", "scopes": ["r"] } } } }"#;
    let Endpoint::Url { auth: Some(Auth::OAuth(oauth)), .. } =
        server("/home/me/.cursor/mcp.json", cursor, "a").endpoint
    else {
        panic!("a login")
    };
    assert_eq!((oauth.client_id.as_deref(), oauth.scopes.join(" ")), (Some("x"), "r".to_owned()));
    let other = r#"{ "mcpServers": { "a": { "url": "https://x.test/", "auth": { "kind": "theirs" } } } }"#;
    let loaded = loaded("/home/me/.other/mcp.json", other);
    assert!(loaded.server("a").is_some(), "{:?}", loaded.findings.iter().map(describe).collect::<Vec<_>>());
}

#[test]
fn auth_variable_that_is_not_set_is_a_warning() {
    let text = r#"{ "mendline": {}, "mcpServers": { "a": { "url": "https://x.test/", "auth": { "type": "env", "variable": "NOPE" } } } }"#;
    let loaded = loaded("config.json", text);
    assert!(loaded.server("a").is_some() && loaded.findings.len() == 1, "{:?}", loaded.findings);
    assert!(describe(&loaded.findings[0]).contains("the variable NOPE is not set"), "{:?}", loaded.findings);
}

#[test]
fn auth_example_of_the_login_page_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/login.md");
    let page = std::fs::read_to_string(path).unwrap();
    let example = page.split("```jsonc\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let loaded = loaded("config.json", example);
    assert!(loaded.findings.is_empty() && loaded.servers.len() == 4, "{:?}", loaded.findings);
}

fn tls_of(entry: &str) -> mendline_config::Tls {
    let text = format!(r#"{{ "mendline": {{}}, "mcpServers": {{ "a": {{ "url": "https://x.test/", {entry} }} }} }}"#);
    match server("/home/me/config.json", &text, "a").endpoint {
        Endpoint::Url { tls, .. } => tls,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_certificates_are_relative_to_the_configuration() {
    let tls =
        tls_of(r#""tls": { "clientCertificate": "tls/me.pem", "clientKey": "/keys/me.key", "authority": "ca.pem" }"#);
    let client = tls.client.unwrap();
    assert_eq!((client.certificate, client.key), ("/home/me/tls/me.pem".into(), "/keys/me.key".into()));
    assert_eq!(tls.authority, Some("/home/me/ca.pem".into()));
    let one = tls_of(r#""tls": { "clientCertificate": "me.pem" }"#).client.unwrap();
    assert_eq!(one.certificate, one.key, "the key may be in the same file");
    assert_eq!(tls_of(r#""tls": {}"#), mendline_config::Tls::default());
}

#[test]
fn client_key_without_certificate_is_an_error() {
    let found = wrong(r#""url": "https://x.test/", "tls": { "clientKey": "me.key" }"#);
    assert!(found.len() == 1 && found[0].contains("`clientKey` needs the certificate"), "{found:?}");
}
