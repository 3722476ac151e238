//! Servers with TLS, valid and invalid.

use std::fs;

use mendline_faults::{Authority, Certificate, Identity};

use crate::canned::Canned;
use crate::site::{Site, json_answers};
use crate::stage::{CommandOutput, Stage, legacy};

const HERE: &str = "127.0.0.1";
const LATER: i32 = 2200;

/// Returns the output of `mendline doctor` for a server with this identity when this authority is trusted.
fn report(authority: &Authority, identity: Identity) -> String {
    let (stage, site) = (Stage::new(), Site::start_secure(json_answers(), identity));
    let pem = stage.path().join("authority.pem");
    fs::write(&pem, authority.pem()).unwrap();
    let output = stage.command(&["doctor", &site.url()]).env("NODE_EXTRA_CA_CERTS", pem).output().unwrap();
    stage.reviewed(&CommandOutput::of(output))
}

fn authority() -> Authority {
    Authority::new("A private authority").unwrap()
}

#[test]
fn trusted_certificate_is_reported() {
    let authority = authority();
    let identity = authority.issue(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(report(&authority, identity));
}

#[test]
fn expired_certificate_is_reported() {
    let authority = authority();
    let identity = authority.issue(Certificate { host: HERE, until: 2024 }).unwrap();
    insta::assert_snapshot!(report(&authority, identity));
}

#[test]
fn certificate_of_other_host_is_reported() {
    let authority = authority();
    let identity = authority.issue(Certificate { host: "other.test", until: LATER }).unwrap();
    insta::assert_snapshot!(report(&authority, identity));
}

#[test]
fn self_signed_certificate_is_reported() {
    let identity = Identity::self_signed(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(report(&authority(), identity));
}

#[test]
fn certificate_of_unknown_authority_is_reported() {
    let other = Authority::new("Another authority").unwrap();
    let identity = other.issue(Certificate { host: HERE, until: LATER }).unwrap();
    insta::assert_snapshot!(report(&authority(), identity));
}

#[test]
fn plain_server_at_https_url_is_reported() {
    let site = legacy();
    insta::assert_snapshot!(Stage::new().doctor(&[&site.url().replace("http://", "https://")]));
}

#[test]
fn tls_server_at_http_url_is_reported() {
    let identity = Identity::self_signed(Certificate { host: HERE, until: LATER }).unwrap();
    let site = Site::start_secure(json_answers(), identity);
    let printed = Stage::new().doctor(&[&site.url().replace("https://", "http://")]);
    assert!(printed.contains("write https:// instead of http://") || printed.contains("not in HTTP"), "{printed}");
}

#[test]
fn unfinished_tls_handshake_is_reported() {
    let server = Canned::silent();
    insta::assert_snapshot!(Stage::new().doctor(&["--timeout", "2s", &server.url().replace("http://", "https://")]));
}
