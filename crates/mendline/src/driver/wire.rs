//! Passes the messages on the wire to an observer that wants them.
//!
//! The driver asks the observer once, at the start. If it does not want messages, a call costs one check of a flag.

use mendline_core::{Input, UpstreamId};
use mendline_wire::{Line, Received, Spliced};

use super::host::{Direction, Observer};

/// Shows an incoming line.
pub(super) fn show_line(observer: &mut impl Observer, upstream: UpstreamId, direction: Direction, line: &Line) {
    match line {
        Line::Text(text) | Line::TooLong { head: text, .. } => observer.on_message(upstream, direction, text),
    }
}

/// Shows an outgoing message.
pub(super) fn show_message(
    observer: &mut impl Observer,
    upstream: UpstreamId,
    direction: Direction,
    message: &Spliced,
) {
    observer.on_message(upstream, direction, &message.to_bytes());
}

/// Shows the messages in an input from HTTP.
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
