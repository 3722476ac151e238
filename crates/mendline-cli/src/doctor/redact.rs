//! Redaction of the report.
//!
//! A server may repeat a rejected token in its messages, its title or its stderr, and people paste the report into
//! issues. Secrets that were sent to the server are hidden wherever they come back.

use std::borrow::Cow;

use mendline::decisions::Secret;
use mendline::observe::redact::Redactor;
use serde_json::Value;

use super::step::Step;

/// Hides secrets in steps.
#[derive(Default)]
pub(crate) struct StepRedactor(Redactor);

impl StepRedactor {
    pub(crate) fn new(secrets: &[Secret]) -> StepRedactor {
        let redactor = Redactor::default();
        redactor.learn(secrets);
        StepRedactor(redactor)
    }

    /// Returns the redactor, to which further secrets can be given.
    pub(crate) fn redactor(&self) -> Redactor {
        self.0.clone()
    }

    /// Hides secrets in a step.
    pub(crate) fn redact_step(&self, mut step: Step) -> Step {
        let texts = [&mut step.words].into_iter().chain(&mut step.advice).chain(&mut step.details);
        texts.for_each(|text| self.redact(text));
        step.facts.values_mut().for_each(|value| self.redact_value(value));
        step
    }

    /// Hides secrets in text of a server.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.0.redact(text.as_bytes())).into_owned()
    }

    fn redact(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.0.redact(text.as_bytes()) {
            *text = String::from_utf8_lossy(&redacted).into_owned();
        }
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(members) => members.values_mut().for_each(|value| self.redact_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_hidden_in_words_details_and_facts() {
        let redactor = StepRedactor::new(&[Secret::new("canary-s3cret".to_owned()), Secret::new("Bearer".to_owned())]);
        let step = Step::failed("auth", "canary-s3cret is refused").details(["(canary-s3cret)".to_owned()]);
        let step = redactor.redact_step(
            step.fact("challenges", vec!["Bearer x=\"canary-s3cret\"".to_owned()]).advice("canary-s3cret!"),
        );
        assert_eq!(step.words, "‹secret› is refused");
        assert!(!format!("{step:?}").contains("canary-s3cret"), "{step:?}");
    }

    #[test]
    fn short_text_is_no_secret() {
        let redactor = StepRedactor::new(&[Secret::new("me".to_owned())]);
        assert_eq!(redactor.redact_step(Step::ok("lists", "some tools")).words, "some tools");
    }
}
