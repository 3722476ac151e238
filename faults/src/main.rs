//! `mendline-faults`: an MCP server and a TCP proxy that break on purpose. See `mendline_faults::command`.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = match runtime.block_on(mendline_faults::command::run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    };
    // A blocking read of stdin must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Prints an error to stderr.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    // Nothing can be reported if stderr is closed.
    let _ = writeln!(std::io::stderr(), "mendline-faults: {error}");
    ExitCode::from(2)
}
