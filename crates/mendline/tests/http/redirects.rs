//! Redirects: only those within the origin that keep the request are followed.

use mendline_core::Secret;

use super::stage::{PING, PONG, Stage, json, memory_dialer, post, target};

fn redirect(status: u16, to: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

async fn followed(answers: &[String]) -> (Vec<String>, Vec<String>, usize) {
    let (dial, mut servers) = memory_dialer();
    let target = target("http://x.test/mcp").header("Authorization", &Secret::new("Bearer t")).unwrap();
    let mut stage = Stage::new(target, dial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        let mut requests = Vec::new();
        for answer in answers {
            requests.push(server.answer(answer).await);
        }
        (server, requests)
    };
    let (facts, (_server, requests)) = tokio::join!(stage.facts(1), serve);
    (facts, requests, servers.unseen())
}

#[tokio::test(start_paused = true)]
async fn redirect_307_or_308_within_origin_repeats_request() {
    for status in [307, 308] {
        let (facts, requests, _) = followed(&[redirect(status, "v2/?a"), json(PONG)]).await;
        assert_eq!(facts, ["reached", "head 200 Json", &format!("body {PONG}"), "end Complete Whole"]);
        assert!(requests[1].starts_with("POST /v2/?a HTTP/1.1\r\n"), "{}", requests[1]);
        let (_, first) = requests[0].split_once("\r\n").unwrap();
        let (_, second) = requests[1].split_once("\r\n").unwrap();
        assert_eq!(first, second);
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_three_redirects_are_followed() {
    let more = |last: String| [redirect(307, "/1"), redirect(307, "/2"), redirect(307, "/3"), last];
    let (facts, _, _) = followed(&more(json(PONG))).await;
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    let (facts, _, _) = followed(&more(redirect(307, "/4"))).await;
    let words = "http://x.test redirects (307) to http://x.test again, after 3 times";
    assert_eq!(facts, ["reached", "head 307 Empty", &format!("end Forbidden({words:?}) Whole")]);
}

#[tokio::test(start_paused = true)]
async fn redirect_to_other_origin_or_method_is_not_followed() {
    for (status, to, words) in [
        (307, "https://x.test/mcp", "http://x.test redirects (307) to https://x.test, where nothing may be sent"),
        (308, "//evil.test/?secret", "http://x.test redirects (308) to http://evil.test, where nothing may be sent"),
        (302, "https://login.test/", "http://x.test redirects (302) to https://login.test, where nothing may be sent"),
        (
            302,
            "/login",
            "http://x.test redirects (302) to another page of http://x.test; only 307 and 308 can be followed",
        ),
        (
            303,
            "/mcp",
            "http://x.test redirects (303) to another page of http://x.test; only 307 and 308 can be followed",
        ),
        (307, "http://[", "http://x.test redirects (307) to something that is not a URL"),
    ] {
        let (facts, _, dials) = followed(&[redirect(status, to)]).await;
        assert_eq!(facts, ["reached", &format!("head {status} Empty"), &format!("end Forbidden({words:?}) Whole")]);
        assert_eq!(dials, 0, "{status} to {to} was followed");
    }
}

#[tokio::test(start_paused = true)]
async fn redirect_without_location_is_ordinary_answer() {
    let (facts, _, _) = followed(&["HTTP/1.1 300 Choices\r\nContent-Length: 2\r\n\r\nhi".to_owned()]).await;
    assert_eq!(facts, ["reached", "head 300 Other", "broken hi", "end Complete Whole"]);
}
