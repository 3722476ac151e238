//! Many calls and many processes with one login.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mendline_faults::AuthorizationSettings;
use mendline_peers::caller::Caller;
use serde_json::json;

use crate::stage::{SOON, Stage, call, succeeded};

/// The variable with which `cargo xtask soak` sets the number of expiries.
const EXPIRIES: &str = "MENDLINE_SOAK_EXPIRIES";

#[test]
fn thousand_calls_meet_an_expired_token_with_one_refresh() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    assert!(succeeded(&call(&mut caller, "create_note", "first")));
    stage.authorization.expire_access_tokens();
    let begun = Instant::now();
    let mut open: BTreeSet<String> = (0..1000).map(|number| format!("c{number}")).collect();
    for key in &open {
        caller.call(key, "create_note", &json!({ "key": key })).unwrap();
    }
    while !open.is_empty() {
        let (_, message) = caller.next(2 * SOON).unwrap();
        let Some(id) = message["id"].as_str().filter(|_| message.get("method").is_none()) else { continue };
        assert!(succeeded(&message), "{message}");
        assert!(open.remove(id), "answered twice: {message}");
    }
    let counts = stage.authorization.counts();
    println!(
        "1,000 calls after an expiry: {:?}, {} refused, {} refreshes",
        begun.elapsed(),
        counts.refused(),
        counts.refreshes
    );
    assert_eq!((counts.refreshes, counts.reuses, counts.logins), (1, 0, 1), "{counts:?}");
    assert!((0..1000).all(|number| stage.executions_of(&format!("c{number}")) == 1));
}

#[test]
fn eight_processes_share_a_rotating_refresh_token() {
    const PROCESSES: usize = 8;
    let expiries: u64 = std::env::var(EXPIRIES).ok().map_or(50, |text| text.parse().unwrap());
    let stage = Stage::logged_in(AuthorizationSettings { access_seconds: 2, ..AuthorizationSettings::default() });
    let mut callers: Vec<Caller> = (0..PROCESSES).map(|number| stage.start(number)).collect();
    let (begun, mut rounds) = (Instant::now(), 0);
    while stage.authorization.counts().refreshes < expiries {
        rounds += 1;
        let key = format!("e{rounds}");
        for caller in &mut callers {
            caller.call(&key, "lookup", &json!({ "key": key })).unwrap();
        }
        for caller in &mut callers {
            let answer = caller.answer(&key, SOON).unwrap();
            assert!(succeeded(&answer), "round {rounds}: {answer}\n{}", caller.log());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let counts = stage.authorization.counts();
    let calls = rounds * PROCESSES;
    println!("{PROCESSES} processes, {calls} calls in {:?}: {} refreshes", begun.elapsed(), counts.refreshes);
    assert_eq!((counts.logins, counts.reuses, stage.home.visits()), (1, 0, 1), "{counts:?}");
    // Every token lives two seconds and is renewed at half of that at the earliest.
    assert!(counts.refreshes <= begun.elapsed().as_secs() + 3, "{counts:?} in {:?}", begun.elapsed());
}
