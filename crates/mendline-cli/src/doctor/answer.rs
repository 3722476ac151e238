//! What an answer over HTTP says about the kind of server that gave it.

use mendline::transport::http::probe::{Answer, NoAnswer, Probe};
use serde_json::Value;

use super::step::Step;
use super::veil::Veil;
use crate::outside::{headline, one_line};

const LAYER: &str = "http";

/// Which HTTP it was said in.
pub(crate) fn version(answer: &Answer) -> &'static str {
    if answer.is_http2 { "HTTP/2" } else { "HTTP/1.1" }
}

/// A stream of events has begun.
pub(crate) fn is_events(answer: &Answer) -> bool {
    (200..300).contains(&answer.status) && answer.content_type().as_deref() == Some("text/event-stream")
}

/// What a server of the old transport says to a message at its address for events.
pub(crate) fn may_be_old(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 404 | 405 | 406 | 415) && !is_json_rpc(answer)
}

fn is_json_rpc(answer: &Answer) -> bool {
    let is_named = || String::from_utf8_lossy(&answer.body).contains("\"jsonrpc\"");
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(value) => value.get("jsonrpc").is_some(),
        // Of a long one only the beginning is here.
        Err(_) => answer.is_cut && is_named(),
    }
}

/// What an answer to a greeting says about the kind of server.
pub(crate) fn judged(answer: &Answer, veil: &Veil) -> Step {
    let (status, http) = (answer.status, version(answer));
    let kind = answer.content_type().unwrap_or_default();
    let page = || match title(&answer.body, veil) {
        Some(title) => format!(" ({title:?})"),
        None => String::new(),
    };
    let path = "Is the path of the URL right? Many servers are at /mcp or at /sse";
    match status {
        200..300 if matches!(kind.as_str(), "application/json" | "text/event-stream") && (is_json_rpc(answer) || kind == "text/event-stream") => {
            Step::ok(LAYER, format!("{http}, answers a message with {kind}")).fact("transport", "streamable")
        }
        200..300 if is_json_rpc(answer) => {
            Step::warning(LAYER, format!("{http}, answers with JSON but calls it {kind:?}"))
                .advice("Mendline takes it all the same; other clients may not. The server should say application/json")
        }
        200..300 if kind == "text/html" => {
            let advice = format!("This is a page for people: a login, a portal, or the wrong address. {path}");
            Step::failed(LAYER, format!("a web page{} came back, and no message", page())).advice(advice)
        }
        200..300 => Step::failed(LAYER, format!("what came back ({status}, {kind:?}) is no message of MCP")).advice(path),
        300..400 => match &answer.redirect {
            Some(Ok(place)) => Step::warning(LAYER, format!("{http}, sends every request on to {place} ({status})"))
                .advice("Mendline follows; write that address into the configuration to save the detour"),
            Some(Err(why)) => Step::failed(LAYER, why.as_str()).advice("Use the address that it sends you to, if you trust it"),
            None => Step::failed(LAYER, format!("a redirect ({status}) to nowhere")).advice(path),
        },
        401 | 403 => Step::ok(LAYER, format!("{http}, answers with {status}")),
        429 => {
            let wait = answer.retry_after().map_or_else(String::new, |wait| format!(", Retry-After: {}", one_line(wait)));
            Step::failed(LAYER, format!("it asks to be left alone (429{wait})"))
                .advice("Too many requests come from here; wait, and ask again")
        }
        400..500 if is_json_rpc(answer) => Step::ok(LAYER, format!("{http}, turns a legacy greeting down, in words of MCP ({status})")),
        404 => Step::failed(LAYER, format!("there is nothing at this path (404){}", page())).advice(path),
        405 => Step::failed(LAYER, "this path takes no messages (405)").advice(path),
        400..500 => Step::failed(LAYER, format!("the server turns the request down ({status}){}", page())).advice(path),
        _ => Step::failed(LAYER, format!("the server itself fails ({status}){}", page()))
            .advice("It, or what stands before it, is broken or being restarted; look at its own log, and try again in a minute"),
    }
}

/// The title of a web page. Secrets are hidden in it before it is cut.
fn title(body: &[u8], veil: &Veil) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    Some(headline(&veil.shown(&text[start..end]), 60)).filter(|title| !title.is_empty())
}

pub(crate) fn unanswered(fault: &NoAnswer, probe: &Probe) -> Step {
    match fault {
        NoAnswer::NotHttp(_) => Step::failed(LAYER, format!("{} answers, but not in HTTP", probe.server()))
            .advice("Another kind of server listens there: is the port right?"),
        NoAnswer::Cut(_) if !probe.is_secure() => {
            Step::failed(LAYER, format!("{} closed the connection instead of answering", probe.server()))
                .advice("Is it a port for https? Then write https:// instead of http://")
        }
        NoAnswer::Cut(why) => {
            Step::failed(LAYER, format!("{} closed the connection instead of answering ({why})", probe.server()))
                .advice("The server crashes at this request, or something between cuts it; look at its own log")
        }
        NoAnswer::Unsendable(why) => Step::failed(LAYER, why.as_str()).advice("Mend the headers that are configured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_page_is_found_and_cannot_talk_to_the_terminal() {
        assert_eq!(
            title(b"<html><TITLE lang=x> Sign\x1b in </title>", &Veil::default()).as_deref(),
            Some("Sign\\u{1b} in")
        );
        for body in [&b""[..], b"<title", b"<title>", b"<title></title>", b"\xff<title>"] {
            assert_eq!(title(body, &Veil::default()), None);
        }
    }
}
