//! Checks numbers and durations against their ranges.

use std::time::Duration;

use super::{Checker, TypedValue, wrong};
use crate::file::{Value, ValueKind};
use crate::keys;

impl Checker<'_> {
    pub(super) fn duration(&mut self, name: &str, value: &Value, least: Duration) -> Option<Duration> {
        let shown = humantime::format_duration;
        let expected = format!(
            "a duration from {} to {} (milliseconds as a number, or a string with units)",
            shown(least),
            shown(keys::LONGEST)
        );
        let example = if least.as_secs() > 0 { "\"30s\"" } else { "\"2s\" or 2000" };
        let duration = match &value.kind {
            ValueKind::Number(number) => number.parse().ok().map(Duration::from_millis),
            ValueKind::Text(text) => {
                let text = self.expanded(text, &value.at)?;
                humantime::parse_duration(&text).ok()
            }
            _ => None,
        };
        let within = duration.filter(|duration| (least..=keys::LONGEST).contains(duration));
        if within.is_none() {
            self.report(wrong(name, value, &expected, example));
        }
        within
    }

    pub(super) fn counted(&mut self, name: &str, value: &Value, unit: f64, units: &str) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse::<f64>().ok().map(|number| number * unit),
            _ => None,
        };
        let most = keys::LONGEST.as_secs_f64();
        match number.filter(|seconds| (0.001..=most).contains(seconds)) {
            Some(seconds) => Some(TypedValue::Duration(Duration::from_secs_f64(seconds))),
            None => self.wrong(name, value, &format!("a number of {units}, at most 30 days"), "30"),
        }
    }

    pub(super) fn whole(&mut self, name: &str, value: &Value, least: i64, most: i64) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse().ok().filter(|number| (least..=most).contains(number)),
            _ => None,
        };
        match number {
            Some(number) => Some(TypedValue::Integer(number)),
            None => {
                let example = least.max(1).min(most).to_string();
                self.wrong(name, value, &format!("an integer from {least} to {most}"), &example)
            }
        }
    }

    pub(super) fn real(&mut self, name: &str, value: &Value, least: f64, most: f64) -> Option<TypedValue> {
        let number = match &value.kind {
            ValueKind::Number(number) => number.parse::<f64>().ok().filter(|number| (least..=most).contains(number)),
            _ => None,
        };
        match number {
            Some(number) => Some(TypedValue::Number(number)),
            None => {
                let example = if least < 1.0 { "0.5" } else { "1.5" };
                self.wrong(name, value, &format!("a number from {least} to {most}"), example)
            }
        }
    }
}
