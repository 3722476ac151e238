//! A running gateway of the same user that has a server, for `mendline run --via auto`.
//!
//! The gateway is found by its control socket, which only the user can open, and used at its loopback address. One
//! that does not answer is not used: then the server is run here.

use mendline::control::Registry;

use crate::plan::Plan;
use crate::server_flags::Line;

/// Returns the URL of a server at a gateway that runs.
pub(crate) fn url(name: &str) -> Option<String> {
    Registry::of_user().snapshots().into_iter().find_map(|status| {
        let snapshot = status.snapshot.ok()?;
        let gateway = snapshot.process.gateway?;
        let has_server = snapshot.servers.iter().any(|server| server.name == name);
        has_server.then(|| format!("{gateway}/mcp/{name}"))
    })
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
