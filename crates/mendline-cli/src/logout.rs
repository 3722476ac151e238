//! `mendline logout`: revokes the tokens of a login at the provider and deletes them here.

use std::process::ExitCode;

use clap::Args;
use mendline::observe::redact::Redactor;
use mendline_oauth::{LoggedOut, OAuth, Settings};

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::login::outcome::failed;
use crate::login::server::{LoginServer, address};
use crate::named::Refusal;
use crate::plan::credential;
use crate::untrusted_text::one_line;

const EXAMPLES: &str = "\
Examples:
  mendline logout notes                     revokes this login, and deletes it
  mendline logout --account me@work notes   one of several accounts
  mendline logout --all                     every login of this user

A provider without revocation keeps its tokens until they expire; that is said.
Exit codes: 0 logged out, 1 a login could not be deleted, 2 wrong usage or configuration, 3 there is
no such login or server.";

/// Options of `mendline logout`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogoutOptions {
    /// URL of the server, or its name in the configuration file or in the file of a client
    #[arg(value_name = "URL|NAME", required_unless_present_any = ["all", "url_env"])]
    target: Option<String>,

    /// End every login of this user
    #[arg(long, conflicts_with = "target")]
    all: bool,

    #[command(flatten)]
    server: LoginServer,
}

/// Runs `mendline logout`.
pub(crate) fn run(options: &LogoutOptions) -> ExitCode {
    let ended = logins(options).and_then(|logins| {
        // Files that cannot be read hold logins that are not ended.
        let troubles = if options.all { credential::store()?.troubles() } else { Vec::new() };
        troubles.iter().for_each(|trouble| eprintln!("warning: {}", one_line(trouble)));
        end_all(&logins, !troubles.is_empty())
    });
    ended.unwrap_or_else(|refusal| {
        eprintln!("{}", refusal.words);
        ExitCode::from(refusal.code)
    })
}

/// A login to end, with its name for messages.
struct Login {
    name: String,
    oauth: OAuth,
    settings: Settings,
}

fn logins(options: &LogoutOptions) -> Result<Vec<Login>, Refusal> {
    if !options.all {
        let plan = options.server.resolve("logout", options.target.as_deref())?;
        let (oauth, settings) = address(&plan)?.login(&plan.upstream.name, Redactor::default())?;
        return Ok(vec![Login { name: plan.upstream.name, oauth, settings }]);
    }
    let store = credential::store()?;
    let stored = store.logins().map_err(|error| failed("read", "the logins", &error))?;
    let login = |info: mendline_oauth::LoginInfo| {
        let oauth = credential::oauth_for(&info.server, Redactor::default())?;
        let mut settings = Settings::new(info.server);
        settings.account = info.account;
        Ok(Login { name: settings.server.clone(), oauth, settings })
    };
    stored.into_iter().map(login).collect::<Result<_, String>>().map_err(Refusal::from)
}

/// Ends the logins. One that cannot be ended does not keep the others.
fn end_all(logins: &[Login], has_troubles: bool) -> Result<ExitCode, Refusal> {
    if logins.is_empty() {
        println!("{}", if has_troubles { "There are no other logins." } else { "There are no logins." });
        return Ok(ExitCode::from(if has_troubles { NEGATIVE } else { UNKNOWN }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let mut code = if has_troubles { NEGATIVE } else { 0 };
    for Login { name, oauth, settings } in logins {
        let ended = runtime.block_on(mendline_oauth::logout(oauth, settings));
        let name = one_line(name);
        match ended {
            Ok(ended) => {
                println!("{}", words(&name, &ended));
                if ended == LoggedOut::NoLogin && code == 0 {
                    code = UNKNOWN;
                }
            }
            Err(error) => {
                eprintln!("{}", failed("log out of", &name, &error).words);
                code = NEGATIVE;
            }
        }
    }
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

/// Returns the words about a logout.
fn words(name: &str, ended: &LoggedOut) -> String {
    match ended {
        LoggedOut::Revoked => format!("Logged out of {name}: its tokens are revoked and deleted."),
        LoggedOut::DeletedOnly { why: None } => format!(
            "Logged out of {name}: its tokens are deleted here. The provider offers no revocation, so they stay valid \
             there until they expire."
        ),
        LoggedOut::DeletedOnly { why: Some(why) } => format!(
            "Logged out of {name}: its tokens are deleted here. The revocation failed, so they stay valid at the \
             provider until they expire: {}",
            one_line(why)
        ),
        LoggedOut::NoLogin => format!("There is no login to {name}."),
    }
}
