//! The configuration of a server with every policy enabled and none of them limiting.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::{Breaker, Catalogue, KeepAlive, OnError, RateLimit, ToolPolicy};
use mendline_core::{Config, UpstreamConfig};

/// Returns the configuration of this server with all policies.
pub(crate) fn all(mut server: UpstreamConfig) -> Config {
    server.breaker = Some(Breaker { count_tool_errors: true, ..Breaker::default() });
    // The program makes a call every 100 µs, so the rate limit is checked and never reached.
    server.rate_limit = Some(RateLimit { burst: 1_000, per_second: 100_000.0 });
    server.retry.codes = BTreeMap::from([(-32001, OnError::Reads)]);
    server.keep_alive = Some(KeepAlive::default());
    server.catalogue = Catalogue::default();
    let policy = ToolPolicy { timeout: Some(Duration::from_secs(60)), ..ToolPolicy::default() };
    server.tools = ["delete", "echo", "read"].map(|tool| (tool.to_owned(), policy)).into();
    Config::new(vec![server])
}
