//! The requests in the access log of a server.
//!
//! Over HTTP there is no pipe to tap, but the access log of the fixture has a line for each request. It shows whether
//! each message of the client was sent exactly once.

use serde_json::Value;

use crate::stage::Transport;

/// Compares the access log of the fixture with the lines of its client.
///
/// # Errors
///
/// Returns the difference if the server received more or fewer messages than the client wrote.
pub fn sent_once(log: &str, up: &[String], transport: Transport) -> Result<(), String> {
    let (what, written, sent) = if transport == Transport::Sse {
        // Every message is accepted with 202 and answered on the stream.
        ("messages", up.len(), posts(log, "/messages/").count())
    } else {
        // A notification is only accepted. A modern cancellation closes the stream and is not sent.
        let requests = up.iter().filter(|line| is_request(line)).count();
        ("requests", requests, posts(log, "/mcp").filter(|status| *status != "202").count())
    };
    if sent == written { Ok(()) } else { Err(format!("the client wrote {written} {what}, the server was sent {sent}")) }
}

/// Returns the statuses of all POSTs to a path: `… "POST /mcp HTTP/1.1" 200 OK`.
fn posts<'a>(log: &'a str, path: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("\"POST {path}");
    let posted = log.lines().filter(move |line| line.contains(&start));
    posted.map(|line| line.rsplit("HTTP/1.1\" ").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default())
}

fn is_request(line: &str) -> bool {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    line.get("method").is_some() && line.get("id").is_some()
}

#[cfg(test)]
mod tests {
    use super::sent_once;
    use crate::stage::Transport::{Http, Sse};

    const LOG: &str = "listening on 7\n\
        INFO:     127.0.0.1:1 - \"POST /mcp HTTP/1.1\" 200 OK\n\
        INFO:     127.0.0.1:1 - \"POST /mcp HTTP/1.1\" 202 Accepted\n\
        INFO:     127.0.0.1:1 - \"GET /mcp HTTP/1.1\" 200 OK\n\
        INFO:     127.0.0.1:1 - \"POST /messages/?session_id=5 HTTP/1.1\" 202 Accepted\n\
        INFO:     127.0.0.1:1 - \"POST /mcp HTTP/1.1\" 404 Not Found\n";

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn only_requests_are_counted_by_their_answers() {
        let up = lines(&[
            r#"{"id":1,"method":"a"}"#,
            r#"{"method":"b"}"#,
            r#"{"id":9,"result":{}}"#,
            r#"{"id":2,"method":"c"}"#,
        ]);
        sent_once(LOG, &up, Http).unwrap();
        let why = sent_once(LOG, &up[..3], Http).unwrap_err();
        assert_eq!(why, "the client wrote 1 requests, the server was sent 2");
    }

    #[test]
    fn over_sse_every_message_counts() {
        sent_once(LOG, &lines(&[r#"{"method":"b"}"#]), Sse).unwrap();
        sent_once(LOG, &lines(&[r#"{"method":"b"}"#, r#"{"id":1,"method":"a"}"#]), Sse).unwrap_err();
    }
}
