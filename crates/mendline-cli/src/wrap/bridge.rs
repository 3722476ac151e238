//! Entries that already use a bridge: `mcp-remote` and `supergateway`.
//!
//! Mendline replaces them, flag by flag, which saves a process. A bridge that cannot be replaced runs as a command,
//! with the reason: above all `mcp-remote` without a credential in its headers, which logs in through a browser and
//! stores its token itself.

use super::credential;

/// The settings of a bridge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bridge {
    pub(crate) url: String,
    pub(crate) transport: Option<String>,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) log_level: Option<&'static str>,
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
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--header" => {
                let header = words.next().ok_or("--header has no value")?;
                bridge.headers.push(header_of(header)?);
            }
            "--transport" => {
                let transport = words.next().ok_or("--transport has no value")?;
                if !matches!(transport, "http-only" | "http-first" | "sse-only" | "sse-first") {
                    return Err("its --transport is not known".to_owned());
                }
                bridge.transport = Some(transport.to_owned());
            }
            "--debug" => bridge.log_level = Some("debug"),
            "--silent" => bridge.log_level = bridge.log_level.or(Some("error")),
            // Plain HTTP is judged by the URL and the headers, and proxies need no permission; the other flags are
            // about the login, which a credential replaces.
            "--allow-http" | "--enable-proxy" => {}
            "--host" | "--auth-timeout" => _ = words.next(),
            // The value may be a secret.
            flag if flag.starts_with('-') => {
                let name = flag.split('=').next().unwrap_or(flag);
                return Err(format!("Mendline has nothing for its {name}"));
            }
            url if bridge.url.is_empty() => url.clone_into(&mut bridge.url),
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => {}
            _ => return Err("it has an argument that is not known".to_owned()),
        }
    }
    finished(bridge, "mcp-remote logs in by itself, which Mendline does not yet")
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

fn finished(bridge: Bridge, login: &str) -> Result<Bridge, String> {
    if bridge.url.is_empty() {
        return Err("it has no URL".to_owned());
    }
    let names = bridge.headers.iter().map(|(name, _)| name.as_str());
    if !credential::is_local(&bridge.url) && !credential::any(names) {
        return Err(login.to_owned());
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
        let expected =
            Bridge { url: URL.to_owned(), transport: Some("sse-only".to_owned()), headers, log_level: Some("debug") };
        assert_eq!(read, expected);
        assert_eq!(replaced(&["cmd", "/c", "npx", "mcp-remote", "http://localhost:3000/mcp"]).headers, []);
        assert_eq!(replaced(&["/usr/bin/mcp-remote", "http://127.0.0.1:1/x"]).url, "http://127.0.0.1:1/x");
    }

    #[test]
    fn bridge_with_login_or_unknown_flags_stays_a_command() {
        for (line, reason) in [
            (&["npx", "mcp-remote", URL][..], "logs in by itself"),
            (&["npx", "mcp-remote", URL, "--header", "X-Region: eu"], "logs in by itself"),
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
