//! One cell of the matrix: a form of outage, its duration, the situation of the client, and the kind of server.

use std::time::Duration;

use crate::form::Form;

/// The durations of the matrix, in seconds.
pub(crate) const SECONDS: [u64; 3] = [1, 10, 30];

/// The situation of the client when the outage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// Reads are issued during the outage.
    ReadDuring,
    /// Unsafe calls are issued during the outage.
    UnsafeDuring,
    /// A read is in flight when the outage begins.
    ReadInFlight,
    /// The client starts during the outage, without a catalogue.
    FirstStart,
    /// The client starts during the outage, with the catalogue of an earlier run.
    SecondStart,
    /// A client calls every 0.3 s, before, during and after the outage.
    Agent,
    /// 32 reads and 32 unsafe calls are in flight when the outage begins.
    ManyInFlight,
}

impl Situation {
    pub(crate) const ALL: [Situation; 7] = [
        Situation::ReadDuring,
        Situation::UnsafeDuring,
        Situation::ReadInFlight,
        Situation::FirstStart,
        Situation::SecondStart,
        Situation::Agent,
        Situation::ManyInFlight,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Situation::ReadDuring => "read-during",
            Situation::UnsafeDuring => "unsafe-during",
            Situation::ReadInFlight => "read-in-flight",
            Situation::FirstStart => "first-start",
            Situation::SecondStart => "second-start",
            Situation::Agent => "agent",
            Situation::ManyInFlight => "64-in-flight",
        }
    }

    /// Returns whether the client starts during the outage.
    pub(crate) fn is_start(self) -> bool {
        matches!(self, Situation::FirstStart | Situation::SecondStart)
    }
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) form: Form,
    pub(crate) seconds: u64,
    pub(crate) situation: Situation,
    /// True if the server has sessions and answers with events, false if it has none and answers with JSON. Always true
    /// for a command.
    pub(crate) has_session: bool,
}

impl Cell {
    /// Returns all cells, the long ones first, so that a run of many at once ends early.
    pub(crate) fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for seconds in SECONDS.into_iter().rev() {
            for form in Form::ALL {
                for situation in Situation::ALL {
                    let sessions: &[bool] = if form.is_command() { &[true] } else { &[true, false] };
                    let all = sessions.iter().map(|&has_session| Cell { form, seconds, situation, has_session });
                    cells.extend(all);
                }
            }
        }
        cells
    }

    /// Returns the sample for every change: each form once, each situation at least twice.
    pub(crate) fn sample() -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for (number, form) in Form::ALL.into_iter().enumerate() {
            let situation = Situation::ALL[number % Situation::ALL.len()];
            let has_session = form.is_command() || number % 2 == 0;
            let seconds = if number % 3 == 0 { 10 } else { 1 };
            cells.push(Cell { form, seconds, situation, has_session });
        }
        cells
    }

    /// Returns the name, by which the cell can be run alone.
    pub(crate) fn name(&self) -> String {
        let kind = match (self.form.is_command(), self.has_session) {
            (true, _) => "command",
            (false, true) => "session",
            (false, false) => "no-session",
        };
        format!("{}/{}/{}/{kind}", self.form.name(), self.seconds, self.situation.name())
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sample_has_every_form_and_every_situation() {
        let sample = Cell::sample();
        let forms: BTreeSet<_> = sample.iter().map(|cell| cell.form.name()).collect();
        let situations: BTreeSet<_> = sample.iter().map(|cell| cell.situation.name()).collect();
        assert_eq!((forms.len(), situations.len()), (Form::ALL.len(), Situation::ALL.len()));
        assert!(sample.iter().all(|cell| Cell::all().contains(cell)), "a sample is a part of the matrix");
    }

    #[test]
    fn every_cell_has_its_own_name() {
        let names: BTreeSet<_> = Cell::all().iter().map(Cell::name).collect();
        assert_eq!(names.len(), 16 * 3 * 7 * 2 + 3 * 3 * 7);
    }
}
