//! Entries that already use a bridge: `mcp-remote` and `supergateway`.
//!
//! Mendline replaces them, flag by flag, which saves a process. A bridge that cannot be replaced runs as a command,
//! with the reason. `mcp-remote` without a credential in its headers logs in through a browser, and so does Mendline.

use std::path::Path;

use serde_json::Value;

use super::credential;

/// The settings of a bridge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bridge {
    pub(crate) url: String,
    pub(crate) transport: Option<String>,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) log_level: Option<&'static str>,
    /// The login, if it has no credential in its headers.
    pub(crate) login: Option<BridgeLogin>,
}

/// The login of a bridge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BridgeLogin {
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    pub(crate) client_metadata_url: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<String>,
}

/// The largest file with a registered client, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// The host and the path that mcp-remote registers, unless a flag says otherwise.
const MCP_REMOTE_HOST: &str = "localhost";
const MCP_REMOTE_PATH: &str = "/oauth/callback";

impl BridgeLogin {
    /// Returns the flags of `mendline run` for this login; the secret is in this variable.
    pub(crate) fn flags(&self, secret_variable: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |flag: &str, value: Option<&str>| {
            words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value.to_owned()]));
        };
        add("--client-id", self.client_id.as_deref());
        add("--client-secret-env", self.client_secret.as_ref().map(|_| secret_variable));
        add("--client-metadata-url", self.client_metadata_url.as_deref());
        add("--scope", self.scope.as_deref());
        add("--resource", self.resource.as_deref());
        add("--callback-port", self.port.as_deref());
        // A registered client has the address that mcp-remote uses.
        let host = self.host.as_deref().or(self.client_id.as_ref().map(|_| MCP_REMOTE_HOST));
        add("--callback-host", host);
        add("--callback-path", self.client_id.as_ref().map(|_| MCP_REMOTE_PATH));
        words
    }
}

/// Parses a command: `None` if it is no bridge, an error if it cannot be replaced.
pub(crate) fn read(program: &str, arguments: &[&str]) -> Option<Result<Bridge, String>> {
    let words: Vec<&str> = std::iter::once(program).chain(arguments.iter().copied()).collect();
    let at = package_at(&words)?;
    let rest = &words[at + 1..];
    match package_name(words[at]) {
        "mcp-remote" => Some(mcp_remote(rest)),
        "supergateway" => supergateway(rest),
        _ => None,
    }
}

/// Returns the position of the package's name behind its launcher.
fn package_at(words: &[&str]) -> Option<usize> {
    let mut at = 0;
    if matches!(stem(words[0]), "cmd") && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("/c")) {
        at = 2;
    }
    if matches!(stem(words.get(at)?), "npx" | "bunx" | "pnpx") {
        at += 1;
        while matches!(*words.get(at)?, "-y" | "--yes" | "-q" | "--quiet" | "--prefer-online" | "--prefer-offline") {
            at += 1;
        }
    }
    words.get(at).map(|_| at)
}

fn stem(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".cmd").or(name.strip_suffix(".exe")).unwrap_or(name)
}

fn package_name(word: &str) -> &str {
    let name = stem(word);
    name.find('@').map_or(name, |at| &name[..at])
}

fn mcp_remote(words: &[&str]) -> Result<Bridge, String> {
    let mut bridge = Bridge::default();
    let mut login = BridgeLogin::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = |flag: &str| words.next().ok_or(format!("{flag} has no value"));
        match word {
            "--header" => bridge.headers.push(header_of(value(word)?)?),
            "--transport" => {
                let transport = value(word)?;
                if !matches!(transport, "http-only" | "http-first" | "sse-only" | "sse-first") {
                    return Err("its --transport is not known".to_owned());
                }
                bridge.transport = Some(transport.to_owned());
            }
            "--debug" => bridge.log_level = Some("debug"),
            "--silent" => bridge.log_level = bridge.log_level.or(Some("error")),
            // Plain HTTP is judged by the URL and the headers, and proxies need no permission.
            "--allow-http" | "--enable-proxy" => {}
            "--auth-timeout" => _ = value(word)?,
            "--host" => login.host = Some(value(word)?.to_owned()),
            "--resource" => login.resource = Some(value(word)?.to_owned()),
            "--client-metadata-url" => login.client_metadata_url = Some(value(word)?.to_owned()),
            "--static-oauth-client-info" => client_info(value(word)?, &mut login)?,
            "--static-oauth-client-metadata" => client_metadata(value(word)?, &mut login)?,
            // The value may be a secret.
            flag if flag.starts_with('-') => {
                let name = flag.split('=').next().unwrap_or(flag);
                return Err(format!("Mendline has nothing for its {name}"));
            }
            url if bridge.url.is_empty() => url.clone_into(&mut bridge.url),
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => login.port = Some(port.to_owned()),
            _ => return Err("it has an argument that is not known".to_owned()),
        }
    }
    if bridge.url.is_empty() {
        return Err("it has no URL".to_owned());
    }
    let names = bridge.headers.iter().map(|(name, _)| name.as_str());
    // A credential in the headers replaces the login.
    if credential::any(names) || (credential::is_local(&bridge.url) && login == BridgeLogin::default()) {
        return Ok(bridge);
    }
    if let Some(host) = login.host.as_deref().filter(|host| !matches!(*host, "localhost" | "127.0.0.1")) {
        return Err(format!("its --host {host} is not this machine"));
    }
    if login.port.as_ref().is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err("its port is not one".to_owned());
    }
    bridge.login = Some(login);
    Ok(bridge)
}

/// Reads the registered client of mcp-remote.
fn client_info(text: &str, login: &mut BridgeLogin) -> Result<(), String> {
    for (name, value) in members("--static-oauth-client-info", text)? {
        match (name.as_str(), value) {
            ("client_id", Value::String(id)) => login.client_id = Some(id),
            ("client_secret", Value::String(secret)) => login.client_secret = Some(secret),
            // What follows from the requests themselves.
            (
                "redirect_uris" | "grant_types" | "response_types" | "client_id_issued_at" | "client_secret_expires_at",
                _,
            ) => {}
            (name, _) => return Err(format!("Mendline has nothing for {name} of its --static-oauth-client-info")),
        }
    }
    match login.client_id {
        Some(_) => Ok(()),
        None => Err("its --static-oauth-client-info has no client_id".to_owned()),
    }
}

/// Reads what mcp-remote registers.
fn client_metadata(text: &str, login: &mut BridgeLogin) -> Result<(), String> {
    for (name, value) in members("--static-oauth-client-metadata", text)? {
        match (name.as_str(), value) {
            ("scope", Value::String(scope)) => login.scope = Some(scope),
            ("client_name" | "client_uri" | "software_id" | "software_version", _) => {}
            (name, _) => return Err(format!("Mendline has nothing for {name} of its --static-oauth-client-metadata")),
        }
    }
    Ok(())
}

/// Parses an object on a command line, or in a file that it names with `@`. A relative path depends on the directory in
/// which the client starts its servers, and a variable on its environment, so neither is read.
fn members(flag: &str, text: &str) -> Result<serde_json::Map<String, Value>, String> {
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) if !Path::new(path).is_absolute() => {
            return Err(format!("its {flag} is in a file with a relative path"));
        }
        Some(path) => file(Path::new(path)).ok_or(format!("the file of its {flag} cannot be read"))?,
    };
    if text.contains('$') {
        return Err(format!("its {flag} holds a variable"));
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(format!("its {flag} is not an object")),
    }
}

fn file(path: &Path) -> Option<String> {
    let is_read = std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_FILE);
    if is_read { std::fs::read_to_string(path).ok() } else { None }
}

fn supergateway(words: &[&str]) -> Option<Result<Bridge, String>> {
    // With a command behind it, it is a server.
    let is_bridge = words.iter().any(|word| {
        let flag = word.split('=').next().unwrap_or(word);
        matches!(flag, "--sse" | "--streamableHttp")
    });
    is_bridge.then(|| replaced_supergateway(words))
}

fn replaced_supergateway(words: &[&str]) -> Result<Bridge, String> {
    let mut bridge = Bridge::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let (flag, given) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
            _ => (word, None),
        };
        let mut value = || given.or_else(|| words.next()).ok_or(format!("{flag} has no value"));
        match flag {
            "--sse" => {
                value()?.clone_into(&mut bridge.url);
                bridge.transport = Some("sse".to_owned());
            }
            "--streamableHttp" => {
                value()?.clone_into(&mut bridge.url);
                bridge.transport = Some("http".to_owned());
            }
            "--header" => bridge.headers.push(header_of(value()?)?),
            "--oauth2Bearer" => bridge.headers.push(("Authorization".to_owned(), format!("Bearer {}", value()?))),
            "--logLevel" => {
                bridge.log_level = match value()? {
                    "debug" => Some("debug"),
                    "none" => Some("off"),
                    _ => None,
                }
            }
            "--outputTransport" if value()? == "stdio" => {}
            flag if flag.starts_with('-') => return Err(format!("Mendline has nothing for its {flag}")),
            _ => return Err("it has an argument that is not known".to_owned()),
        }
    }
    if bridge.url.is_empty() {
        return Err("it has no URL".to_owned());
    }
    Ok(bridge)
}

/// Parses the name and the value of a header.
pub(crate) fn header_of(header: &str) -> Result<(String, String), String> {
    let (name, value) = header.split_once(':').ok_or("a header of it has no colon")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(line: &[&str]) -> Option<Result<Bridge, String>> {
        read(line[0], &line[1..])
    }

    fn replaced(line: &[&str]) -> Bridge {
        bridge(line).unwrap().unwrap()
    }

    const URL: &str = "https://mcp.example.com/sse";

    #[test]
    fn mcp_remote_is_parsed_flag_by_flag() {
        let read = replaced(&[
            "npx",
            "-y",
            "mcp-remote@0.1.38",
            URL,
            "9696",
            "--header",
            "Authorization:${AUTH}",
            "--transport",
            "sse-only",
            "--allow-http",
            "--debug",
            "--host",
            "127.0.0.1",
        ]);
        let headers = vec![("Authorization".to_owned(), "${AUTH}".to_owned())];
        let expected = Bridge {
            url: URL.to_owned(),
            transport: Some("sse-only".to_owned()),
            headers,
            log_level: Some("debug"),
            login: None,
        };
        assert_eq!(read, expected);
        assert_eq!(replaced(&["cmd", "/c", "npx", "mcp-remote", "http://localhost:3000/mcp"]).headers, []);
        assert_eq!(replaced(&["/usr/bin/mcp-remote", "http://127.0.0.1:1/x"]).url, "http://127.0.0.1:1/x");
    }

    #[test]
    fn login_of_mcp_remote_becomes_flags() {
        let read = replaced(&[
            "npx",
            "-y",
            "mcp-remote@latest",
            URL,
            "3334",
            "--static-oauth-client-info",
            r#"{"client_id": "id", "client_secret": "canary"}"#,
            "--static-oauth-client-metadata",
            r#"{"scope": "read write", "client_name": "x"}"#,
            "--resource",
            "https://mcp.example.com",
        ]);
        let words = read.login.unwrap().flags("SECRET").join(" ");
        assert_eq!(
            words,
            "--client-id id --client-secret-env SECRET --scope read write --resource https://mcp.example.com \
             --callback-port 3334 --callback-host localhost --callback-path /oauth/callback"
        );
        let plain = replaced(&["npx", "mcp-remote", URL, "--header", "X-Region: eu", "--host", "127.0.0.1"]);
        assert_eq!(plain.login.unwrap().flags("SECRET"), ["--callback-host", "127.0.0.1"]);
        assert_eq!(replaced(&["npx", "mcp-remote", URL]).login, Some(BridgeLogin::default()));
    }

    #[test]
    fn registered_client_in_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.json");
        std::fs::write(&path, r#"{"client_id": "id", "client_secret": "canary"}"#).unwrap();
        let named = format!("@{}", path.display());
        let read = replaced(&["npx", "mcp-remote", URL, "--static-oauth-client-info", named.as_str()]).login.unwrap();
        assert_eq!((read.client_id.as_deref(), read.client_secret.as_deref()), (Some("id"), Some("canary")));
        assert!(!read.flags("SECRET").join(" ").contains("canary"));
    }

    #[test]
    fn client_metadata_url_of_mcp_remote_becomes_a_flag() {
        let url = "https://me.example/client.json";
        let read = replaced(&["npx", "mcp-remote", URL, "--client-metadata-url", url]).login.unwrap();
        assert_eq!(read.flags("SECRET"), ["--client-metadata-url", url]);
    }

    #[test]
    fn bridge_with_unknown_flags_stays_a_command() {
        for (line, reason) in [
            (&["npx", "mcp-remote", URL, "--host", "0.0.0.0"][..], "--host"),
            (&["npx", "mcp-remote", URL, "--static-oauth-client-info", "@file.json"], "a relative path"),
            (&["npx", "mcp-remote", URL, "--static-oauth-client-info", "@/no/such/file.json"], "cannot be read"),
            (&["npx", "mcp-remote", URL, "--static-oauth-client-info", "$INFO"], "a variable"),
            (&["npx", "mcp-remote", URL, "--static-oauth-client-info", "{}"], "no client_id"),
            (&["npx", "mcp-remote", URL, "--static-oauth-client-metadata", r#"{"jwks": {}}"#], "jwks"),
            (&["npx", "mcp-remote", URL, "--header", "Authorization: x", "--ignore-tool", "rm"], "--ignore-tool"),
            (&["npx", "mcp-remote", "--header"], "no value"),
            (&["npx", "mcp-remote"], "no URL"),
            (&["npx", "supergateway", "--sse", URL, "--port", "8000"], "--port"),
        ] {
            let complaint = bridge(line).unwrap().unwrap_err();
            assert!(complaint.contains(reason), "{line:?}: {complaint}");
        }
    }

    #[test]
    fn supergateway_is_parsed_when_it_is_a_bridge() {
        let read =
            replaced(&["npx", "-y", "supergateway", "--streamableHttp", URL, "--oauth2Bearer", "t", "--logLevel=none"]);
        assert_eq!(read.headers, [("Authorization".to_owned(), "Bearer t".to_owned())]);
        assert_eq!((read.transport.as_deref(), read.log_level), (Some("http"), Some("off")));
        assert_eq!(replaced(&["supergateway", "--sse=http://x/sse", "--outputTransport", "stdio"]).url, "http://x/sse");
        assert_eq!(bridge(&["npx", "supergateway", "--stdio", "uvx notes"]), None);
    }

    #[test]
    fn other_commands_are_not_bridges() {
        for line in [&["npx", "-y", "notes"][..], &["node", "mcp-remote"], &["npx"], &["docker", "run", "mcp-remote"]] {
            assert_eq!(bridge(line), None, "{line:?}");
        }
    }
}
