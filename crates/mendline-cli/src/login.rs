//! `mendline login`: a person logs in to a server at a URL.
//!
//! - [`server`]: the server of the commands about logins;
//! - [`browser`]: the browser of the person; [`ui`]: what the person sees;
//! - [`outcome`]: the words about a login, and exit codes;
//! - [`remote`]: a login on another machine, over ssh.

pub(crate) mod browser;
pub(crate) mod outcome;
mod remote;
pub(crate) mod server;
pub(crate) mod ui;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use mendline::observe::redact::Redactor;
use mendline::os::keyring::KeyringError;
use mendline_oauth::{LoggedIn, Way};

use self::outcome::{failed, until, who};
use self::server::{LoginServer, address};
use self::ui::TerminalUi;
use crate::named::Refusal;
use crate::policy_flags::duration;
use crate::untrusted_text::one_line;

const EXAMPLES: &str = "\
Examples:
  mendline login notes                        opens the browser, and stores the login
  mendline login https://mcp.example.com/mcp  a server that is in no file
  mendline login --no-browser notes           prints the address, and takes the pasted redirect
  mendline login --device notes               a code for another device, where the provider offers it
  mendline login --on me@box notes            the browser here, the login on another machine, over ssh
  mendline login --account me@work notes      one of several accounts

A running Mendline uses the login at once; no client has to be restarted.
`mendline logout` ends it, `mendline status` shows it, and never the token.
Exit codes: 0 logged in, 1 the login failed, 2 wrong usage or configuration, 3 no server of that
name.";

/// Options of `mendline login`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoginOptions {
    /// URL of the server, or its name in the configuration file or in the file of a client
    #[arg(value_name = "URL|NAME", required_unless_present = "url_env")]
    target: Option<String>,

    /// Print the address instead of opening a browser; the address of the last page can be pasted
    #[arg(long, conflicts_with = "device")]
    no_browser: bool,

    /// Print a code to enter on another device, if the provider offers that
    #[arg(long)]
    device: bool,

    /// Log in on another machine, which has mendline, over ssh; the browser opens here
    #[arg(long, value_name = "USER@HOST", conflicts_with_all = ["device", "no_browser", "url_env", "config"])]
    on: Option<String>,

    /// Port on this machine that the browser returns to [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Time limit of the whole login
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    timeout: Duration,

    #[command(flatten)]
    server: LoginServer,
}

/// Runs `mendline login`.
pub(crate) fn run(options: &LoginOptions) -> ExitCode {
    let ran = match (&options.on, &options.target) {
        (Some(host), Some(target)) => {
            let words = [options.server.words(), vec!["--".to_owned(), target.clone()]].concat();
            remote::login(host, &words, options.port)
        }
        _ => here(options),
    };
    ran.unwrap_or_else(|refusal| {
        eprintln!("{}", refusal.words);
        ExitCode::from(refusal.code)
    })
}

fn here(options: &LoginOptions) -> Result<ExitCode, Refusal> {
    let plan = options.server.resolve("login", options.target.as_deref())?;
    let address = address(&plan)?;
    let redactor = Redactor::default();
    redactor.learn(&plan.secrets());
    let (oauth, settings) = address.login(&plan.upstream.name, redactor)?;
    oauth.store().troubles().iter().for_each(|trouble| eprintln!("warning: {}", one_line(trouble)));
    let way = way(options);
    let ui = TerminalUi { pastes: way == Way::Paste, reads_any_input: options.no_browser };
    let login = mendline_oauth::LoginOptions {
        way,
        port: options.port,
        timeout: options.timeout,
        ..mendline_oauth::LoginOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let result = runtime.block_on(mendline_oauth::login(&oauth, &settings, &login, &ui));
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    let logged_in = result.map_err(|error| failed("log in to", &plan.upstream.name, &error))?;
    println!("{}", summary(&plan.upstream.name, &logged_in, SystemTime::now()));
    println!("{}", stored_as(&logged_in, oauth.store().unsealed_because()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the way of the login. Without a browser for the person, the address is shown.
fn way(options: &LoginOptions) -> Way {
    if options.device {
        return Way::Device;
    }
    if options.no_browser {
        return Way::Paste;
    }
    match browser::check(|name| std::env::var_os(name)) {
        Ok(()) => Way::Browser,
        Err(why) => {
            eprintln!(
                "{why}. Other ways: --device, or `mendline login --on USER@HOST` from the machine with the browser.\n"
            );
            Way::Paste
        }
    }
}

/// Returns the words about the protection of a stored login.
fn stored_as(logged_in: &LoggedIn, why_not_sealed: Option<KeyringError>) -> String {
    match (logged_in.info.sealed, why_not_sealed) {
        (true, _) => "It is stored sealed, with a key in the system keyring.".to_owned(),
        (false, Some(why)) => format!("It is stored in a file that only you can read, without a seal: {why}."),
        (false, None) => "It is stored in a file that only you can read.".to_owned(),
    }
}

/// Returns the words about a login that was made.
fn summary(name: &str, logged_in: &LoggedIn, now: SystemTime) -> String {
    let info = &logged_in.info;
    let mut words = format!("Logged in to {}", one_line(name));
    if let Some(who) = who(info) {
        words.push_str(&format!(" as {}", one_line(&who)));
    }
    words.push_str(&format!(" ({}).", one_line(&info.issuer)));
    if let Some(account) = info.account.as_ref().filter(|_| info.unverified) {
        words.push_str(&format!(
            " The provider does not say who logged in, so it is not verified that this is {}.",
            one_line(account)
        ));
    }
    match logged_in.ends_at() {
        Some(end) => words.push_str(&format!(
            " The provider gave no refresh token, so this login ends {}; then `mendline login` is needed again.",
            until(end, now)
        )),
        None if info.has_refresh => words.push_str(" The login renews itself."),
        None => {}
    }
    words
}
