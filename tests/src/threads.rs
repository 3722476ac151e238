//! The order of messages over several connections.
//!
//! Over stdio all messages of a server have one order, and Mendline keeps it. Over HTTP each call has its own response,
//! and other messages have their own stream: the order between connections is undefined, with or without Mendline.
//! Related messages still have an order: the progress of a call comes before its answer, and log messages come in the
//! order in which they were written.
//!
//! So a transcript is sorted before it is compared with that of a pipe. Every line belongs to one thread; lines are
//! sorted by thread and keep their order within a thread.

use std::collections::BTreeMap;

use crate::differences::Family;
use crate::rename::SplitLine;
use crate::transcript::{Direction, Transcript};

/// The thread of a line of the server, in terms that are equal in both conversations: the ids of the client and the
/// methods.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thread {
    /// A request of the client: its progress, its answer, and the notifications of a subscription.
    Call(String),
    /// All other messages of one method.
    Method(String),
}

/// Returns the same lines, thread by thread.
pub fn sorted_by_thread(transcript: &Transcript) -> Transcript {
    let calls = calls_by_token(&transcript.up);
    let mut sorted_by_thread = transcript.clone();
    // A client has two threads: its own requests in the order of its script, and its replies to the server.
    sorted_by_thread.up.sort_by_key(|line| is_reply(line));
    sorted_by_thread.down.sort_by_cached_key(|line| thread(line, &calls));
    sorted_by_thread
}

/// Returns the request of each progress token.
fn calls_by_token(up: &[String]) -> BTreeMap<String, String> {
    let both = up.iter().filter_map(|line| {
        let cut = SplitLine::new(line, Direction::Up);
        Some((name(&cut, Family::ClientProgress, "progressToken")?, name(&cut, Family::ClientRequest, "id")?))
    });
    both.collect()
}

fn name(cut: &SplitLine<'_>, family: Family, field: &str) -> Option<String> {
    let mut names = cut.names.iter().filter(|(row, _)| row.family == family && row.field.last() == Some(&field));
    names.next().map(|(_, name)| (*name).to_owned())
}

fn is_reply(line: &str) -> bool {
    name(&SplitLine::new(line, Direction::Up), Family::ServerRequest, "id").is_some()
}

fn thread(line: &str, calls: &BTreeMap<String, String>) -> Thread {
    let cut = SplitLine::new(line, Direction::Down);
    if let Some(token) = name(&cut, Family::ClientProgress, "progressToken") {
        return Thread::Call(calls.get(&token).cloned().unwrap_or(token));
    }
    let belongs = |field| name(&cut, Family::ClientRequest, field);
    if let Some(id) = belongs("id").or_else(|| belongs("io.modelcontextprotocol/subscriptionId")) {
        return Thread::Call(id);
    }
    Thread::Method(method(line))
}

fn method(line: &str) -> String {
    let message: Option<serde_json::Value> = serde_json::from_str(line).ok();
    message.and_then(|message| Some(message.get("method")?.as_str()?.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::sorted_by_thread;
    use crate::transcript::Transcript;

    const LOG_1: &str = r#"{"method":"notifications/message","params":{"data":1}}"#;
    const LOG_2: &str = r#"{"method":"notifications/message","params":{"data":2}}"#;
    const ASK: &str = r#"{"method":"roots/list","id":65536}"#;
    const STEP: &str = r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    const ANSWER_1: &str = r#"{"id":1,"result":{}}"#;
    const ANSWER_2: &str = r#"{"id":2,"result":{}}"#;

    fn down(lines: &[&str]) -> Vec<String> {
        let up = vec![r#"{"id":2,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}"#.to_owned()];
        let down = lines.iter().map(|line| (*line).to_owned()).collect();
        sorted_by_thread(&Transcript { up, down }).down
    }

    #[test]
    fn messages_of_different_connections_may_be_reordered() {
        let one = down(&[ANSWER_1, LOG_1, ASK, STEP, ANSWER_2, LOG_2]);
        assert_eq!(one, down(&[ASK, STEP, ANSWER_2, LOG_1, LOG_2, ANSWER_1]));
    }

    #[test]
    fn progress_after_answer_is_still_detected() {
        let right = down(&[STEP, ANSWER_2, LOG_1, LOG_2]);
        assert_ne!(right, down(&[ANSWER_2, STEP, LOG_1, LOG_2]));
        assert_ne!(right, down(&[STEP, ANSWER_2, LOG_2, LOG_1]));
    }

    #[test]
    fn requests_and_replies_of_client_each_keep_order() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let up = lines(&[
            r#"{"id":1,"method":"a"}"#,
            r#"{"id":9,"result":{}}"#,
            r#"{"method":"b"}"#,
            r#"{"id":8,"result":{}}"#,
        ]);
        let sorted_by_thread = sorted_by_thread(&Transcript { up: up.clone(), down: vec![] }).up;
        assert_eq!(sorted_by_thread, [&up[0], &up[2], &up[1], &up[3]].map(Clone::clone));
    }
}
