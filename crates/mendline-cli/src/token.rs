//! `mendline token`: a fresh credential for other programs.
//!
//! One store owns each login, so that scripts and clients with HTTP of their own never race for a rotating token.

use std::process::ExitCode;

use clap::Args;
use mendline::credential::{Credential, Occasion};
use mendline::observe::redact::Redactor;
use mendline_config::Auth;
use serde_json::{Map, Value};

use crate::cli::{NEEDS_LOGIN, NEGATIVE};
use crate::login::outcome::failed;
use crate::login::server::{LoginServer, address};
use crate::named::Refusal;
use crate::output;
use crate::plan::Plan;
use crate::untrusted_text::one_line;

const EXAMPLES: &str = "\
Examples:
  mendline token notes                  the access token alone
  curl -H \"$(mendline token --header notes)\" https://mcp.example.com/mcp
  mendline token --json notes           headers as JSON, for the headersHelper of a client

The token is renewed first if it expires within a minute, once for all processes.
Exit codes: 0 ok, 1 the provider is not available, 2 wrong usage or configuration, 3 no server of
that name, 6 a login is needed.";

/// Options of `mendline token`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenOptions {
    /// URL of the server, or its name in the configuration file or in the file of a client
    #[arg(value_name = "URL|NAME", required_unless_present = "url_env")]
    target: Option<String>,

    /// Print the header line, as 'Name: value'
    #[arg(long, conflicts_with = "json")]
    header: bool,

    /// Print the headers as a JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: LoginServer,
}

/// Runs `mendline token`.
pub(crate) fn run(options: &TokenOptions) -> ExitCode {
    match credential(options) {
        Ok(credential) => {
            print(&credential, options);
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn print(credential: &Credential, options: &TokenOptions) {
    let headers = credential.headers.iter();
    if options.json {
        let members: Map<String, Value> = headers.map(|(name, value)| (name.clone(), value.expose().into())).collect();
        output::json(&Value::Object(members).to_string());
    } else if options.header {
        headers.for_each(|(name, value)| println!("{name}: {}", value.expose()));
    } else {
        headers.for_each(|(_, value)| println!("{}", bare(value.expose())));
    }
}

/// Returns a credential without its scheme.
fn bare(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value,
    }
}

fn credential(options: &TokenOptions) -> Result<Credential, Refusal> {
    let plan = options.server.resolve("token", options.target.as_deref())?;
    let address = address(&plan)?;
    let redactor = Redactor::default();
    redactor.learn(&plan.secrets());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let name = &plan.upstream.name;
    let credential = match address.auth() {
        Auth::OAuth(_) => {
            let (oauth, settings) = address.login(name, redactor)?;
            let token = runtime.block_on(mendline_oauth::token(&oauth, &settings));
            token.map_err(|error| failed("get a token of", name, &error))
        }
        _ => runtime.block_on(read_source(&plan, redactor)),
    };
    runtime.shutdown_background();
    credential
}

/// Reads the source of a server without a login.
async fn read_source(plan: &Plan, redactor: Redactor) -> Result<Credential, Refusal> {
    let name = one_line(&plan.upstream.name);
    let Some(mut source) = plan.credential_source(redactor, None)? else {
        return Err(Refusal::from(format!("{name} has no credential that can be renewed: see `auth` in its entry")));
    };
    match source.read(&Occasion::Start).await {
        Ok(Some(credential)) => Ok(credential),
        Ok(None) => Err(Refusal { words: format!("error: {name} has no credential"), code: NEEDS_LOGIN }),
        Err(error) => {
            let code = if error.can_pass() { NEGATIVE } else { NEEDS_LOGIN };
            let words = format!("error: cannot get a token of {name}: {}", one_line(&error.to_string()));
            Err(Refusal { words, code })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_printed_without_its_scheme() {
        assert_eq!(
            (bare("Bearer abc"), bare("bearer  abc"), bare("Basic abc"), bare("abc")),
            ("abc", "abc", "Basic abc", "abc")
        );
    }
}
