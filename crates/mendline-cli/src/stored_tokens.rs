//! The tokens that Mendline has made and stored: what a new one opens, their list, and their end.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline::frontend::http::token_file::{self, StoredToken, TokenRights};
use mendline::frontend::http::{JWT_PREFIX, LOCAL};
use mendline::state::state_directory;

use crate::access_flags::StoredTokenOptions;
use crate::cli::{NEGATIVE, UNKNOWN};

/// The longest name of a token, as in the configuration.
const LONGEST_NAME: usize = 64;

/// Runs `--list-tokens` or `--revoke-token`. Returns nothing if neither is given.
pub(crate) fn run(options: &StoredTokenOptions) -> Option<ExitCode> {
    if !options.list_tokens && options.revoke_token.is_none() {
        return None;
    }
    let state = state_directory(|name| std::env::var_os(name));
    let done =
        state.ok_or_else(|| io::Error::other("there is no state directory; set HOME")).and_then(|state| match &options
            .revoke_token
        {
            Some(name) => revoke(&state, name),
            None => list(&state),
        });
    Some(done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(NEGATIVE)
    }))
}

/// Returns what the new token opens.
pub(crate) fn rights(options: &StoredTokenOptions) -> io::Result<TokenRights> {
    if let Some(problem) = options.new_token.as_deref().and_then(problem_of_name) {
        return Err(io::Error::other(format!("--new-token: {problem}")));
    }
    let listed = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let expires = match &options.token_expires {
        Some(text) => Some(end_of(text, SystemTime::now()).ok_or_else(|| {
            let help = "write a date such as 2027-01-31, or a time from now such as 30d";
            io::Error::other(format!("--token-expires {text}: {help}"))
        })?),
        None => None,
    };
    Ok(TokenRights { servers: listed(&options.token_servers), tools: listed(&options.token_tools), expires })
}

fn problem_of_name(name: &str) -> Option<String> {
    if name == LOCAL {
        Some(format!("{LOCAL:?} is the name of requests without a token; choose another"))
    } else if name.starts_with(JWT_PREFIX) {
        Some(format!("names with {JWT_PREFIX:?} are those of access tokens of `access.jwt`; choose another"))
    } else if name.is_empty() || name.len() > LONGEST_NAME {
        Some(format!("a name has 1 to {LONGEST_NAME} bytes"))
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Some("a name has no spaces and control characters".to_owned())
    } else {
        None
    }
}

/// Returns a time in seconds since 1970: a date, a time, or a duration from now.
fn end_of(text: &str, now: SystemTime) -> Option<u64> {
    let is_date = text.len() == "2027-01-31".len() && text.contains('-');
    let time = if is_date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let end = match humantime::parse_rfc3339(&time) {
        Ok(end) => end,
        Err(_) => now.checked_add(humantime::parse_duration(text).ok().filter(|time| *time > Duration::ZERO)?)?,
    };
    end.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn list(state: &Path) -> io::Result<ExitCode> {
    let tokens = token_file::list(state)?;
    if tokens.is_empty() {
        eprintln!("no tokens are stored; 'mendline serve --new-token NAME' makes one");
    }
    let now = SystemTime::now();
    tokens.iter().for_each(|token| println!("{}", line(token, now)));
    Ok(ExitCode::SUCCESS)
}

fn line(token: &StoredToken, now: SystemTime) -> String {
    let all = |list: &Option<Vec<String>>| list.as_ref().map_or_else(|| "all".to_owned(), |list| list.join(", "));
    let end = match token.rights.end() {
        None => "never expires".to_owned(),
        Some(end) => {
            let verb = if end <= now { "expired" } else { "expires" };
            format!("{verb} {}", humantime::format_rfc3339_seconds(end))
        }
    };
    format!("{}  servers: {}  tools: {}  {end}", token.name, all(&token.rights.servers), all(&token.rights.tools))
}

fn revoke(state: &Path, name: &str) -> io::Result<ExitCode> {
    if token_file::remove(state, name)? {
        eprintln!("the token {name:?} is deleted; running gateways refuse it within a second");
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<_> = token_file::list(state)?.into_iter().map(|token| token.name).collect();
    let known = if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
    eprintln!("error: there is no stored token {name:?}; {known}. Tokens of the configuration file end there");
    Ok(ExitCode::from(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_a_date_or_a_time_from_now() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(end_of("2027-01-31", now), Some(1_801_353_600));
        assert_eq!(end_of("2027-01-31T12:00:00Z", now), Some(1_801_396_800));
        assert_eq!(end_of("30d", now), Some(1_000 + 30 * 24 * 3600));
        for wrong in ["", "soon", "0s", "2027-13-01", "-1d"] {
            assert_eq!(end_of(wrong, now), None, "{wrong}");
        }
    }

    #[test]
    fn name_of_requests_without_a_token_is_refused() {
        let of = |name: &str| {
            let options = StoredTokenOptions { new_token: Some(name.to_owned()), ..StoredTokenOptions::default() };
            rights(&options).is_ok()
        };
        assert!(of("ci") && !of("local") && !of("") && !of("a b"));
    }
}
