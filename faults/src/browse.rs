//! `mendline-faults browse`: a browser without pages, for logins without a person.
//!
//! It opens an address, follows redirects between origins on loopback, and ends at the first page. A test names it in
//! the variable `BROWSER` through a script. Each visit adds a line to the log when it begins and one when it ends.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::Failure;

/// The largest number of redirects.
const REDIRECTS: usize = 10;
/// The timeout of each request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Opens the address of the option `address`, and logs to the file of the option `log`.
pub(crate) async fn run(options: Map<String, Value>) -> Result<(), Failure> {
    let text = |name: &str| options.get(name).and_then(Value::as_str);
    let address = text("address").ok_or_else(|| Failure::new("browse needs an address: address=URL"))?;
    let log = text("log").map(Path::new);
    note(log, "begun")?;
    let visited = visit(address).await;
    match &visited {
        Ok(status) => note(log, &format!("ended {status}"))?,
        Err(failure) => note(log, &format!("failed {failure}"))?,
    }
    visited.map(drop)
}

/// Follows the redirects of an address and returns the status of the last page.
async fn visit(address: &str) -> Result<u16, Failure> {
    let mut address = address.to_owned();
    for _ in 0..REDIRECTS {
        let head = timeout(TIMEOUT, get(&address)).await??;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Failure::new("the response has no status"))?;
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let location = lines.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        match location {
            Some((_, to)) if (300..400).contains(&status) => address = resolved(&address, to),
            _ => return Ok(status),
        }
    }
    Err(Failure::new("too many redirects"))
}

/// Sends a GET and returns the head of the response.
async fn get(address: &str) -> Result<String, Failure> {
    let rest = address.strip_prefix("http://").ok_or_else(|| Failure::new("only http is supported"))?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let path = path.split('#').next().unwrap_or_default();
    let mut stream = TcpStream::connect(authority).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    let text = String::from_utf8_lossy(&response);
    Ok(text.split("\r\n\r\n").next().unwrap_or_default().to_owned())
}

fn resolved(base: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let start = base.find("://").map_or(0, |at| at + 3);
    let end = base[start..].find('/').map_or(base.len(), |at| start + at);
    format!("{}{location}", &base[..end])
}

fn note(log: Option<&Path>, line: &str) -> Result<(), Failure> {
    let Some(path) = log else { return Ok(()) };
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(writeln!(file, "{line}")?)
}
