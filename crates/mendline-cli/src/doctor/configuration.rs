//! Findings about the configuration file, as `mendline check` reports them.

use mendline_config::{Finding, Loaded, Severity};

use super::report::Section;
use super::step::Step;
use crate::untrusted_text::counted;

const LAYER: &str = "file";

/// Reports that there is no file, which is no problem if servers run without one.
pub(crate) fn missing(why: &str, is_any_running: bool, section: &mut Section) {
    if is_any_running {
        return section.add(Step::skipped(LAYER, "no configuration file; the running servers are examined"));
    }
    let step = Step::warning(LAYER, why)
        .advice("Write one with a block `mcpServers`, as clients use it, or name a server: `mendline doctor URL`");
    section.add(step);
}

/// Reports the findings about a file, or only those that concern one server.
pub(crate) fn examine(loaded: &Loaded, server: Option<&str>, section: &mut Section) {
    let concerns =
        |finding: &&Finding| server.is_none() || finding.server.is_none() || finding.server.as_deref() == server;
    let mut is_ok = true;
    for finding in loaded.findings.iter().filter(concerns) {
        let words = finding.at.as_ref().map_or_else(
            || finding.what.clone(),
            |at| {
                let (line, column) = loaded.source.position(at.start);
                format!("line {line}, column {column}: {}", finding.what)
            },
        );
        let step = match finding.severity {
            Severity::Error => Step::failed(LAYER, words),
            Severity::Warning => Step::warning(LAYER, words),
            Severity::Note => continue,
        };
        is_ok = false;
        let step = finding.help.iter().fold(step, |step, help| step.advice(help));
        section.add(step.fact("server", finding.server.clone()));
    }
    if is_ok {
        let words = match server {
            Some(_) => "no problems with this server".to_owned(),
            None => format!("{}, no problems", counted(loaded.names.len(), "server")),
        };
        section.add(Step::ok(LAYER, words));
    }
}
