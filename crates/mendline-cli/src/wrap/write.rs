//! Writing of a change that was confirmed, while the client may write the same file.
//!
//! A file that the client has changed since it was read is not replaced. It is read and planned again, and written if
//! the change is still the one that was confirmed: the same texts are replaced by the same texts.

use std::path::PathBuf;

use super::file::{NotWritten, Source};
use super::plan::Plan;

/// Number of attempts to write a file that its client writes, too.
const ATTEMPTS: usize = 5;

/// Writes a confirmed plan. `again` reads and plans the file once more. Returns the path of the backup.
pub(crate) fn confirmed(
    source: &Source,
    plan: &Plan,
    again: impl Fn() -> Result<Option<(Source, Plan)>, String>,
) -> Result<PathBuf, NotWritten> {
    let mut written = source.replace(&plan.after);
    for _ in 1..ATTEMPTS {
        if written != Err(NotWritten::Changed) {
            break;
        }
        match again() {
            Ok(Some((source, fresh))) if fresh.is_same_change(plan) => written = source.replace(&fresh.after),
            _ => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::cell::Cell;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::wrap::document::Syntax;
    use crate::wrap::file;
    use crate::wrap::plan::{Action, Chosen};
    use crate::wrap::program::Program;

    static PROGRAM: Program = Program::at(Cow::Borrowed("/bin/mendline"));

    fn text(settings: &str, command: &str) -> String {
        format!("{{{settings}\"mcpServers\": {{\"a\": {{\"command\": \"{command}\", \"args\": []}}}}}}")
    }

    fn planned(path: &Path) -> (Source, Plan) {
        let source = file::read(path).unwrap().unwrap();
        let action = Action::Wrap { program: &PROGRAM };
        let plan = Plan::make(source.text.clone(), Syntax::Json, &[], action, &Chosen::new()).unwrap();
        (source, plan)
    }

    /// Plans a file, has its client write it `times` times, each time before Mendline replaces it, and returns the
    /// result, the number of further plans and the text at the end.
    fn race(theirs: impl Fn(usize) -> String, times: usize) -> (Result<PathBuf, NotWritten>, usize, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, text("", "x")).unwrap();
        let (source, plan) = planned(&path);
        fs::write(&path, theirs(1)).unwrap();
        let plans = Cell::new(0);
        let result = confirmed(&source, &plan, || {
            plans.set(plans.get() + 1);
            let fresh = planned(&path);
            if plans.get() < times {
                fs::write(&path, theirs(plans.get() + 1)).unwrap();
            }
            Ok(Some(fresh))
        });
        let left = fs::read_to_string(&path).unwrap();
        (result, plans.get(), left)
    }

    #[test]
    fn change_of_client_elsewhere_in_file_is_kept() {
        let theirs = |time: usize| text(&format!("\"starts\": {time}, "), "x");
        let (result, plans, left) = race(theirs, 3);
        assert!(result.is_ok() && plans == 3, "{result:?} {plans}");
        assert!(left.contains("\"starts\": 3") && left.contains("/bin/mendline") && left.contains("\"x\""), "{left}");
    }

    #[test]
    fn change_of_client_in_the_entry_is_not_overwritten() {
        let theirs = |_| text("", "another");
        let (result, plans, left) = race(theirs, 1);
        assert_eq!((result, plans, left), (Err(NotWritten::Changed), 1, text("", "another")));
    }

    #[test]
    fn file_that_changes_all_the_time_is_left() {
        let theirs = |time: usize| text(&format!("\"starts\": {time}, "), "x");
        let (result, plans, left) = race(theirs, usize::MAX);
        assert_eq!((result, plans), (Err(NotWritten::Changed), ATTEMPTS - 1));
        assert!(!left.contains("mendline"), "{left}");
    }
}
