//! The output of a scenario: one line per relevant event, with names in place of numbers.

use std::collections::BTreeMap;

use mendline_wire::{Message, Method, headers};

use crate::exchange::Request;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Oracle, Verdict};

/// The lines of the output.
#[derive(Debug, Default)]
pub struct ScenarioLog {
    names: Vec<String>,
    /// The names of the clients; a single client is called `client`.
    clients: Vec<String>,
    calls: BTreeMap<(usize, u64), usize>,
    lines: Vec<String>,
}

impl ScenarioLog {
    /// Creates a log for these upstreams.
    pub fn new(names: Vec<String>) -> ScenarioLog {
        let clients = match names.as_slice() {
            [_] => vec!["client".to_owned()],
            many => many.iter().map(|name| format!("client of {name}")).collect(),
        };
        ScenarioLog { names, clients, ..ScenarioLog::default() }
    }

    /// Adds a line with its subject.
    pub fn write(&mut self, who: &str, what: &str) {
        self.lines.push(format!("{who:<9} {what}"));
    }

    /// Removes and returns the lines.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Adds a line for a fact, if it is relevant.
    pub fn record(&mut self, fact: &Fact<'_>, oracle: &Oracle) {
        match fact {
            Fact::Emitted(event) => {
                let who = event.upstream.map_or("mendline".to_owned(), |upstream| self.names[upstream].clone());
                let what = self.renumber_calls(event.upstream.unwrap_or(0), &event.text);
                self.write(&who, &what);
            }
            Fact::Answered { key, verdict, .. } => {
                let record = oracle.of(*key);
                let (who, id) = (self.clients[record.client.0 as usize].clone(), record.id.clone());
                match verdict {
                    Verdict::Passed(_) => self.write(&who, &format!("← id={id} {}", summary(record.what))),
                    Verdict::Failed(failure) => {
                        self.write(
                            &who,
                            &format!("← id={id} {} ({}) {:?}", failure.cause, failure.outcome, failure.text),
                        );
                    }
                }
            }
            Fact::Progressed { client, .. } => self.client_reads(client.0, "progress"),
            Fact::NotificationRead { client, message, .. } if message.method() == Method::Cancelled => {
                self.client_reads(client.0, "a cancellation");
            }
            Fact::NotificationRead { client, stamp: Some(_), .. } => self.client_reads(client.0, "a notice"),
            Fact::NotificationRead { client, message, .. } => self.client_reads(client.0, &message.method_name()),
            Fact::ServerRequestRead { client, .. } => self.client_reads(client.0, "a question of the server"),
            Fact::HandedOut { by: Via::Child(link), message, key: None } if message.method() == Method::Cancelled => {
                let who = self.names[usize::from(link.upstream.0)].clone();
                self.write(&who, &format!("child {} is told to cancel", link.dial));
            }
            Fact::Requested(EngineOutput::Exchange(_, upstream, request)) => {
                let who = self.names[*upstream].clone();
                self.write(&who, &http_request_line(request));
            }
            Fact::Requested(EngineOutput::Abort(_)) => self.write("mendline", "gives an exchange up"),
            Fact::Signalled(link, signal) => {
                let who = self.names[usize::from(link.upstream.0)].clone();
                match signal {
                    Some(signal) => self.write(&who, &format!("child {} gets {signal:?}", link.dial)),
                    None => self.write(&who, &format!("child {} sees the end of its stdin", link.dial)),
                }
            }
            Fact::Requested(EngineOutput::Renew(upstream)) => {
                let who = self.names[*upstream].clone();
                self.write(&who, "is reached the new way");
            }
            Fact::Requested(EngineOutput::Finished) => self.write("mendline", "finished"),
            _ => {}
        }
    }

    fn client_reads(&mut self, client: u32, what: &str) {
        let who = self.clients[client as usize].clone();
        self.write(&who, &format!("← {what}"));
    }

    /// Numbers calls in the order of their first appearance, in place of the internal numbers.
    fn renumber_calls(&mut self, upstream: usize, text: &str) -> String {
        let Some((before, rest)) = text.split_once("call ") else { return text.to_owned() };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse::<u64>() else { return text.to_owned() };
        let next = self.calls.len() + 1;
        let small = *self.calls.entry((upstream, number)).or_insert(next);
        format!("{before}call {small}{}", &rest[digits.len()..])
    }
}

/// Returns a line for an HTTP request: its message, its session, and the event after which it resumes.
fn http_request_line(request: &Request) -> String {
    let mut text = format!("→ {}", format!("{:?}", request.verb).to_uppercase());
    if let Some(target) = &request.target {
        text = format!("{text} {target}");
    }
    if let Some(message) = request.body.clone().and_then(|body| Message::parse(body).ok()) {
        let what = message.method_name();
        text = format!("{text} {}", if what.is_empty() { "an answer".into() } else { what });
    }
    for (name, word) in [(headers::SESSION_ID, "in"), (headers::LAST_EVENT_ID, "after event")] {
        if let Some(value) = request.header(name) {
            text = format!("{text} {word} {value}");
        }
    }
    text
}

fn summary(what: &str) -> String {
    match what {
        "tools/list" => "3 tools".to_owned(),
        "initialize" => "initialized".to_owned(),
        other => format!("the result of {other}"),
    }
}
