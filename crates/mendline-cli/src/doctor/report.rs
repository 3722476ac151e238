//! The report: printed for people while it grows, and as JSON at the end.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use mendline::decisions::Secret;
use serde_json::{Value, json};

use super::redact::StepRedactor;
use super::step::{Step, Verdict};
use crate::cli::{NEEDS_LOGIN, NEGATIVE};
use crate::output;
use crate::style::Style;
use crate::untrusted_text::{counted, one_line, width};

/// Width of the names of layers.
const LAYER: usize = 9;
/// Width of times.
const TIME: usize = 7;
/// Maximum width of the text.
const WIDEST: usize = 110;

/// Findings about one server, the machine or the configuration.
pub(crate) struct Section {
    name: String,
    place: String,
    steps: Vec<Step>,
    output: OutputMode,
    /// True if only warnings and failures are printed.
    is_quiet: bool,
    /// True if the title is not printed yet.
    is_untitled: bool,
    redactor: StepRedactor,
}

/// Output of a section.
enum OutputMode {
    /// No output: the report is JSON.
    None,
    /// Printed at once.
    Live(Printer),
    /// Held until the section is complete.
    Held(Printer, String),
}

impl OutputMode {
    fn printer(&self) -> Option<Printer> {
        match self {
            OutputMode::None => None,
            OutputMode::Live(printer) | OutputMode::Held(printer, _) => Some(*printer),
        }
    }

    fn write(&mut self, text: &str) {
        match self {
            OutputMode::None => {}
            OutputMode::Live(printer) => print!("{}{text}", printer.wiped()),
            OutputMode::Held(_, held) => held.push_str(text),
        }
    }
}

/// The whole report.
pub(crate) struct Report {
    is_json: bool,
    machine: Vec<Step>,
    configuration: Option<(String, Vec<Step>)>,
    servers: Vec<Section>,
    has_begun: bool,
}

/// Formats steps for people.
#[derive(Clone, Copy)]
struct Printer {
    style: Style,
    /// Width at which lines are wrapped; unlimited without a terminal.
    width: usize,
}

impl Section {
    /// Hides these secrets in all steps.
    pub(crate) fn hide(&mut self, secrets: &[Secret]) {
        self.redactor = StepRedactor::new(secrets);
    }

    /// Returns the redactor, for text that is cut before it is added.
    pub(crate) fn redactor(&self) -> &StepRedactor {
        &self.redactor
    }

    /// Shows the layer that is being examined, on a terminal.
    pub(crate) fn begin(&self, layer: &str) {
        if let OutputMode::Live(printer) = self.output {
            printer.begin(layer);
        }
    }

    /// Adds a step, if there is one.
    pub(crate) fn add_if_any(&mut self, step: Option<Step>) {
        match step {
            Some(step) => self.add(step),
            // Clears the line about the layer.
            None => self.output.write(""),
        }
    }

    /// Adds a step.
    pub(crate) fn add(&mut self, step: Step) {
        let step = self.redactor.redact_step(step);
        let is_worth_it = !self.is_quiet || step.verdict != Verdict::Ok;
        if let Some(printer) = self.output.printer().filter(|_| is_worth_it) {
            if std::mem::take(&mut self.is_untitled) {
                self.output.write(&format!("\n{}", printer.title(&self.name, &self.place)));
            }
            self.output.write(&printer.step(&step, step.layer));
        }
        self.steps.push(step);
    }

    /// Adds layers that were skipped.
    pub(crate) fn skip(&mut self, layers: &[&'static str], why: &str) {
        let steps: Vec<Step> = layers.iter().map(|layer| Step::skipped(layer, why)).collect();
        if let (Some(first), Some(printer)) = (steps.first(), self.output.printer()) {
            let words = format!("{} {}", layers.join(", "), first.words);
            self.output.write(&printer.step(&Step { words, ..first.clone() }, ""));
        }
        self.steps.extend(steps);
    }

    /// Returns the first failure.
    fn failure(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.verdict == Verdict::Failed)
    }

    fn fact(&self, layer: &str, name: &str) -> Option<&Value> {
        self.steps.iter().find(|step| step.layer == layer).and_then(|step| step.facts.get(name))
    }

    /// Returns whether only a login is missing.
    fn needs_login(&self) -> bool {
        self.failure().is_some_and(|step| step.needs_login)
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "place": self.place,
            "well": self.failure().is_none(),
            "needsLogin": self.needs_login(),
            "steps": self.steps.iter().map(Step::json).collect::<Vec<_>>(),
        })
    }
}

impl Report {
    pub(crate) fn new(is_json: bool) -> Report {
        Report { is_json, machine: Vec::new(), configuration: None, servers: Vec::new(), has_begun: false }
    }

    /// Creates a section whose steps are printed at once.
    pub(crate) fn section(&mut self, name: &str, place: &str) -> Section {
        let mut section = self.quiet_section(name, place);
        self.begin(&mut section);
        section
    }

    /// Creates a section that is printed as a whole when it is complete.
    pub(crate) fn deferred_section(&mut self, name: &str, place: &str) -> Section {
        let mut section = self.quiet_section(name, place);
        if let OutputMode::Live(printer) = section.output {
            section.output = OutputMode::Held(printer, String::new());
        }
        self.begin(&mut section);
        section
    }

    fn begin(&mut self, section: &mut Section) {
        (section.is_quiet, section.is_untitled) = (false, false);
        if let Some(printer) = section.output.printer() {
            let space = if std::mem::replace(&mut self.has_begun, true) { "\n" } else { "" };
            section.output.write(&format!("{space}{}", printer.title(&section.name, &section.place)));
        }
    }

    /// Shows the server that is being examined, on a terminal.
    pub(crate) fn wait_for(&self, name: &str) {
        if !self.is_json {
            Printer::for_stdout().begin(&one_line(name));
        }
    }

    /// Creates a section of which only warnings and failures are printed.
    pub(crate) fn quiet_section(&mut self, name: &str, place: &str) -> Section {
        Section {
            name: name.to_owned(),
            place: place.to_owned(),
            steps: Vec::new(),
            output: if self.is_json { OutputMode::None } else { OutputMode::Live(Printer::for_stdout()) },
            is_quiet: true,
            is_untitled: true,
            redactor: StepRedactor::default(),
        }
    }

    pub(crate) fn keep_machine(&mut self, section: Section) {
        self.machine = section.steps;
    }

    pub(crate) fn keep_configuration(&mut self, section: Section) {
        self.configuration = Some((section.place, section.steps));
    }

    /// Keeps the section of a server, and prints it if it was held.
    pub(crate) fn keep_server(&mut self, mut section: Section) {
        if let OutputMode::Held(printer, text) = std::mem::replace(&mut section.output, OutputMode::None) {
            print!("{}{text}", printer.wiped());
        }
        self.servers.push(section);
    }

    /// Prints the summary, and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        let code = self.exit_code();
        if self.is_json {
            output::json(&format!("{:#}", self.json(code)));
        } else {
            let style = Style::for_stdout();
            let words = self.summary();
            let painted = match code {
                0 if self.warnings() == 0 => style.green(&words),
                0 => style.yellow(&words),
                _ => style.red(&words),
            };
            println!("\n{painted}");
        }
        ExitCode::from(code)
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        let configuration = self.configuration.iter().flat_map(|(_, steps)| steps);
        self.machine.iter().chain(configuration).chain(self.servers.iter().flat_map(|section| &section.steps))
    }

    fn warnings(&self) -> usize {
        self.steps().filter(|step| step.verdict == Verdict::Warning).count()
    }

    fn exit_code(&self) -> u8 {
        let failures: Vec<&Step> = self.steps().filter(|step| step.verdict == Verdict::Failed).collect();
        match failures.as_slice() {
            [] => 0,
            failures if failures.iter().all(|step| step.needs_login) => NEEDS_LOGIN,
            _ => NEGATIVE,
        }
    }

    fn summary(&self) -> String {
        let looked = match self.warnings() {
            0 => String::new(),
            count => format!(", {}", counted(count, "warning")),
        };
        let beside = || self.machine.iter().chain(self.configuration.iter().flat_map(|(_, steps)| steps));
        let elsewhere = beside().find(|step| step.verdict == Verdict::Failed);
        let broken: Vec<&Section> = self.servers.iter().filter(|section| section.failure().is_some()).collect();
        match (self.servers.as_slice(), broken.as_slice()) {
            (_, []) if elsewhere.is_some() => match elsewhere.map_or("", |step| step.layer) {
                "file" => format!("Unhealthy: the configuration file; `mendline check` shows the lines{looked}."),
                layer => format!("Unhealthy: this machine ({layer}), see above{looked}."),
            },
            ([], []) => format!("No problems found, and there is no server to examine{looked}."),
            ([section], []) => match section.fact("ping", "p50Ms").and_then(Value::as_f64) {
                Some(millis) => {
                    format!("Healthy: {} answers in {}{looked}.", one_line(&section.name), short(seconds(millis)))
                }
                None if section.fact("running", "state").is_some() => {
                    format!("Healthy: {} runs{looked}.", one_line(&section.name))
                }
                None => format!("Healthy{looked}."),
            },
            (sections, []) => format!("All {} servers are healthy{looked}.", sections.len()),
            ([_], [section]) if section.failure().is_some_and(|step| step.layer == "speed") => {
                let took = section.fact("speed", "requestMs").and_then(Value::as_f64).unwrap_or_default();
                let name = one_line(&section.name);
                format!("Slow: {name} takes about {} for each request{looked}.", short(seconds(took)))
            }
            ([_], [section]) if section.failure().is_some_and(|step| step.layer == "running") => {
                let name = one_line(&section.name);
                match section.failure().and_then(|step| step.facts.get("state")).and_then(Value::as_str) {
                    Some("needsLogin") => format!("Unhealthy: {name} needs a login{looked}."),
                    Some(state) => format!("Unhealthy: {name} is {state}{looked}."),
                    None => format!("Unhealthy: the Mendline of {name} does not answer{looked}."),
                }
            }
            ([_], [section]) => {
                let layer = section.failure().map_or("", |step| step.layer);
                let login = if section.needs_login() { " It needs a login." } else { "" };
                format!("Unhealthy: {} fails at {layer}{looked}.{login}", one_line(&section.name))
            }
            (sections, broken) => {
                let named = broken.iter().map(|section| {
                    let layer = section.failure().map_or("", |step| step.layer);
                    format!("{} ({layer})", one_line(&section.name))
                });
                let named = named.collect::<Vec<_>>().join(", ");
                format!("{} of {} servers unhealthy: {named}{looked}.", broken.len(), sections.len())
            }
        }
    }

    fn json(&self, code: u8) -> Value {
        let list = |steps: &[Step]| steps.iter().map(Step::json).collect::<Vec<_>>();
        json!({
            "version": 1,
            "well": code == 0,
            "exitCode": code,
            "summary": self.summary(),
            "machine": { "steps": list(&self.machine) },
            "configuration": self.configuration.as_ref().map(|(file, steps)| json!({
                "file": if file.is_empty() { Value::Null } else { Value::from(file.as_str()) },
                "steps": list(steps),
            })),
            "servers": self.servers.iter().map(Section::json).collect::<Vec<_>>(),
        })
    }
}

fn seconds(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or_default()
}

impl Printer {
    fn for_stdout() -> Printer {
        let width = if std::io::stdout().is_terminal() { width(std::io::stdout()).min(WIDEST) } else { usize::MAX };
        Printer { style: Style::for_stdout(), width }
    }

    /// Returns the title of a section.
    fn title(self, name: &str, place: &str) -> String {
        let has_place = !place.is_empty() && place != name;
        let place = if has_place { format!("  {}", self.style.faint(&one_line(place))) } else { String::new() };
        format!("{}{place}\n", self.style.bold(&one_line(name)))
    }

    /// Returns the sequence that clears the line of [`Printer::begin`].
    fn wiped(self) -> &'static str {
        if self.width < usize::MAX { "\r\x1b[K" } else { "" }
    }

    /// Prints a line that the next one replaces, on a terminal.
    fn begin(self, layer: &str) {
        if self.width < usize::MAX {
            print!("{}  {} {layer}", self.wiped(), self.style.faint("…"));
        }
    }

    /// Formats a step as one line or more.
    fn step(self, step: &Step, layer: &str) -> String {
        let Printer { style, width } = self;
        let sign = step.verdict.sign();
        let sign = match step.verdict {
            Verdict::Ok => style.green(sign),
            Verdict::Warning => style.yellow(sign),
            Verdict::Failed => style.red(sign),
            Verdict::Skipped => style.faint(sign),
        };
        let time = step.took.map_or_else(String::new, short);
        let indent = 2 + 1 + 1 + LAYER + 1 + TIME + 2;
        let mut lines = wrapped(&one_line(&step.words), width.saturating_sub(indent)).into_iter();
        let first = lines.next().unwrap_or_default();
        let first = if step.verdict == Verdict::Skipped { style.faint(&first) } else { first };
        let mut text = format!("  {sign} {layer:LAYER$} {}  {first}\n", style.faint(&format!("{time:>TIME$}")));
        let space = " ".repeat(indent);
        lines.for_each(|line| text.push_str(&format!("{space}{line}\n")));
        for line in &step.details {
            text.push_str(&format!("{space}{}\n", style.faint(&format!("| {}", one_line(line)))));
        }
        let advice = step.advice.iter().flat_map(|advice| wrapped(&one_line(advice), width.saturating_sub(indent + 2)));
        for (index, line) in advice.enumerate() {
            let lead = if index == 0 { "→" } else { " " };
            text.push_str(&format!("{space}{} {line}\n", style.bold(lead)));
        }
        text
    }
}

/// Formats a duration for a column.
pub(crate) fn short(took: Duration) -> String {
    let millis = took.as_secs_f64() * 1_000.0;
    match millis {
        ..1.0 => format!("{:.0} µs", millis * 1_000.0),
        ..1_000.0 => format!("{millis:.0} ms"),
        ..60_000.0 => format!("{:.1} s", millis / 1_000.0),
        _ => format!("{:.0} min", millis / 60_000.0),
    }
}

/// Wraps a text at words.
fn wrapped(text: &str, longest: usize) -> Vec<String> {
    let longest = longest.max(30);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= longest => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(servers: Vec<(&str, Vec<Step>)>) -> Report {
        let mut report = Report::new(true);
        for (name, steps) in servers {
            let mut section = report.section(name, "place");
            steps.into_iter().for_each(|step| section.add(step));
            report.keep_server(section);
        }
        report
    }

    #[test]
    fn only_missing_logins_have_their_own_exit_code() {
        let login = || Step::failed("auth", "no").needs_login();
        assert_eq!(report(vec![("a", vec![login()])]).exit_code(), 6);
        assert_eq!(report(vec![("a", vec![login()]), ("b", vec![login()])]).exit_code(), 6);
        assert_eq!(report(vec![("a", vec![login()]), ("b", vec![Step::failed("tcp", "no")])]).exit_code(), 1);
        assert_eq!(report(vec![("a", vec![Step::warning("clock", "hm")])]).exit_code(), 0);
    }

    #[test]
    fn summary_names_servers_and_layers() {
        let well = || vec![Step::ok("ping", "5 pings").fact("p50Ms", 2.6)];
        assert_eq!(report(vec![("a", well())]).summary(), "Healthy: a answers in 3 ms.");
        assert_eq!(report(vec![("a", well()), ("b", well())]).summary(), "All 2 servers are healthy.");
        let broken = report(vec![("a", well()), ("b", vec![Step::failed("tls", "no"), Step::warning("clock", "hm")])]);
        assert_eq!(broken.summary(), "1 of 2 servers unhealthy: b (tls), 1 warning.");
    }

    #[test]
    fn lines_wrap_at_words_without_losing_text() {
        let text = "one two three four five six seven eight nine ten";
        let lines = wrapped(text, 30);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.chars().count() <= 30), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrapped(&"x".repeat(80), 30).len(), 1, "what has no space is not cut");
    }

    #[test]
    fn times_are_short() {
        for (micros, expected) in [(400, "400 µs"), (12_300, "12 ms"), (2_340_000, "2.3 s"), (180_000_000, "3 min")] {
            assert_eq!(short(Duration::from_micros(micros)), expected);
        }
    }
}
