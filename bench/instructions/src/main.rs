//! Healthy calls through the core, for `cargo xtask instructions` to count.
//!
//! `mendline-instructions stdio 1000` initializes a session and makes a thousand calls one after the other, with every
//! policy enabled. A call comprises the work of a shell: parse the client's line and pass it to the engine, poll
//! outputs until there are none, poll and serialize the request, parse the server's answer and pass it to the engine,
//! poll and serialize the answer for the client. Two runs with different numbers of calls differ by these calls only,
//! so the program has no I/O, no clock, no random numbers and as little setup as possible.
//!
//! `crowded` does the same while two hundred other calls are open, so that any work that depends on the number of open
//! calls shows.
//!
//! Each answer is checked, because the cost of wrong answers is meaningless.

mod harness;
mod http;
mod policies;
mod stdio;

use std::process::ExitCode;

/// The client's call without its id, of the same size as in `cargo xtask bench`.
const CALL: &str = r#","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello there"}}}"#;

/// The server's answer without its id.
const RESULT: &str = r#","result":{"content":[{"type":"text","text":"hello there"}]}}"#;

/// The number of additional open calls; below the limit.
const OPEN_CALLS: u64 = 200;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let calls = args.get(1).and_then(|calls| calls.parse().ok());
    match (args.first().map(String::as_str), calls) {
        (Some("stdio"), Some(calls)) => stdio::make(calls, 0),
        (Some("crowded"), Some(calls)) => stdio::make(calls, OPEN_CALLS),
        (Some("http"), Some(calls)) => http::make(calls),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}
