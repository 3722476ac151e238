//! Servers with TLS: which certificates are trusted, and the errors for the others.

use std::io::Write;

use mendline_faults::toxic::{BlackHole, Toxic};
use mendline_faults::{Authority, Certificate, Direction, Identity};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::client::{Client, SOON, eventually};
use crate::site::{Site, WAITING, event_answers, json_answers, run};

/// The last year of a valid certificate.
const LATER: i32 = 2200;
const HERE: &str = "127.0.0.1";

/// A test authority, and the file that makes Mendline trust it.
pub(crate) struct TrustedAuthority {
    authority: Authority,
    file: NamedTempFile,
}

impl TrustedAuthority {
    pub(crate) fn new() -> TrustedAuthority {
        TrustedAuthority::called("A private authority")
    }

    fn called(name: &str) -> TrustedAuthority {
        let authority = Authority::new(name).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        TrustedAuthority { authority, file }
    }

    /// Returns a valid identity.
    pub(crate) fn good(&self) -> Identity {
        self.vouch(HERE, LATER)
    }

    fn vouch(&self, host: &str, until: i32) -> Identity {
        self.authority.issue(Certificate { host, until }).unwrap()
    }

    /// Starts `mendline run URL` that trusts the authority.
    pub(crate) fn run(&self, url: &str, options: &[&str]) -> Client {
        run(url, options, &[("NODE_EXTRA_CA_CERTS", self.file.path().to_str().unwrap())])
    }

    pub(crate) fn initialized(&self, url: &str, options: &[&str]) -> Client {
        let mut client = self.run(url, &[&WAITING[..], options].concat());
        assert_eq!(client.initialize(), "mendline-faults");
        client
    }
}

#[test]
fn private_authority_is_trusted_when_configured() {
    let trusted = TrustedAuthority::new();
    for (identity, http2) in [(trusted.good(), true), (trusted.good().with_http1_only(), false)] {
        let site = Site::start_secure(event_answers(), identity);
        let mut client = trusted.initialized(&site.url(), &[]);
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
        client.stdin = None;
        assert_eq!(client.exit_code(SOON), Some(0));
        assert_eq!((site.executions("k"), site.counts().sessions_deleted), (1, 1));
        assert!(site.oracle().seen().iter().all(|seen| seen.http2 == http2), "HTTP/2 is negotiated");
    }
}

#[test]
fn sse_server_behind_tls_is_detected() {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let mut client = trusted.initialized(&site.sse_url(), &[]);
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
}

/// Expects that a server is refused with this reason, without a request and with few dials.
fn assert_refused(trusted: &TrustedAuthority, identity: Identity, words: &str) {
    let site = Site::start_secure(json_answers(), identity);
    let mut client = trusted.run(&site.url(), &["--call-timeout", "3s"]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = client.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
    eventually("the log has it too", SOON, || client.log().contains(words));
    client.stdin = None;
    assert_eq!(client.exit_code(SOON), Some(1));
    let counts = site.counts();
    assert_eq!((counts.connections, counts.bytes_in), (0, 0), "not a byte of a request");
    assert!((1..=2).contains(&counts.handshakes), "another look shows the same certificate: {}", counts.handshakes);
}

#[test]
fn n09_expired_certificate_is_refused_with_date() {
    let trusted = TrustedAuthority::new();
    assert_refused(&trusted, trusted.vouch(HERE, 2024), "its certificate expired on 2024-05-17");
}

#[test]
fn n09_certificate_of_other_host_is_refused_with_name() {
    let trusted = TrustedAuthority::new();
    assert_refused(
        &trusted,
        trusted.vouch("other.test", LATER),
        "its certificate is for other.test, not for 127.0.0.1",
    );
}

#[test]
fn n09_certificate_of_unknown_authority_is_refused() {
    let trusted = TrustedAuthority::new();
    let unknown = TrustedAuthority::called("Another authority").good();
    assert_refused(&trusted, unknown, "an authority that this machine does not know");
    let itself = Identity::self_signed(Certificate { host: HERE, until: LATER }).unwrap();
    assert_refused(&trusted, itself, "its certificate is self-signed");
}

/// Creates a certificate with `openssl req -x509`, which by default is one of an authority. Returns nothing without
/// openssl.
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn of_openssl(names: &str, days: &str, more: &[&str]) -> Option<(Identity, NamedTempFile)> {
    let (file, key) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
    let mut command = std::process::Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-subj", "/CN=localhost", "-days", days, "-addext", &format!("subjectAltName={names}")]).args(more);
    let Ok(output) = command.arg("-keyout").arg(key.path()).arg("-out").arg(file.path()).output() else {
        println!("left out, no openssl here");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |file: &NamedTempFile| std::fs::read(file.path()).unwrap();
    Some((Identity::from_pem(&read(&file), &read(&key)).unwrap(), file))
}

#[test]
fn u06_trusted_openssl_certificate_is_accepted() {
    for more in [&[][..], &["-addext", "basicConstraints=critical,CA:FALSE"]] {
        let Some((identity, file)) = of_openssl("IP:127.0.0.1,DNS:localhost", "30", more) else { return };
        let site = Site::start_secure(json_answers(), identity);
        for variable in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
            let mut client = run(&site.url(), &WAITING, &[(variable, file.path().to_str().unwrap())]);
            assert_eq!(client.initialize(), "mendline-faults", "{variable}: {}", client.log());
        }
    }
}

#[test]
fn u06_untrusted_openssl_certificate_is_refused_with_reason() {
    let Some((identity, _)) = of_openssl("IP:127.0.0.1", "30", &[]) else { return };
    let advice = "its certificate is self-signed; if it is yours, trust it with NODE_EXTRA_CA_CERTS=/path/cert.pem";
    assert_refused(&TrustedAuthority::new(), identity, advice);
    let (identity, file) = of_openssl("DNS:other.test,IP:127.0.0.2", "30", &[]).unwrap();
    let trusted = TrustedAuthority { authority: Authority::new("unused").unwrap(), file };
    assert_refused(&trusted, identity, "its certificate is for other.test, 127.0.0.2, not for 127.0.0.1");
}

#[test]
fn n08_stalled_tls_handshake_is_abandoned_and_call_runs_once() {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let proxy = site.proxy();
    let url = format!("https://{}/mcp", proxy.address());
    let toxic = proxy.add(Direction::Both, Toxic::BlackHole(BlackHole {}));
    let mut client = trusted.run(&url, &[&WAITING[..], &["--connect-timeout", "500ms"]].concat());
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    eventually("it is given up", SOON, || client.log().contains("did not finish the TLS handshake within 500 ms"));
    assert!(proxy.counts().open <= 1, "one dial at a time");
    proxy.remove(toxic);
    assert_eq!(client.answer("init")["result"]["serverInfo"]["name"], "mendline-faults");
    assert_eq!(site.counts().messages_of("initialize"), 1);
}

#[test]
fn n08_unfinished_tls_handshake_is_reported_as_not_sent() {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let proxy = site.proxy();
    let url = format!("https://{}/mcp", proxy.address());
    proxy.add(Direction::Both, Toxic::BlackHole(BlackHole {}));
    let mut client =
        trusted.run(&url, &["--connect-timeout", "300ms", "--call-timeout", "1500ms", "--startup", "wait"]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = client.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    let words = "did not finish the TLS handshake within 300 ms";
    assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    assert_eq!(site.counts().handshakes, 0);
}

#[test]
fn plain_server_at_https_url_is_not_reported_as_untrusted() {
    let site = Site::start(json_answers());
    let url = site.url().replace("http://", "https://");
    let mut client = run(&url, &["--call-timeout", "1s", "--startup", "wait"], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = client.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    let words = "does not speak TLS; is it an http:// server?";
    assert!(error["message"].as_str().unwrap().contains(words), "{error}");
}
