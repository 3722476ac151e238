//! Tests of the bench with real processes: every figure exists and has the right meaning. The size of a figure is never
//! asserted.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_mendline-bench");

const SHORT_LOAD: [&str; 11] =
    ["load", "--calls", "5", "--warmup", "1", "--millis", "20", "--big-calls", "2", "--starts", "2"];

fn run(args: &[&str]) -> Output {
    Command::new(BENCH).args(args).output().expect("the bench starts")
}

fn load(command: &[&str]) -> Output {
    run(&[&SHORT_LOAD[..], &["--"], command].concat())
}

fn figures(command: &[&str]) -> Value {
    let output = load(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("figures are JSON")
}

#[test]
fn direct_run_has_no_process_in_the_middle() {
    let figures = figures(&[BENCH, "upstream"]);
    for key in ["processes", "cpu_lone_us", "cpu_busy_us", "idle_private_kib", "peak_rss_kib"] {
        assert_eq!(figures[key].as_f64(), Some(0.0), "{key}");
    }
    assert!(figures["round_trip_p50_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn relay_figures_include_its_wrapper_but_not_the_upstream() {
    // The wrapper stays alive, because it has another command to run.
    let wrapper = format!("'{BENCH}' relay -- '{BENCH}' upstream; exit $?");
    let figures = figures(&["sh", "-c", &wrapper]);
    assert_eq!(figures["processes"], 2);
    for (key, value) in figures.as_object().unwrap() {
        assert!(value.as_f64().unwrap() > 0.0, "{key} is {value}");
    }
}

#[test]
fn s08_memory_is_private_and_proportional_at_rest_and_after_load() {
    let figures = figures(&[BENCH, "relay", "--", BENCH, "upstream"]);
    let kib = |key: &str| figures[key].as_u64().unwrap_or_else(|| panic!("no {key} in {figures}"));
    for time in ["idle", "after"] {
        let [private, written, pss] = ["private", "written", "pss"].map(|kind| kib(&format!("{time}_{kind}_kib")));
        assert!(0 < written && written <= private && private <= pss, "{time}: {private} {written} {pss}");
        assert!(pss <= kib("peak_rss_kib"), "{time}: {pss}");
        // The resident set of one moment depends on page faults at that moment.
        assert!(figures.get(format!("{time}_rss_kib")).is_none(), "{figures}");
    }
}

#[test]
fn stderr_of_a_failing_command_is_shown() {
    let output = load(&["sh", "-c", "echo the disk is on fire >&2"]);
    assert!(!output.status.success());
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("the disk is on fire"), "{why}");
}

#[test]
fn wrong_answer_fails_the_run() {
    let output = load(&["sh", "-c", r#"read line; echo '{"jsonrpc":"2.0","id":77,"result":{}}'; cat >/dev/null"#]);
    assert!(!output.status.success());
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("answered request 77"), "{why}");
}

#[test]
fn relay_copies_both_ways_and_returns_the_exit_code() {
    let mut relay = Command::new(BENCH)
        .args(["relay", "--", "sh", "-c", "cat; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = relay.stdin.take().unwrap();
    let sent = vec![b'x'; 1 << 20];
    let writer = std::thread::spawn({
        let sent = sent.clone();
        move || stdin.write_all(&sent).unwrap()
    });
    let output = relay.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.stdout == sent, "{} bytes came back", output.stdout.len());
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn failing_contender_is_excluded_and_misses_all_targets() {
    let output = run(&["compare", "--quick", "--rounds", "1", "--json", "--gate", "--mendline", BENCH]);
    assert!(!output.status.success(), "the gate should have been missed");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["left_out"]["mendline"].as_str().unwrap().contains("unknown command `run`"), "{report:#}");
    assert!(report["contenders"]["relay"]["beyond_direct"]["round_trip_p50_us"].is_number());
    assert!(report["targets"].as_array().unwrap().iter().all(|target| target["reached"] == false));
}

#[test]
fn direct_http_run_has_no_process_in_the_middle() {
    let output = run(&[&SHORT_LOAD[..], &["--over", "http"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["processes", "cpu_lone_us", "cpu_busy_us", "idle_private_kib", "peak_rss_kib"] {
        assert_eq!(figures[key].as_f64(), Some(0.0), "{key}");
    }
    assert!(figures["round_trip_p50_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn http_relay_figures_exclude_the_upstream() {
    for relay in ["--http", "--stack"] {
        let output = run(&[&SHORT_LOAD[..], &["--over", "http", "--", BENCH, "relay", relay, "{url}"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(figures["processes"], 1);
        for (key, value) in figures.as_object().unwrap() {
            assert!(value.as_f64().unwrap() > 0.0, "{relay}: {key} is {value}");
        }
    }
}

#[test]
fn http_relay_answers_all_requests_before_it_ends() {
    for kind in ["--http", "--stack"] {
        let mut upstream = Command::new(BENCH)
            .args(["upstream", "--http", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(upstream.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let mut relay = Command::new(BENCH)
            .args(["relay", kind, url.trim_end()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = relay.stdin.take().unwrap();
        let mut answers = BufReader::new(relay.stdout.take().unwrap()).lines();
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{}}}}"#).unwrap();
        assert!(answers.next().unwrap().unwrap().contains("serverInfo"));

        writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        for id in 1..=40 {
            writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).unwrap();
        }
        drop(stdin);
        let mut answered: Vec<u64> = answers
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["id"].as_u64().unwrap())
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (1..=40).collect::<Vec<_>>());
        assert!(relay.wait().unwrap().success());
        // The upstream ends with its stdin.
        drop(upstream.stdin.take());
        assert!(upstream.wait().unwrap().success());
    }
}

#[test]
fn p01_sweep_measures_every_number_of_calls_in_flight() {
    let sweep = ["load", "--measure", "sweep", "--warmup", "1", "--millis", "20", "--starts", "1"];
    for over in [
        &["--", BENCH, "relay", "--", BENCH, "upstream"][..],
        &["--over", "http", "--", BENCH, "relay", "--http", "{url}"],
    ] {
        let output = run(&[&sweep[..], over].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures: Value = serde_json::from_slice(&output.stdout).expect("figures are JSON");
        for width in [1, 8, 32, 64, 128, 256, 512] {
            for key in [format!("calls_per_second_{width}"), format!("cpu_us_{width}")] {
                assert!(figures[&key].as_f64().is_some_and(|value| value > 0.0), "{key} in {figures}");
            }
        }
    }
}
