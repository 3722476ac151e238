//! The output of a scenario: one line per relevant event, with names in place of numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mendline_core::Moment;
use mendline_wire::{Message, Method, headers};

use crate::catalogue;
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
    /// Lines about calls are counted instead of written; those within this time are counted together.
    brief: Option<Duration>,
    /// The counted lines, in the order of their first appearance.
    counted: Vec<(String, u32)>,
    counted_since: Moment,
    /// The answers, by request and kind: their number and the longest time.
    answers: BTreeMap<String, (u32, Duration)>,
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

    /// Counts lines about calls from now on.
    pub fn shorten(&mut self, window: Duration) {
        self.brief = Some(window);
    }

    /// Returns whether lines about calls are counted.
    pub fn is_brief(&self) -> bool {
        self.brief.is_some()
    }

    /// Writes how often each kind of answer was read since the last time, and the longest time.
    pub fn write_times(&mut self) {
        for (what, (count, longest)) in std::mem::take(&mut self.answers) {
            let tenths = longest.as_millis().div_ceil(100);
            self.write("oracle", &format!("{what}: {count} answers within {}.{} s", tenths / 10, tenths % 10));
        }
    }

    /// Counts a line about a call, or writes it in full.
    fn count(&mut self, who: &str, what: &str, short: &str, now: Moment) {
        let Some(window) = self.brief else { return self.write(who, what) };
        if now.since(self.counted_since) > window {
            self.write_counted();
        }
        if self.counted.is_empty() {
            self.counted_since = now;
        }
        let line = format!("{who:<9} {short}");
        match self.counted.iter_mut().find(|(counted, _)| *counted == line) {
            Some((_, count)) => *count += 1,
            None => self.counted.push((line, 1)),
        }
    }

    fn write_counted(&mut self) {
        for (line, count) in std::mem::take(&mut self.counted) {
            self.lines.push(format!("{line} ({count}×)"));
        }
    }

    /// Adds a line with its subject.
    pub fn write(&mut self, who: &str, what: &str) {
        self.write_counted();
        self.lines.push(format!("{who:<9} {what}"));
    }

    /// Removes and returns the lines.
    pub fn take(&mut self) -> Vec<String> {
        self.write_counted();
        std::mem::take(&mut self.lines)
    }

    /// Adds a line for a fact, if it is relevant.
    pub fn record(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) {
        match fact {
            Fact::Emitted(event) => {
                let who = event.upstream.map_or("mendline".to_owned(), |upstream| self.names[upstream].clone());
                let what = self.renumber_calls(event.upstream.unwrap_or(0), &event.text);
                match routine(&what) {
                    Some(short) => self.count(&who, &what, &short, now),
                    None => self.write(&who, &what),
                }
            }
            Fact::Answered { key, verdict, .. } => {
                let record = oracle.of(*key);
                let (who, id) = (self.clients[record.client.0 as usize].clone(), record.id.clone());
                let (kind, text) = match verdict {
                    Verdict::Passed(body) => {
                        let text =
                            server_error(body).or_else(|| provisional(body)).unwrap_or_else(|| summary(record.what));
                        ("the server's answer".to_owned(), text)
                    }
                    Verdict::Failed(failure) => {
                        let kind = format!("{} ({})", failure.cause, failure.outcome);
                        (kind.clone(), format!("{kind} {:?}", failure.text))
                    }
                };
                if let (true, Some(arrived)) = (self.is_brief(), record.arrived) {
                    let (count, longest) = self.answers.entry(format!("{}: {kind}", record.what)).or_default();
                    *count += 1;
                    *longest = now.since(arrived).max(*longest);
                }
                self.count(&who, &format!("← id={id} {text}"), &format!("← {text}"), now);
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
                let line = http_request_line(request);
                if line.starts_with("→ POST tools/call") {
                    self.count(&who, &line, &line, now);
                } else {
                    self.write(&who, &line);
                }
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

/// Returns an event of a call without the number of the call and without times.
fn routine(text: &str) -> Option<String> {
    let rest = text.strip_prefix('#')?.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.trim_start_matches([':', ' ']);
    match rest.split_once(" after ") {
        Some((before, after)) if after.starts_with(|c: char| c.is_ascii_digit()) => {
            let rest = after.split_once(": ").map_or(String::new(), |(_, why)| format!(": {why}"));
            Some(format!("{before}{rest}"))
        }
        _ => Some(rest.to_owned()),
    }
}

/// Returns the error of a server, if the body is one.
fn server_error(body: &[u8]) -> Option<String> {
    let error = Message::parse(Bytes::from([br#"{"jsonrpc":"2.0","id":0,"error":"#, body, b"}"].concat())).ok()?;
    let code = String::from_utf8_lossy(error.get(&["code"])?).into_owned();
    Some(format!("the server's error {code} {:?}", error.get_str(&["message"])?))
}

/// Returns the instructions of a provisional handshake, if the body is one.
fn provisional(body: &[u8]) -> Option<String> {
    let text = [br#"{"jsonrpc":"2.0","id":0,"result":"#, body, b"}"].concat();
    let result = Message::parse(Bytes::from(text)).ok().filter(|_| catalogue::is_provisional(body))?;
    Some(format!("initialized provisionally: {:?}", result.get_str(&["instructions"])?))
}

fn summary(what: &str) -> String {
    match what {
        "tools/list" => "3 tools".to_owned(),
        "initialize" => "initialized".to_owned(),
        other => format!("the result of {other}"),
    }
}
