//! `mendline token`: fresh tokens for other programs.

use serde_json::Value;

use crate::stage::{NOTES, Stage};

#[test]
fn token_is_printed_in_three_forms() {
    let stage = Stage::new();
    stage.log_in();
    let plain = stage.run(&["token", NOTES]);
    let token = plain.stdout.trim().to_owned();
    assert!(plain.code == Some(0) && token.contains("canary") && plain.stderr.is_empty(), "{plain:?}");
    let header = stage.run(&["token", "--header", NOTES]);
    assert_eq!(header.stdout, format!("Authorization: Bearer {token}\n"));
    let json: Value = serde_json::from_str(&stage.run(&["token", "--json", NOTES]).stdout).unwrap();
    assert_eq!(json, serde_json::json!({ "Authorization": format!("Bearer {token}") }));
}

#[test]
fn missing_login_ends_token_with_its_code() {
    let stage = Stage::new();
    let ended = stage.run(&["token", NOTES]);
    assert!(ended.code == Some(6) && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains("mendline login notes"), "{ended:?}");
    assert_eq!(stage.run(&["token", "nosuch"]).code, Some(3));
    assert!(stage.authorization.seen().is_empty(), "nothing was contacted");
}
