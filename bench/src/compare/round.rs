//! The figures of all rounds and the arithmetic between contenders.
//!
//! Comparisons are computed within each round, and then the median is taken.

use std::collections::BTreeMap;

use super::contender::DIRECT;

/// The figures of one run of `load` by key.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Rounds in which every contender ran once.
#[derive(Default)]
pub(crate) struct Rounds(Vec<BTreeMap<&'static str, Figures>>);

/// A number over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Rounds {
    pub(crate) fn add(&mut self, round: usize, name: &'static str, figures: Figures) {
        if self.0.len() <= round {
            self.0.resize_with(round + 1, BTreeMap::new);
        }
        self.0[round].insert(name, figures);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        for round in &mut self.0 {
            round.remove(name);
        }
    }

    /// The names of the measured contenders.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.first().into_iter().flat_map(|round| round.keys().copied())
    }

    /// The figures of one contender by round.
    pub(crate) fn each(&self, name: &str) -> impl Iterator<Item = &Figures> {
        self.0.iter().filter_map(move |round| round.get(name))
    }

    /// A figure.
    pub(crate) fn of(&self, name: &str, key: &str) -> Option<Spread> {
        self.spread(|round| figure(round, name, key))
    }

    /// The difference of a contender to the upstream alone.
    pub(crate) fn beyond_direct(&self, name: &str, key: &str) -> Option<Spread> {
        self.spread(|round| beyond_direct(round, name, key))
    }

    /// The ratio of a figure to that of another contender.
    pub(crate) fn against(&self, other: &str, name: &str, key: &str) -> Option<Spread> {
        self.spread(|round| ratio(figure(round, name, key)?, figure(round, other, key)?))
    }

    /// The ratio of two differences to the upstream alone.
    pub(crate) fn beyond_direct_against(&self, other: &str, name: &str, key: &str) -> Option<Spread> {
        self.spread(|round| ratio(beyond_direct(round, name, key)?, beyond_direct(round, other, key)?))
    }

    fn spread(&self, of_round: impl Fn(&BTreeMap<&'static str, Figures>) -> Option<f64>) -> Option<Spread> {
        Spread::try_new(self.0.iter().filter_map(of_round).collect())
    }
}

impl Spread {
    fn try_new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: f64::midpoint(lower, upper), least, most })
    }
}

fn figure(round: &BTreeMap<&'static str, Figures>, name: &str, key: &str) -> Option<f64> {
    round.get(name)?.get(key).copied()
}

fn beyond_direct(round: &BTreeMap<&'static str, Figures>, name: &str, key: &str) -> Option<f64> {
    Some(figure(round, name, key)? - figure(round, DIRECT, key)?)
}

/// Returns no ratio if noise made the relay faster than the upstream alone.
fn ratio(value: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| value / of)
}

#[cfg(test)]
mod tests {
    use super::super::contender::RELAY;
    use super::*;

    fn rounds(of_each: &[(f64, f64, f64)]) -> Rounds {
        let mut rounds = Rounds::default();
        for (round, (direct, relay, other)) in of_each.iter().enumerate() {
            for (name, value) in [(DIRECT, direct), (RELAY, relay), ("other", other)] {
                rounds.add(round, name, Figures::from([("p50".to_owned(), *value)]));
            }
        }
        rounds
    }

    #[test]
    fn even_median_is_between_the_middle_two() {
        let odd = Spread::try_new(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(odd, Spread { median: 2.0, least: 1.0, most: 3.0 });
        let even = Spread::try_new(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(even, Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert!(Spread::try_new(Vec::new()).is_none());
    }

    #[test]
    fn slow_round_of_all_contenders_changes_no_ratio() {
        let rounds = rounds(&[(10.0, 20.0, 25.0), (100.0, 200.0, 250.0), (10.0, 20.0, 25.0)]);
        let ratio = rounds.beyond_direct_against(RELAY, "other", "p50").unwrap();
        assert_eq!(ratio, Spread { median: 1.5, least: 1.5, most: 1.5 });
        assert_eq!(rounds.against(RELAY, "other", "p50").unwrap().median, 1.25);
        assert_eq!(rounds.beyond_direct("other", "p50").unwrap().most, 150.0);
    }

    #[test]
    fn round_with_zero_floor_has_no_ratio() {
        let rounds = rounds(&[(10.0, 10.0, 25.0), (10.0, 20.0, 30.0)]);
        let ratio = rounds.beyond_direct_against(RELAY, "other", "p50").unwrap();
        assert_eq!(ratio, Spread { median: 2.0, least: 2.0, most: 2.0 });
    }

    #[test]
    fn removed_contender_has_no_figures() {
        let mut rounds = rounds(&[(1.0, 2.0, 3.0)]);
        rounds.remove("other");
        assert!(rounds.of("other", "p50").is_none());
        assert_eq!(rounds.names().collect::<Vec<_>>(), [DIRECT, RELAY]);
    }
}
