//! `mendline check` and `mendline schema`: validates and summarizes a configuration file, and prints its schema.

use std::fmt::Write as _;
use std::process::ExitCode;

use mendline::decisions::config::{
    Breaker, Catalogue, Dialect, FailureForm, OnError, OpenFor, RateLimit, Startup, Transport,
};
use mendline::decisions::{UpstreamConfig, defaults};
use mendline_config::{Endpoint, Loaded, Owner, Server};

use crate::cli::{CheckOptions, SchemaOptions, USAGE};
use crate::named::{locate, read, render_style};
use crate::plan::{self, Plan};
use crate::untrusted_text::one_line;

/// Validates a configuration file and prints a summary; starts nothing.
pub(crate) fn run(options: &CheckOptions) -> ExitCode {
    let loaded = match locate(options.file.as_deref()).and_then(|found| read(&found)) {
        Ok(loaded) => loaded,
        Err(complaint) => {
            eprintln!("error: {complaint}");
            return ExitCode::from(USAGE);
        }
    };
    if !loaded.findings.is_empty() {
        eprintln!("{}\n", loaded.render(&loaded.findings, render_style()));
    }
    let (summary, is_right) = summary(&loaded);
    let path = loaded.source.path().display();
    if is_right {
        print!("{path}: ok: {}\n{summary}", counted(loaded.names.len(), "server"));
        ExitCode::SUCCESS
    } else {
        let errors = loaded.findings.iter().filter(|finding| finding.is_error()).count();
        eprint!("{summary}");
        eprintln!("error: {path} cannot be used as it is: {}", counted(errors.max(1), "mistake"));
        ExitCode::from(USAGE)
    }
}

/// Prints the schema, or the same as a table.
pub(crate) fn schema(options: &SchemaOptions) -> ExitCode {
    if options.table {
        print!("{}", mendline_config::key_table());
    } else {
        println!("{}", mendline_config::schema());
    }
    ExitCode::SUCCESS
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Returns a few lines about every server, and whether the whole file can be used.
fn summary(loaded: &Loaded) -> (String, bool) {
    let mut lines = String::new();
    let mut is_right = !loaded.has_errors();
    let width = loaded.servers.iter().map(|server| one_line(&server.name).chars().count()).max().unwrap_or_default();
    for server in &loaded.servers {
        match Plan::of_server(server, None) {
            Ok(plan) if !loaded.has_errors() => describe(server, &plan, width, &mut lines),
            Ok(_) => {}
            Err(complaint) => {
                is_right = false;
                let _ = writeln!(lines, "error: {complaint}\n");
            }
        }
    }
    (lines, is_right)
}

fn describe(server: &Server, plan: &Plan, width: usize, lines: &mut String) {
    let mut parts = vec![reached(plan)];
    let in_effect = differences(&plan.upstream);
    parts.extend(in_effect.iter().cloned());
    if matches!(server.endpoint, Endpoint::Wrapped { .. }) && server.owner == Owner::OtherProgram {
        let written = differences(&server.policies);
        let without_effect: Vec<String> = written.into_iter().filter(|policy| !in_effect.contains(policy)).collect();
        if !without_effect.is_empty() {
            parts.push(format!("without effect, because the arguments do not have it: {}", without_effect.join("; ")));
            parts.push(format!(
                "to apply it: `mendline unwrap --server {0}` and `mendline wrap --server {0}`",
                server.name
            ));
        }
    }
    if server.is_disabled {
        parts = vec!["disabled".to_owned()];
    }
    let (name, rest) = (one_line(&server.name), " ".repeat(width));
    for (index, part) in parts.iter().enumerate() {
        let left = if index == 0 { format!("{name:width$}") } else { rest.clone() };
        let _ = writeln!(lines, "  {left}  {}", one_line(part));
    }
}

/// Describes the endpoint of a server without possible secrets: arguments, values, a query.
fn reached(plan: &Plan) -> String {
    match &plan.endpoint {
        plan::Endpoint::Child(command) => {
            let program = command.program.to_string_lossy();
            let mut words = match command.arguments.len() {
                0 => format!("`{program}`"),
                count => format!("`{program}` with {}", counted(count, "argument")),
            };
            let names: Vec<_> = command.environment.iter().map(|(name, _)| name.to_string_lossy()).collect();
            if !names.is_empty() {
                let _ = write!(words, ", env {}", names.join(", "));
            }
            if let Some(directory) = &command.directory {
                let _ = write!(words, ", in {}", directory.display());
            }
            words
        }
        plan::Endpoint::Remote(address) => {
            let mut words = plan.upstream.place.clone();
            match plan.upstream.transport {
                Transport::Http(Dialect::Sse) => words.push_str(" over SSE"),
                Transport::Http(Dialect::Streamable) => words.push_str(" over Streamable HTTP"),
                Transport::Http(Dialect::Auto) | Transport::Child => {}
            }
            let names: Vec<_> = address.header_names().collect();
            if !names.is_empty() {
                let _ = write!(words, ", headers {}", names.join(", "));
            }
            if let Some(source) = address.source_words() {
                let _ = write!(words, ", {source}");
            }
            words
        }
    }
}

/// Lists the policies that differ from the defaults, by their keys.
fn differences(policies: &UpstreamConfig) -> Vec<String> {
    let usual = match policies.transport {
        Transport::Child => UpstreamConfig::child("", ""),
        Transport::Http(dialect) => UpstreamConfig::http("", "", dialect),
    };
    let mut found = Vec::new();
    let mut say = |is_other: bool, words: String| {
        if is_other {
            found.push(words);
        }
    };
    let time = humantime::format_duration;
    let (reconnect, other) = (&policies.reconnect, &usual.reconnect);
    let attempts = match reconnect.attempts {
        0 => "off".to_owned(),
        u32::MAX => "unlimited attempts".to_owned(),
        count => format!("{count} attempts"),
    };
    say(
        reconnect != other,
        format!(
            "autoReconnect: {attempts}, delays from {} to {}, multiplier {}{}",
            time(reconnect.first.unwrap_or(reconnect.initial)),
            time(reconnect.cap_idle),
            reconnect.multiplier,
            if reconnect.silent { "" } else { ", the client is notified" }
        ),
    );
    let (timeouts, other) = (&policies.timeouts, &usual.timeouts);
    for (name, is, was) in [
        ("handshake", timeouts.handshake, other.handshake),
        ("recovery", timeouts.recovery, other.recovery),
        ("call", timeouts.call, other.call),
        ("total", timeouts.total, other.total),
    ] {
        say(is != was, format!("timeouts.{name}: {}", time(is)));
    }
    if let Some(attempt) = timeouts.attempt {
        say(true, format!("timeouts.attempt: {}", time(attempt)));
    }
    let retry = &policies.retry;
    let rule = |what: String, when: &OnError| format!("{what} {when:?}").to_lowercase();
    let codes = retry.codes.iter().map(|(code, when)| rule(code.to_string(), when));
    let statuses = retry.statuses.iter().map(|(status, when)| rule(format!("http {status}"), when));
    let rules: Vec<_> = codes.chain(statuses).collect();
    say(
        *retry != usual.retry,
        format!(
            "retry: {} attempts, from {} to {} {}",
            retry.attempts,
            time(retry.initial),
            time(retry.cap),
            rules.join(", ")
        )
        .trim_end()
        .to_owned(),
    );
    let breaker = |breaker: &Option<Breaker>| match breaker {
        None => "circuitBreaker: off".to_owned(),
        Some(breaker) => {
            let open = match breaker.open_for {
                OpenFor::Exactly(time) => format!("for {}", humantime::format_duration(time)),
                OpenFor::Growing { first, cap } => format!("for {} to {}", time(first), time(cap)),
            };
            let errors = if breaker.count_tool_errors { ", tool errors counted" } else { "" };
            format!("circuitBreaker: opens after {} failures {open}{errors}", breaker.failures)
        }
    };
    say(policies.breaker != usual.breaker, breaker(&policies.breaker));
    let rate = |limit: RateLimit| format!("rateLimit: {} per second, {} at once", limit.per_second, limit.burst);
    if let Some(limit) = policies.rate_limit {
        say(true, rate(limit));
    }
    say(
        policies.keep_alive != usual.keep_alive,
        match policies.keep_alive {
            None => "keepAlive: off".to_owned(),
            Some(alive) => format!("keepAlive: every {}, {} to answer", time(alive.interval), time(alive.timeout)),
        },
    );
    say(
        policies.resume_attempts != defaults::RESUME_ATTEMPTS,
        format!("resume: {} attempts", policies.resume_attempts),
    );
    say(
        policies.resume_total != defaults::RESUME_TOTAL,
        format!("resume: {} attempts in total", policies.resume_total),
    );
    let limits = &policies.limits;
    say(
        (limits.in_flight, limits.waiting) != (usual.limits.in_flight, usual.limits.waiting),
        format!("limits: {} in flight, {} waiting", limits.in_flight, limits.waiting),
    );
    say(policies.failures == FailureForm::Error, "failures: JSON-RPC errors".to_owned());
    say(!policies.trust_hints, "trustHints: no".to_owned());
    say(policies.own_tools, "own tools".to_owned());
    let Catalogue { cache, startup } = policies.catalogue;
    say(!cache, "catalogue: not cached".to_owned());
    say(startup == Startup::Wait, "startup: waits for the server".to_owned());
    for (tool, policy) in &policies.tools {
        let effect = policy.effect.map(|effect| format!("{effect:?}").to_lowercase());
        let timeout = policy.timeout.map(|timeout| time(timeout).to_string());
        let mut said: Vec<_> = effect.into_iter().chain(timeout).collect();
        said.extend(policy.in_flight.map(|most| format!("{most} in flight")));
        said.extend(policy.waiting.map(|most| format!("{most} waiting")));
        said.extend(policy.rate_limit.map(rate));
        said.extend(policy.breaker.as_ref().map(breaker));
        say(true, format!("tools.{tool}: {}", said.join(", ")));
    }
    found
}
