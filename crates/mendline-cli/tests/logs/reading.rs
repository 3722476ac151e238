//! `mendline logs` before all kinds of files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use crate::client::MENDLINE;
use crate::stage::{Stage, line};

#[test]
fn where_nothing_is_logged_it_is_said_where_that_would_be_and_how_it_comes_about() {
    let stage = Stage::new();
    let told = stage.told(&[]);
    assert_eq!((told.code, told.stdout.as_str()), (3, ""));
    assert!(told.stderr.contains(stage.logs().to_str().unwrap()), "{told:?}");
    assert!(told.stderr.contains("mendline run") && told.stderr.contains("MENDLINE_LOG_FILES"), "{told:?}");
}

#[test]
fn a_name_that_is_wrong_is_met_with_the_right_one() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", "x"));
    let told = stage.told(&["nots"]);
    assert_eq!(told.code, 3);
    assert!(told.stderr.contains("did you mean \"notes\"?"), "{told:?}");
    let told = stage.told(&["something-else"]);
    assert!(told.code == 3 && told.stderr.contains("There are logs of: notes"), "{told:?}");
}

#[test]
fn lines_of_all_servers_come_by_time_and_each_can_be_had_alone() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &(line(10, "notes", 1, "info", "one") + &line(30, "notes", 1, "info", "three")));
    stage.put("notes", 1, 2, &line(50, "notes", 1, "info", "five"));
    stage.put("mail", 2, 1, &(line(20, "mail", 2, "warn", "two") + &line(40, "mail", 2, "debug", "four")));
    let shown = |arguments: &[&str]| -> Vec<String> {
        let told = stage.told(arguments);
        told.stdout.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
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
fn errors_and_statuses_are_found_in_everybodys_words() {
    let stage = Stage::new();
    let said = ["connect ECONNREFUSED ::1:80", "timed out (os error 110)", "upstream said HTTP 503", "call 15038 sent"];
    let text: String = said.iter().zip(1..).map(|(text, at)| line(at, "notes", 1, "info", text)).collect();
    stage.put("notes", 1, 1, &text);
    for (grep, expected) in [("ETIMEDOUT", said[1]), ("econnrefused", said[0]), ("503", said[2])] {
        let told = stage.told(&["--grep", grep]);
        assert_eq!(told.stdout.lines().count(), 1, "{told:?}");
        assert!(told.stdout.contains(expected), "{told:?}");
    }
    let none = stage.told(&["--grep", "ENOSPC"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""), "{none:?}");
    assert!(none.stderr.contains("nothing in the log matches"), "{none:?}");
}

#[test]
fn what_cannot_be_read_is_left_out_and_counted_and_half_a_line_is_neither() {
    let stage = Stage::new();
    let (one, two, half) =
        (line(1, "notes", 1, "info", "one"), line(2, "notes", 1, "info", "two"), line(3, "notes", 1, "info", "x"));
    stage.put("notes", 1, 1, &format!("{one}garbage\n\u{0}\u{0}\n{{\"time\":\n{two}{}", &half[..half.len() / 2]));
    for arguments in [&["-n", "all"][..], &["-n", "10"]] {
        let told = stage.told(arguments);
        assert_eq!((told.code, told.stdout.lines().count()), (0, 2), "{told:?}");
        assert!(told.stderr.contains("3 lines in the log files cannot be read"), "{told:?}");
    }
}

#[test]
fn z105_a_line_can_neither_forge_another_nor_talk_to_the_terminal() {
    let stage = Stage::new();
    let text = "a\u{1b}[2J\u{1b}[31mred\u{1b}[0m\n2026-01-01T08:00:00.000Z ERROR notes forged\r\u{202e}";
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", text));
    let told = stage.told(&[]);
    assert_eq!(told.stdout.lines().count(), 1, "{told:?}");
    assert!(told.stdout.contains("a\\u{1b}[2Jred\\n2026"), "{told:?}");
    assert!(!told.stdout.contains(['\u{1b}', '\r', '\u{202e}']), "{told:?}");
}

#[test]
fn processes_of_one_name_at_one_time_are_told_apart() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, &line(1, "notes", 1, "info", "one"));
    assert!(!stage.told(&[]).stdout.contains("notes#"));
    stage.put("notes", 2, 1, &line(2, "notes", 2, "info", "two"));
    let told = stage.told(&[]);
    assert!(told.stdout.contains("notes#1 | one") && told.stdout.contains("notes#2 | two"), "{told:?}");
}

#[test]
fn a_call_that_several_processes_had_is_the_latest_and_the_others_are_named() {
    let stage = Stage::new();
    let call = |at, pid, text| line(at, "notes", pid, "info", text).replace("\"kind\"", "\"call\":65536,\"kind\"");
    stage.put("notes", 1, 1, &call(1, 1, "older"));
    stage.put("notes", 2, 1, &call(2, 2, "newer"));
    let told = stage.told(&["--call", "65536"]);
    assert!(told.stdout.contains("newer") && !told.stdout.contains("older"), "{told:?}");
    assert!(told.stderr.contains("--call 1:65536"), "{told:?}");
    assert!(stage.told(&["--call", "1:65536"]).stdout.contains("older"));
}

#[test]
fn as_json_every_line_is_as_it_was_kept() {
    let stage = Stage::new();
    let kept = line(1, "notes", 1, "info", "one");
    stage.put("notes", 1, 1, &kept);
    assert_eq!(stage.told(&["--json"]).stdout, kept);
}

/// The numbers of the lines that are shown, by a command that is given 64 MiB in all, and so many seconds of a processor.
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
fn a_gigabyte_is_read_from_its_end_and_from_a_moment_on_without_the_rest() {
    const LINES: u64 = 1_000_000;
    let stage = Stage::new();
    stage.put("notes", 1, 1, "");
    let path = stage.logs().join("notes.20260101T080000Z.1.1.jsonl");
    let padding = "x".repeat(970);
    let real = |number: u64| line(number * 3, "notes", 1, "info", &format!("{number:07} {padding}"));
    // Every line is a real one. Only what differs between them is written anew in a block that is used again: the minute
    // to the millisecond, and the number.
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
    // Reading all of it takes longer than that.
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
fn a_huge_log_is_read_with_little_memory_from_either_end_and_from_the_middle() {
    let stage = Stage::new();
    stage.put("notes", 1, 1, "");
    let path = stage.logs().join("notes.20260101T080000Z.1.1.jsonl");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let padding = "x".repeat(900);
    // 200 MB: a third of it would not fit into what the command is given.
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
fn every_flag_and_key_on_the_page_about_logs_exists() {
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
