//! Ids of server-sent events.
//!
//! An id names the stream and the position of the event in it. For the stream of one request it also holds the id of
//! that request and the number of the process: a restarted gateway can still answer the request of a client that
//! resumes the stream, although it does not have the stream.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mendline_core::StreamId;

/// The position of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventId {
    /// The number of its session in the process that made it.
    pub process: u32,
    /// The stream.
    pub stream: StreamId,
    /// The position in the stream, from 1. The event that only opens a stream has 0.
    pub position: u32,
    /// The text of the id of the only request of the stream.
    pub request: Option<Vec<u8>>,
}

/// The limit of a request id in an event id.
const REQUEST_LIMIT: usize = 128;

impl EventId {
    /// Writes the id.
    pub fn write(&self) -> String {
        let request = self.request.as_ref().filter(|request| request.len() <= REQUEST_LIMIT);
        let request = request.map(|request| format!("-{}", URL_SAFE_NO_PAD.encode(request))).unwrap_or_default();
        format!("{:x}.{}.{}{request}", self.process, self.stream.0, self.position)
    }

    /// Reads an id. Returns nothing for a text that is none.
    pub fn read(text: &str) -> Option<EventId> {
        let (place, request) = match text.split_once('-') {
            Some((place, request)) => (place, Some(URL_SAFE_NO_PAD.decode(request).ok()?)),
            None => (text, None),
        };
        let mut parts = place.split('.');
        let process = u32::from_str_radix(parts.next()?, 16).ok()?;
        let stream = StreamId(parts.next()?.parse().ok()?);
        let position = parts.next()?.parse().ok()?;
        let is_end = parts.next().is_none();
        let is_valid = request.as_ref().is_none_or(|request| is_request_id(request));
        (is_end && is_valid).then_some(EventId { process, stream, position, request })
    }
}

/// Returns whether a text is a JSON string or number, so that it can stand in a message.
fn is_request_id(text: &[u8]) -> bool {
    let value = serde_json::from_slice::<serde_json::Value>(text);
    text.len() <= REQUEST_LIMIT && value.is_ok_and(|value| value.is_string() || value.is_number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_id_is_read_back() {
        for request in [None, Some(&b"7"[..]), Some(b"\"a-b.c\""), Some(b"-1.5")] {
            let request = request.map(<[u8]>::to_vec);
            let id = EventId { process: 0xfeed, stream: StreamId(3), position: 9, request };
            assert_eq!(EventId::read(&id.write()), Some(id));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1", "1.2", "1.2.3.4", "x.2.3", "1.-2.3", "1.2.3-", "1.2.3-!!", "1.2.3-e30", "1.2.3-Iic"] {
            assert_eq!(EventId::read(text), None, "{text}");
        }
        let long = EventId { process: 1, stream: StreamId(1), position: 1, request: Some(vec![b'1'; 200]) };
        assert_eq!(EventId::read(&long.write()).unwrap().request, None);
    }
}
