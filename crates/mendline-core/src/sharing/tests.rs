//! Tests of the decision which clients share.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use serde_json::json;

use super::*;

const BASE: UpstreamId = UpstreamId(0);
const IDLE: Duration = Duration::from_secs(600);

fn pool(sharing: Sharing, idle: Option<Duration>) -> UpstreamPool {
    let mut pool = UpstreamPool::new(1);
    pool.add_server(BASE, Rules { sharing, limit: 3, limit_of_principal: 3, idle });
    pool
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

fn key(principal: &str, revision: &str, capabilities: &serde_json::Value) -> ShareKey {
    let params = json!({ "protocolVersion": revision, "capabilities": capabilities });
    ShareKey::of_handshake(&Arc::from(principal), params.to_string().as_bytes())
}

fn plain() -> ShareKey {
    key("ann", "2025-11-25", &json!({}))
}

fn upstream(pool: &mut UpstreamPool, key: ShareKey) -> u16 {
    place(pool, key).unwrap().upstream.0
}

/// Places a client with this key. A client without a principal in it is Ann's.
fn place(pool: &mut UpstreamPool, key: ShareKey) -> Result<Placement, NoRoom> {
    let principal = match &key {
        ShareKey::Alone => Arc::from("ann"),
        ShareKey::Handshake { principal, .. }
        | ShareKey::Modern { principal }
        | ShareKey::WithoutHandshake { principal, .. } => Arc::clone(principal),
    };
    pool.place(BASE, &principal, key, at(0))
}

#[test]
fn equal_clients_share_and_others_get_their_own() {
    let mut pool = pool(Sharing::Shared, Some(IDLE));
    let sampling = |of: &serde_json::Value| key("ann", "2025-11-25", &json!({ "sampling": of }));
    assert_eq!((upstream(&mut pool, plain()), upstream(&mut pool, plain())), (0, 0));
    assert_eq!(upstream(&mut pool, key("bob", "2025-11-25", &json!({}))), 1, "another principal");
    assert_eq!(upstream(&mut pool, sampling(&json!({ "a": 1, "b": 2 }))), 2, "other capabilities");
    assert_eq!(upstream(&mut pool, sampling(&json!({ "b": 2, "a": 1 }))), 2, "the order of names is no difference");
    let full = place(&mut pool, key("ann", "2025-06-18", &json!({})));
    assert_eq!(full, Err(NoRoom { limit: 3, is_own: false }));
}

#[test]
fn client_with_roots_shares_with_no_other() {
    let mut pool = pool(Sharing::Shared, Some(IDLE));
    let with_roots = || key("ann", "2025-11-25", &json!({ "roots": {} }));
    assert_eq!((upstream(&mut pool, with_roots()), upstream(&mut pool, with_roots())), (0, 1));
    assert_eq!(ShareKey::of_handshake(&Arc::from("ann"), b"[not json"), ShareKey::Alone);
}

#[test]
fn client_of_its_own_ends_its_upstream() {
    let mut pool = pool(Sharing::PerClient, None);
    assert_eq!((upstream(&mut pool, plain()), upstream(&mut pool, plain())), (0, 1));
    assert_eq!(pool.leave(UpstreamId(1), at(1)), Some(Step::Remove(UpstreamId(1))));
    assert_eq!(pool.leave(BASE, at(1)), Some(Step::StopIdle(BASE)));
    assert_eq!(upstream(&mut pool, plain()), 0, "the base serves the next client");
}

#[test]
fn requests_of_modern_era_share_one_upstream_per_principal() {
    let mut pool = pool(Sharing::PerClient, None);
    let modern = |name: &str| ShareKey::Modern { principal: Arc::from(name) };
    assert_eq!((upstream(&mut pool, modern("ann")), upstream(&mut pool, modern("ann"))), (0, 0));
    assert_eq!(upstream(&mut pool, modern("bob")), 1);
}

#[test]
fn process_without_clients_ends_after_idle_time() {
    let mut pool = pool(Sharing::Shared, Some(IDLE));
    assert_eq!((upstream(&mut pool, plain()), upstream(&mut pool, key("bob", "2025-11-25", &json!({})))), (0, 1));
    assert_eq!((pool.leave(BASE, at(10)), pool.leave(UpstreamId(1), at(20))), (None, None));
    assert_eq!(pool.expire(at(609), &BTreeMap::new()), []);
    assert_eq!(pool.expire(at(610), &BTreeMap::new()), [Step::StopIdle(BASE)]);
    assert_eq!(pool.expire(at(620), &BTreeMap::new()), [Step::Remove(UpstreamId(1))]);
    assert_eq!(pool.expire(at(9_999), &BTreeMap::new()), [], "once");
}

#[test]
fn process_of_silent_client_ends_but_stays_its_own() {
    let mut pool = pool(Sharing::Shared, Some(IDLE));
    upstream(&mut pool, plain());
    let uses = |last| BTreeMap::from([(BASE, last)]);
    assert_eq!(pool.expire(at(700), &uses(Use::Now)), [], "a connection is a use");
    assert_eq!(pool.expire(at(700), &uses(Use::Last(at(101)))), []);
    assert_eq!(pool.expire(at(701), &uses(Use::Last(at(101)))), [Step::StopIdle(BASE)]);
    assert_eq!(upstream(&mut pool, plain()), 0);
    assert_eq!(upstream(&mut pool, key("bob", "2025-11-25", &json!({}))), 1, "it still belongs to the first");
}

#[test]
fn number_is_used_again_only_after_its_release() {
    let mut pool = pool(Sharing::PerClient, None);
    upstream(&mut pool, plain());
    assert_eq!(upstream(&mut pool, plain()), 1);
    pool.leave(UpstreamId(1), at(1));
    assert_eq!(upstream(&mut pool, plain()), 2, "number 1 is still in the engine");
    pool.release(UpstreamId(1));
    pool.leave(UpstreamId(2), at(1));
    assert_eq!(upstream(&mut pool, plain()), 1);
}

#[test]
fn removed_server_has_no_place() {
    let mut pool = pool(Sharing::PerClient, None);
    upstream(&mut pool, plain());
    upstream(&mut pool, plain());
    assert_eq!(pool.remove_server(BASE), [BASE, UpstreamId(1)]);
    assert!(place(&mut pool, plain()).is_err() && pool.leave(BASE, at(0)).is_none());
}

#[test]
fn principal_at_its_limit_leaves_room_for_others() {
    let mut pool = UpstreamPool::new(1);
    pool.add_server(BASE, Rules { sharing: Sharing::Shared, limit: 3, limit_of_principal: 2, idle: Some(IDLE) });
    assert_eq!((upstream(&mut pool, ShareKey::Alone), upstream(&mut pool, ShareKey::Alone)), (0, 1));
    assert_eq!(place(&mut pool, ShareKey::Alone), Err(NoRoom { limit: 2, is_own: true }));
    assert_eq!(upstream(&mut pool, key("bob", "2025-11-25", &json!({}))), 2);
}

#[test]
fn process_that_its_principal_left_first_makes_room() {
    let mut pool = pool(Sharing::Shared, Some(IDLE));
    let of = |principal: &str, revision: &str| key(principal, revision, &json!({}));
    assert_eq!(upstream(&mut pool, of("bob", "2025-11-25")), 0);
    assert_eq!((upstream(&mut pool, of("ann", "1")), upstream(&mut pool, of("ann", "2"))), (1, 2));
    assert_eq!((pool.leave(BASE, at(1)), pool.leave(UpstreamId(2), at(2))), (None, None));
    assert_eq!(pool.leave(UpstreamId(1), at(3)), None);
    let placed = place(&mut pool, of("ann", "3")).unwrap();
    assert_eq!((placed.upstream, placed.evicted), (UpstreamId(3), Some(UpstreamId(2))), "not the one of Bob");
}

#[test]
fn clients_without_handshake_share_even_if_others_do_not() {
    let mut pool = pool(Sharing::PerClient, None);
    let of = |name: &str| ShareKey::WithoutHandshake { principal: Arc::from(name), revision: "2025-06-18".to_owned() };
    assert_eq!((upstream(&mut pool, of("ann")), upstream(&mut pool, of("ann"))), (0, 0));
    assert_eq!(upstream(&mut pool, of("bob")), 1);
}
