//! Differences of a server between stdio and HTTP.
//!
//! Some servers behave differently over HTTP, with or without Mendline. These differences are removed from both
//! conversations before a comparison. There are seven, each for the peers that have it and no others:
//!
//! - `server-everything` announces its tools before a client over Streamable HTTP can have a stream for it, and drops
//!   the notification then. Whether it arrives is a race.
//! - The Python SDK escapes all non-ASCII characters in the modern era over HTTP, and none over stdio. The characters
//!   are compared, not their escapes.
//! - A legacy server refuses a probe for the modern era with an HTTP status instead of a JSON-RPC error. Only the
//!   refusal is compared, and that the client falls back to the legacy era.
//! - The modern era answers an unknown method with status 404 and an error in the body. The second TypeScript client
//!   reports the status, with the body as text; behind Mendline it reports the error, as over stdio.
//! - In the modern era a request over HTTP is cancelled by closing its response. The second TypeScript client also
//!   posts a cancellation when it cancels a subscription; Mendline must post none.
//! - Over stdio the same client performs the handshake with a separate process first. Two processes of Mendline both
//!   number their requests from the start, so only the presence of that handshake is compared.
//! - Mendline detects the 2024-11-05 transport: it posts its handshake to the URL and is refused. The refused request
//!   is removed.

use serde_json::{Value, json};

use crate::requests::Request;
use crate::stage::{Client, Era, Server, Stage, Transport};
use crate::transcript::Transcript;

/// The method of a cancellation, where closing the response does not cancel the request.
const CANCELLED: &str = "notifications/cancelled";

/// The method that `server-everything` sends too early.
const TOO_EARLY: &str = "notifications/tools/list_changed";

/// The name that the second TypeScript client gives to an error whose status it reports instead of its content.
const HIDES_AN_ERROR: &str = "SdkHttpError";

/// Removes the differences from a transcript of the client's pipe.
///
/// # Errors
///
/// Fails if a probe was not refused.
pub fn remove_from(transcript: &Transcript, stage: &Stage) -> Result<Transcript, String> {
    let mut transcript = transcript.clone();
    if drops_early_notification(stage) {
        transcript.down.retain(|line| parsed(line)["method"] != TOO_EARLY);
    }
    if stage.server == Server::Fixture && stage.era == Era::Modern {
        transcript.down.iter_mut().for_each(|line| *line = without_needless_escapes(line));
    }
    if stage.era == Era::Probing {
        take_out_refusal(&mut transcript)?;
    }
    Ok(transcript)
}

/// Removes the differences from a report of a client.
pub fn remove_from_report(report: &mut Value, stage: &Stage) {
    if let (true, Some(received)) = (drops_early_notification(stage), report["received"].as_object_mut()) {
        received.remove(TOO_EARLY);
    }
    for step in report["steps"].as_array_mut().into_iter().flatten() {
        let error = &step[2]["error"];
        if error["name"] == HIDES_AN_ERROR {
            let hidden = parsed(error["data"]["text"].as_str().unwrap_or_default());
            let mut shown = json!({"name": "ProtocolError"});
            for key in ["code", "message", "data"] {
                // No client shows a member that the server left out.
                if let Some(value) = hidden["error"].get(key) {
                    shown[key] = value.clone();
                }
            }
            step[2]["error"] = shown;
        }
    }
}

/// Removes the differences from the requests of a direct client and from those of Mendline.
///
/// # Errors
///
/// Fails if Mendline posted a cancellation in the modern era, or if a handshake is missing.
pub fn remove_from_requests(
    dialed: &mut Vec<Request>,
    bridged: &mut Vec<Request>,
    stage: &Stage,
) -> Result<(), String> {
    let is = |request: &Request, method: &str| parsed(&request.body)["method"] == method;
    if stage.transport == Transport::Sse {
        let guess =
            bridged.iter().position(|request| request.path == stage.transport.path() && is(request, "initialize"));
        bridged.remove(guess.ok_or("no transport probe was sent")?);
    }
    if stage.era != Era::Modern {
        return Ok(());
    }
    if let Some(posted) = bridged.iter().find(|request| is(request, CANCELLED)) {
        return Err(format!("a response was not closed but cancelled: {}", posted.body));
    }
    dialed.retain(|request| !is(request, CANCELLED));
    if stage.client == Client::TypeScript2 {
        for requests in [dialed, bridged] {
            let handshake = requests.iter().position(|request| is(request, "server/discover"));
            requests.remove(handshake.ok_or("no handshake was sent")?);
        }
    }
    Ok(())
}

fn drops_early_notification(stage: &Stage) -> bool {
    stage.server == Server::Everything && stage.transport == Transport::Http
}

fn take_out_refusal(transcript: &mut Transcript) -> Result<(), String> {
    let requests = transcript.up.iter().map(|line| parsed(line));
    let probe = requests.into_iter().find(|line| line["method"] == "server/discover").ok_or("no probe was sent")?;
    let answers = |line: &str| {
        let line = parsed(line);
        line["id"] == probe["id"] && line.get("method").is_none()
    };
    let at = transcript.down.iter().position(|line| answers(line)).ok_or("the probe was not answered")?;
    let answer = transcript.down.remove(at);
    if parsed(&answer)["error"]["code"].is_i64() { Ok(()) } else { Err(format!("the probe was not refused: {answer}")) }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

/// Returns a line of JSON without unnecessary escapes. All other bytes stay.
fn without_needless_escapes(line: &str) -> String {
    let mut spelt = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        spelt.push_str(&rest[..at]);
        rest = &rest[at..];
        let (escape, character) = escaped(rest);
        match character {
            Some(character) => spelt.push(character),
            None => spelt.push_str(&rest[..escape]),
        }
        rest = &rest[escape..];
    }
    spelt + rest
}

/// Returns the length of the escape at the start of the text, and its character if the escape is unnecessary.
fn escaped(text: &str) -> (usize, Option<char>) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else {
        // The second byte of any other escape is ASCII, unless the line is invalid JSON, which is left alone.
        return (text.ceil_char_boundary(2.min(text.len())), None);
    };
    let pair = [first, unit(6).unwrap_or_default()];
    match char::decode_utf16(pair).next() {
        Some(Ok(character)) if character >= '\u{7f}' => (6 * character.len_utf16(), Some(character)),
        _ => (6, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{remove_from, remove_from_report, remove_from_requests, take_out_refusal, without_needless_escapes};
    use crate::stage::{Client, Era, Programs, Server, Stage, Transport};
    use crate::transcript::Transcript;

    fn stage(era: Era, server: Server, transport: Transport) -> Stage {
        let programs = Programs { tap: "".into(), rmcp_client: "".into(), mendline: "".into(), faults: "".into() };
        Stage { client: Client::Python2, server, era, transport, programs }
    }

    #[test]
    fn escaped_characters_equal_literal_ones() {
        assert_eq!(without_needless_escapes(r#""\u00fc \ud83e\udd80 \u2028 \u007f""#), "\"ü 🦀 \u{2028} \u{7f}\"");
        for same in [r#""\u0000\u001f \" \\u00fc \\\n""#, "ü 🦀", r#""\ud83e alone""#, "\\", "\\u00", "\\ü"] {
            assert_eq!(without_needless_escapes(same), same);
        }
    }

    #[test]
    fn refusal_of_probe_may_have_any_text() {
        let probed = |answer: &str| {
            let up = vec![r#"{"id":1,"method":"server/discover"}"#.into(), r#"{"id":2,"method":"initialize"}"#.into()];
            let mut transcript = Transcript { up, down: vec![answer.into(), r#"{"id":2,"result":{}}"#.into()] };
            take_out_refusal(&mut transcript).map(|()| transcript.down)
        };
        assert_eq!(probed(r#"{"id":1,"error":{"code":-32601}}"#).unwrap(), [r#"{"id":2,"result":{}}"#]);
        assert!(probed(r#"{"id":1,"result":{}}"#).unwrap_err().starts_with("the probe was not refused"));
        assert_eq!(probed(r#"{"id":3,"result":{}}"#).unwrap_err(), "the probe was not answered");
    }

    #[test]
    fn differences_are_removed_only_for_listed_peers() {
        let early = r#"{"method":"notifications/tools/list_changed"}"#.to_owned();
        let transcript = Transcript { up: vec![], down: vec![early, r#"{"id":1,"result":"\u00fc"}"#.into()] };
        let left = |era, server, transport| remove_from(&transcript, &stage(era, server, transport)).unwrap().down;
        assert_eq!(left(Era::Legacy, Server::Everything, Transport::Http), transcript.down[1..]);
        assert_eq!(left(Era::Legacy, Server::Everything, Transport::Sse), transcript.down);
        assert_eq!(left(Era::Legacy, Server::Fixture, Transport::Http), transcript.down);
        assert_eq!(left(Era::Modern, Server::Fixture, Transport::Http)[1], r#"{"id":1,"result":"ü"}"#);

        let mut report =
            serde_json::json!({"received": {"notifications/tools/list_changed": [null], "roots/list": [null]}});
        remove_from_report(&mut report, &stage(Era::Legacy, Server::Everything, Transport::Http));
        assert_eq!(report["received"], serde_json::json!({"roots/list": [null]}));
    }

    #[test]
    fn transport_probe_is_ignored_and_posted_cancellation_is_detected() {
        let post = |path: &str, method: &str| {
            let body = format!(r#"{{"id":1,"method":"{method}"}}"#);
            let text = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            crate::requests::parse(text.as_bytes()).unwrap().remove(0)
        };
        let mut bridged = vec![post("/sse", "initialize"), post("/messages/", "initialize")];
        remove_from_requests(&mut vec![], &mut bridged, &stage(Era::Legacy, Server::Fixture, Transport::Sse)).unwrap();
        assert_eq!(bridged, [post("/messages/", "initialize")]);

        let modern = stage(Era::Modern, Server::Fixture, Transport::Http);
        let mut dialed = vec![post("/mcp", "tools/list"), post("/mcp", "notifications/cancelled")];
        let why = remove_from_requests(&mut vec![], &mut dialed.clone(), &modern).unwrap_err();
        assert!(why.starts_with("a response was not closed but cancelled"), "{why}");
        remove_from_requests(&mut dialed, &mut vec![], &modern).unwrap();
        assert_eq!(dialed, [post("/mcp", "tools/list")]);
    }

    #[test]
    fn error_hidden_by_status_is_compared_by_content() {
        let body = r#"{"id":38,"error":{"code":-32601,"message":"Method not found","data":"no/such"}}"#;
        let error = serde_json::json!({"name": "SdkHttpError", "code": "HTTP", "data": {"status": 404, "text": body}});
        let mut report = serde_json::json!({"steps": [["raw", null, {"error": error}], ["ping", null, {}]]});
        remove_from_report(&mut report, &stage(Era::Modern, Server::Fixture, Transport::Http));
        let shown = serde_json::json!(
            {"name": "ProtocolError", "code": -32601, "message": "Method not found", "data": "no/such"}
        );
        assert_eq!(report["steps"], serde_json::json!([["raw", null, {"error": shown}], ["ping", null, {}]]));

        let bare = r#"{"id":38,"error":{"code":-32601,"message":"Method not found"}}"#;
        let error = serde_json::json!({"name": "SdkHttpError", "data": {"text": bare}});
        let mut report = serde_json::json!({"steps": [["raw", null, {"error": error}]]});
        remove_from_report(&mut report, &stage(Era::Modern, Server::TypeScript, Transport::Http));
        assert_eq!(report["steps"][0][2]["error"].get("data"), None, "what was left out is not shown");
    }
}
