//! Messages for cancelled requests.
//!
//! A peer that cancels a request may still get its answer or its progress from a peer that has not read the
//! cancellation or ignores it (`server-everything` continues to report). Mendline forwards none of them:
//! [`crate::differences::OMISSIONS`]. Their number depends on a race, so they are removed from every transcript before
//! a comparison.
//!
//! Progress *before* the cancellation is still compared: the clients cancel the call of the fixture *when* its first
//! progress arrives, and would hang without it.

use std::collections::BTreeSet;

use crate::differences::Family;
use crate::rename::SplitLine;
use crate::transcript::{Direction, Transcript};

/// Returns a transcript without the messages for cancelled requests.
pub fn remove_from(transcript: &Transcript) -> Transcript {
    let up = cut(&transcript.up, Direction::Up);
    let down = cut(&transcript.down, Direction::Down);
    let clients = CancelledRequests::among(&up, Family::ClientRequest, Family::ClientProgress);
    let servers = CancelledRequests::among(&down, Family::ServerRequest, Family::ServerProgress);
    Transcript { up: servers.remove_from(up), down: clients.remove_from(down) }
}

type Lines<'a> = Vec<(&'a String, SplitLine<'a>)>;

fn cut(lines: &[String], direction: Direction) -> Lines<'_> {
    lines.iter().map(|line| (line, SplitLine::new(line, direction))).collect()
}

fn name<'a>(cut: &SplitLine<'a>, family: Family, field: &str) -> Option<&'a str> {
    let mut names = cut.names.iter().filter(|(row, _)| row.family == family && row.field.last() == Some(&field));
    names.next().map(|(_, name)| *name)
}

/// The requests that one peer cancelled, and their progress tokens.
struct CancelledRequests<'a> {
    requests: (Family, BTreeSet<&'a str>),
    tokens: (Family, BTreeSet<&'a str>),
}

impl<'a> CancelledRequests<'a> {
    fn among(lines: &Lines<'a>, request: Family, progress: Family) -> Self {
        let requests: BTreeSet<_> = lines.iter().filter_map(|(_, cut)| name(cut, request, "requestId")).collect();
        let theirs = lines.iter().filter(|(_, cut)| name(cut, request, "id").is_some_and(|id| requests.contains(id)));
        let tokens = theirs.filter_map(|(_, cut)| name(cut, progress, "progressToken")).collect();
        Self { requests: (request, requests), tokens: (progress, tokens) }
    }

    /// Removes their messages from the lines of the other peer.
    fn remove_from(&self, lines: Lines<'_>) -> Vec<String> {
        let answers =
            |cut: &SplitLine<'_>| name(cut, self.requests.0, "id").is_some_and(|id| self.requests.1.contains(id));
        let reports = |cut: &SplitLine<'_>| {
            name(cut, self.tokens.0, "progressToken").is_some_and(|token| self.tokens.1.contains(token))
        };
        lines.into_iter().filter(|(_, cut)| !answers(cut) && !reports(cut)).map(|(line, _)| line.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::remove_from;
    use crate::transcript::Transcript;

    fn request(id: u32) -> String {
        format!(r#"{{"id":{id},"method":"m","params":{{"_meta":{{"progressToken":{id}0}}}}}}"#)
    }

    fn progress(token: u32) -> String {
        format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token}}}}}"#)
    }

    fn answer(id: u32) -> String {
        format!(r#"{{"id":{id},"result":{{}}}}"#)
    }

    fn cancelled(id: u32) -> String {
        format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    }

    #[test]
    fn only_messages_of_cancelled_calls_are_removed() {
        let transcript = Transcript {
            up: vec![request(1), request(2), cancelled(2)],
            down: vec![progress(10), progress(20), answer(2), progress(10), answer(1)],
        };
        let left = remove_from(&transcript);
        assert_eq!(left.up, transcript.up, "the call and its cancellation themselves stay");
        assert_eq!(left.down, [progress(10), progress(10), answer(1)]);
    }

    #[test]
    fn ids_of_server_and_client_requests_are_kept_apart() {
        let transcript = Transcript {
            up: vec![request(1), progress(10), answer(1), answer(2)],
            down: vec![request(1), cancelled(1), answer(1), request(2)],
        };
        let left = remove_from(&transcript);
        assert_eq!(left.up, [request(1), answer(2)]);
        assert_eq!(left.down, transcript.down, "the client has cancelled nothing");
    }
}
