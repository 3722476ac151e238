//! Servers at a URL, each failing at one layer of the connection.

use std::time::Duration;

use mendline_faults::Rule;
use serde_json::json;

use crate::canned::{Canned, ClosedPort};
use crate::site::Site;
use crate::stage::{Stage, both, legacy, modern};

/// Compares the output of `mendline doctor` for a URL with a snapshot.
macro_rules! snapshot_test {
    ($name:ident, $server:expr, $url:expr) => {
        snapshot_test!($name, $server, $url, []);
    };
    ($name:ident, $server:expr, $url:expr, $flags:expr) => {
        #[test]
        fn $name() {
            let server = $server;
            let url: String = ($url)(&server);
            let flags: &[&str] = &$flags;
            insta::assert_snapshot!(stringify!($name), Stage::new().doctor(&[flags, &[&url]].concat()));
        }
    };
}

fn at(server: &Canned) -> String {
    server.url()
}

fn at_site(site: &Site) -> String {
    site.url()
}

/// Starts a server that takes so many milliseconds for every answer.
fn slow(millis: u64) -> Canned {
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "slow", "version": "1" },
        "tools": [{ "name": "a", "inputSchema": { "type": "object" } }],
    });
    Canned::slow_json_rpc(Duration::from_millis(millis), "result", result.to_string())
}

/// Starts a legacy server with this fault in its handshake.
fn legacy_with_handshake_fault(rule: Rule) -> Site {
    let site = legacy();
    site.add(rule.method("initialize")).unwrap();
    site
}

snapshot_test!(healthy_legacy_server_is_reported, legacy(), at_site);
snapshot_test!(healthy_modern_server_is_reported, modern(), at_site);
snapshot_test!(server_of_both_eras_is_reported, both(), at_site);
snapshot_test!(sse_server_is_reported, legacy(), |site: &Site| site.sse_url());
snapshot_test!(sse_server_chosen_by_flag_is_reported, legacy(), |site: &Site| site.sse_url(), ["--transport", "sse"]);
snapshot_test!(refused_connection_is_reported, ClosedPort::new(), |closed: &ClosedPort| closed.url());
snapshot_test!(non_http_server_is_reported, Canned::answer("SSH-2.0-OpenSSH_9.6\r\n"), at);
snapshot_test!(close_without_response_is_reported, Canned::answer(""), at);
snapshot_test!(missing_response_is_reported, Canned::silent(), at, ["--timeout", "2s"]);
snapshot_test!(status_404_is_reported, Canned::http("404 Not Found", "text/html", "<title>Not here</title>"), at);
snapshot_test!(status_405_is_reported, Canned::http("405 No", "text/plain", "no"), at);
snapshot_test!(html_response_is_reported, legacy_with_handshake_fault(Rule::new("h37_html_instead_of_json")), at_site);
snapshot_test!(json_that_is_not_json_rpc_is_reported, Canned::http("200 OK", "application/json", "{\"hello\":1}"), at);
snapshot_test!(status_500_is_reported, legacy_with_handshake_fault(Rule::new("h26_500")), at_site);
snapshot_test!(status_429_is_reported, legacy_with_handshake_fault(Rule::new("h30_429_retry_after").value(7)), at_site);
snapshot_test!(
    u05_retry_after_of_503_is_reported,
    Canned::answer(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 20\r\nContent-Type: text/plain\r\nContent-Length: 19\r\n\r\n\
         down for an upgrade"
    ),
    at
);
snapshot_test!(u05_slow_server_is_reported_as_slow, slow(5_100), at);
snapshot_test!(u05_rather_slow_server_is_a_warning, slow(1_100), at);
snapshot_test!(expired_token_is_reported, legacy_with_handshake_fault(Rule::new("a73_token_expired_401")), at_site);
snapshot_test!(
    missing_login_is_reported,
    Canned::answer(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"notes\", scope=\"read write\", \
         resource_metadata=\"https://127.0.0.1:9/.well-known/oauth-protected-resource?x=1\"\r\nContent-Length: 0\r\n\r\n"
    ),
    at
);
snapshot_test!(status_403_is_reported, Canned::http("403 Forbidden", "text/plain", "no"), at);
snapshot_test!(
    redirect_to_other_origin_is_reported,
    Canned::answer("HTTP/1.1 302 Found\r\nLocation: https://login.test/in?key=s3cret\r\nContent-Length: 0\r\n\r\n"),
    at
);
snapshot_test!(
    redirect_within_origin_is_reported,
    legacy_with_handshake_fault(Rule::new("h38_redirect_same_origin")),
    at_site
);
snapshot_test!(
    rejected_handshake_is_reported,
    Canned::json_rpc("error", r#"{"code":-32000,"message":"the database is away\u001b[2J"}"#),
    at
);
snapshot_test!(
    unanswered_list_is_reported,
    {
        let site = legacy();
        site.add(Rule::new("m72_list_hangs").method("tools/list")).unwrap();
        site
    },
    at_site,
    ["--timeout", "2s"]
);

#[test]
fn r28_login_of_sse_server_is_reported() {
    let server = Canned::by_method(
        "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"notes\"\r\nContent-Length: 0\r\n\r\n",
    );
    insta::assert_snapshot!("r28_login_of_sse_server_is_reported", Stage::new().doctor(&[&server.url()]));
}

#[test]
fn unknown_host_name_is_reported() {
    // The reason and the duration depend on the resolver of the machine.
    let printed = Stage::new().run(&["doctor", "--json", "http://no-such-host.invalid/mcp"]);
    assert_eq!(printed.code, 1, "{}", printed.stdout);
    let steps = printed.json()["servers"][0]["steps"].as_array().unwrap().clone();
    let verdicts: Vec<_> = steps.iter().map(|step| (step["layer"].clone(), step["verdict"].clone())).collect();
    assert_eq!(verdicts[0], (json!("name"), json!("failed")));
    let above = ["tcp", "http", "auth", "handshake", "lists", "ping"].map(|layer| (json!(layer), json!("skipped")));
    assert_eq!(verdicts[1..], above);
    assert!(steps[0]["words"].as_str().unwrap().contains("the name no-such-host.invalid could not be looked up"));
}

#[test]
fn long_handshake_result_is_accepted() {
    let handshake = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": { "name": "s", "version": "1" },
        "instructions": "x".repeat(100_000),
    });
    let server = Canned::json_rpc("result", handshake.to_string());
    let printed = Stage::new().run(&["doctor", &server.url()]);
    assert_eq!(printed.code, 0, "{}", printed.stdout);
    assert!(printed.stdout.contains("s 1 speaks MCP 2025-06-18"), "{}", printed.stdout);
    assert!(printed.stdout.contains("it offers neither tools nor prompts nor resources"), "{}", printed.stdout);
}

#[test]
fn doctor_deletes_its_sessions() {
    let site = legacy();
    let printed = Stage::new().run(&["doctor", &site.url()]);
    assert_eq!(printed.code, 0, "{}", printed.stdout);
    let counts = site.oracle().counts();
    assert_eq!((counts.messages_of("initialize"), counts.sessions_deleted), (2, 2), "one for http, one for MCP itself");
}

#[test]
fn i12_doctor_uses_credential_and_never_shows_it() {
    let site = legacy_with_handshake_fault(Rule::new("a73_token_expired_401"));
    let stage = Stage::new();
    for json in [&[][..], &["--json"]] {
        let flags = ["doctor", "--header", "Authorization: Bearer canary-s3cret"];
        let printed = stage.run(&[&flags[..], json, &[&site.url()]].concat());
        assert_eq!(printed.code, 6, "{}", printed.stdout);
        assert!(printed.stdout.contains("does not accept the credential"), "{}", printed.stdout);
        assert!(
            !printed.stdout.contains("canary-s3cret") && !printed.stderr.contains("canary-s3cret"),
            "{}",
            printed.stdout
        );
    }
    assert_eq!(site.oracle().counts().messages_of("initialize"), 2);
}

#[test]
fn i12_credential_echoed_by_server_is_not_shown() {
    let server = Canned::answer(
        "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer error_description=\"canary-s3cret is too old\"\r\nContent-Length: 0\r\n\r\n",
    );
    for json in [&[][..], &["--json"]] {
        let flags = ["doctor", "--header", "Authorization: Bearer canary-s3cret"];
        let printed = Stage::new().run(&[&flags[..], json, &[&server.url()]].concat());
        assert_eq!(printed.code, 6, "{}", printed.stdout);
        assert!(
            printed.stdout.contains("‹secret› is too old") && !printed.stdout.contains("canary-s3cret"),
            "{}",
            printed.stdout
        );
    }
}

#[test]
fn i12_doctor_never_shows_query() {
    let closed = ClosedPort::new();
    let url = format!("{}?key=canary-s3cret", closed.url());
    let printed = Stage::new().run(&["doctor", &url]);
    assert!(
        printed.code == 1 && !printed.stdout.contains("s3cret") && !printed.stderr.contains("s3cret"),
        "{}",
        printed.stdout
    );
}

#[test]
fn wrong_clock_causes_warning() {
    let server = Canned::answer(
        "HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let printed = Stage::new().run(&["doctor", "--json", &server.url()]).json();
    let steps = printed["servers"][0]["steps"].as_array().unwrap().clone();
    let clock = steps.iter().find(|step| step["layer"] == "clock").unwrap();
    assert_eq!(clock["verdict"], "warning", "{clock}");
    assert!(clock["words"].as_str().unwrap().contains("behind this machine's"), "{clock}");
}

#[test]
fn json_report_has_every_layer() {
    let site = legacy();
    let printed = Stage::new().run(&["doctor", "--json", &site.url()]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    let printed = printed.json();
    assert_eq!((&printed["version"], &printed["well"], &printed["exitCode"]), (&json!(1), &json!(true), &json!(0)));
    let server = &printed["servers"][0];
    let layers: Vec<&str> =
        server["steps"].as_array().unwrap().iter().map(|step| step["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, ["name", "tcp", "http", "auth", "handshake", "lists", "ping"]);
    let fact = |layer: &str, name: &str| {
        let step = server["steps"].as_array().unwrap().iter().find(|step| step["layer"] == layer).unwrap();
        assert_eq!(step["verdict"], "ok", "{step}");
        step["facts"][name].clone()
    };
    assert_eq!(fact("http", "transport"), "streamable");
    assert_eq!(
        (fact("handshake", "era"), fact("handshake", "protocolVersion")),
        (json!("legacy"), json!("2025-11-25"))
    );
    assert_eq!(
        (fact("lists", "tools"), fact("lists", "prompts"), fact("lists", "resources")),
        (json!(5), json!(1), json!(1))
    );
    assert!(fact("ping", "p50Ms").is_number());
}

#[test]
fn json_report_lists_both_eras() {
    let eras = |site: &Site| {
        let printed = Stage::new().run(&["doctor", "--json", &site.url()]).json();
        let steps = printed["servers"][0]["steps"].as_array().unwrap().clone();
        steps.iter().find(|step| step["layer"] == "eras").map(|step| step["facts"].clone())
    };
    let facts = json!({ "eras": ["legacy", "modern"], "protocolVersions": ["2025-11-25", "2026-07-28"] });
    assert_eq!(eras(&both()), Some(facts));
    assert_eq!((eras(&legacy()), eras(&modern())), (None, None));
}

#[test]
fn proxy_from_variable_is_used_and_reported() {
    // The host is not local, so the request goes to the proxy, which is a server that answers.
    let proxy = Canned::http("404 Not Found", "text/plain", "no");
    let place = proxy.url().replace("/mcp", "");
    let stage = Stage::new();
    let run = |variables: &[(&str, &str)]| {
        let mut command = stage.command(&["doctor", "--json", "http://notes.invalid/mcp"]);
        let printed = crate::stage::CommandOutput::of(command.envs(variables.iter().copied()).output().unwrap());
        printed.json()["servers"][0]["steps"].clone()
    };
    let steps = run(&[("http_proxy", &place)]);
    assert_eq!((&steps[0]["layer"], &steps[0]["verdict"]), (&json!("proxy"), &json!("ok")), "{steps}");
    assert_eq!(steps[2]["layer"], "tcp");
    let steps = run(&[("http_proxy", &place), ("no_proxy", ".invalid")]);
    assert_eq!((&steps[0]["layer"], &steps[0]["verdict"]), (&json!("name"), &json!("failed")), "{steps}");
}
