//! Answers of the status store about single calls.

use mendline_core::Story;

use super::{StatusStore, shown};
use crate::control::call_report::{CallAnswer, CallReport, KnownCall, StderrLine};

/// The limit of known calls in an answer.
const KNOWN: usize = 20;

impl StatusStore {
    /// Returns the call with this number, or the newest that had trouble, else the newest; of this server, or of all.
    pub fn call(&self, call: Option<u64>, server: Option<&str>) -> CallAnswer {
        let name = |story: &Story| self.server_name(story).unwrap_or_default();
        let mut stories = self.stories.all();
        stories.retain(|story| server.is_none_or(|server| name(story) == server));
        let found = match call {
            Some(call) => stories.iter().find(|story| story.call == Some(call)),
            None => stories.iter().find(|story| story.is_troubled()).or(stories.first()),
        };
        let known = |story: &Story| KnownCall {
            server: name(story).to_owned(),
            call: story.call,
            what: shown(
                story.tool.as_ref().map_or(story.method.name().unwrap_or("request"), |tool| tool.as_str()),
                &self.redactor,
            ),
            at: story.last_at(),
            troubled: story.is_troubled(),
        };
        CallAnswer {
            report: found.map(|story| Box::new(self.report(story))),
            known: stories.iter().take(KNOWN).map(known).collect(),
        }
    }

    fn server_name(&self, story: &Story) -> Option<&str> {
        let base = self.base(story.upstream);
        self.servers().find(|(id, _)| *id == base).map(|(_, entry)| entry.name.as_str())
    }

    fn report(&self, story: &Story) -> CallReport {
        let shown = |text: &str| shown(text, &self.redactor);
        let stderr = self.stories.stderr(self.base(story.upstream));
        CallReport {
            pid: self.process.pid,
            server: self.server_name(story).unwrap_or_default().to_owned(),
            client: self.process.client.clone(),
            stderr: stderr.map(|(at, line)| StderrLine { at, text: shown(&String::from_utf8_lossy(line)) }).collect(),
            ..CallReport::of(story, &shown)
        }
    }
}
