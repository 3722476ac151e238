//! What the peers themselves leave to chance.
//!
//! Two direct runs of the same script would already differ in these places, so they are taken out of every transcript and of
//! every client's report alike, before anything is compared. Each entry belongs to one peer and has its reason; the
//! fixture server of our own needs none.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rename::Cut;
use crate::transcript::{Direction, Transcript};

/// `server-everything` writes the time of day into its dynamic resources.
const CLOCK: &str = "created at ";

/// `server-everything` throws dice for the level of the one log message that can be asked of it.
const DICE: [(&str, &str); 8] = [
    ("debug", "Debug-level message"),
    ("info", "Info-level message"),
    ("notice", "Notice-level message"),
    ("warning", "Warning-level message"),
    ("error", "Error-level message"),
    ("critical", "Critical-level message"),
    ("alert", "Alert level-message"),
    ("emergency", "Emergency-level message"),
];

/// A transcript without chance.
pub fn taken_out_of(transcript: &Transcript) -> Transcript {
    let given_up = cancelled_progress(transcript);
    let down = transcript.down.iter().filter(|line| !is_progress_of(line, &given_up));
    Transcript {
        up: transcript.up.iter().map(|line| without_dice(&without_clock(line))).collect(),
        down: down.map(|line| without_dice(&without_clock(line))).collect(),
    }
}

/// A client's report without chance.
pub fn taken_out_of_report(report: &mut Value) {
    match report {
        Value::String(text) => *text = without_clock(text),
        Value::Array(items) => items.iter_mut().for_each(taken_out_of_report),
        Value::Object(members) => {
            let said = members.get("data").and_then(Value::as_str);
            if said.is_some_and(|said| DICE.iter().any(|(_, words)| *words == said)) {
                members.insert("data".into(), "•".into());
                members.insert("level".into(), "•".into());
            }
            members.values_mut().for_each(taken_out_of_report);
        }
        _ => {}
    }
}

fn without_clock(text: &str) -> String {
    let Some((before, rest)) = text.split_once(CLOCK) else { return text.to_owned() };
    // The time is the last thing in its string, and `2:58:12 AM` is all that it is made of.
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ": \u{202f}APM".contains(c))).unwrap_or(rest.len());
    format!("{before}{CLOCK}•{}", &rest[end..])
}

fn without_dice(line: &str) -> String {
    let thrown = DICE.iter().map(|(level, words)| format!(r#""level":"{level}","data":"{words}""#));
    match thrown.into_iter().find(|thrown| line.contains(thrown)) {
        Some(thrown) => line.replace(&thrown, r#""level":"•","data":"•""#),
        None => line.to_owned(),
    }
}

/// The progress tokens of requests that the client gave up.
///
/// How much progress a server reports before the cancellation reaches it is a race between the two of them; one that does
/// not look (`server-everything`) goes on reporting. That progress does come through is seen all the same: the clients give
/// the fixture's call up *when* its first progress arrives.
fn cancelled_progress(transcript: &Transcript) -> BTreeSet<String> {
    let cuts: Vec<_> = transcript.up.iter().map(|line| (line, Cut::new(line, Direction::Up))).collect();
    let field = |cut: &Cut<'_>, key: &str| {
        cut.names.iter().find(|(row, _)| row.field.last() == Some(&key)).map(|(_, name)| (*name).to_owned())
    };
    let cancelled: BTreeSet<_> = cuts.iter().filter_map(|(_, cut)| field(cut, "requestId")).collect();
    let given_up = cuts.iter().filter(|(_, cut)| field(cut, "id").is_some_and(|id| cancelled.contains(&id)));
    given_up.filter_map(|(_, cut)| field(cut, "progressToken")).collect()
}

fn is_progress_of(line: &str, tokens: &BTreeSet<String>) -> bool {
    !tokens.is_empty()
        && line.contains("notifications/progress")
        && Cut::new(line, Direction::Down)
            .names
            .iter()
            .any(|(row, name)| row.field == ["params", "progressToken"] && tokens.contains(*name))
}

#[cfg(test)]
mod tests {
    use super::{taken_out_of, taken_out_of_report};
    use crate::transcript::Transcript;

    #[test]
    fn the_time_of_day_and_the_dice_go_and_nothing_else_does() {
        let transcript = Transcript {
            up: vec![],
            down: vec![
                r#"{"text":"Resource 7: This is a plaintext resource created at 2:58:12 AM"},"id":17}"#.into(),
                r#"{"params":{"level":"alert","data":"Alert level-message"}}"#.into(),
                r#"{"params":{"level":"alert","data":"something else"}}"#.into(),
            ],
        };
        assert_eq!(
            taken_out_of(&transcript).down,
            [
                r#"{"text":"Resource 7: This is a plaintext resource created at •"},"id":17}"#,
                r#"{"params":{"level":"•","data":"•"}}"#,
                r#"{"params":{"level":"alert","data":"something else"}}"#,
            ]
        );
    }

    #[test]
    fn only_the_progress_of_a_call_that_was_given_up_is_left_out() {
        let call =
            |id: u32| format!(r#"{{"id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}0}}}}}}"#);
        let progress =
            |token: u32| format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token}}}}}"#);
        let transcript = Transcript {
            up: vec![call(1), call(2), r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#.into()],
            down: vec![progress(10), progress(20), progress(10)],
        };
        assert_eq!(taken_out_of(&transcript).down, [progress(10), progress(10)]);
    }

    #[test]
    fn a_report_loses_the_same_things() {
        let mut report =
            serde_json::json!([{"data": "Info-level message", "level": "info"}, "created at 2:58:12 AM", 3]);
        taken_out_of_report(&mut report);
        assert_eq!(report, serde_json::json!([{"data": "•", "level": "•"}, "created at •", 3]));
    }
}
