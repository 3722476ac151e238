//! The comparison of two conversations.
//!
//! Each direction is compared line by line. The scripts perform one operation after the other and wait for its effects,
//! so the peers are deterministic, except for [`crate::nondeterminism`] and [`crate::cancelled_requests`]. Concurrent
//! calls are no exception, because the fixture waits for all of them and answers the last one first. The order between
//! the two directions is not compared; a tap cannot know it.
//!
//! Two lines are equal if their [skeletons](crate::rename::SplitLine) are byte-equal and their ids are paired as the
//! table of [differences](crate::differences) allows.

use crate::cancelled_requests;
use crate::differences::Side;
use crate::nondeterminism;
use crate::rename::{Renames, SplitLine};
use crate::transcript::{Direction, Transcript};

/// The number of characters that are shown around the first difference.
const SHOWN: usize = 120;

/// Compares a direct conversation with the same one through Mendline, seen on this side of it (`None`: without
/// Mendline).
///
/// # Errors
///
/// Returns the first difference that the table does not allow.
pub fn compare(direct: &Transcript, bridged: &Transcript, side: Option<Side>) -> Result<Renames, String> {
    let clean = |transcript| cancelled_requests::remove_from(&nondeterminism::remove_from(transcript));
    let (direct, bridged) = (clean(direct), clean(bridged));
    let mut renames = Renames::new(side);
    for direction in [Direction::Up, Direction::Down] {
        let (ours, theirs) = (direct.lines(direction), bridged.lines(direction));
        for (number, (one, other)) in ours.iter().zip(theirs).enumerate() {
            same_line(one, other, direction, &mut renames).map_err(|why| {
                format!(
                    "{direction:?}, line {}: {why}\n  direct:  {}\n  bridged: {}",
                    number + 1,
                    cut(one, other),
                    cut(other, one)
                )
            })?;
        }
        if let Some(extra) = ours.get(theirs.len()) {
            return Err(format!(
                "{direction:?}: {} lines became {}, missing: {}",
                ours.len(),
                theirs.len(),
                cut(extra, "")
            ));
        }
        if let Some(extra) = theirs.get(ours.len()) {
            return Err(format!(
                "{direction:?}: {} lines became {}, extra: {}",
                ours.len(),
                theirs.len(),
                cut(extra, "")
            ));
        }
    }
    Ok(renames)
}

fn same_line(one: &str, other: &str, direction: Direction, renames: &mut Renames) -> Result<(), String> {
    let (one, other) = (SplitLine::new(one, direction), SplitLine::new(other, direction));
    if one.skeleton != other.skeleton {
        return Err("the text differs".into());
    }
    if one.names.len() != other.names.len() {
        return Err("a name is missing or one too many".into());
    }
    for ((row, direct), (other_row, bridged)) in one.names.iter().zip(&other.names) {
        if !std::ptr::eq(*row, *other_row) {
            return Err("a name stands in another place".into());
        }
        renames.pair(row, direct, bridged)?;
    }
    Ok(())
}

/// Returns the part of a line around its first difference from another.
fn cut(line: &str, other: &str) -> String {
    let at = line.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let from = line.floor_char_boundary(at.saturating_sub(SHOWN));
    let to = line.floor_char_boundary(at + SHOWN);
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
    format!("{before}{}{after}", &line[from..to])
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::differences::Side;
    use crate::transcript::Transcript;

    fn direct() -> Transcript {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Transcript {
            up: lines(&[
                r#"{"id":0,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":0}}}"#,
                r#"{"id":"one","method":"tools/call","params":{"name":"b"}}"#,
                r#"{"method":"notifications/cancelled","params":{"requestId":"one"}}"#,
                r#"{"id":9,"result":{"roots":[]}}"#,
            ]),
            down: lines(&[
                r#"{"method":"notifications/progress","params":{"progressToken":0,"progress":1.50}}"#,
                r#"{"id":9,"method":"roots/list"}"#,
                r#"{"id":0,"result":{"b":1,"a":[1,2]}}"#,
            ]),
        }
    }

    /// Returns the server side of a correct conversation.
    fn server_side() -> Transcript {
        let mut bridged = direct();
        bridged.up[0] =
            r#"{"id":65536,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":65536}}}"#.into();
        bridged.up[1] = r#"{"id":65537,"method":"tools/call","params":{"name":"b"}}"#.into();
        bridged.up[2] = r#"{"method":"notifications/cancelled","params":{"requestId":65537}}"#.into();
        bridged.down[0] =
            r#"{"method":"notifications/progress","params":{"progressToken":65536,"progress":1.50}}"#.into();
        bridged.down[2] = r#"{"id":65536,"result":{"b":1,"a":[1,2]}}"#.into();
        bridged
    }

    /// Changes the server side and returns the error of the comparison.
    fn objection(change: impl FnOnce(&mut Transcript)) -> String {
        let mut bridged = server_side();
        change(&mut bridged);
        compare(&direct(), &bridged, Some(Side::Server)).unwrap_err()
    }

    #[test]
    fn consistent_renames_are_no_difference() {
        let renames = compare(&direct(), &server_side(), Some(Side::Server)).unwrap();
        assert_eq!(renames.len(), 3, "two requests and one progress token");
    }

    #[test]
    fn direct_conversation_equals_itself_without_renames() {
        assert!(compare(&direct(), &direct(), None).unwrap().is_empty());
        let why = compare(&direct(), &server_side(), None).unwrap_err();
        assert!(why.contains("which nothing allows"), "{why}");
    }

    #[test]
    fn rename_on_wrong_side_is_detected() {
        let why = compare(&direct(), &server_side(), Some(Side::Client)).unwrap_err();
        assert!(why.contains("0 became 65536, which nothing allows"), "{why}");
        let why = objection(|bridged| {
            bridged.up[3] = r#"{"id":1,"result":{"roots":[]}}"#.into();
            bridged.down[1] = r#"{"id":1,"method":"roots/list"}"#.into();
        });
        assert!(why.contains("9 became 1, which nothing allows"), "{why}");
    }

    #[test]
    fn duplicate_request_id_is_detected() {
        let why = objection(|bridged| bridged.up[1] = bridged.up[1].replace("65537", "65536"));
        assert!(why.contains("are both called 65536"), "{why}");
    }

    #[test]
    fn answer_to_other_request_is_detected() {
        let why = objection(|bridged| bridged.down[2] = bridged.down[2].replace("65536", "65538"));
        assert!(why.contains("0 is called 65536 and then 65538"), "{why}");
    }

    #[test]
    fn cancellation_of_other_request_is_detected() {
        let why = objection(|bridged| bridged.up[2] = bridged.up[2].replace("65537", "65536"));
        assert!(why.contains("is called 65537 and then 65536"), "{why}");
    }

    #[test]
    fn progress_with_other_token_is_detected() {
        let why = objection(|bridged| bridged.down[0] = bridged.down[0].replace("65536", "0"));
        assert!(why.contains("0 is called 65536 and then 0"), "{why}");
    }

    #[test]
    fn changed_key_order_and_number_form_are_detected() {
        let why = objection(|bridged| bridged.down[2] = r#"{"id":65536,"result":{"a":[1,2],"b":1}}"#.into());
        assert!(why.contains("the text differs"), "{why}");
        let why = objection(|bridged| bridged.down[0] = bridged.down[0].replace("1.50", "1.5"));
        assert!(why.contains("the text differs"), "{why}");
    }

    #[test]
    fn lost_added_and_swapped_lines_are_detected() {
        assert!(objection(|bridged| drop(bridged.down.pop())).contains("missing"));
        assert!(objection(|bridged| bridged.up.push("{}".into())).contains("extra"));
        assert!(objection(|bridged| bridged.up.swap(1, 2)).contains("the text differs"));
    }

    #[test]
    fn non_numeric_id_is_detected() {
        let why = objection(|bridged| bridged.up[0] = bridged.up[0].replace(r#""id":65536"#, r#""id":"65536""#));
        assert!(why.contains("no number of Mendline's"), "{why}");
    }
}
