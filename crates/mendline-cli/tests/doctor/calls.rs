//! `mendline tools` and `mendline call` from a shell.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mendline_faults::Rule;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::canned::ClosedPort;
use crate::stage::{CommandOutput, MENDLINE, Stage, legacy, modern};

const DEMO: [&str; 3] = ["--", MENDLINE, "demo-server"];

/// Runs a command with the demo server and these faults.
fn demo(stage: &Stage, arguments: &[&str], faults: &[&str]) -> CommandOutput {
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    stage.run(&[arguments, &DEMO, &faults].concat())
}

#[test]
fn tools_are_listed_as_text() {
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
fn tools_are_listed_as_json_exactly_as_sent() {
    for site in [legacy(), modern()] {
        let output = Stage::new().run(&["tools", "--json", &site.url()]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let tools = output.json()["tools"].clone();
        let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["lookup", "create_note", "slow", "big", "ask"]);
    }
}

#[test]
fn call_works_in_every_era_and_transport() {
    let (old, new) = (legacy(), modern());
    for url in [old.url(), old.sse_url(), new.url()] {
        let output = Stage::new().run(&["call", &url, "create_note", r#"{"key":"k"}"#]);
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "wrote k\n", ""), "{url}");
    }
    assert_eq!(old.oracle().counts().executions_of("k"), 2);
    assert_eq!(new.oracle().counts().executions_of("k"), 1);
    assert_eq!(old.oracle().counts().sessions_deleted, 1, "the one of Streamable HTTP is ended");
}

#[test]
fn arguments_come_from_command_line_file_or_stdin() {
    let stage = Stage::new();
    fs::write(stage.path().join("a.json"), "{\"key\": \"file\"}\n").unwrap();
    let output = demo(&stage, &["call", "lookup", "@a.json"], &[]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "file is 42\n"), "{}", output.stderr);
    let output = demo(&stage, &["call", "lookup", "--arg", "key=single"], &[]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "single is 42\n"), "{}", output.stderr);
    let mut command = stage.command(&[&["call", "lookup", "-"], &DEMO[..]].concat());
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"{\"key\":\"stdin\"}").unwrap();
    let output = CommandOutput::of(process.wait_with_output().unwrap());
    assert_eq!((output.code, output.stdout.as_str()), (0, "stdin is 42\n"), "{}", output.stderr);
}

#[test]
fn invalid_call_is_rejected_before_it_is_sent() {
    let stage = Stage::new();
    for (name, arguments) in [
        ("arguments_not_json", &["call", "lookup", "{\"key\" 5}"][..]),
        ("arguments_not_an_object", &["call", "lookup", "[1]"]),
        ("unknown_tool", &["call", "lookpu"]),
        ("argument_of_wrong_type", &["call", "lookup", "--arg", "delayMs=soon"]),
    ] {
        insta::assert_snapshot!(name, stage.reviewed(&demo(&stage, arguments, &[])));
    }
    assert!(!stage.ledger().contains("executed"), "{}", stage.ledger());
    assert_eq!(stage.run(&["call"]).code, 2);
    assert_eq!(stage.run(&["call", "notes"]).code, 2);
    assert_eq!(stage.run(&["tools"]).code, 2);
}

#[test]
fn unknown_argument_causes_warning_and_is_sent() {
    let output = demo(&Stage::new(), &["call", "lookup", "--arg", "kye=x"], &[]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "- is 42\n"));
    assert_eq!(output.stderr, "note: lookup has no argument `kye`; did you mean `key`?\n");
}

#[test]
fn interrupted_read_is_repeated_and_interrupted_write_is_unknown() {
    let stage = Stage::new();
    let read = demo(&stage, &["call", "lookup", "--arg", "key=r"], &["die-after=1"]);
    assert_eq!((read.code, read.stdout.as_str()), (0, "r is 42\n"), "{}", read.stderr);
    assert!(read.stderr.contains("reconnecting"), "the reason for the wait is printed: {}", read.stderr);
    let stage = Stage::new();
    let write = demo(&stage, &["call", "create_note", "--arg", "key=w"], &["die-after=1"]);
    assert_eq!((write.code, write.stdout.as_str()), (4, ""), "{}", write.stderr);
    assert!(write.stderr.contains("It may or may not have run."), "{}", write.stderr);
    assert_eq!(stage.ledger().matches("executed create_note w").count(), 1);
}

#[test]
fn missing_server_and_missing_login_have_own_exit_codes() {
    let (stage, closed) = (Stage::new(), ClosedPort::new());
    for words in [&["tools"][..], &["call"]] {
        let tool: &[&str] = if words == ["call"] { &["lookup"] } else { &[] };
        let away = stage.run(&[words, &["--timeout", "1s", &closed.url()], tool].concat());
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
fn slow_call_times_out_and_outcome_is_reported() {
    let stage = Stage::new();
    let call = || demo(&stage, &["call", "--timeout", "2s", "create_note", r#"{"key":"k","delayMs":60000}"#], &[]);
    let mut output = call();
    // A busy machine may need the whole time to start the server. Then no call is sent, and the test repeats it.
    let deadline = Instant::now() + Duration::from_secs(60);
    while output.code == 5 && Instant::now() < deadline {
        output = call();
    }
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("may or may not have run"), "{}", output.stderr);
}

#[test]
fn ctrl_c_cancels_call() {
    let stage = Stage::new();
    let slow = ["call", "slow", r#"{"key":"k","steps":1000,"stepMs":100}"#];
    let process = stage.command(&[&slow[..], &DEMO].concat()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !stage.ledger().contains("executed slow k") {
        assert!(Instant::now() < deadline, "the call never ran");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let output = CommandOutput::of(process.wait_with_output().unwrap());
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("cancelling…\ninterrupted: the call was cancelled"), "{}", output.stderr);
    assert!(stage.ledger().contains("cancelled"), "{}", stage.ledger());
}

#[test]
fn u09_ctrl_c_is_answered_before_the_server_is_ended() {
    let stage = Stage::new();
    let started = stage.path().join("started");
    // It never answers and ignores the end of its input and TERM, so that its shutdown takes long.
    let stubborn = format!("trap '' TERM; echo > '{}'; while :; do sleep 1; done", started.display());
    for command in [&["tools"][..], &["call", "slow"]] {
        let line = [command, &["--", "sh", "-c", &stubborn]].concat();
        let process = stage.command(&line).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !started.exists() {
            assert!(Instant::now() < deadline, "the server never started");
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::remove_file(&started).unwrap();
        kill_process(Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap(), Signal::INT).unwrap();
        let output = CommandOutput::of(process.wait_with_output().unwrap());
        assert!(output.stderr.contains("cancelling…\ninterrupted"), "{command:?}: {}", output.stderr);
        assert_eq!(output.code, if command == ["tools"] { 1 } else { 5 }, "{}", output.stderr);
    }
}

#[test]
fn requests_of_server_are_declined() {
    for (site, what, answer) in
        [(legacy(), "elicitation", "decline"), (legacy(), "roots", "roots"), (modern(), "elicitation", "decline")]
    {
        let output = Stage::new().run(&["call", &site.url(), "ask", "--arg", &format!("what={what}")]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stdout.contains(answer), "{}", output.stdout);
    }
    let site = modern();
    let output = Stage::new().run(&["call", &site.url(), "ask", "--arg", "what=sampling"]);
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stderr.contains("sampling/createMessage, which a command line cannot provide"), "{}", output.stderr);
}

/// Writes a shell script that serves one tool with this result.
fn scripted(stage: &Stage, result: &Value) -> String {
    let path = stage.path().join("server.sh");
    let say = |id: u32, result: &Value| {
        format!("read line; printf '%s\\n' '{}'\n", json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    };
    let handshake = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } });
    let tools = json!({ "tools": [{ "name": "draw", "inputSchema": { "type": "object" } }] });
    // The client sends `initialized` between the handshake and the list; it needs no answer.
    let script = format!("{}read line\n{}{}cat >/dev/null\n", say(1, &handshake), say(2, &tools), say(3, result));
    // Mendline chooses its own ids, so the script takes them from the requests.
    let script = script
        .replace("read line; printf '%s\\n' '", "read line; id=${line#*\\\"id\\\":}; id=${id%%,*}; printf '%s\\n' '");
    let script = ["\"id\":1,", "\"id\":2,", "\"id\":3,"]
        .iter()
        .fold(script, |script, id| script.replace(id, "\"id\":'\"$id\"',"));
    fs::write(&path, script).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Writes a server whose tool list has pages. `next` is the cursor to the next page.
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
fn all_list_pages_are_read_up_to_limit() {
    let stage = Stage::new();
    let three = paged(&stage, r#"$([ $page -lt 3 ] && echo ',"nextCursor":"p'$page'"')"#);
    let output = stage.run(&["tools", "--json", "--", "sh", &three]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let names: Vec<Value> =
        output.json()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["t1", "t2", "t3"]);
    let same = paged(&stage, r#"',"nextCursor":"again"'"#);
    let output = stage.run(&["tools", "--json", "--", "sh", &same]);
    assert_eq!((output.code, output.json()["tools"].as_array().unwrap().len()), (0, 2), "no page is requested twice");
    let endless = paged(&stage, r#"',"nextCursor":"p'$page'"'"#);
    let output = stage.run(&["tools", "--timeout", "60s", "--", "sh", &endless]);
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stderr.contains("does not end"), "{}", output.stderr);
}

#[test]
fn progress_is_not_printed_without_terminal() {
    let output = demo(&Stage::new(), &["call", "slow", r#"{"key":"k","steps":3,"stepMs":5}"#], &[]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "k is done\n", ""));
}

fn drawn(result: &Value, flags: &[&str]) -> (Stage, CommandOutput) {
    let stage = Stage::new();
    let script = scripted(&stage, result);
    let output = stage.run(&[&["call"], flags, &["draw", "--", "sh", &script]].concat());
    (stage, output)
}

#[test]
fn u09_images_are_named_or_saved_and_only_text_is_printed() {
    let result = json!({
        "content": [
            { "type": "text", "text": "here it is" },
            { "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" },
            { "type": "resource_link", "uri": "memo://1", "name": "one" },
        ],
        "structuredContent": { "width": 5 },
    });
    let (_, output) = drawn(&result, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "here it is\n→ one memo://1\n");
    assert_eq!(output.stderr, "image/png, 5 B: use --output DIR to save it\n");
    let (_, both) = drawn(&result, &["--json"]);
    assert_eq!(both.json(), result, "--json has both");
    let (stage, output) = drawn(&result, &["--output", "pictures"]);
    assert_eq!(output.stderr, "image/png, 5 B: saved as pictures/draw-1.png\n");
    assert_eq!(fs::read(stage.path().join("pictures/draw-1.png")).unwrap(), b"hello");
}

#[test]
fn tool_error_goes_to_stderr_with_exit_code_1() {
    let (_, output) = drawn(&json!({ "content": [{ "type": "text", "text": "no paper" }], "isError": true }), &[]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (1, "", "no paper\n"));
    let (_, output) =
        drawn(&json!({ "content": [{ "type": "text", "text": "no paper" }], "isError": true }), &["--json"]);
    assert_eq!((output.code, &output.json()["isError"]), (1, &json!(true)));
}

#[test]
fn text_in_pipe_is_unchanged() {
    let (_, output) = drawn(&json!({ "content": [{ "type": "text", "text": "\u{1b}[31mred\u{1b}[0m" }] }), &[]);
    assert_eq!(output.stdout, "\u{1b}[31mred\u{1b}[0m\n");
}
