//! `mendline logs` with valid, damaged and huge files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use crate::client::MENDLINE;
use crate::stage::{Stage, line};

#[test]
fn missing_log_is_reported_with_path_and_reason() {
    let stage = Stage::new();
    let output = stage.run_logs(&[]);
    assert_eq!((output.code, output.stdout.as_str()), (3, ""));
    assert!(output.stderr.contains(stage.logs().to_str().unwrap()), "{output:?}");
    assert!(output.stderr.contains("mendline run") && output.stderr.contains("MENDLINE_LOG_FILES"), "{output:?}");
}

#[test]
fn unknown_name_gets_suggestion() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", "x"));
    let output = stage.run_logs(&["nots"]);
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains("did you mean \"notes\"?"), "{output:?}");
    let output = stage.run_logs(&["something-else"]);
    assert!(output.code == 3 && output.stderr.contains("There are logs of: notes"), "{output:?}");
}

#[test]
fn lines_of_all_servers_are_merged_by_time() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &(line(10, "notes", 1, "info", "one") + &line(30, "notes", 1, "info", "three")));
    stage.put("notes", 1, 2, &line(50, "notes", 1, "info", "five"));
    stage.put("mail", 2, 1, &(line(20, "mail", 2, "warn", "two") + &line(40, "mail", 2, "debug", "four")));
    let shown = |arguments: &[&str]| -> Vec<String> {
        let output = stage.run_logs(arguments);
        output.stdout.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(shown(&[]), ["one", "two", "three", "five"]);
    assert_eq!(shown(&["--level", "debug"]), ["one", "two", "three", "four", "five"]);
    assert_eq!(shown(&["--level", "warn"]), ["two"]);
    assert_eq!(shown(&["notes"]), ["one", "three", "five"]);
    assert_eq!(shown(&["-n", "2"]), ["three", "five"]);
    assert_eq!(shown(&["--since", "2026-01-01T08:00:00.030Z"]), ["three", "five"]);
    assert_eq!(shown(&["--until", "2026-01-01T08:00:00.030Z"]), ["one", "two", "three"]);
    assert_eq!(shown(&["--until", "2026-01-01T08:00:00.030Z", "-n", "1"]), ["three"]);
    assert_eq!(
        shown(&["--since", "2026-01-01 08:00:00.015", "--until", "2026-01-01 08:00:00.035", "-n", "9"]),
        ["two", "three"]
    );
    assert_eq!(shown(&["--grep", "FIVE"]), ["five"]);
}

#[test]
fn errors_and_statuses_are_searchable() {
    let stage = Stage::new();
    let texts =
        ["connect ECONNREFUSED ::1:80", "timed out (os error 110)", "upstream said HTTP 503", "call 15038 sent"];
    let text: String = texts.iter().zip(1..).map(|(text, at)| line(at, "notes", 1, "info", text)).collect();
    stage.put("notes", 1, 1, &text);
    for (grep, expected) in [("ETIMEDOUT", texts[1]), ("econnrefused", texts[0]), ("503", texts[2])] {
        let output = stage.run_logs(&["--grep", grep]);
        assert_eq!(output.stdout.lines().count(), 1, "{output:?}");
        assert!(output.stdout.contains(expected), "{output:?}");
    }
    let none = stage.run_logs(&["--grep", "ENOSPC"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""), "{none:?}");
    assert!(none.stderr.contains("nothing in the log matches"), "{none:?}");
}

#[test]
fn u07_server_is_selected_as_status_prints_it() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", "one"));
    stage.put("notes", 2, 1, &line(2, "notes", 2, "info", "two"));
    stage.put("127.0.0.1:8080", 3, 1, &line(3, "127.0.0.1:8080", 3, "info", "three"));
    for (name, expected) in [("notes#2", "two"), ("2", "two"), ("notes#1", "one"), ("127.0.0.1:8080", "three")] {
        let output = stage.run_logs(&[name]);
        assert_eq!((output.code, output.stdout.lines().count()), (0, 1), "{name}: {output:?}");
        assert!(output.stdout.ends_with(&format!("{expected}\n")), "{name}: {output:?}");
    }
    let output = stage.run_logs(&["notes#3"]);
    assert!(output.code == 3 && output.stderr.contains("There are logs of: 127.0.0.1:8080, notes"), "{output:?}");
}

#[test]
fn u07_missing_programs_and_signals_are_searchable() {
    let stage = Stage::new();
    let missing = "parked: `no-such-server` was not found; is it installed and on PATH?";
    let killed = "Up → Waiting: the server was killed by signal 9";
    let text = line(1, "notes", 1, "warn", missing) + &line(2, "notes", 1, "warn", killed);
    stage.put("notes", 1, 1, &text);
    for (grep, expected) in [("ENOENT", missing), ("SIGKILL", killed), ("sigkill", killed)] {
        let output = stage.run_logs(&["--grep", grep]);
        assert_eq!(output.stdout.lines().count(), 1, "{grep}: {output:?}");
        assert!(output.stdout.contains(expected), "{grep}: {output:?}");
    }
}

#[test]
fn u07_times_are_local_unless_they_have_a_zone() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &(line(10, "notes", 1, "info", "one") + &line(60_000, "notes", 1, "info", "two")));
    let shown = |arguments: &[&str]| {
        let mut command = stage.command(&[&["logs"], arguments].concat());
        let output = command.env("TZ", "XXX-2").stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        text.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--since", "2026-01-01 10:01"]), ["two"], "two hours ahead of UTC");
    assert_eq!(shown(&["--since", "2026-01-01T08:01Z"]), ["two"]);
    assert_eq!(shown(&["--since", "2026-01-01", "--until", "2026-01-01 10:00:30"]), ["one"]);
    for since in ["0:00", "yesterday", "today", "10m", "2 hours ago"] {
        assert_eq!(shown(&["--since", since]), ["matches"], "{since}: the lines are older");
    }
    assert_eq!(shown(&["--since", "now", "--until", "2026-01-01"]), ["them"], "the range is empty");
}

#[test]
fn unreadable_lines_are_skipped_and_counted() {
    let stage = Stage::new();
    let (one, two, half) =
        (line(1, "notes", 1, "info", "one"), line(2, "notes", 1, "info", "two"), line(3, "notes", 1, "info", "x"));
    stage.put("notes", 1, 1, &format!("{one}garbage\n\u{0}\u{0}\n{{\"time\":\n{two}{}", &half[..half.len() / 2]));
    for arguments in [&["-n", "all"][..], &["-n", "10"]] {
        let output = stage.run_logs(arguments);
        assert_eq!((output.code, output.stdout.lines().count()), (0, 2), "{output:?}");
        assert!(output.stderr.contains("3 lines in the log files cannot be read"), "{output:?}");
    }
}

#[test]
fn z105_line_cannot_forge_another_or_control_terminal() {
    let stage = Stage::new();
    let text = "a\u{1b}[2J\u{1b}[31mred\u{1b}[0m\n2026-01-01T08:00:00.000Z ERROR notes forged\r\u{202e}";
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", text));
    let output = stage.run_logs(&[]);
    assert_eq!(output.stdout.lines().count(), 1, "{output:?}");
    assert!(output.stdout.contains("a\\u{1b}[2Jred\\n2026"), "{output:?}");
    assert!(!output.stdout.contains(['\u{1b}', '\r', '\u{202e}']), "{output:?}");
}

#[test]
fn concurrent_processes_of_one_name_are_distinguished() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", "one"));
    assert!(!stage.run_logs(&[]).stdout.contains("notes#"));
    stage.put("notes", 2, 1, &line(2, "notes", 2, "info", "two"));
    let output = stage.run_logs(&[]);
    assert!(output.stdout.contains("notes#1 | one") && output.stdout.contains("notes#2 | two"), "{output:?}");
}

#[test]
fn ambiguous_call_number_shows_latest_and_names_others() {
    let stage = Stage::new();
    let call = |at, pid, text| line(at, "notes", pid, "info", text).replace("\"kind\"", "\"call\":65536,\"kind\"");
    stage.put("notes", 1, 1, &call(1, 1, "older"));
    stage.put("notes", 2, 1, &call(2, 2, "newer"));
    let output = stage.run_logs(&["--call", "65536"]);
    assert!(output.stdout.contains("newer") && !output.stdout.contains("older"), "{output:?}");
    assert!(output.stderr.contains("--call 1:65536"), "{output:?}");
    assert!(stage.run_logs(&["--call", "1:65536"]).stdout.contains("older"));
}

#[test]
fn json_output_repeats_stored_lines() {
    let stage = Stage::new();
    let kept = line(1, "notes", 1, "info", "one");
    stage.put("notes", 1, 1, &kept);
    assert_eq!(stage.run_logs(&["--json"]).stdout, kept);
}

/// Returns the numbers of the shown lines. The command has 64 MiB of memory and this number of CPU seconds.
fn shown_within(stage: &Stage, seconds: u32, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("prlimit");
    command.args(["--as=67108864", &format!("--cpu={seconds}"), "--", MENDLINE, "logs"]).args(arguments);
    stage.at_home(&mut command);
    let output = command.stdin(Stdio::null()).output().expect("prlimit, of util-linux");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(' ').nth(5).unwrap().to_owned()).collect()
}

#[test]
fn gigabyte_log_is_read_partially_from_end_or_time() {
    const LINES: u64 = 1_000_000;
    let stage = Stage::new();
    stage.put("notes", 1, 1, "");
    let path = stage.logs().join("notes.20260101T080000Z.1.1.jsonl");
    let padding = "x".repeat(970);
    let real = |number: u64| line(number * 3, "notes", 1, "info", &format!("{number:07} {padding}"));
    // Every line is a real one. The block is reused, and only the time and the number of each line are overwritten.
    let mut block: Vec<u8> = (0..1_000).flat_map(|number| real(number).into_bytes()).collect();
    let length = block.len() / 1_000;
    let (time, text) = (r#"{"time":"2026-01-01T08:"#.len(), real(0).find("0000000 ").unwrap());
    let digits = |into: &mut [u8], mut value: u64| {
        for digit in into.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    let mut file = File::create(&path).unwrap();
    for first in (0..LINES).step_by(1_000) {
        for (number, line) in (first..).zip(block.chunks_exact_mut(length)) {
            let millis = number * 3;
            digits(&mut line[time..time + 2], millis / 60_000);
            digits(&mut line[time + 3..time + 5], millis / 1_000 % 60);
            digits(&mut line[time + 6..time + 9], millis % 1_000);
            digits(&mut line[text..text + 7], number);
        }
        file.write_all(&block).unwrap();
    }
    assert!(block.ends_with(real(LINES - 1).as_bytes()), "what is written is what would have been");
    assert!(file.metadata().unwrap().len() >= 1 << 30);
    // Reading the complete file takes longer.
    let shown = |arguments: &[&str]| shown_within(&stage, 1, arguments);
    assert_eq!(shown(&["-n", "3"]), ["0999997", "0999998", "0999999"]);
    assert_eq!(shown(&["--since", "2026-01-01T08:49:59.994Z"]), ["0999998", "0999999"]);
    assert_eq!(
        shown(&["--since", "2026-01-01T08:20:00Z", "--until", "2026-01-01T08:20:00.003Z"]),
        ["0400000", "0400001"]
    );
    assert_eq!(shown(&["--until", "2026-01-01T08:00:00.003Z"]), ["0000000", "0000001"]);
}

#[test]
fn huge_log_is_read_with_little_memory() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, "");
    let path = stage.logs().join("notes.20260101T080000Z.1.1.jsonl");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let padding = "x".repeat(900);
    // 200 MB: a third of it exceeds the memory of the command.
    for at in 0..200_000 {
        file.write_all(line(at * 10, "notes", 1, "info", &format!("{at} {padding}")).as_bytes()).unwrap();
    }
    file.flush().unwrap();
    let shown = |arguments: &[&str]| shown_within(&stage, 60, arguments);
    assert_eq!(shown(&["-n", "2"]), ["199998", "199999"]);
    assert_eq!(shown(&["--since", "2026-01-01T08:33:19.980Z"]), ["199998", "199999"]);
    assert_eq!(shown(&["--since", "2026-01-01T08:10:00Z", "--until", "2026-01-01T08:10:00.010Z"]), ["60000", "60001"]);
    assert_eq!(shown(&["--grep", "123456 x"]), ["123456"]);
}

#[test]
fn every_flag_and_key_on_logs_page_exists() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/logs.md")).unwrap();
    let stage = Stage::new();
    let help: String = [["logs", "--help"], ["run", "--help-all"]]
        .iter()
        .map(|arguments| String::from_utf8(stage.command(arguments).output().unwrap().stdout).unwrap())
        .collect();
    let quoted = page.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let flags: Vec<&str> = quoted.filter(|word| word.starts_with("--") && *word != "--token").collect();
    assert!(flags.len() > 10, "{flags:?}");
    for flag in flags {
        assert!(help.contains(flag), "{flag}");
    }
    let keys = stage.command(&["schema", "--table"]).output().unwrap().stdout;
    let keys = String::from_utf8(keys).unwrap();
    for key in ["level", "wire", "fileBytes", "totalBytes"] {
        assert!(page.contains(&format!("\"{key}\"")) && keys.contains(&format!("`mendline.logs.{key}`")), "{key}");
    }
}
