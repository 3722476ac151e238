//! S42: an event stream that is right and looks odd: a byte order mark, CRLF, and never two bytes together.

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "s42_sse_split_crlf_bom",
    row: "S42",
    does: "Answers with events in single bytes, with CRLF and a byte order mark.",
    value: "",
    runs: Runs::Always,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let admitted = scene.admit()?;
    let begun = admitted.begin(&scene.site);
    let mut dress = admitted.dress(&scene.site);
    dress.is_odd = true;
    Ok(admitted.deliver_events(&scene.site, begun, dress))
}
