//! Tests of every fault: its effect on the client, and the executions that the oracle counts.

use std::time::Duration;

use mendline_faults::fault::{self, Runs};
use mendline_faults::{Answers, Era, Rule, Server, Settings};
use serde_json::{Value, json};

use crate::client::{Client, Connection, End, Reply, TIMEOUT, call, initialize, request};

/// A server with one rule and a legacy client with a session.
async fn start(rule: Rule) -> (Server, Client) {
    let server = Server::start(Settings::default()).await.unwrap();
    let client = Client::legacy(server.address()).await;
    server.add(rule).unwrap();
    (server, client)
}

/// Makes one call under a rule. Returns the reply and the number of executions.
async fn call_under(rule: Rule) -> (Reply, u64) {
    let name = rule.fault.clone();
    let (server, client) = start(rule).await;
    let reply = client.call("create_note", "k").await;
    let counts = server.oracle().counts();
    assert_eq!(counts.struck_by(&name), 1);
    (reply, counts.executions_of("k"))
}

fn last_id(reply: &Reply) -> String {
    let ids = reply.events().into_iter().filter_map(|event| event.id);
    String::from_utf8(ids.last().unwrap().to_vec()).unwrap()
}

#[test]
fn every_fault_has_a_test() {
    let tests = [include_str!("faults.rs"), include_str!("http2.rs")].concat();
    for fault in fault::ALL {
        assert!(tests.contains(&format!("\"{}\"", fault.name)), "{} is not tested", fault.name);
        assert_eq!(fault::by_name(fault.name).map(|found| found.name), Some(fault.name));
    }
}

#[tokio::test]
async fn status_is_answered_before_or_after_the_tool_ran() {
    for (fault, status) in [("h26_500", 500), ("h27_502", 502), ("h28_503_retry_after", 503), ("h29_504", 504)] {
        assert_eq!(fault::by_name(fault).unwrap().runs, Runs::PerRule);
        let (reply, ran) = call_under(Rule::new(fault)).await;
        assert_eq!((reply.status, ran), (status, 1), "{fault}");
        let (reply, ran) = call_under(Rule::new(fault).before()).await;
        assert_eq!((reply.status, ran), (status, 0), "{fault}");
    }
}

#[tokio::test]
async fn retry_after_is_in_seconds_or_a_date() {
    for fault in ["h28_503_retry_after", "h30_429_retry_after"] {
        let (reply, _) = call_under(Rule::new(fault).value(7)).await;
        assert_eq!(reply.header("retry-after"), Some("7"));
        let (reply, _) = call_under(Rule::new(fault).value(json!({ "date": 3 }))).await;
        let date = reply.header("retry-after").unwrap();
        assert!(date.ends_with(" GMT") && date.contains(", "), "{date}");
        let (reply, _) = call_under(Rule::new(fault).value(json!({ "quota": 3 }))).await;
        assert_eq!(reply.header("ratelimit"), Some("\"default\";r=0;t=3"));
        let (reply, _) = call_under(Rule::new(fault).value(json!({ "unix": 3 }))).await;
        assert!(reply.header("x-ratelimit-reset").unwrap().parse::<u64>().unwrap() > 1_000_000_000);
        assert_eq!(reply.header("retry-after"), None);
    }
}

#[tokio::test]
async fn refused_calls_do_not_run() {
    for fault in ["h30_429_retry_after", "h31_429_bare"] {
        let (reply, ran) = call_under(Rule::new(fault)).await;
        assert_eq!((reply.status, ran), (429, 0));
    }
    assert_eq!(call_under(Rule::new("h31_429_bare")).await.0.header("retry-after"), None);
    let (reply, ran) = call_under(Rule::new("a73_token_expired_401")).await;
    assert_eq!((reply.status, ran), (401, 0));
    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer "));
}

#[tokio::test]
async fn lost_session_is_reported_in_three_ways() {
    for (fault, status) in
        [("h34_404_session_expired", 404), ("h35b_400_session_lost", 400), ("session_lost_in_body", 200)]
    {
        let (server, client) = start(Rule::new(fault).nth(1)).await;
        let reply = client.call("create_note", "k").await;
        assert_eq!(reply.status, status, "{fault}");
        assert!(reply.answer()["error"]["message"].as_str().unwrap().to_lowercase().contains("session"));
        assert_eq!(reply.answer()["id"], 7);
        assert_eq!(client.call("create_note", "k").await.status, 404, "the session is gone");
        let new_client = Client::legacy(server.address()).await;
        assert_eq!(new_client.call("create_note", "k").await.tool_text(), "wrote k");
        assert_eq!(server.oracle().counts().executions_of("k"), 1);
    }
}

#[tokio::test]
async fn refusals_carry_their_jsonrpc_code() {
    for (fault, status, code) in [("h35_404_method_not_found", 404, -32601), ("h36_400_header_mismatch", 400, -32020)] {
        let (reply, ran) = call_under(Rule::new(fault)).await;
        assert_eq!((reply.status, reply.answer()["error"]["code"].as_i64(), ran), (status, Some(code), 0));
    }
}

#[tokio::test]
async fn html_page_replaces_json() {
    let (reply, ran) = call_under(Rule::new("h37_html_instead_of_json")).await;
    assert_eq!((reply.status, reply.header("content-type"), ran), (200, Some("text/html"), 1));
    assert!(reply.text().contains("<title>"));
}

#[tokio::test]
async fn redirect_within_the_origin_leads_to_an_answer() {
    for status in [307, 308] {
        let (server, mut client) = start(Rule::new("h38_redirect_same_origin").value(status)).await;
        let reply = client.call("create_note", "k").await;
        assert_eq!((u64::from(reply.status), reply.header("location")), (status, Some("/moved/mcp")));
        assert_eq!(server.oracle().counts().executions_of("k"), 0);
        client.path = "/moved/mcp".to_owned();
        assert_eq!(client.call("create_note", "k").await.tool_text(), "wrote k");
    }
}

#[tokio::test]
async fn redirect_to_a_foreign_origin_is_recorded_there() {
    let (server, client) = start(Rule::new("h39_redirect_elsewhere")).await;
    let reply = client.call("create_note", "k").await;
    assert_eq!(reply.status, 307);
    let location = reply.header("location").unwrap();
    assert_eq!(location, format!("http://{}/mcp", server.elsewhere()));
    assert_eq!(server.oracle().counts().elsewhere, []);
    let follower = Client { address: server.elsewhere(), ..client };
    let request = follower.post_text("Authorization: Bearer secret\r\n", "{}");
    assert_eq!(follower.exchange(&request).await.status, 200);
    let strays = server.oracle().counts().elsewhere;
    assert_eq!((strays.len(), strays[0].credentials, strays[0].session, strays[0].bytes), (1, true, true, 2));
}

#[tokio::test]
async fn get_stream_is_not_offered() {
    let (server, client) = start(Rule::new("h40_405_on_get")).await;
    assert_eq!(client.exchange(&client.get(None)).await.status, 405);
    assert_eq!(client.call("lookup", "k").await.tool_text(), "k is 42", "other requests work");
    assert_eq!(server.oracle().counts().gets, 1);
}

#[tokio::test]
async fn request_is_accepted_and_never_answered() {
    let (reply, ran) = call_under(Rule::new("h41_202_but_no_answer")).await;
    assert_eq!((reply.status, reply.body.len(), ran), (202, 0, 1));
}

#[tokio::test]
async fn unusual_event_stream_has_the_same_meaning() {
    let (reply, _) = call_under(Rule::new("s42_sse_split_crlf_bom")).await;
    assert!(reply.body.starts_with(b"\xef\xbb\xbfid: "));
    assert!(reply.text().contains("\r\n\r\n") && !reply.text().replace("\r\n", "").contains('\n'));
    assert_eq!(reply.tool_text(), "wrote k");
    let (server, client) = start(Rule::new("s42_sse_split_crlf_bom")).await;
    let mut connection = Connection::dial(server.address()).await;
    let _ = connection.send_request(&client.post(&call(7, "lookup", &json!({ "key": "k" })))).await.unwrap();
    assert_eq!(connection.piece().await.unwrap().len(), 1, "one byte in each piece");
}

#[tokio::test]
async fn event_has_the_requested_size() {
    let (reply, ran) = call_under(Rule::new("s43_event_over_limit").value(100_000)).await;
    assert_eq!((reply.tool_text().len(), ran), (100_000, 1));
    let (reply, _) = call_under(Rule::new("s43_event_over_limit")).await;
    assert!(reply.body.len() > 17 << 20);
}

#[tokio::test]
async fn stream_carries_only_comments() {
    let (server, client) = start(Rule::new("s44_comments_only").value(1).before()).await;
    let mut connection = Connection::dial(server.address()).await;
    let _ = connection.send_request(&client.post(&call(7, "create_note", &json!({ "key": "k" })))).await.unwrap();
    for _ in 0..5 {
        assert_eq!(connection.piece().await.unwrap(), b": still here\n\n");
    }
    assert_eq!(server.oracle().counts().executions_of("k"), 0);
}

#[tokio::test]
async fn stream_with_absurd_retry_can_be_resumed() {
    for retry in [0, 1_000_000_000] {
        let (server, client) = start(Rule::new("s45_retry_absurd").value(retry)).await;
        let reply = client.call("create_note", "k").await;
        let events = reply.events();
        assert_eq!((events.len(), events[0].retry, reply.end), (1, Some(retry), End::Whole));
        assert_eq!(client.resume(&last_id(&reply)).await.tool_text(), "wrote k");
        assert_eq!(server.oracle().counts().executions_of("k"), 1);
    }
}

#[tokio::test]
async fn resumed_stream_repeats_all_events() {
    let (_server, client) = start(Rule::new("s46_replays_seen_events")).await;
    let reply = client.send(&call(7, "slow", &json!({ "key": "k", "steps": 2, "stepMs": 1 }))).await;
    assert_eq!(reply.messages().len(), 3);
    let again = client.resume(&last_id(&reply)).await;
    assert_eq!(again.messages(), reply.messages());
    assert_eq!(last_id(&again), last_id(&reply), "the same ids");
}

#[tokio::test]
async fn resumption_is_refused() {
    let (_server, client) = start(Rule::new("s47_resume_refused").nth(1)).await;
    let reply = client.call("lookup", "k").await;
    let first = String::from_utf8(reply.events()[0].id.clone().unwrap().to_vec()).unwrap();
    assert_eq!(client.resume(&first).await.status, 400);
    assert_eq!(client.resume(&first).await.tool_text(), "k is 42", "the rule applies once");
    let (_server, client) = start(Rule::new("s47_resume_refused").value(405)).await;
    assert_eq!(client.resume("s1.0").await.status, 405);
}

#[tokio::test]
async fn stream_is_primed_and_closed_forever() {
    let (server, client) = start(Rule::new("s52_prime_then_close_for_ever").value(5)).await;
    let mut reply = client.call("create_note", "k").await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        let events = reply.events();
        assert_eq!((events.len(), events[0].retry, reply.end), (1, Some(5), End::Whole));
        assert_eq!(events[0].data.as_deref(), Some(&b""[..]));
        ids.push(last_id(&reply));
        reply = client.resume(ids.last().unwrap()).await;
    }
    ids.dedup();
    assert_eq!(ids.len(), 20, "a new id each time");
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("k"), counts.resumes), (1, 20));
}

#[tokio::test]
async fn connection_ends_before_the_answer() {
    for (fault, end) in [("t13_reset_before_headers", End::Reset), ("t15_eof_without_response", End::Fin)] {
        let (reply, ran) = call_under(Rule::new(fault)).await;
        assert_eq!((reply.status, reply.end, ran), (0, end, 1), "{fault}");
        let (reply, ran) = call_under(Rule::new(fault).before()).await;
        assert_eq!((reply.status, reply.end, ran), (0, end, 0), "{fault}");
    }
}

#[tokio::test]
async fn json_body_is_cut_in_the_middle() {
    let (server, client) = start(Rule::new("t14_reset_mid_body")).await;
    let json = call(7, "create_note", &json!({ "key": "k", "answer": "json" }));
    let reply = client.send(&json).await;
    let length: usize = reply.header("content-length").unwrap().parse().unwrap();
    assert_eq!((reply.status, reply.end, reply.body.len()), (200, End::Reset, length / 2));
    server.clear();
    server.add(Rule::new("t14_reset_mid_body").value(3)).unwrap();
    assert_eq!(client.send(&json).await.body, b"{\"j", "or at the given byte");
    assert_eq!(server.oracle().counts().executions_of("k"), 2);
}

#[tokio::test]
async fn cut_event_stream_can_be_resumed() {
    let (server, client) = start(Rule::new("t14_reset_mid_body").nth(1)).await;
    let reply = client.call("create_note", "k").await;
    assert_eq!((reply.status, reply.end, reply.events().len()), (200, End::Reset, 1), "{}", reply.text());
    assert_eq!(client.resume(&last_id(&reply)).await.tool_text(), "wrote k");
    assert_eq!(server.oracle().counts().executions_of("k"), 1);
}

#[tokio::test]
async fn body_is_complete_http_and_truncated_json() {
    let (reply, ran) = call_under(Rule::new("truncated_json")).await;
    assert_eq!((reply.status, reply.end, ran), (200, End::Whole, 1));
    assert!(serde_json::from_slice::<Value>(&reply.body).is_err() && reply.text().starts_with("{\"jsonrpc\""));
}

#[tokio::test]
async fn correct_body_has_the_wrong_media_type() {
    let (reply, ran) = call_under(Rule::new("wrong_content_type")).await;
    assert_eq!((reply.header("content-type"), reply.tool_text().as_str(), ran), (Some("text/plain"), "wrote k", 1));
}

#[tokio::test]
async fn endpoint_is_at_a_foreign_origin() {
    let (server, client) = start(Rule::new("endpoint_elsewhere")).await;
    let mut connection = Connection::dial(server.address()).await;
    let client = Client { path: "/sse".to_owned(), session: None, ..client };
    let mut reply = connection.send_request(&client.get(None)).await.unwrap();
    let endpoint = connection.events(&mut reply, 1).await.remove(0).data.unwrap();
    let elsewhere = format!("http://{}/messages?", server.elsewhere());
    assert!(endpoint.starts_with(elsewhere.as_bytes()), "{endpoint:?}");
}

#[tokio::test]
async fn only_handshake_is_answered_at_the_sse_url() {
    let (_server, client) = start(Rule::new("only_handshake_at_sse_url")).await;
    let client = Client { path: "/sse".to_owned(), session: None, ..client };
    let handshake = client.send(&initialize()).await;
    assert_eq!(handshake.messages()[0]["result"]["serverInfo"]["name"], "mendline-faults");
    let list = client.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).await;
    assert_eq!(list.messages()[0]["error"]["code"], -32600);
}

#[tokio::test]
async fn responses_to_unknown_ids_precede_the_answer() {
    let (reply, ran) = call_under(Rule::new("m62_unknown_id")).await;
    let messages = reply.messages();
    assert_eq!((messages.len(), reply.tool_text().as_str(), ran), (5, "wrote k", 1));
    assert_eq!(messages.iter().filter(|message| message["id"] == 7).count(), 1);
}

#[tokio::test]
async fn response_is_sent_twice() {
    let (reply, ran) = call_under(Rule::new("m63_duplicate_response")).await;
    let messages = reply.messages();
    assert_eq!((messages.len(), ran), (2, 1));
    assert_eq!(messages[0], messages[1]);
}

#[tokio::test]
async fn late_response_ignores_cancellation() {
    let (server, client) = start(Rule::new("m64_late_response").value(150)).await;
    let mut connection = Connection::dial(server.address()).await;
    let start = tokio::time::Instant::now();
    let reply = connection.send_request(&client.post(&call(7, "create_note", &json!({ "key": "k" })))).await.unwrap();
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } })).await;
    assert_eq!(connection.rest(reply).await.tool_text(), "wrote k");
    assert!(start.elapsed() >= Duration::from_millis(150));
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("k"), counts.cancellations), (1, 0));
}

#[tokio::test]
async fn malformed_response_still_shows_its_id() {
    let (reply, ran) = call_under(Rule::new("m65_malformed_json")).await;
    let data = reply.events().pop().unwrap().data.unwrap();
    assert!(serde_json::from_slice::<Value>(&data).is_err());
    assert!(data.windows(6).any(|text| text == b"\"id\":7"));
    assert_eq!(ran, 1);
    assert_eq!(call_under(Rule::new("m65_malformed_json").before()).await.1, 0);
}

#[tokio::test]
async fn id_returns_as_a_string() {
    let (reply, ran) = call_under(Rule::new("m66_id_type_changed")).await;
    assert_eq!((reply.answer()["id"].clone(), reply.tool_text().as_str(), ran), (json!("7"), "wrote k", 1));
}

#[tokio::test]
async fn notifications_precede_the_answer() {
    let (reply, ran) = call_under(Rule::new("m67_notification_storm").value(500)).await;
    assert_eq!((reply.messages().len(), reply.tool_text().as_str(), ran), (501, "wrote k", 1));
}

#[tokio::test]
async fn progress_continues_until_the_call_is_cancelled() {
    let (server, legacy) = start(Rule::new("m68_progress_forever").value(1)).await;
    for client in [legacy, Client::modern(server.address())] {
        let mut connection = Connection::dial(server.address()).await;
        let mut reply =
            connection.send_request(&client.post(&call(7, "create_note", &json!({ "key": "k" })))).await.unwrap();
        connection.events(&mut reply, 20).await;
        let reports = reply.messages().into_iter().filter_map(|message| message["params"]["progress"].as_u64());
        assert!(reports.collect::<Vec<_>>().starts_with(&[1, 2, 3]));
        if client.is_modern {
            drop(connection);
            server.oracle().until(TIMEOUT, |counts| counts.cancellations == 2).await.unwrap();
        } else {
            let cancelled =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
            client.send(&cancelled).await;
            assert_eq!(connection.rest(reply).await.end, End::Whole);
        }
    }
}

#[tokio::test]
async fn server_switches_to_the_other_era() {
    let (server, legacy) = start(Rule::new("m69_era_flip").nth(1)).await;
    let reply = legacy.call("create_note", "k").await;
    assert_eq!((reply.status, reply.answer()["error"]["code"].as_i64()), (400, Some(-32022)));
    assert_eq!(server.settings().era, Era::Modern);
    let modern = Client::modern(server.address());
    assert_eq!(modern.call("create_note", "k").await.tool_text(), "wrote k");
    server.clear();
    server.add(Rule::new("m69_era_flip").nth(1)).unwrap();
    assert_eq!(modern.call("create_note", "k").await.status, 400);
    assert_eq!(server.settings().era, Era::Legacy);
    assert_eq!(server.oracle().counts().executions_of("k"), 1);
}

#[tokio::test]
async fn list_is_never_answered() {
    let (server, client) = start(Rule::new("m72_list_hangs")).await;
    let mut connection = Connection::dial(server.address()).await;
    let mut reply = connection.send_request(&client.post(&request(7, "tools/list", &json!({})))).await.unwrap();
    connection.events(&mut reply, 1).await;
    assert!(connection.is_silent(Duration::from_millis(50)).await, "only the priming event");
    assert_eq!(client.call("lookup", "k").await.tool_text(), "k is 42", "other requests work");
}

#[tokio::test]
async fn protocol_faults_apply_to_http_sse() {
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    server.add(Rule::new("m63_duplicate_response")).unwrap();
    let mut client = Client { path: "/sse".to_owned(), is_modern: false, ..Client::modern(server.address()) };
    let mut stream = Connection::dial(server.address()).await;
    let mut reply = stream.send_request(&client.get(None)).await.unwrap();
    let endpoint = stream.events(&mut reply, 1).await.remove(0).data.unwrap();
    client.path = String::from_utf8(endpoint.to_vec()).unwrap();
    assert_eq!(client.call("lookup", "k").await.status, 202);
    let events = stream.events(&mut reply, 3).await;
    assert_eq!(events[1].data, events[2].data);
}

#[tokio::test]
async fn rule_applies_to_named_requests_at_named_times() {
    let (server, client) = start(Rule::new("h26_500").method("tools/list").nth(2)).await;
    let list = request(7, "tools/list", &json!({}));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.send(&list).await.status);
    }
    assert_eq!(statuses, [200, 500, 200]);
    server.clear();
    server.add(Rule::new("t13_reset_before_headers").verb("GET")).unwrap();
    assert_eq!(client.exchange(&client.get(None)).await.end, End::Reset);
    assert_eq!(client.call("lookup", "k").await.status, 200);
    let faults: Vec<_> = server.oracle().seen().into_iter().filter_map(|seen| seen.fault).collect();
    assert_eq!(faults, ["h26_500", "t13_reset_before_headers"]);
}

/// Makes one call under a rule, with a JSON body as the answer.
async fn framed(rule: Rule) -> Reply {
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    let client = Client::legacy(server.address()).await;
    server.add(rule).unwrap();
    client.call("lookup", "k").await
}

#[tokio::test]
async fn unusual_framing_keeps_the_meaning_of_bodies() {
    let plain = framed(Rule::new("h26_500").method("nothing")).await.answer();
    for (style, sign) in [("lf", "{\n  \""), ("crlf", "{\r\n  \""), ("tab", "{\n\t\"")] {
        let reply = framed(Rule::new("pretty_json").value(style)).await;
        assert!(reply.text().starts_with(sign), "{}", reply.text());
        assert_eq!(reply.answer(), plain, "{style}");
    }
    let reply = framed(Rule::new("newline_after")).await;
    assert!(reply.text().ends_with("}\n"), "{}", reply.text());
    assert_eq!(reply.answer(), plain);
    let reply = framed(Rule::new("bom_json")).await;
    assert_eq!(reply.body.strip_prefix(b"\xef\xbb\xbf").map(|text| serde_json::from_slice(text).unwrap()), Some(plain));
}

#[tokio::test]
async fn bodies_are_compressed_or_sent_in_http_1_0() {
    let reply = framed(Rule::new("content_coding")).await;
    assert_eq!((reply.header("content-encoding"), &reply.body[..2]), (Some("gzip"), &b"\x1f\x8b"[..]));
    assert_eq!(framed(Rule::new("content_coding").value("br")).await.header("content-encoding"), Some("br"));
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    let client = Client::legacy(server.address()).await;
    server.add(Rule::new("http_1_0")).unwrap();
    let mut connection = Connection::dial(server.address()).await;
    connection.write(client.post(&call(3, "lookup", &json!({ "key": "k" }))).as_bytes()).await;
    let mut text = Vec::new();
    while let Ok(bytes) = connection.bytes(1 << 16).await {
        if bytes.is_empty() {
            break;
        }
        text.extend(bytes);
    }
    assert!(text.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&text));
}

#[tokio::test]
async fn notification_is_answered_with_any_status() {
    let (_server, client) = start(Rule::new("notification_answered").value(204)).await;
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    assert_eq!(client.send(&notification).await.status, 204);
}

#[tokio::test]
async fn server_requests_precede_the_answer() {
    let (_server, client) = start(Rule::new("server_request_flood").value(20)).await;
    let messages = client.call("lookup", "k").await.messages();
    assert_eq!(messages.iter().filter(|message| message["method"] == "roots/list").count(), 20);
    assert_eq!(messages.last().unwrap()["result"]["content"][0]["text"], "k is 42");
}
