//! Healthy calls through the core and nothing else: what `cargo xtask instructions` counts.
//!
//! `mendline-instructions stdio 1000` greets a server and makes a thousand calls, one after the other, with every policy
//! switched on. One call is what a shell does for it: the client's line is parsed and handed over, outputs are taken until
//! there is none, the request is pulled and made into bytes, the server's answer is parsed and handed over, and what the
//! client will read is pulled and made into bytes. Two programs of which one makes a thousand calls more differ by those and
//! by nothing else, so there is no I/O in here, no clock, no dice, and as little staging as possible.
//!
//! `crowded` does the same while two hundred other calls wait for their answers: whatever is searched, counted or sorted
//! among all of them for the sake of one shows there.
//!
//! Each answer is checked, because the cost of wrong answers is of no interest.

mod stdio;
mod policies;
mod http;
mod harness;

use std::process::ExitCode;

/// What the client asks for, but for its id; of the size of the calls in `cargo xtask bench`.
const CALL: &str = r#","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello there"}}}"#;

/// What the server answers, but for the id.
const RESULT: &str = r#","result":{"content":[{"type":"text","text":"hello there"}]}}"#;

/// How many calls are open besides; fewer than may be.
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
