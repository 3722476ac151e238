//! The ids in a line, and their pairing between two conversations.
//!
//! A line is split into its ids and its skeleton, which is all other bytes. It is split in the original text and never
//! printed again from parsed JSON, so that the comparison sees every byte.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::differences::{DIFFERENCES, Difference, Family, Messages, Side};
use crate::transcript::Direction;

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// A line in two parts.
#[derive(Clone, Debug)]
pub struct SplitLine<'a> {
    /// The line without its ids.
    pub skeleton: String,
    /// The ids in the order of the table, each with its row.
    pub names: Vec<(&'static Difference, &'a str)>,
}

impl<'a> SplitLine<'a> {
    /// Splits a line. A line that is not a JSON object has no ids.
    pub fn new(line: &'a str, direction: Direction) -> Self {
        let mut spots: Vec<(Range<usize>, &'static Difference)> = Vec::new();
        if let Ok(message) = serde_json::from_str::<Members<'a>>(line) {
            let here = DIFFERENCES.iter().filter(|row| row.direction == direction && concerns(row.messages, &message));
            spots.extend(here.filter_map(|row| Some((range_in(line, lookup(&message, row.field)?), row))));
        }
        let names = spots.iter().map(|(range, row)| (*row, &line[range.clone()])).collect();
        spots.sort_by_key(|(range, _)| range.start);
        let mut skeleton = String::with_capacity(line.len());
        let mut done = 0;
        for (range, _) in spots {
            skeleton.push_str(&line[done..range.start]);
            skeleton.push('\u{2022}');
            done = range.end;
        }
        skeleton.push_str(&line[done..]);
        Self { skeleton, names }
    }
}

fn concerns(messages: Messages, message: &Members<'_>) -> bool {
    let method = message.get("method").map(|method| method.get());
    let named = message.contains_key("id");
    match messages {
        Messages::Requests => method.is_some() && named,
        Messages::Responses => method.is_none() && named,
        Messages::Notifications => method.is_some() && !named,
        Messages::Notification(only) => !named && method.is_some_and(|method| method.trim_matches('"') == only),
    }
}

fn lookup<'a>(message: &Members<'a>, field: &[&str]) -> Option<&'a str> {
    let (last, outer) = field.split_last()?;
    let mut members = None;
    for key in outer {
        let inner = members.as_ref().unwrap_or(message).get(*key)?;
        members = Some(serde_json::from_str::<Members<'a>>(inner.get()).ok()?);
    }
    members.as_ref().unwrap_or(message).get(*last).map(|value| value.get())
}

/// Returns the range of `part` in `line`, of which it is a slice.
fn range_in(line: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - line.as_ptr() as usize;
    start..start + part.len()
}

/// The ids of one conversation with their counterparts in the other: a bijection that grows line by line.
#[derive(Debug)]
pub struct Renames {
    side: Option<Side>,
    there: BTreeMap<(Family, String), String>,
    back: BTreeMap<(Family, String), String>,
    seen: Vec<&'static Difference>,
}

impl Renames {
    /// Creates an empty pairing. Ids may differ on `side` as the table allows; with `None` nowhere.
    pub fn new(side: Option<Side>) -> Self {
        Self { side, there: BTreeMap::new(), back: BTreeMap::new(), seen: Vec::new() }
    }

    /// Returns the number of paired ids.
    pub fn len(&self) -> usize {
        self.there.len()
    }

    /// Returns true if no id has been paired.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty()
    }

    /// Returns true if an id has been paired in the place of this row. A row that is never used is not tested.
    pub fn has_seen(&self, row: &'static Difference) -> bool {
        self.seen.iter().any(|seen| std::ptr::eq(*seen, row))
    }

    /// Pairs the id in one place without Mendline with the one in the same place with it.
    ///
    /// # Errors
    ///
    /// Fails if the id may not differ, is not an integer of Mendline, or is already paired with another.
    pub fn pair(&mut self, row: &'static Difference, direct: &str, bridged: &str) -> Result<(), String> {
        if Some(row.side) != self.side {
            return if direct == bridged {
                Ok(())
            } else {
                Err(format!(
                    "{:?} {}: {direct} became {bridged}, which nothing allows",
                    row.family,
                    row.field.join(".")
                ))
            };
        }
        if bridged.parse::<u64>().is_err() {
            return Err(format!("{:?} {direct} became {bridged}, which is no number of Mendline's", row.family));
        }
        let before = self.there.entry((row.family, direct.to_owned())).or_insert_with(|| bridged.to_owned());
        if before != bridged {
            return Err(format!("{:?} {direct} is called {before} and then {bridged}", row.family));
        }
        let before = self.back.entry((row.family, bridged.to_owned())).or_insert_with(|| direct.to_owned());
        if before != direct {
            return Err(format!("{:?} {before} and {direct} are both called {bridged}", row.family));
        }
        if !self.has_seen(row) {
            self.seen.push(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SplitLine;
    use crate::transcript::Direction::{Down, Up};

    fn names(line: &str, direction: crate::transcript::Direction) -> Vec<&str> {
        SplitLine::new(line, direction).names.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn line_is_split_exactly_as_table_says() {
        let line =
            r#"{"id" : "a", "method":"tools/call","params":{"id":1,"_meta":{"progressToken":7},"progressToken":8}}"#;
        let cut = SplitLine::new(line, Up);
        assert_eq!(
            cut.skeleton,
            r#"{"id" : •, "method":"tools/call","params":{"id":1,"_meta":{"progressToken":•},"progressToken":8}}"#
        );
        assert_eq!(names(line, Up), ["\"a\"", "7"]);
    }

    #[test]
    fn ids_of_each_message_kind_are_found() {
        assert_eq!(names(r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#, Up), ["3"]);
        assert_eq!(names(r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#, Down), ["3"]);
        assert_eq!(names(r#"{"method":"notifications/progress","params":{"progressToken":"t"}}"#, Down), ["\"t\""]);
        assert_eq!(
            names(r#"{"method":"notifications/message","params":{"requestId":3,"progressToken":4}}"#, Down),
            [""; 0]
        );
        let line = r#"{"method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#;
        assert_eq!(names(line, Down), ["\"s\""]);
        assert_eq!(names(r#"{"result":{"id":5},"id":4}"#, Down), ["4"]);
        assert_eq!(names("no JSON", Down), [""; 0]);
    }
}
