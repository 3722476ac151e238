//! Shows the messages themselves to whoever wants to see them.
//!
//! Nobody does, usually. So the driver asks once, at the beginning, and what is in here is not even called unless the answer
//! was yes: a healthy call pays for one look at a flag.

use mendline_core::{Engine, Input, Port, UpstreamId};
use mendline_wire::{Line, Received, Spliced};

use super::host::{Observer, Way};

/// A line came.
pub(super) fn came(observer: &mut impl Observer, upstream: UpstreamId, way: Way, line: &Line) {
    match line {
        Line::Text(text) | Line::TooLong { head: text, .. } => observer.passed(upstream, way, text),
    }
}

/// A message goes out.
pub(super) fn goes(observer: &mut impl Observer, upstream: UpstreamId, way: Way, message: &Spliced) {
    observer.passed(upstream, way, &message.to_bytes());
}

/// The next message for this port, which whoever wants to sees on its way.
pub(super) fn next<O: Observer>(
    engine: &mut Engine,
    port: Port,
    shown: Option<(&mut O, UpstreamId, Way)>,
) -> Option<Spliced> {
    let message = engine.poll_write(port)?;
    if let Some((observer, upstream, way)) = shown {
        goes(observer, upstream, way, &message);
    }
    Some(message)
}

/// Something came over HTTP, which may be a message.
pub(super) fn heard(observer: &mut impl Observer, input: &Input) {
    let (exchange, received) = match input {
        Input::Body { exchange, received } => (exchange, Some(received)),
        Input::StreamEvent { exchange, event } => (exchange, event.received.as_ref()),
        _ => return,
    };
    let mut show = |text: &[u8]| observer.passed(exchange.upstream(), Way::FromServer, text);
    match received {
        Some(Received::Message(message)) => show(message.text()),
        Some(Received::Batch(messages)) => messages.iter().flatten().for_each(|message| show(message.text())),
        Some(Received::Broken { text, .. } | Received::TooLong { head: text, .. }) => show(text),
        None => {}
    }
}
