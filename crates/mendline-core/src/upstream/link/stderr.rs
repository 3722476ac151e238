//! The last lines of a child's stderr, and the one of them that explains a crash.
//!
//! A program that crashes prints its reason, and often more after it: a stack trace, the version of its runtime, usage text.
//! The line that explains names an error (`Error: …`, `panic: …`, `ModuleNotFoundError: …`). If no line does, the last few
//! lines are quoted.

use std::collections::VecDeque;

use crate::defaults;

/// The last lines that a child wrote to its stderr, redacted.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    lines: VecDeque<String>,
}

impl StderrTail {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Adds a line.
    pub(super) fn push(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.lines.push_back(line.trim_end().to_owned());
        while self.lines.len() > defaults::STDERR_TAIL {
            self.lines.pop_front();
        }
    }

    /// Returns the line that explains why the child ended, or else its last lines.
    pub(super) fn explanation(&self) -> Option<String> {
        let explains = |line: &&String| names_error(line);
        // A line of a stack trace is indented; the error itself is not.
        let at_margin = |line: &&String| explains(line) && !line.starts_with([' ', '\t']);
        let found = self.lines.iter().rev().find(at_margin).or_else(|| self.lines.iter().rev().find(explains));
        if let Some(line) = found {
            return Some(line.trim().to_owned());
        }
        let first = self.lines.len().saturating_sub(defaults::STDERR_QUOTED);
        let last: Vec<&str> = self.lines.iter().skip(first).map(|line| line.trim()).collect();
        (!last.is_empty()).then(|| last.join(" | "))
    }
}

/// Returns whether a line names an error: a word that ends in `Error`, `Exception`, `panic` or the like, before a colon.
fn names_error(line: &str) -> bool {
    const ENDINGS: [&str; 5] = ["error", "exception", "panic", "fatal", "failure"];
    let line = line.trim();
    let lower = line.to_ascii_lowercase();
    if lower.contains("panicked at") || lower.starts_with("fatal ") || lower.contains("segmentation fault") {
        return true;
    }
    // `Error: …`, `TypeError: …`, `Error [ERR_X]: …`, `error[E0432]: …`, `[ERROR] …`, `2026-11-16 ERROR …`.
    let head = lower.split(": ").next().unwrap_or_default();
    let word = head.split([' ', '[', '(']).find(|word| !word.is_empty()).unwrap_or_default();
    let is_named = |word: &str| ENDINGS.iter().any(|ending| word.trim_end_matches([':', ']']).ends_with(ending));
    (head.len() < line.len() && is_named(word))
        || line.split([' ', '[', ']']).any(|word| matches!(word, "ERROR" | "FATAL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(text: &str) -> Option<String> {
        let mut tail = StderrTail::default();
        text.lines().for_each(|line| tail.push(line));
        tail.explanation()
    }

    #[test]
    fn t09_line_that_explains_is_quoted() {
        let node = "node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module 'x'\n    at \
                    Module._load (node:internal:1)\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2";
        assert_eq!(explained(node).as_deref(), Some("Error: Cannot find module 'x'"));
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nModuleNotFoundError: No \
                      module named 'mcp'";
        assert_eq!(explained(python).as_deref(), Some("ModuleNotFoundError: No module named 'mcp'"));
        let rust = "thread 'main' panicked at src/main.rs:2:5:\nno token\nnote: run with `RUST_BACKTRACE=1`";
        assert_eq!(explained(rust).as_deref(), Some("thread 'main' panicked at src/main.rs:2:5:"));
        let go = "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4";
        assert_eq!(explained(go).as_deref(), Some("panic: runtime error: index out of range"));
        let usage = "error: unknown option '--prot'\nusage: server [--port N]\n  --port N  where to listen";
        assert_eq!(explained(usage).as_deref(), Some("error: unknown option '--prot'"));
        let system = "TypeError [ERR_INVALID_URL]: Invalid URL\n    at new URL\nNode.js v20.20.2";
        assert_eq!(explained(system).as_deref(), Some("TypeError [ERR_INVALID_URL]: Invalid URL"));
        let nested = "Error: cannot start\n    Error: no port\nbye";
        assert_eq!(explained(nested).as_deref(), Some("Error: cannot start"), "the error at the margin");
        for line in ["fatal signal 11", "Segmentation fault (core dumped)"] {
            assert_eq!(explained(&format!("{line}\nrestarting")).as_deref(), Some(line));
        }
    }

    #[test]
    fn t09_last_lines_are_quoted_if_none_explains() {
        assert_eq!(explained("one\ntwo\n\nthree\nfour").as_deref(), Some("two | three | four"));
        assert_eq!(explained("  \n"), None);
        let mut tail = StderrTail::default();
        (0..1_000).for_each(|number| tail.push(&number.to_string()));
        assert_eq!(tail.lines.len(), defaults::STDERR_TAIL);
    }
}
