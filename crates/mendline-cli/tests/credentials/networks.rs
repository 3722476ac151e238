//! Providers behind a proxy, with an authority of their own, or on a private address.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use mendline_faults::{Authority, AuthorizationServer, AuthorizationSettings, Certificate, Server, Settings};
use serde_json::{Value, json};

use crate::stage::{NOTES, Stage, runtime};

/// A proxy for `CONNECT`, the only program that knows the names `*.test`.
struct NameProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameProxy {
    fn start(names: Vec<(&'static str, SocketAddr)>) -> NameProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = NameProxy { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&proxy.asked);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (asked, names) = (Arc::clone(&asked), names.clone());
                thread::spawn(move || tunnel(client, &names, &asked));
            }
        });
        proxy
    }

    fn was_asked_for(&self, name: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|asked| asked == name)
    }
}

fn tunnel(mut client: TcpStream, names: &[(&str, SocketAddr)], asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let name = head.strip_prefix("CONNECT ")?.split(':').next()?.to_owned();
    asked.lock().unwrap().push(name.clone());
    let (_, address) = names.iter().find(|(known, _)| *known == name)?;
    let server = TcpStream::connect(address).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (server, client);
    std::io::copy(&mut from, &mut to).ok().map(drop)
}

/// A server and a provider with TLS that only a proxy reaches by name, and a home that trusts their authority.
struct Site {
    stage: Stage,
    server: Server,
    provider: AuthorizationServer,
    proxy: NameProxy,
    authority: PathBuf,
}

impl Site {
    fn new() -> Site {
        let stage = Stage::new();
        let authority = Authority::new("A private authority").unwrap();
        let issue = |host| authority.issue(Certificate { host, until: 2100 }).unwrap();
        let server = runtime().block_on(Server::start_secure(Settings::default(), issue("mcp.test"))).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let settings = AuthorizationSettings::default();
        let start = AuthorizationServer::start_on(address, settings, Some(issue("login.test")));
        let provider = runtime().block_on(start).unwrap();
        server.protect(&provider);
        let proxy = NameProxy::start(vec![("mcp.test", server.address()), ("login.test", provider.address())]);
        let file = stage.path().join("authority.pem");
        fs::write(&file, authority.pem()).unwrap();
        Site { stage, server, provider, proxy, authority: file }
    }

    /// Configures a machine's credential, with these further members of `auth`.
    fn configure(&self, token_endpoint: &str, more: &Value) {
        let mut auth = json!({ "type": "clientCredentials", "clientId": "machine", "resource": false,
            "clientSecret": "secret-canary-machine", "tokenEndpoint": token_endpoint });
        auth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.stage.configure(&json!({ NOTES: { "url": "https://mcp.test/mcp", "auth": auth } }));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.stage.command(arguments);
        command.env("HTTPS_PROXY", format!("http://{}", self.proxy.address));
        command.env("NODE_EXTRA_CA_CERTS", &self.authority);
        command
    }

    fn call(&self, key: &str) -> std::process::Output {
        self.command(&["call", NOTES, "lookup", "--arg", &format!("key={key}")]).output().unwrap()
    }
}

#[test]
fn provider_is_reached_through_the_proxy_with_a_private_authority() {
    let site = Site::new();
    site.configure("https://login.test/token", &json!({}));
    let output = site.call("a");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(site.server.oracle().counts().executions_of("a"), 1);
    assert!(site.proxy.was_asked_for("login.test") && site.proxy.was_asked_for("mcp.test"));
    assert!(site.provider.counts().token_requests >= 1);
    // Without the authority, the provider is not trusted.
    let output = site.command(&["token", NOTES]).env_remove("NODE_EXTRA_CA_CERTS").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("certificate"), "{output:?}");
}

#[test]
fn authority_of_the_server_is_trusted_for_its_login() {
    let site = Site::new();
    let auth = json!({ "type": "clientCredentials", "clientId": "machine", "clientSecret": "secret-canary-machine",
        "tokenEndpoint": "https://login.test/token", "resource": false });
    let configure = |tls: &Value, auth: &Value| {
        let entry = json!({ "url": "https://mcp.test/mcp", "auth": auth, "tls": tls });
        site.stage.configure(&json!({ NOTES: entry }));
    };
    let run = |arguments: &[&str]| site.command(arguments).env_remove("NODE_EXTRA_CA_CERTS").output().unwrap();
    configure(&json!({ "authority": site.authority }), &auth);
    let output = run(&["token", NOTES]);
    assert!(output.status.success(), "{output:?}");
    // The login of a person reads the metadata of the server, which names its provider by a private address.
    configure(&json!({ "authority": site.authority }), &json!({ "type": "oauth" }));
    let output = run(&["login", "--no-browser", "--timeout", "1s", NOTES]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a private address"), "{output:?}");
}

#[test]
fn provider_on_a_private_address_needs_allow_private() {
    let site = Site::new();
    let here = format!("http://{}/token", site.stage.authorization.address());
    site.configure(&here, &json!({}));
    let refused = site.command(&["token", NOTES]).output().unwrap();
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("private"), "{refused:?}");
    assert!(site.stage.authorization.seen().is_empty(), "nothing is sent there");
    site.configure(&here, &json!({ "allowPrivate": true }));
    let allowed = site.command(&["token", NOTES]).output().unwrap();
    assert!(allowed.status.success(), "{allowed:?}");
    assert_eq!(site.stage.authorization.counts().token_requests, 1);
}
