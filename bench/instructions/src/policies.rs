//! A server with every policy switched on, and none of them in the way.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::{Breaker, Catalogue, KeepAlive, OnError, RateLimit, ToolPolicy};
use mendline_core::{Config, UpstreamConfig};

/// The configuration of this server and all its policies.
pub(crate) fn all(mut server: UpstreamConfig) -> Config {
    server.breaker = Some(Breaker { count_tool_errors: true, ..Breaker::default() });
    // A call every hundred microseconds is what this program makes; the limit is asked and lets each of them pass.
    server.rate_limit = Some(RateLimit { burst: 1_000, per_second: 100_000.0 });
    server.retry.codes = BTreeMap::from([(-32001, OnError::Reads)]);
    server.keep_alive = Some(KeepAlive::default());
    server.catalogue = Catalogue::default();
    let policy = ToolPolicy { effect: None, timeout: Some(Duration::from_secs(60)) };
    server.tools = ["delete", "echo", "read"].map(|tool| (tool.to_owned(), policy)).into();
    Config::new(vec![server])
}
