//! `mendline tools` and `mendline call` from a shell.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mendline_faults::Rule;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::canned::Nobody;
use crate::stage::{MENDLINE, Said, Stage, legacy, modern};

const DEMO: [&str; 3] = ["--", MENDLINE, "demo-server"];

/// What a command says in front of the demonstration server.
fn demo(stage: &Stage, arguments: &[&str], tempers: &[&str]) -> Said {
    let tempers: Vec<&str> = tempers.iter().flat_map(|temper| ["--temper", temper]).collect();
    stage.run(&[arguments, &DEMO, &tempers].concat())
}

#[test]
fn tools_are_listed_for_people() {
    let site = legacy();
    let stage = Stage::new();
    insta::assert_snapshot!("tools", stage.reviewed(&stage.run(&["tools", &site.url()])));
    insta::assert_snapshot!("one_tool", stage.reviewed(&stage.run(&["tools", &site.url(), "slow"])));
    insta::assert_snapshot!(
        "prompts_and_resources",
        stage.reviewed(&stage.run(&["tools", "--prompts", "--resources", &site.url()]))
    );
}

#[test]
fn tools_are_listed_for_programs_as_the_server_wrote_them() {
    for site in [legacy(), modern()] {
        let said = Stage::new().run(&["tools", "--json", &site.url()]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let tools = said.json()["tools"].clone();
        let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["lookup", "create_note", "slow", "big", "ask"]);
    }
}

#[test]
fn a_call_answers_in_every_era_and_over_every_transport() {
    let (old, new) = (legacy(), modern());
    for url in [old.url(), old.sse_url(), new.url()] {
        let said = Stage::new().run(&["call", &url, "create_note", r#"{"key":"k"}"#]);
        assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "wrote k\n", ""), "{url}");
    }
    assert_eq!(old.oracle().counts().executions_of("k"), 2);
    assert_eq!(new.oracle().counts().executions_of("k"), 1);
    assert_eq!(old.oracle().counts().sessions_deleted, 1, "the one of Streamable HTTP is ended");
}

#[test]
fn arguments_come_from_the_line_from_a_file_and_from_stdin() {
    let stage = Stage::new();
    fs::write(stage.path().join("a.json"), "{\"key\": \"file\"}\n").unwrap();
    let said = demo(&stage, &["call", "lookup", "@a.json"], &[]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "file is 42\n"), "{}", said.stderr);
    let said = demo(&stage, &["call", "lookup", "--arg", "key=single"], &[]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "single is 42\n"), "{}", said.stderr);
    let mut command = stage.command(&[&["call", "lookup", "-"], &DEMO[..]].concat());
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"{\"key\":\"stdin\"}").unwrap();
    let said = Said::of(process.wait_with_output().unwrap());
    assert_eq!((said.code, said.stdout.as_str()), (0, "stdin is 42\n"), "{}", said.stderr);
}

#[test]
fn what_is_wrong_with_a_call_is_said_before_it_is_made() {
    let stage = Stage::new();
    for (name, arguments) in [
        ("arguments_that_are_not_json", &["call", "lookup", "{\"key\" 5}"][..]),
        ("arguments_that_are_no_object", &["call", "lookup", "[1]"]),
        ("a_tool_that_does_not_exist", &["call", "lookpu"]),
        ("an_argument_of_the_wrong_kind", &["call", "lookup", "--arg", "delayMs=soon"]),
    ] {
        insta::assert_snapshot!(name, stage.reviewed(&demo(&stage, arguments, &[])));
    }
    assert!(!stage.ledger().contains("executed"), "{}", stage.ledger());
    assert_eq!(stage.run(&["call"]).code, 2);
    assert_eq!(stage.run(&["call", "notes"]).code, 2);
    assert_eq!(stage.run(&["tools"]).code, 2);
}

#[test]
fn an_argument_that_the_tool_does_not_know_is_hinted_at_and_sent() {
    let said = demo(&Stage::new(), &["call", "lookup", "--arg", "kye=x"], &[]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "- is 42\n"));
    assert_eq!(said.stderr, "note: lookup has no argument `kye`; did you mean `key`?\n");
}

#[test]
fn a_call_that_only_reads_heals_and_one_that_writes_is_said_to_be_unknown() {
    let stage = Stage::new();
    let read = demo(&stage, &["call", "lookup", "--arg", "key=r"], &["die-after=1"]);
    assert_eq!((read.code, read.stdout.as_str()), (0, "r is 42\n"), "{}", read.stderr);
    assert!(read.stderr.contains("reconnecting"), "whoever waits is told why: {}", read.stderr);
    let stage = Stage::new();
    let write = demo(&stage, &["call", "create_note", "--arg", "key=w"], &["die-after=1"]);
    assert_eq!((write.code, write.stdout.as_str()), (4, ""), "{}", write.stderr);
    assert!(write.stderr.contains("It may or may not have run."), "{}", write.stderr);
    assert_eq!(stage.ledger().matches("executed create_note w").count(), 1);
}

#[test]
fn a_server_that_is_not_there_or_wants_a_login_has_an_exit_code_of_its_own() {
    let (stage, nobody) = (Stage::new(), Nobody::new());
    for words in [&["tools"][..], &["call"]] {
        let tool: &[&str] = if words == ["call"] { &["lookup"] } else { &[] };
        let away = stage.run(&[words, &["--timeout", "1s", &nobody.url()], tool].concat());
        assert_eq!(away.code, 5, "{}", away.stderr);
        assert!(away.stderr.contains("nothing listens on"), "{}", away.stderr);
        assert!(away.stderr.contains("mendline doctor http://127.0.0.1"), "{}", away.stderr);
        let site = legacy();
        site.add(Rule::new("a73_token_expired_401").method("initialize")).unwrap();
        let login = stage.run(&[words, &[&site.url()], tool].concat());
        assert_eq!(login.code, 6, "{}", login.stderr);
    }
}

#[test]
fn a_call_that_takes_too_long_is_given_up_and_its_outcome_said() {
    let stage = Stage::new();
    let call = || demo(&stage, &["call", "--timeout", "2s", "create_note", r#"{"key":"k","delayMs":60000}"#], &[]);
    let mut said = call();
    // Where a busy machine needs all of that time to start the server, nothing is sent, and nothing is seen of this.
    let deadline = Instant::now() + Duration::from_secs(60);
    while said.code == 5 && Instant::now() < deadline {
        said = call();
    }
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("may or may not have run"), "{}", said.stderr);
}

#[test]
fn ctrl_c_takes_the_call_back() {
    let stage = Stage::new();
    let slow = ["call", "slow", r#"{"key":"k","steps":1000,"stepMs":100}"#];
    let process = stage.command(&[&slow[..], &DEMO].concat()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !stage.ledger().contains("executed slow k") {
        assert!(Instant::now() < deadline, "the call never ran");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let said = Said::of(process.wait_with_output().unwrap());
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("interrupted: the call was cancelled"), "{}", said.stderr);
    assert!(stage.ledger().contains("cancelled"), "{}", stage.ledger());
}

#[test]
fn questions_of_a_server_are_declined() {
    for (site, what, answer) in
        [(legacy(), "elicitation", "decline"), (legacy(), "roots", "roots"), (modern(), "elicitation", "decline")]
    {
        let said = Stage::new().run(&["call", &site.url(), "ask", "--arg", &format!("what={what}")]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(said.stdout.contains(answer), "{}", said.stdout);
    }
    let site = modern();
    let said = Stage::new().run(&["call", &site.url(), "ask", "--arg", "what=sampling"]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert!(said.stderr.contains("sampling/createMessage, which a command line cannot provide"), "{}", said.stderr);
}

/// A server of one tool in a few lines of shell, whose answer to the call is this.
fn scripted(stage: &Stage, result: &Value) -> String {
    let path = stage.path().join("server.sh");
    let say = |id: u32, result: &Value| {
        format!("read line; printf '%s\\n' '{}'\n", json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    };
    let greeting = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } });
    let tools = json!({ "tools": [{ "name": "draw", "inputSchema": { "type": "object" } }] });
    // Between the greeting and the list lies `initialized`, which wants no answer.
    let script = format!("{}read line\n{}{}cat >/dev/null\n", say(1, &greeting), say(2, &tools), say(3, result));
    // Mendline numbers its own way: the ids are taken from the requests.
    let script = script
        .replace("read line; printf '%s\\n' '", "read line; id=${line#*\\\"id\\\":}; id=${id%%,*}; printf '%s\\n' '");
    let script = ["\"id\":1,", "\"id\":2,", "\"id\":3,"]
        .iter()
        .fold(script, |script, id| script.replace(id, "\"id\":'\"$id\"',"));
    fs::write(&path, script).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A server whose list of tools comes in pages, each of which names the next by what this makes of its number.
fn paged(stage: &Stage, next: &str) -> String {
    let script = r#"
page=0
while read line; do
    id=${line#*\"id\":}; id=${id%%,*}
    case "$line" in
    *initialize\"*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}' ;;
    *tools/list*) page=$((page+1)); result='{"tools":[{"name":"t'$page'"}]'NEXT'}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;
    let path = stage.path().join("paged.sh");
    fs::write(&path, script.replace("NEXT", next)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_page_of_a_list_is_read_and_a_list_without_end_is_not_read_for_ever() {
    let stage = Stage::new();
    let three = paged(&stage, r#"$([ $page -lt 3 ] && echo ',"nextCursor":"p'$page'"')"#);
    let said = stage.run(&["tools", "--json", "--", "sh", &three]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let names: Vec<Value> = said.json()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["t1", "t2", "t3"]);
    let same = paged(&stage, r#"',"nextCursor":"again"'"#);
    let said = stage.run(&["tools", "--json", "--", "sh", &same]);
    assert_eq!(
        (said.code, said.json()["tools"].as_array().unwrap().len()),
        (0, 2),
        "the same page is not asked for twice"
    );
    let endless = paged(&stage, r#"',"nextCursor":"p'$page'"'"#);
    let said = stage.run(&["tools", "--timeout", "60s", "--", "sh", &endless]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert!(said.stderr.contains("does not end"), "{}", said.stderr);
}

#[test]
fn progress_is_nothing_where_nobody_sees_it() {
    let said = demo(&Stage::new(), &["call", "slow", r#"{"key":"k","steps":3,"stepMs":5}"#], &[]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "k is done\n", ""));
}

fn drawn(result: &Value, flags: &[&str]) -> (Stage, Said) {
    let stage = Stage::new();
    let script = scripted(&stage, result);
    let said = stage.run(&[&["call"], flags, &["draw", "--", "sh", &script]].concat());
    (stage, said)
}

#[test]
fn pictures_are_named_or_saved_and_structured_output_is_shown_as_data() {
    let result = json!({
        "content": [
            { "type": "text", "text": "here it is" },
            { "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" },
            { "type": "resource_link", "uri": "memo://1", "name": "one" },
        ],
        "structuredContent": { "width": 5 },
    });
    let (_, said) = drawn(&result, &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout, "here it is\n→ one memo://1\n{\n  \"width\": 5\n}\n");
    assert_eq!(said.stderr, "image/png, 5 B: use --output DIR to save it\n");
    let (stage, said) = drawn(&result, &["--output", "pictures"]);
    assert_eq!(said.stderr, "image/png, 5 B: saved as pictures/draw-1.png\n");
    assert_eq!(fs::read(stage.path().join("pictures/draw-1.png")).unwrap(), b"hello");
}

#[test]
fn a_tool_that_says_it_failed_is_a_negative_result_on_stderr() {
    let (_, said) = drawn(&json!({ "content": [{ "type": "text", "text": "no paper" }], "isError": true }), &[]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (1, "", "no paper\n"));
    let (_, said) =
        drawn(&json!({ "content": [{ "type": "text", "text": "no paper" }], "isError": true }), &["--json"]);
    assert_eq!((said.code, &said.json()["isError"]), (1, &json!(true)));
}

#[test]
fn a_pipe_gets_the_text_as_it_is() {
    let (_, said) = drawn(&json!({ "content": [{ "type": "text", "text": "\u{1b}[31mred\u{1b}[0m" }] }), &[]);
    assert_eq!(said.stdout, "\u{1b}[31mred\u{1b}[0m\n");
}
