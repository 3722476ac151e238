//! Cuts every conversation at every byte.
//!
//! The real driver, engine, framing and HTTP transport run over in-memory streams on paused time. One fault hits one
//! byte of one direction; later bytes pass. In every case each request must be answered once and in time, no unsafe
//! call may run twice, and the reported outcome must be true. A violation prints the command that reproduces it.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]
#![allow(clippy::print_stdout, reason = "a manual sweep prints its table")]

mod check;
#[path = "../memory/child.rs"]
mod child;
mod conversation;
mod faulty_stream;
mod host;
mod http1;
mod http2;
mod observations;
mod report;
mod site;
mod sweep;
mod tls;

use std::time::Instant;

use conversation::{ALL, Conversation};
use faulty_stream::Fault;
use report::Report;
use sweep::{Coverage, sweep};

fn assert_no_violation(name: &str) {
    let conversation = Conversation::named(name).unwrap();
    let report = sweep(&conversation, &Fault::KINDS, Coverage::Sample);
    println!("{}", report.table());
    assert!(report.cuts() > 300, "only {} cuts: the conversation was not held", report.cuts());
    let failures = report.failures();
    assert!(failures.is_empty(), "{} violations:\n{}", report.found(), failures.join("\n"));
}

/// One test for each conversation, so that they run concurrently and fail separately.
macro_rules! conversations {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            assert_no_violation($name);
        })*

        #[test]
        fn every_conversation_has_test() {
            assert_eq!([$($name),*], ALL.map(|conversation| conversation.name));
        }
    };
}

conversations! {
    child_over_stdio_survives_cut_anywhere: "stdio",
    http1_with_json_answers_survives_cut_anywhere: "http1-json",
    http1_with_events_survives_cut_anywhere: "http1-events",
    http1_with_resumable_events_survives_cut_anywhere: "http1-resumable",
    polled_answers_over_http1_survive_cut_anywhere: "http1-polled",
    http2_with_json_answers_survives_cut_anywhere: "http2-json",
    http2_with_events_survives_cut_anywhere: "http2-events",
    http2_with_resumable_events_survives_cut_anywhere: "http2-resumable",
    polled_answers_over_http2_survive_cut_anywhere: "http2-polled",
    modern_http1_with_json_answers_survives_cut_anywhere: "modern-json",
    modern_http1_with_events_survives_cut_anywhere: "modern-events",
    modern_http2_with_json_answers_survives_cut_anywhere: "modern2-json",
    modern_http2_with_events_survives_cut_anywhere: "modern2-events",
    sse_transport_survives_cut_anywhere: "sse",
    sse_over_http2_survives_cut_anywhere: "sse2",
    fallback_to_sse_survives_cut_anywhere: "fallback",
    fallback_to_sse_over_http2_survives_cut_anywhere: "fallback2",
    http1_with_tls_survives_cut_anywhere: "tls1-json",
    resumable_events_with_tls_survive_cut_anywhere: "tls1-resumable",
    http2_with_tls_survives_cut_anywhere: "tls2-json",
    modern_http2_with_tls_survives_cut_anywhere: "tls2-modern",
    two_concurrent_calls_over_stdio_survive_cut_anywhere: "stdio-together",
    two_concurrent_calls_over_http1_survive_cut_anywhere: "http1-together",
    two_concurrent_calls_over_http2_survive_cut_anywhere: "http2-together",
    long_call_over_stdio_survives_cut_anywhere: "stdio-long",
    long_call_over_http1_survives_cut_anywhere: "http1-long",
    long_call_over_http2_survives_cut_anywhere: "http2-long",
    server_request_over_stdio_survives_cut_anywhere: "stdio-asks",
    server_request_before_answer_survives_cut_anywhere: "http1-asks",
    server_request_before_resumable_answer_survives_cut_anywhere: "http1-asks-resumable",
    server_request_on_get_stream_survives_cut_anywhere: "http1-asks-notices",
    server_request_on_get_stream_over_http2_survives_cut_anywhere: "http2-asks-notices",
    server_request_over_sse_survives_cut_anywhere: "sse-asks",
    cancellation_over_stdio_survives_cut_anywhere: "stdio-cancels",
    cancellation_over_http1_survives_cut_anywhere: "http1-cancels",
    cancellation_over_http2_survives_cut_anywhere: "http2-cancels",
    cancellation_over_modern_http1_survives_cut_anywhere: "modern-cancels",
    cancellation_over_modern_http2_survives_cut_anywhere: "modern2-cancels",
    cancellation_over_sse_survives_cut_anywhere: "sse-cancels",
    lost_session_over_http1_survives_cut_anywhere: "http1-forgets",
    lost_session_over_http2_survives_cut_anywhere: "http2-forgets",
    redirect_over_http1_survives_cut_anywhere: "http1-redirects",
    redirect_over_http2_survives_cut_anywhere: "http2-redirects",
    restarted_child_survives_cut_anywhere: "stdio-dies",
}

/// The sweep of `cargo xtask cuts`. Its parameters come from the environment, because a test takes no arguments.
#[test]
#[ignore = "run by cargo xtask cuts"]
fn by_hand() {
    let wish = |name: &str| std::env::var(format!("MENDLINE_CUTS_{name}")).ok();
    let conversations: Vec<Conversation> = match wish("CONVERSATION") {
        Some(name) => vec![Conversation::named(&name).unwrap_or_else(|| {
            panic!("no conversation is called {name}; there are {}", ALL.map(|known| known.name).join(", "))
        })],
        None => ALL.to_vec(),
    };
    let kinds: Vec<_> = match wish("FAULT") {
        Some(name) => Fault::KINDS.into_iter().filter(|(known, _, _)| *known == name).collect(),
        None => Fault::KINDS.to_vec(),
    };
    assert!(
        !kinds.is_empty(),
        "there is no such fault; there are {}",
        Fault::KINDS.map(|(name, _, _)| name).join(", ")
    );
    let coverage = match (wish("AT"), wish("ALL")) {
        (Some(at), _) => Coverage::One(at.parse().unwrap()),
        (None, Some(_)) => Coverage::Every,
        (None, None) => Coverage::Sample,
    };
    if let (Coverage::One(at), [(_, kind, direction)], [conversation]) = (coverage, &kinds[..], &conversations[..]) {
        print_cut(conversation, Fault { kind: *kind, direction: *direction, at });
    }

    let mut all = Report::default();
    for conversation in conversations {
        let began = Instant::now();
        let report = sweep(&conversation, &kinds, coverage);
        let (cuts, found, took) = (report.cuts(), report.found(), began.elapsed());
        println!("{:<22}{cuts:>8} cuts in {:>6.1} s{:>8} violations", conversation.name, took.as_secs_f64(), found);
        all.absorb(report);
    }
    println!("\n{}", all.table());
    for line in all.failures() {
        println!("{line}");
    }
    assert_eq!(all.found(), 0, "violations");
}

/// Prints one cut in full.
fn print_cut(conversation: &Conversation, fault: Fault) {
    let observed = conversation.hold(Some(fault));
    for event in &observed.events {
        println!("  {event}");
    }
    for request in &observed.requests {
        let (role, after) = (request.role, request.after_fault);
        println!("  {role:?} (after the fault: {after}, cancelled: {}) took {:?}", request.cancelled, request.took);
        for answer in &request.answers {
            println!("    {answer}");
        }
    }
    for question in &observed.questions {
        println!("  asked {question}");
    }
    println!("  the tool ran {} times; the driver ended after {:?}", observed.runs, observed.ended);
}
