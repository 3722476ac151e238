//! The headers of a command line: `--header` and `--header-env`.

use mendline::decisions::Secret;
use mendline_config::{expand, is_variable_name};

use super::{Lookup, held_by};
use crate::server_flags::Line;

/// Checks the form of the headers on the command line, before any other error about the line.
pub(crate) fn check_headers(line: &Line<'_>) -> Result<(), String> {
    line.server.header.iter().try_for_each(|header| header_parts(header).map(drop))?;
    line.server.header_env.iter().try_for_each(|header| header_env_parts(header).map(drop))
}

fn header_parts(header: &str) -> Result<(&str, &str), String> {
    let (name, value) = header.split_once(':').unwrap_or_default();
    let (name, value) = (name.trim(), value.trim());
    if is_header_name(name) && !value.is_empty() { Ok((name, value)) } else { Err(HEADER_FORM.to_owned()) }
}

fn header_env_parts(header: &str) -> Result<(&str, &str), String> {
    let (name, holder) = header.split_once('=').unwrap_or_default();
    let name = name.trim();
    if is_header_name(name) && is_variable_name(holder) { Ok((name, holder)) } else { Err(HEADER_ENV_FORM.to_owned()) }
}

pub(super) fn headers(line: &Line<'_>, variable: Lookup<'_>) -> Result<Vec<(String, Secret)>, String> {
    let one = |header: &String| {
        let (name, value) = header_parts(header)?;
        let value = expand(value, variable).map_err(|fault| format!("--header: {fault}"))?;
        Ok((name.to_owned(), Secret::new(value)))
    };
    let held = |header: &String| {
        let (name, holder) = header_env_parts(header)?;
        let value = held_by("--header-env", holder, variable)?;
        Ok((name.to_owned(), Secret::new(value.trim().to_owned())))
    };
    line.server.header.iter().map(one).chain(line.server.header_env.iter().map(held)).collect()
}

const HEADER_FORM: &str = "--header is written as one word, 'Name: value', with quotes around it

  mendline run --header 'Authorization: Bearer ${TOKEN}' https://mcp.example.com/mcp

What was written is not shown, because it may hold a secret.";

const HEADER_ENV_FORM: &str = "--header-env is written as NAME=VARIABLE, with the name of an environment variable

  mendline run --header-env Authorization=MY_AUTHORIZATION https://mcp.example.com/mcp

What was written is not shown, because it may hold a secret.";

/// Returns whether a text is a valid header name.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
