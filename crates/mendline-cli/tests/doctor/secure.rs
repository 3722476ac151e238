//! Servers behind TLS, right and wrong.

use std::fs;

use mendline_faults::{Authority, Certificate, Identity};

use crate::canned::Canned;
use crate::site::{Site, json_answers};
use crate::stage::{Said, Stage, legacy};

const HERE: &str = "127.0.0.1";
const LATER: i32 = 2200;

/// What the doctor says of a server with this identity, when this authority is trusted.
fn said(authority: &Authority, identity: Identity) -> String {
    let (stage, site) = (Stage::new(), Site::start_secure(json_answers(), identity));
    let pem = stage.path().join("authority.pem");
    fs::write(&pem, authority.pem()).unwrap();
    let output = stage.command(&["doctor", &site.url()]).env("NODE_EXTRA_CA_CERTS", pem).output().unwrap();
    stage.reviewed(&Said::of(output))
}

fn authority() -> Authority {
    Authority::new("A private authority").unwrap()
}

#[test]
fn a_certificate_that_is_trusted() {
    let authority = authority();
    let identity = authority.vouch(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(said(&authority, identity));
}

#[test]
fn a_certificate_that_has_expired() {
    let authority = authority();
    let identity = authority.vouch(Certificate { host: HERE, until: 2024 }).unwrap();
    insta::assert_snapshot!(said(&authority, identity));
}

#[test]
fn a_certificate_for_another_name() {
    let authority = authority();
    let identity = authority.vouch(Certificate { host: "other.test", until: LATER }).unwrap();
    insta::assert_snapshot!(said(&authority, identity));
}

#[test]
fn a_certificate_that_vouches_for_itself() {
    let identity = Identity::of_itself(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(said(&authority(), identity));
}

#[test]
fn a_certificate_of_an_unknown_authority() {
    let other = Authority::new("Another authority").unwrap();
    let identity = other.vouch(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(said(&authority(), identity));
}

#[test]
fn a_server_without_tls_at_an_https_address() {
    let site = legacy();
    insta::assert_snapshot!(Stage::new().doctor(&[&site.url().replace("http://", "https://")]));
}

#[test]
fn a_server_with_tls_at_an_http_address() {
    let identity = Identity::of_itself(Certificate { host: HERE, until: LATER }).unwrap();
    let site = Site::start_secure(json_answers(), identity);
    let said = Stage::new().doctor(&[&site.url().replace("https://", "http://")]);
    assert!(said.contains("write https:// instead of http://") || said.contains("not in HTTP"), "{said}");
}

#[test]
fn a_handshake_that_never_ends() {
    let server = Canned::silent();
    insta::assert_snapshot!(Stage::new().doctor(&["--timeout", "2s", &server.url().replace("http://", "https://")]));
}
