//! The graceful shutdown of a gateway.
//!
//! From the first signal on, new requests are refused and `/readyz` answers 503, so that a balancer takes the gateway
//! out. Running calls end within the time of a drain. Then all streams end, so that clients resume them at the next
//! process, and the connections get a moment to write what is left.

use std::sync::Arc;
use std::time::Duration;

use mendline::decisions::defaults::FINAL_WRITE;
use mendline::frontend::http::Gateway;
use tokio::time::{Instant, sleep};

/// The interval in which it is checked whether the connections have written everything.
const INTERVAL: Duration = Duration::from_millis(10);

/// Ends all streams, after the engine has stopped.
pub(super) async fn end_streams(gateway: &Arc<Gateway>) {
    let until = Instant::now() + FINAL_WRITE;
    while gateway.end_streams() && Instant::now() < until {
        sleep(INTERVAL).await;
    }
    // The last bytes of a response are written after its stream was read.
    sleep(INTERVAL).await;
}
