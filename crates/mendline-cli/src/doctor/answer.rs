//! Classification of a server by its HTTP response.

use mendline::transport::http::probe::{ExchangeError, Probe, Response};
use serde_json::Value;

use super::redact::StepRedactor;
use super::step::Step;
use crate::untrusted_text::{headline, one_line};

const LAYER: &str = "http";

/// Returns the HTTP version of a response.
pub(crate) fn version(answer: &Response) -> &'static str {
    if answer.is_http2 { "HTTP/2" } else { "HTTP/1.1" }
}

/// Returns whether a response is an event stream.
pub(crate) fn is_events(answer: &Response) -> bool {
    (200..300).contains(&answer.status) && answer.content_type().as_deref() == Some("text/event-stream")
}

/// Returns whether a response may come from a server of the HTTP+SSE transport.
pub(crate) fn may_be_old(answer: &Response) -> bool {
    matches!(answer.status, 400 | 404 | 405 | 406 | 415) && !is_json_rpc(answer)
}

fn is_json_rpc(answer: &Response) -> bool {
    let is_named = || String::from_utf8_lossy(&answer.body).contains("\"jsonrpc\"");
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(value) => value.get("jsonrpc").is_some(),
        // Only the beginning of a long body is available.
        Err(_) => answer.is_cut && is_named(),
    }
}

/// Judges the response to a handshake.
pub(crate) fn judge_response(answer: &Response, redactor: &StepRedactor) -> Step {
    let (status, http) = (answer.status, version(answer));
    let kind = answer.content_type().unwrap_or_default();
    let page = || match title(&answer.body, redactor).or_else(|| first_words(answer, redactor)) {
        Some(title) => format!(" ({title:?})"),
        None => String::new(),
    };
    let wait = answer.retry_after().map(one_line);
    let wait = wait.map_or_else(String::new, |wait| format!(", Retry-After: {}", with_unit(&wait)));
    let path = "Is the path of the URL right? Many servers are at /mcp or at /sse";
    match status {
        200..300
            if matches!(kind.as_str(), "application/json" | "text/event-stream")
                && (is_json_rpc(answer) || kind == "text/event-stream") =>
        {
            Step::ok(LAYER, format!("{http}, answers a message with {kind}")).fact("transport", "streamable")
        }
        200..300 if is_json_rpc(answer) => {
            Step::warning(LAYER, format!("{http}, answers with JSON but calls it {kind:?}"))
                .advice("Mendline accepts it; other clients may not. The server should send application/json")
        }
        200..300 if kind == "text/html" => {
            let advice = format!("This is a page for people: a login, a portal, or the wrong address. {path}");
            Step::failed(LAYER, format!("the response is a web page{}, not an MCP message", page())).advice(advice)
        }
        200..300 => {
            Step::failed(LAYER, format!("the response ({status}, {kind:?}) is not an MCP message")).advice(path)
        }
        300..400 => match &answer.redirect {
            Some(Ok(place)) => Step::warning(LAYER, format!("{http}, redirects every request to {place} ({status})"))
                .advice("Mendline follows; write that address into the configuration to avoid the redirect"),
            Some(Err(why)) => {
                Step::failed(LAYER, why.to_string()).advice("Use the address that it redirects to, if you trust it")
            }
            None => Step::failed(LAYER, format!("a redirect ({status}) without a target")).advice(path),
        },
        401 | 403 => Step::ok(LAYER, format!("{http}, answers with {status}")),
        429 => Step::failed(LAYER, format!("it rejects the request: too many requests (429{wait})"))
            .advice("Wait, and try again"),
        503 if !wait.is_empty() => {
            Step::failed(LAYER, format!("the server is not available for now (503{wait}){}", page()))
                .advice("It announces that it will be back then: try again after that time. Mendline waits for it, too")
        }
        400..500 if is_json_rpc(answer) => {
            Step::ok(LAYER, format!("{http}, rejects the legacy handshake with an MCP error ({status})"))
        }
        404 => Step::failed(LAYER, format!("there is nothing at this path (404){}", page())).advice(path),
        405 => Step::failed(LAYER, "this path takes no messages (405)").advice(path),
        400..500 => Step::failed(LAYER, format!("the server rejects the request ({status}){}", page())).advice(path),
        _ => Step::failed(LAYER, format!("the server fails ({status}{wait}){}", page())).advice(
            "The server, or a proxy before it, is broken or restarting; read its log, and try again in a minute",
        ),
    }
}

/// Returns the first words of a text that is no web page. Secrets are hidden before it is cut.
fn first_words(answer: &Response, redactor: &StepRedactor) -> Option<String> {
    let kind = answer.content_type().unwrap_or_default();
    if !matches!(kind.as_str(), "text/plain" | "application/json" | "application/problem+json" | "") {
        return None;
    }
    let text = redactor.redact_text(&String::from_utf8_lossy(&answer.body));
    Some(headline(&text, 60)).filter(|words| !words.is_empty())
}

/// Returns a value of `Retry-After` as text: a number is one of seconds.
fn with_unit(wait: &str) -> String {
    if wait.bytes().all(|byte| byte.is_ascii_digit()) { format!("{wait} s") } else { wait.to_owned() }
}

/// Returns the title of a web page. Secrets are hidden before it is cut.
fn title(body: &[u8], redactor: &StepRedactor) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    Some(headline(&redactor.redact_text(&text[start..end]), 60)).filter(|title| !title.is_empty())
}

pub(crate) fn unanswered(fault: &ExchangeError, probe: &Probe) -> Step {
    match fault {
        ExchangeError::NotHttp(_) => Step::failed(LAYER, format!("{} answers, but not in HTTP", probe.server()))
            .advice("Another kind of server listens there: is the port right?"),
        ExchangeError::Cut(_) if !probe.is_secure() => {
            Step::failed(LAYER, format!("{} closed the connection instead of answering", probe.server()))
                .advice("Is it a port for https? Then write https:// instead of http://")
        }
        ExchangeError::Cut(why) => {
            Step::failed(LAYER, format!("{} closed the connection instead of answering ({why})", probe.server()))
                .advice("The server may crash at this request, or a device in between may close the connection; read the server's log")
        }
        ExchangeError::Unsendable(why) => Step::failed(LAYER, why.to_string()).advice("Correct the configured headers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_title_is_found_and_escaped() {
        assert_eq!(
            title(b"<html><TITLE lang=x> Sign\x1b in </title>", &StepRedactor::default()).as_deref(),
            Some("Sign\\u{1b} in")
        );
        for body in [&b""[..], b"<title", b"<title>", b"<title></title>", b"\xff<title>"] {
            assert_eq!(title(body, &StepRedactor::default()), None);
        }
    }
}
