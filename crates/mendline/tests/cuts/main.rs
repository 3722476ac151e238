//! Cut every conversation at every byte.
//!
//! The real driver, engine, framing and HTTP transport over cables in memory, on paused time. One fault strikes at one
//! byte of one direction; then the world is whole again. Wherever that was, each request must be answered once and in
//! time, no unsafe call may run twice, and what is said about a call must be true. A violation prints the command that
//! repeats it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it says no")]
#![allow(clippy::print_stdout, reason = "a sweep by hand prints its table")]

mod cable;
mod check;
mod conversation;
mod host;
mod http1;
mod http2;
mod seen;
mod site;
mod sweep;
mod tally;
mod tls;

use std::time::Instant;

use cable::Fault;
use conversation::{ALL, Conversation};
use sweep::{Reach, sweep};
use tally::Tally;

fn every_promise_holds(name: &str) {
    let conversation = Conversation::named(name).unwrap();
    let tally = sweep(&conversation, &Fault::KINDS, Reach::Sample);
    println!("{}", tally.table());
    assert!(tally.cuts() > 300, "only {} cuts: the conversation was not held", tally.cuts());
    let complaints = tally.complaints();
    assert!(complaints.is_empty(), "{} violations:\n{}", tally.found(), complaints.join("\n"));
}

/// One test for each conversation, so that they run beside each other and fail alone.
macro_rules! conversations {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            every_promise_holds($name);
        })*

        #[test]
        fn no_conversation_is_left_out() {
            assert_eq!([$($name),*], ALL.map(|conversation| conversation.name));
        }
    };
}

conversations! {
    a_child_over_stdio_can_be_cut_anywhere: "stdio",
    http1_with_json_answers_can_be_cut_anywhere: "http1-json",
    http1_with_events_can_be_cut_anywhere: "http1-events",
    http1_with_resumable_events_can_be_cut_anywhere: "http1-resumable",
    answers_that_are_fetched_over_http1_can_be_cut_anywhere: "http1-polled",
    http2_with_json_answers_can_be_cut_anywhere: "http2-json",
    http2_with_events_can_be_cut_anywhere: "http2-events",
    http2_with_resumable_events_can_be_cut_anywhere: "http2-resumable",
    answers_that_are_fetched_over_http2_can_be_cut_anywhere: "http2-polled",
    the_modern_era_with_json_answers_can_be_cut_anywhere: "modern-json",
    the_modern_era_with_events_can_be_cut_anywhere: "modern-events",
    the_modern_era_over_http2_with_json_answers_can_be_cut_anywhere: "modern2-json",
    the_modern_era_over_http2_with_events_can_be_cut_anywhere: "modern2-events",
    the_oldest_http_transport_can_be_cut_anywhere: "trunk",
    the_oldest_http_transport_over_http2_can_be_cut_anywhere: "trunk2",
    finding_the_oldest_http_transport_can_be_cut_anywhere: "fallback",
    finding_the_oldest_http_transport_over_http2_can_be_cut_anywhere: "fallback2",
    http1_below_tls_can_be_cut_anywhere: "tls1-json",
    resumable_events_below_tls_can_be_cut_anywhere: "tls1-resumable",
    http2_below_tls_can_be_cut_anywhere: "tls2-json",
    the_modern_era_over_http2_below_tls_can_be_cut_anywhere: "tls2-modern",
    two_calls_at_once_over_stdio_can_be_cut_anywhere: "stdio-together",
    two_calls_at_once_over_http1_can_be_cut_anywhere: "http1-together",
    two_calls_at_once_over_http2_can_be_cut_anywhere: "http2-together",
    a_long_call_over_stdio_can_be_cut_anywhere: "stdio-long",
    a_long_call_over_http1_can_be_cut_anywhere: "http1-long",
    a_long_call_over_http2_can_be_cut_anywhere: "http2-long",
    a_question_of_a_child_can_be_cut_anywhere: "stdio-asks",
    a_question_before_an_answer_can_be_cut_anywhere: "http1-asks",
    a_question_before_a_resumable_answer_can_be_cut_anywhere: "http1-asks-resumable",
    a_question_among_the_notices_can_be_cut_anywhere: "http1-asks-notices",
    a_question_among_the_notices_over_http2_can_be_cut_anywhere: "http2-asks-notices",
    a_question_over_the_oldest_http_transport_can_be_cut_anywhere: "trunk-asks",
    cancelling_over_stdio_can_be_cut_anywhere: "stdio-cancels",
    cancelling_over_http1_can_be_cut_anywhere: "http1-cancels",
    cancelling_over_http2_can_be_cut_anywhere: "http2-cancels",
    cancelling_in_the_modern_era_can_be_cut_anywhere: "modern-cancels",
    cancelling_in_the_modern_era_over_http2_can_be_cut_anywhere: "modern2-cancels",
    cancelling_over_the_oldest_http_transport_can_be_cut_anywhere: "trunk-cancels",
    a_forgotten_session_over_http1_can_be_cut_anywhere: "http1-forgets",
    a_forgotten_session_over_http2_can_be_cut_anywhere: "http2-forgets",
    a_redirect_over_http1_can_be_cut_anywhere: "http1-redirects",
    a_redirect_over_http2_can_be_cut_anywhere: "http2-redirects",
    a_child_that_ends_in_between_can_be_cut_anywhere: "stdio-dies",
}

/// What `cargo xtask cuts` runs: its wishes come in the environment, because a test takes no arguments.
#[test]
#[ignore = "by hand: cargo xtask cuts"]
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
    let reach = match (wish("AT"), wish("ALL")) {
        (Some(at), _) => Reach::One(at.parse().unwrap()),
        (None, Some(_)) => Reach::Every,
        (None, None) => Reach::Sample,
    };
    if let (Reach::One(at), [(_, kind, way)], [conversation]) = (reach, &kinds[..], &conversations[..]) {
        tell(conversation, Fault { kind: *kind, way: *way, at });
    }

    let mut all = Tally::default();
    for conversation in conversations {
        let began = Instant::now();
        let tally = sweep(&conversation, &kinds, reach);
        let (cuts, found, took) = (tally.cuts(), tally.found(), began.elapsed());
        println!("{:<22}{cuts:>8} cuts in {:>6.1} s{:>8} violations", conversation.name, took.as_secs_f64(), found);
        all.absorb(tally);
    }
    println!("\n{}", all.table());
    for line in all.complaints() {
        println!("{line}");
    }
    assert_eq!(all.found(), 0, "violations");
}

/// One cut, told in full.
fn tell(conversation: &Conversation, fault: Fault) {
    let seen = conversation.hold(Some(fault));
    for event in &seen.events {
        println!("  {event}");
    }
    for asked in &seen.asked {
        let (role, after) = (asked.role, asked.after_fault);
        println!("  {role:?} (after the fault: {after}, cancelled: {}) took {:?}", asked.cancelled, asked.took);
        for answer in &asked.answers {
            println!("    {answer}");
        }
    }
    for question in &seen.questions {
        println!("  asked {question}");
    }
    println!("  the tool ran {} times; the driver ended after {:?}", seen.runs, seen.ended);
}
