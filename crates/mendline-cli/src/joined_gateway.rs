//! A running gateway of the same user that has a server, for `mendline run --via auto`.
//!
//! The gateway is found by its control socket, which only the user can open, and used at its loopback address. One
//! that does not answer, refuses requests without a token, or has another configuration file than the one that was
//! named is not used: then the server is run here.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use mendline::control::Registry;
use mendline::control::snapshot::ProcessInfo;

use crate::plan::Plan;
use crate::server_flags::Line;

/// The time in which the gateway has to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the URL of a server at a gateway that runs and accepts requests of this user. `config` is the configuration
/// file that was named.
pub(crate) fn url(name: &str, config: Option<&Path>) -> Option<String> {
    Registry::of_user().snapshots().into_iter().find_map(|status| {
        let snapshot = status.snapshot.ok()?;
        let has_server = snapshot.servers.iter().any(|server| server.name == name);
        let address = reachable(snapshot.process.gateway.as_deref()?)?;
        let is_usable = has_server && has_file(&snapshot.process, config) && is_accepted(address, name);
        is_usable.then(|| format!("http://{address}/mcp/{name}"))
    })
}

/// Returns the address at which a gateway can be reached from this machine. A gateway at all addresses is at loopback,
/// too.
fn reachable(url: &str) -> Option<SocketAddr> {
    let mut address: SocketAddr = url.strip_prefix("http://")?.parse().ok()?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Some(address)
}

/// Returns whether a gateway has the configuration file that was named, if one was.
fn has_file(process: &ProcessInfo, config: Option<&Path>) -> bool {
    let Some(config) = config else { return true };
    let same = |its: &str| Some(Path::new(its).canonicalize().ok()? == config.canonicalize().ok()?);
    process.configuration.as_deref().and_then(same).unwrap_or(false)
}

/// Returns whether a gateway accepts requests for a server without a token. Whether the server is ready does not
/// matter.
fn is_accepted(address: SocketAddr, name: &str) -> bool {
    let status = || -> std::io::Result<Vec<u8>> {
        let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        let head = format!("GET /readyz/{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(head.as_bytes())?;
        let mut line = vec![0; b"HTTP/1.1 200".len()];
        connection.read_exact(&mut line)?;
        Ok(line)
    };
    status().is_ok_and(|line| line.ends_with(b" 200") || line.ends_with(b" 503"))
}

/// Returns the plan of a server at a gateway. The policies of the server are those of the gateway; the command line sets
/// those of the way to it.
pub(crate) fn plan(name: &str, url: Option<&str>, line: &Line<'_>) -> Result<Plan, String> {
    let mut plan = Plan::of_flags(&Line { target: url, ..*line })?;
    name.clone_into(&mut plan.upstream.name);
    // The gateway keeps the lists, and answers before the server is up.
    plan.upstream.catalogue.cache = false;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_at_all_addresses_is_used_at_loopback() {
        let address = |url: &str| reachable(url).map(|address| address.to_string());
        assert_eq!(address("http://0.0.0.0:7337").as_deref(), Some("127.0.0.1:7337"));
        assert_eq!(address("http://[::]:7337").as_deref(), Some("[::1]:7337"));
        assert_eq!(address("http://127.0.0.1:1").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(address("https://127.0.0.1:1"), None);
    }
}
