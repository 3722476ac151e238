//! Tests from an event to a line in a file.

use std::fs;
use std::path::Path;

use mendline_core::event::ToolName;
use mendline_core::reason::{Reason, SpawnError};
use mendline_core::{ClientId, LinkState, Moment, Secret};
use mendline_wire::Method;
use serde_json::Value;

use super::super::redact::bytes_scanned;
use super::super::stderr::Stderr;
use super::*;

fn open(folder: &Path, level: LogLevel, wire: bool) -> (Files, Stderr, std::sync::Arc<std::sync::Mutex<String>>) {
    let written = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sink = std::sync::Arc::clone(&written);
    let redactor = Redactor::default();
    redactor.learn(&[Secret::new("open sesame")]);
    let stderr = Stderr::to_writer(LogLevel::Info, redactor.clone(), move |batch| {
        sink.lock().unwrap().push_str(std::str::from_utf8(batch).unwrap());
    });
    let options =
        FileOptions { folder: folder.join(FOLDER), level, file_bytes: FILE_BYTES, folder_bytes: FOLDER_BYTES, wire };
    let names = Names::of_gateway(vec!["files".to_owned(), "notes".to_owned()]);
    (Files::open(&options, names, redactor, stderr.handle()), stderr, written)
}

fn lines(folder: &Path, suffix: &str) -> Vec<Value> {
    let entries = fs::read_dir(folder.join(FOLDER)).unwrap().flatten().map(|entry| entry.path());
    let is_wire = |path: &Path| path.to_str().unwrap().ends_with(WIRE_SUFFIX);
    let texts =
        entries.filter(|path| is_wire(path) == (suffix == WIRE_SUFFIX)).map(|path| fs::read_to_string(path).unwrap());
    let texts: Vec<String> = texts.collect();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

const NOTES: UpstreamId = UpstreamId(1);

#[test]
fn events_stderr_and_messages_are_written_in_order() {
    let home = tempfile::tempdir().unwrap();
    let (mut files, stderr, _) = open(home.path(), LogLevel::Info, false);
    files.handle().write(LogLevel::Warn, "beware of open sesame");
    files.on_stderr(NOTES, b"listening");
    let at = At { moment: Moment::ZERO, unix_micros: now() };
    let accepted = Event::CallAccepted {
        upstream: NOTES,
        call: 1,
        client: ClientId(1),
        method: Method::ToolsCall,
        tool: None,
        trace: None,
    };
    files.on_event(&accepted, at);
    files.on_event(&Event::Resumed { upstream: NOTES }, at);
    files.on_message(NOTES, Direction::ToServer, b"{}");
    drop(files);
    let texts: Vec<String> =
        lines(home.path(), SUFFIX).iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, ["beware of ‹secret›", "listening", "resumed manually"]);
    drop(stderr);
}

/// Returns the lines that these events leave in a log of the default level.
fn logged(events: &[Event]) -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let (mut files, stderr, _) = open(home.path(), LogLevel::Info, false);
    for event in events {
        files.on_event(event, At { moment: Moment::ZERO, unix_micros: now() });
    }
    drop(files);
    drop(stderr);
    lines(home.path(), SUFFIX)
}

#[test]
fn t05_resumption_and_refused_retry_are_logged_with_their_tool() {
    let tool = || Some(ToolName::new("list_directory"));
    let resumed = Event::ResponseResumed { upstream: NOTES, call: 4, tool: tool(), resumption: 1, most: 10 };
    let refused = Event::RetryRefused { upstream: NOTES, call: 5, tool: tool() };
    let lines = logged(&[resumed, refused]);
    let kinds: Vec<_> = lines.iter().map(|line| (line["kind"].as_str().unwrap(), line["call"].as_u64())).collect();
    assert_eq!(kinds, [("response_resumed", Some(4)), ("retry_refused", Some(5))]);
    for (line, number) in lines.iter().zip(["#4 ", "#5 "]) {
        let text = line["text"].as_str().unwrap();
        assert!(text.starts_with(number) && text.contains("list_directory"), "{text}");
        assert_eq!(line["tool"], "list_directory");
    }
}

#[test]
fn t08_repeated_report_of_a_parked_server_is_not_logged() {
    let parked = |repeated| Event::LinkStateChanged {
        upstream: NOTES,
        from: LinkState::Dialing,
        to: LinkState::Parked,
        why: Some(Reason::NoAnswer),
        over: None,
        repeated,
    };
    let failed = |repeated| Event::DialFailed { upstream: NOTES, why: SpawnError::NotConfigured, repeated };
    let lines = logged(&[parked(false), failed(true), parked(true), failed(true), parked(true)]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["level"], "error");
}

#[test]
fn wire_messages_are_written_to_separate_files() {
    let home = tempfile::tempdir().unwrap();
    let (mut files, stderr, _) = open(home.path(), LogLevel::Info, true);
    assert!(files.wants_wire());
    files.on_message(NOTES, Direction::FromClient, &vec![b'x'; 100_000]);
    drop(files);
    let lines = lines(home.path(), WIRE_SUFFIX);
    assert_eq!((lines[0]["bytes"].as_u64(), lines[0]["cut"].as_bool()), (Some(100_000), Some(true)));
    assert!(lines[0]["text"].as_str().unwrap().len() <= MAX_MESSAGE_BYTES);
    drop(stderr);
}

#[test]
fn s09_wire_records_are_redacted_by_the_thread_that_writes() {
    let home = tempfile::tempdir().unwrap();
    let (mut files, stderr, _) = open(home.path(), LogLevel::Info, true);
    bytes_scanned();
    files.on_message(NOTES, Direction::FromServer, format!("{}open sesame", "b-".repeat(60_000)).as_bytes());
    files.on_message(NOTES, Direction::FromServer, b"beware of open sesame");
    assert_eq!(bytes_scanned(), 0, "the thread that serves calls scanned the message");
    drop(files);
    let lines = lines(home.path(), WIRE_SUFFIX);
    assert_eq!(lines[1]["text"], "beware of ‹secret›");
    drop(stderr);
}

#[test]
fn s06_wire_record_cut_within_a_secret_shows_no_part_of_it() {
    for before in MAX_MESSAGE_BYTES - 12..MAX_MESSAGE_BYTES {
        let home = tempfile::tempdir().unwrap();
        let (mut files, stderr, _) = open(home.path(), LogLevel::Info, true);
        files.on_message(
            NOTES,
            Direction::FromServer,
            format!("{}open sesame and more", "x".repeat(before)).as_bytes(),
        );
        drop(files);
        let lines = lines(home.path(), WIRE_SUFFIX);
        assert!(!lines[0]["text"].as_str().unwrap().contains("ope"), "{before}");
        drop(stderr);
    }
}

#[test]
fn failed_write_is_reported_once_and_blocks_no_call() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FOLDER), "in the way").unwrap();
    let (files, stderr, written) = open(home.path(), LogLevel::Info, false);
    for _ in 0..100 {
        files.write(LogLevel::Info, "line");
        thread::yield_now();
    }
    drop(files);
    drop(stderr);
    let written = written.lock().unwrap();
    assert_eq!(written.matches("log files cannot be written").count(), 1, "{written}");
    assert!(written.contains("nothing else is affected"), "{written}");
}

#[test]
fn writing_resumes_and_missing_lines_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let (mut writer, stderr, written) = {
        let (files, stderr, written) = open(home.path(), LogLevel::Info, false);
        let options = FileOptions {
            folder: home.path().join("other"),
            level: LogLevel::Info,
            file_bytes: FILE_BYTES,
            folder_bytes: FOLDER_BYTES,
            wire: false,
        };
        let writer = Writer::new(
            &options,
            Names::of_gateway(vec!["files".to_owned(), "notes".to_owned()]),
            Redactor::default(),
            stderr.handle(),
            Work::new().1,
        );
        drop(files);
        (writer, stderr, written)
    };
    let entry = |payload| Entry::now(LogLevel::Info, None, payload);
    let one = |text: &str| entry(Payload::Message(text.into()));
    fs::write(home.path().join("other"), "in the way").unwrap();
    writer.write(&[one("one")]);
    writer.write(&[one("two"), entry(Payload::Dropped(5))]);
    fs::remove_file(home.path().join("other")).unwrap();
    writer.not_before = Some(Instant::now());
    writer.write(&[one("three")]);
    writer.write(&[one("four")]);
    drop(writer);
    drop(stderr);
    let path = fs::read_dir(home.path().join("other")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(path).unwrap();
    let texts: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].clone()).collect();
    assert_eq!(texts, ["three", "log files are written again; 7 lines are missing", "four"]);
    let written = written.lock().unwrap();
    assert!(written.contains("cannot be written") && written.contains("7 lines are missing"), "{written}");
}
