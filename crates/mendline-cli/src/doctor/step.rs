//! One step of an examination: the layer, the finding and the advice.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It works.
    Ok,
    /// It works, but needs attention.
    Warning,
    /// It does not work.
    Failed,
    /// It was not tried, because a lower layer failed.
    Skipped,
}

impl Verdict {
    /// Returns the word for JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failed => "failed",
            Verdict::Skipped => "skipped",
        }
    }

    /// Returns the sign for a terminal.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Verdict::Ok => "✓",
            Verdict::Warning => "!",
            Verdict::Failed => "✗",
            Verdict::Skipped => "–",
        }
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The examined layer.
    pub(crate) layer: &'static str,
    pub(crate) verdict: Verdict,
    /// The finding, in one line.
    pub(crate) words: String,
    /// The advice.
    pub(crate) advice: Option<String>,
    /// Further lines, such as output of the server.
    pub(crate) details: Vec<String>,
    pub(crate) took: Option<Duration>,
    /// Facts for JSON.
    pub(crate) facts: Map<String, Value>,
    /// True if only a login is missing.
    pub(crate) needs_login: bool,
}

impl Step {
    fn new(layer: &'static str, verdict: Verdict, words: impl Into<String>) -> Step {
        Step {
            layer,
            verdict,
            words: words.into(),
            advice: None,
            details: Vec::new(),
            took: None,
            facts: Map::new(),
            needs_login: false,
        }
    }

    pub(crate) fn ok(layer: &'static str, words: impl Into<String>) -> Step {
        Step::new(layer, Verdict::Ok, words)
    }

    pub(crate) fn warning(layer: &'static str, words: impl Into<String>) -> Step {
        Step::new(layer, Verdict::Warning, words)
    }

    pub(crate) fn failed(layer: &'static str, words: impl Into<String>) -> Step {
        Step::new(layer, Verdict::Failed, words)
    }

    pub(crate) fn skipped(layer: &'static str, words: impl Into<String>) -> Step {
        Step::new(layer, Verdict::Skipped, words)
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Step {
        self.advice = Some(advice.into());
        self
    }

    pub(crate) fn details(mut self, lines: impl IntoIterator<Item = String>) -> Step {
        self.details.extend(lines);
        self
    }

    pub(crate) fn took(mut self, took: Duration) -> Step {
        self.took = Some(took);
        self
    }

    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Step {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn needs_login(mut self) -> Step {
        self.needs_login = true;
        self
    }

    /// Returns the step as JSON.
    pub(crate) fn json(&self) -> Value {
        let millis = self.took.map(|took| (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0);
        json!({
            "layer": self.layer,
            "verdict": self.verdict.word(),
            "words": self.words,
            "advice": self.advice,
            "details": self.details,
            "ms": millis,
            "facts": self.facts,
        })
    }
}

/// Runs a future with a time limit. Returns its output, if it completed, and the duration.
pub(crate) async fn timed<T>(limit: Duration, what: impl Future<Output = T>) -> (Option<T>, Duration) {
    let begin = Instant::now();
    let outcome = tokio::time::timeout(limit, what).await;
    (outcome.ok(), begin.elapsed())
}

/// Formats a time limit.
pub(crate) fn limit_text(limit: Duration) -> String {
    humantime::format_duration(limit).to_string()
}
