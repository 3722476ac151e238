//! What the configuration file says that is not right, as `mendline check` finds it.

use mendline_config::{Finding, Loaded, Weight};

use super::report::Sheet;
use super::step::Step;
use crate::outside::counted;

const LAYER: &str = "file";

/// There is none.
pub(crate) fn missing(why: &str, sheet: &mut Sheet) {
    let step = Step::warning(LAYER, why)
        .advice("Write one with a block `mcpServers`, as every client has it, or name a server: `mendline doctor URL`");
    sheet.put(step);
}

/// Everything about a file, or only what concerns one server of it.
pub(crate) fn examine(loaded: &Loaded, server: Option<&str>, sheet: &mut Sheet) {
    let concerns =
        |finding: &&Finding| server.is_none() || finding.server.is_none() || finding.server.as_deref() == server;
    let mut is_well = true;
    for finding in loaded.findings.iter().filter(concerns) {
        let words = finding.at.as_ref().map_or_else(
            || finding.what.clone(),
            |at| {
                let (line, column) = loaded.source.position(at.start);
                format!("line {line}, column {column}: {}", finding.what)
            },
        );
        let step = match finding.weight {
            Weight::Error => Step::failed(LAYER, words),
            Weight::Warning => Step::warning(LAYER, words),
            Weight::Note => continue,
        };
        is_well = false;
        let step = finding.help.iter().fold(step, |step, help| step.advice(help));
        sheet.put(step.fact("server", finding.server.clone()));
    }
    if is_well {
        let words = match server {
            Some(_) => "nothing is wrong with what it says about this server".to_owned(),
            None => format!("{}, and nothing is wrong with it", counted(loaded.names.len(), "server")),
        };
        sheet.put(Step::ok(LAYER, words));
    }
}
