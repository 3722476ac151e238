//! Shows the messages themselves to whoever wants to see them.
//!
//! Nobody does, usually. So the driver asks once, at the beginning, and what is in here is not even called unless the answer
//! was yes: a healthy call pays for one look at a flag.

use mendline_core::{Engine, Input, Port, UpstreamId};
use mendline_wire::{Line, Received, Spliced};

use super::host::{Observer, Direction};

/// A line came.
pub(super) fn show_line(observer: &mut impl Observer, upstream: UpstreamId, direction: Direction, line: &Line) {
    match line {
        Line::Text(text) | Line::TooLong { head: text, .. } => observer.on_message(upstream, direction, text),
    }
}

/// A message goes out.
pub(super) fn show_message(observer: &mut impl Observer, upstream: UpstreamId, direction: Direction, message: &Spliced) {
    observer.on_message(upstream, direction, &message.to_bytes());
}

/// The next message for this port, which whoever wants to sees on its way.
pub(super) fn next_message<O: Observer>(
    engine: &mut Engine,
    port: Port,
    shown: Option<(&mut O, UpstreamId, Direction)>,
) -> Option<Spliced> {
    let message = engine.poll_write(port)?;
    if let Some((observer, upstream, way)) = shown {
        show_message(observer, upstream, direction, &message);
    }
    Some(message)
}

/// Something came over HTTP, which may be a message.
pub(super) fn show_http_input(observer: &mut impl Observer, input: &Input) {
    let (exchange, received) = match input {
        Input::Body { exchange, received } => (exchange, Some(received)),
        Input::StreamEvent { exchange, event } => (exchange, event.received.as_ref()),
        _ => return,
    };
    let mut show = |text: &[u8]| observer.on_message(exchange.upstream(), Direction::FromServer, text);
    match received {
        Some(Received::Message(message)) => show(message.text()),
        Some(Received::Batch(messages)) => messages.iter().flatten().for_each(|message| show(message.text())),
        Some(Received::Broken { text, .. } | Received::TooLong { head: text, .. }) => show(text),
        None => {}
    }
}
