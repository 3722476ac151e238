//! Who is compared.
//!
//! A contender is a command in front of the upstream, so a new one is a new row of [`all`]. Peers that listen on HTTP
//! need a bridge back to stdio to be called by the same load generator; a row may start both through one wrapper, whose
//! descendants are all counted.

use std::path::Path;

/// The upstream alone: what everything else is added to.
pub(crate) const DIRECT: &str = "direct";
/// The byte relay: what everything else is compared with.
pub(crate) const RELAY: &str = "relay";
/// The one that has targets to reach.
pub(crate) const MENDLINE: &str = "mendline";

/// One column of the table.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Without it there is nothing to compare with.
    pub(crate) must_work: bool,
    state: State,
}

enum State {
    Runs(Vec<String>),
    LeftOut(String),
}

/// All contenders, in the order of their columns.
pub(crate) fn all(mendline: Option<&Path>) -> Result<Vec<Contender>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let ours = ours.display().to_string();
    let upstream = [ours.clone(), "upstream".into()];
    let in_front =
        |command: &[&str]| State::Runs(command.iter().map(|&arg| arg.into()).chain(upstream.clone()).collect());
    let mendline = match mendline {
        Some(path) if path.is_file() => in_front(&[&path.display().to_string(), "run", "--"]),
        Some(path) => State::LeftOut(format!("there is no {}", path.display())),
        None => State::LeftOut("no --mendline PATH was given".into()),
    };
    Ok(vec![
        Contender { name: DIRECT, must_work: true, state: in_front(&[]) },
        Contender { name: RELAY, must_work: true, state: in_front(&[&ours, "relay", "--"]) },
        Contender { name: MENDLINE, must_work: false, state: mendline },
    ])
}

impl Contender {
    pub(crate) fn command(&self) -> Option<&[String]> {
        match &self.state {
            State::Runs(command) => Some(command),
            State::LeftOut(_) => None,
        }
    }

    pub(crate) fn why_left_out(&self) -> Option<&str> {
        match &self.state {
            State::Runs(_) => None,
            State::LeftOut(why) => Some(why),
        }
    }

    pub(crate) fn leave_out(&mut self, why: String) {
        self.state = State::LeftOut(why);
    }
}
