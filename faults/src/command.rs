//! The command line: runs a server or a proxy as its own process.
//!
//! ```text
//! mendline-faults server [listen=ADDRESS] [control=ADDRESS] [stay=true] [ledger=FILE] [era=modern] [answers=json] …
//! mendline-faults oauth [listen=ADDRESS] [control=ADDRESS] [stay=true] [ledger=FILE] [consent=page] …
//! mendline-faults proxy to=ADDRESS [listen=ADDRESS] [control=ADDRESS] [stay=true]
//! mendline-faults compare mendline=PATH [peers=FOLDER] [fastmcp=FOLDER] [rounds=2] [calls=10]
//! mendline-faults browse address=URL [log=FILE]
//! mendline-faults list
//! ```
//!
//! The first line on stdout is a JSON object with all addresses. The process runs until its stdin ends, so that it
//! cannot outlive the test that started it; with `stay=true` it runs until it is killed. Every execution is appended to
//! the ledger before the tool answers, so that a test can read it after a kill.

use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;

use crate::authorization::{AuthorizationServer, AuthorizationSettings};
use crate::control::{Control, Subject};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::settings::{Settings, object_from_options};
use crate::{browse, compare};
use crate::{fault, toxic};

const USAGE: &str = "usage: mendline-faults server|oauth|proxy|compare|browse|list [name=value …]";

/// The reason why a command failed.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(message: &str) -> Failure {
        Failure(message.to_owned())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Runs a command to its end.
pub async fn run(arguments: &[String]) -> Result<(), Failure> {
    let (command, rest) = arguments.split_first().ok_or_else(|| Failure(USAGE.to_owned()))?;
    let mut options = match object_from_options(rest.iter().map(String::as_str))? {
        Value::Object(options) => options,
        _ => Map::new(),
    };
    if command == "list" {
        return list();
    }
    if command == "compare" {
        return compare::run(options).await;
    }
    if command == "browse" {
        return browse::run(options).await;
    }
    let listen = address(&mut options, "listen")?;
    let control = address(&mut options, "control")?;
    let keeps_running = options.remove("stay") == Some(Value::Bool(true));
    let ledger = options.remove("ledger");
    let (subject, mut addresses) = match command.as_str() {
        "server" => {
            let settings = Settings::default().changed(&Value::Object(options))?;
            let server = Arc::new(Server::start_on(listen, settings).await?);
            if let Some(path) = ledger.as_ref().and_then(Value::as_str) {
                server.keep_ledger(Path::new(path))?;
            }
            let elsewhere = format!("http://{}", server.elsewhere());
            let addresses = json!({ "url": server.url(), "sseUrl": server.sse_url(), "elsewhere": elsewhere });
            (Subject::Server(server), addresses)
        }
        "oauth" => {
            let settings = AuthorizationSettings::default().changed(&Value::Object(options))?;
            let server = Arc::new(Server::start_on(listen, Settings::default()).await?);
            if let Some(path) = ledger.as_ref().and_then(Value::as_str) {
                server.keep_ledger(Path::new(path))?;
            }
            let authorization = Arc::new(AuthorizationServer::start(settings).await?);
            server.protect(&authorization);
            let addresses = json!({ "url": server.url(), "issuer": authorization.issuer() });
            (Subject::Protected(server, authorization), addresses)
        }
        "proxy" => {
            let to = address(&mut options, "to")?;
            if let Some(name) = ledger.map(|_| "ledger").or_else(|| options.keys().next().map(String::as_str)) {
                return Err(Failure(format!("a proxy has no option {name}; {USAGE}")));
            }
            let proxy = Arc::new(Proxy::start_on(listen, to).await?);
            let addresses = json!({ "address": proxy.address().to_string() });
            (Subject::Proxy(proxy), addresses)
        }
        _ => return Err(Failure(USAGE.to_owned())),
    };
    let control = Control::start_on(control, subject).await?;
    addresses["control"] = control.url().into();
    print_line(&addresses.to_string())?;
    if keeps_running {
        std::future::pending::<()>().await;
    }
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];
    while stdin.read(&mut ignored).await? > 0 {}
    Ok(())
}

fn list() -> Result<(), Failure> {
    for fault in fault::ALL {
        print_line(&format!("{:32} {}", fault.name, fault.description))?;
    }
    for (name, _, description) in toxic::ALL {
        print_line(&format!("{name:32} {description}"))?;
    }
    Ok(())
}

/// Returns an address among the options, or a free port of 127.0.0.1 if there is none.
fn address(options: &mut Map<String, Value>, name: &str) -> Result<SocketAddr, Failure> {
    let address = match options.remove(name) {
        None if name == "to" => {
            return Err(Failure("a proxy needs the address of its upstream: to=ADDRESS".to_owned()));
        }
        None => (Ipv4Addr::LOCALHOST, 0).into(),
        Some(value) => value.as_str().unwrap_or_default().parse()?,
    };
    Ok(address)
}

pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
