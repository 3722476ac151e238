//! A login on another machine: the browser here, the login there, over ssh.
//!
//! The remote machine gets a login of its own, because two machines with one copied token would revoke each other. ssh
//! forwards the callback port for as long as the login takes.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, ExitCode, Stdio};

use super::browser;
use crate::cli::NEGATIVE;
use crate::named::Refusal;
use crate::untrusted_text::one_line;

/// The exit code of ssh for its own failures.
const SSH_FAILED: u8 = 255;

/// The exit code of a shell for a program that it does not find.
const NO_PROGRAM: u8 = 127;

/// Runs `mendline login` with these words on another machine.
pub(super) fn login(host: &str, words: &[String], port: Option<u16>) -> Result<ExitCode, Refusal> {
    if host.starts_with('-') || host.trim().is_empty() {
        return Err(Refusal::from("--on takes USER@HOST, as ssh does".to_owned()));
    }
    let port = match port {
        Some(port) => port,
        None => free_port().map_err(|error| Refusal::from(format!("there is no free port: {error}")))?,
    };
    let mut child = Command::new("ssh")
        .args(arguments(host, words, port))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Refusal { words: format!("error: cannot start ssh: {error}"), code: NEGATIVE })?;
    let mut is_opened = false;
    for line in
        child.stderr.take().map(BufReader::new).into_iter().flat_map(|lines| lines.lines()).map_while(Result::ok)
    {
        eprintln!("{}", one_line(&line));
        let address = line.trim();
        // The first address is that of the authorization page.
        if !is_opened && is_address(address) {
            is_opened = browser::open(address);
        }
    }
    let ended = child.wait().map_err(|error| Refusal::from(error.to_string()))?;
    match ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(NEGATIVE) {
        SSH_FAILED => Err(Refusal {
            words: format!("error: cannot reach {host}; first make this work: ssh {host}"),
            code: NEGATIVE,
        }),
        NO_PROGRAM => {
            let words = format!("error: {host} has no mendline in the PATH of its shell; install it there");
            Err(Refusal { words, code: NEGATIVE })
        }
        code => Ok(ExitCode::from(code)),
    }
}

/// Returns the arguments of ssh. The remote shell parses its command, so the words are quoted for it.
fn arguments(host: &str, words: &[String], port: u16) -> Vec<String> {
    let forward = format!("{port}:127.0.0.1:{port}");
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = format!("mendline login --no-browser --port {port} {}", words.join(" "));
    ["-o", "ExitOnForwardFailure=yes", "-L", &forward, "--", host, &command].map(str::to_owned).to_vec()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns whether a line is nothing but a web address.
fn is_address(line: &str) -> bool {
    let is_web = line.starts_with("https://") || line.starts_with("http://");
    is_web && !line.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_quoted_for_the_remote_shell() {
        let words = arguments("me@box", &["--".to_owned(), "it's; rm -rf x".to_owned()], 4711);
        assert_eq!(words[3], "4711:127.0.0.1:4711");
        assert_eq!(words.last().unwrap(), r"mendline login --no-browser --port 4711 '--' 'it'\''s; rm -rf x'");
    }

    #[test]
    fn only_a_line_that_is_an_address_opens_the_browser() {
        assert!(is_address("https://login.test/authorize?x=1"));
        assert!(
            !is_address("see https://login.test/") && !is_address("https://login.test/ x") && !is_address("file:///x")
        );
    }
}
