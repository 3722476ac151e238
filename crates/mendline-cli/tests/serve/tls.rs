//! TLS of the gateway: certificates, their renewal, and clients without it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::gateway::{Gateway, MENDLINE, SOON, eventually};

/// Writes a certificate of `localhost` and its key. Returns the certificate.
fn write(folder: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let put = |name: &str, text: String| {
        let new = folder.join(format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, folder.join(name)).unwrap();
    };
    put("gateway.key", key.serialize_pem());
    put("gateway.pem", certificate.pem());
    certificate.der().clone()
}

fn files(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("gateway.pem"), folder.join("gateway.key"))
}

/// Opens a connection with TLS. Returns it, or the error of the handshake.
fn connect(
    gateway: &Gateway,
    trusted: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut connection = TcpStream::connect(gateway.address).unwrap();
    connection.set_read_timeout(Some(SOON)).unwrap();
    tls.complete_io(&mut connection)?;
    Ok(StreamOwned::new(tls, connection))
}

/// Makes a request over TLS. Returns the response, or nothing if the certificate is not this one.
fn get(gateway: &Gateway, trusted: &CertificateDer<'static>) -> Option<String> {
    let mut stream = connect(gateway, trusted, &[b"http/1.1"]).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    Some(response)
}

fn start(folder: &Path) -> Gateway {
    let (certificate, key) = files(folder);
    Gateway::start(&["--tls-certificate", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()])
}

#[test]
fn gateway_with_a_certificate_serves_https() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let gateway = start(folder.path());
    let response = get(&gateway, &certificate).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("ready\n"), "{response}");
    let stream = connect(&gateway, &certificate, &[b"h2", b"http/1.1"]).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    let mut stream = connect(&gateway, &certificate, &[b"h2"]).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame[3], 4, "the settings of HTTP/2");
}

#[test]
fn client_without_tls_is_told_to_use_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let gateway = start(folder.path());
    let answer = gateway.send("GET", "/healthz", &[], "");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("use https://"));
}

#[test]
fn renewed_certificate_is_used_and_a_broken_pair_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let old = write(folder.path());
    let gateway = start(folder.path());
    assert!(get(&gateway, &old).is_some());
    let (certificate, key) = files(folder.path());
    let good = std::fs::read(&certificate).unwrap();
    std::fs::write(&certificate, "no certificate").unwrap();
    gateway.wait_for_log("the old certificate of the gateway stays in use");
    assert!(get(&gateway, &old).is_some(), "the old pair stays");
    std::fs::write(&certificate, good).unwrap();
    let new = write(folder.path());
    eventually("the new certificate is presented", || get(&gateway, &new).is_some());
    assert!(get(&gateway, &old).is_none());
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    gateway.signal(rustix::process::Signal::HUP);
    let line = gateway.line("other users can read the key");
    assert!(line.contains("chmod 600"), "{line}");
    assert!(get(&gateway, &new).is_some());
}

#[test]
fn certificate_of_the_configuration_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let (pem, key) = files(folder.path());
    let tls = format!(r#""access": {{ "tls": {{ "certificate": {pem:?}, "key": {key:?} }} }}"#);
    let gateway = Gateway::configured(&tls, "", &[]);
    assert!(get(&gateway, &certificate).is_some());
}

/// Returns the words with which a gateway with these files refuses to start.
fn refusal(certificate: &Path, key: &Path) -> String {
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(MENDLINE)
        .args(["serve", "--listen", "127.0.0.1:0", "--tls-certificate"])
        .arg(certificate)
        .arg("--tls-key")
        .arg(key)
        .args(["--", "true"])
        .env("MENDLINE_STATE_DIR", state.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unusable_certificate_stops_the_start_with_the_correction() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(one.path());
    write(other.path());
    let ((certificate, key), (_, other_key)) = (files(one.path()), files(other.path()));
    assert!(refusal(&certificate, &other_key).contains("the key is not that of the certificate"));
    assert!(refusal(&key, &key).contains("no certificate in PEM form"));
    assert!(refusal(&one.path().join("missing"), &key).contains("cannot be read"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let words = refusal(&certificate, &key);
    assert!(words.contains(&format!("chmod 600 {}", key.display())), "{words}");
}

#[test]
fn slow_handshakes_count_as_connections_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write(folder.path());
    let (pem, key) = files(folder.path());
    let tls = format!(
        r#""access": {{ "tls": {{ "certificate": {pem:?}, "key": {key:?} }}, "limits": {{ "connections": 2 }} }}"#
    );
    let gateway = Gateway::configured(&tls, "", &[]);
    let mut silent: Vec<_> = (0..2).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    eventually("further connections are closed", || {
        let mut next = TcpStream::connect(gateway.address).unwrap();
        next.set_read_timeout(Some(SOON)).unwrap();
        matches!(next.read(&mut [0]), Ok(0) | Err(_))
    });
    for connection in &mut silent {
        connection.set_read_timeout(Some(SOON)).unwrap();
        assert!(matches!(connection.read(&mut [0]), Ok(0)), "the time of the handshake is over");
    }
    eventually("there is room again", || get(&gateway, &certificate).is_some());
}
