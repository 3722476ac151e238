//! The command `mendline`: one module per subcommand.
//!
//! The guard is handled first: it starts with every `mendline run`, must start fast and stay small, and must not parse
//! a command line.

#[macro_use]
mod output;

mod access_flags;
mod add;
mod bare_command;
mod call;
mod check;
mod cli;
mod client_entry;
mod completions;
mod control;
mod demo;
mod demo_server;
mod doctor;
mod editing;
mod explain;
mod external_inputs;
mod first_run;
mod gateway_access;
mod help;
mod interrupt;
mod invocation;
mod joined_gateway;
mod json_text;
mod list;
mod log_files;
mod login;
mod login_flags;
mod logout;
mod logs;
mod man;
mod mcp_client;
mod metrics;
mod named;
mod names;
mod next_step;
mod plan;
mod policy_flags;
mod progress;
mod prose;
mod reload;
mod remove;
mod report;
mod reporter;
mod run;
mod running_name;
mod serve;
mod server_flags;
mod set;
mod stats;
mod status;
mod stored_tokens;
mod style;
mod target;
mod token;
mod tools;
mod untrusted_text;
mod watch;
mod wrap;

use std::process::ExitCode;

use cli::Command;

/// The hidden subcommand that runs this program as the guard.
const GUARD: &str = "__guard";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == GUARD) {
        return mendline::transport::guard::run();
    }
    if std::env::args_os().len() == 1 {
        return output::finish(first_run::run());
    }
    let code = match help::parse() {
        Ok(cli) => run_command(cli.command),
        Err(code) => code,
    };
    output::finish(code)
}

fn run_command(command: Command) -> ExitCode {
    match command {
        Command::Run(options) => run::run(options),
        Command::Serve(options) => serve::run(*options),
        Command::Login(options) => login::run(&options),
        Command::Logout(options) => logout::run(&options),
        Command::Token(options) => token::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Stats(options) => stats::run(&options),
        Command::Metrics(options) => metrics::run(&options),
        Command::Reconnect(options) => control::reconnect(&options),
        Command::Isolate(options) => control::isolate(&options),
        Command::Resume(options) => control::resume(&options),
        Command::Add(options) => add::run(&options),
        Command::List(options) => list::run(&options),
        Command::Set(options) => set::set(&options),
        Command::Unset(options) => set::unset(&options),
        Command::Remove(options) => remove::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Schema(options) => check::schema(&options),
        Command::Wrap(options) => wrap::wrap(&options),
        Command::Unwrap(options) => wrap::unwrap(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Tools(options) => tools::run(&options),
        Command::Call(options) => call::run(&options),
        Command::Logs(options) => logs::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Completions(options) => completions::run(&options),
        Command::Man(options) => man::run(&options),
        Command::DemoServer(options) => demo_server::run(&options),
    }
}
