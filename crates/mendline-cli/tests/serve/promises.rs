//! Rows of the fault matrix at a gateway: its own descriptors and clock, hostile clients, and other servers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::gateway::{Event, Gateway, MENDLINE, SOON, eventually};
use super::{call, initialize, request};

const ANN: (&str, &str) = ("Authorization", "Bearer ann-0123456789abcdef");
const BOB: (&str, &str) = ("Authorization", "Bearer bob-0123456789abcdef");
const TOKENS: &str = r#""access": { "tokens": [
    { "name": "ann", "token": "ann-0123456789abcdef" },
    { "name": "bob", "token": "bob-0123456789abcdef" }
] }"#;

fn look_up(gateway: &Gateway, session: &str) {
    let answer = gateway.post(&[("Mcp-Session-Id", session)], &call(2, "lookup", &json!({ "key": "a" }))).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
}

#[test]
fn x93_gateway_without_descriptors_refuses_connections_and_recovers() {
    let script = r#"ulimit -n 96; exec "$0" "$@""#;
    let gateway = Gateway::from_script(script, &["--name", "demo", "--", MENDLINE, "demo-server"]);
    let session = gateway.initialize("2025-11-25");
    let connect = || TcpStream::connect(gateway.address).unwrap();
    let held: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let status = |request: &[u8]| {
        let mut connection = connect();
        connection.set_read_timeout(Some(SOON)).unwrap();
        let mut text = Vec::new();
        let _ = connection.write_all(request).and_then(|()| connection.read_to_end(&mut text));
        String::from_utf8_lossy(&text).split(' ').nth(1).map(str::to_owned)
    };
    eventually("a connection above the limit is refused", || status(b"").as_deref() == Some("503"));
    // A server that ends now can be started as soon as there are descriptors.
    for child in gateway.children() {
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }
    drop(held);
    let health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    eventually("connections that end make room", || status(health).as_deref() == Some("200"));
    look_up(&gateway, &session);
}

/// Compiles a library that shifts the wall clock of a process by the seconds in a file.
fn clock_library(folder: &Path) -> std::path::PathBuf {
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        static long shift(void) {
            const char *path = getenv("SHIFT_FILE");
            FILE *file = path ? fopen(path, "r") : 0;
            long seconds = 0;
            if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
            return seconds;
        }
        int clock_gettime(clockid_t clock, struct timespec *time) {
            static int (*real)(clockid_t, struct timespec *);
            if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
            int result = real(clock, time);
            if (clock == CLOCK_REALTIME) time->tv_sec += shift();
            return result;
        }"#;
    let (code, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&code, source).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).arg("-ldl").status();
    assert!(built.unwrap().success(), "cc makes the library");
    library
}

#[test]
fn x95_jumps_of_the_wall_clock_lose_no_session_and_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let (library, shift) = (clock_library(folder.path()), folder.path().join("shift"));
    std::fs::write(&shift, "0").unwrap();
    let script = format!(r#"export LD_PRELOAD={} SHIFT_FILE={}; exec "$0" "$@""#, library.display(), shift.display());
    let gateway = Gateway::from_script(&script, &["--name", "demo", "--", MENDLINE, "demo-server"]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    for seconds in ["86400", "-172800", "0"] {
        let mut running = gateway.post(&headers, &call(3, "lookup", &json!({ "key": "b", "delayMs": 3_000 })));
        std::fs::write(&shift, seconds).unwrap();
        look_up(&gateway, &session);
        assert_eq!(running.message()["result"]["content"][0]["text"], "b is 42", "a call that runs goes on");
    }
    let log = gateway.lines().join("\n");
    assert!(!log.contains("restarted") && !log.contains("lost"), "{log}");
}

#[test]
fn z104_no_request_starts_a_command() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let marker = gateway.state().join("started");
    let entry = json!({ "command": "touch", "args": [marker], "transport": "stdio" });
    for path in ["/mcp/touch", "/mcp/..%2fdemo", "/mcp/demo/../touch", "/sse/touch", "/api/servers", "/api/status", "/"]
    {
        for verb in ["POST", "PUT"] {
            let path = format!("{path}?command=touch&args={}&transportType=stdio", marker.display());
            let answer = gateway.send(verb, &path, &[], &entry.to_string());
            assert!((400..500).contains(&answer.status), "{verb} {path}: {}", answer.status);
        }
    }
    for method in ["initialize", "servers/add", "mendline/run", "tools/call"] {
        let params = json!({ "name": "touch", "command": "touch", "args": [marker], "mcpServers": { "x": entry } });
        gateway.post(&[("Mcp-Session-Id", &session)], &request(7, method, &params));
    }
    look_up(&gateway, &session);
    assert!(!marker.exists(), "the command was not started");
}

#[test]
fn i14_stream_of_another_principal_is_not_resumed() {
    let gateway = Gateway::configured(TOKENS, "", &[]);
    let opened = gateway.post(&[ANN], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let headers = [ANN, ("Mcp-Session-Id", &session[..])];
    let mut answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": 4_000 })));
    let event = answer.event().unwrap().id.unwrap();
    drop(answer);
    let resume = |owner: (&str, &str), session: Option<&str>| {
        let mut headers = vec![owner, ("Last-Event-ID", &event[..]), ("Accept", "text/event-stream")];
        headers.extend(session.map(|id| ("Mcp-Session-Id", id)));
        gateway.send("GET", "/mcp/demo", &headers, "")
    };
    assert_eq!(resume(BOB, Some(&session)).status, 404);
    let of_bob = gateway.post(&[BOB], &initialize("2025-11-25"));
    let of_bob = of_bob.header("mcp-session-id").unwrap().to_owned();
    let mut other = resume(BOB, Some(&of_bob));
    let of_another = |event: Event| event.data.contains("is 42");
    assert!(other.status != 200 || !other.event().is_some_and(of_another), "no event of another");
    assert_eq!(resume(BOB, None).status / 100, 4);
    assert_eq!(resume(ANN, Some(&session)).message()["id"], 2, "its owner resumes it");
}

#[test]
fn i9_streams_that_are_never_read_take_bounded_memory() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let flood = json!({ "key": "x", "steps": 200_000, "stepMs": 0 });
    let mut unread = Vec::new();
    for id in 0..4 {
        let params = json!({ "name": "slow", "arguments": flood, "_meta": { "progressToken": id } });
        unread.push(gateway.post(&[("Mcp-Session-Id", &session)], &request(10 + id, "tools/call", &params)));
    }
    let other = gateway.initialize("2025-06-18");
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        look_up(&gateway, &other);
    }
    let memory = gateway.resident_kib();
    assert!(memory < 96 << 10, "{memory} KiB for four streams that are not read");
    drop(unread);
    look_up(&gateway, &session);
}

#[test]
fn i10_server_that_crashes_changes_no_result_of_another() {
    let crashing = json!({ "command": "sh", "args": ["-c", "sleep 0.1; exit 1"] });
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "crashing": crashing }));
    let session = gateway.initialize("2025-11-25");
    let process = gateway.children();
    std::thread::scope(|scope| {
        for id in 0..4 {
            let gateway = &gateway;
            scope.spawn(move || gateway.send("POST", "/mcp/crashing", &[], &call(id, "lookup", &json!({}))).status);
        }
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            look_up(&gateway, &session);
        }
        // The calls of the other server end with the gateway, if they were not answered before.
        gateway.write_servers(&json!({ "demo": {} }));
    });
    look_up(&gateway, &session);
    assert_eq!(gateway.children(), process, "its process was not touched");
}

#[test]
fn i17_process_of_a_killed_gateway_ends_within_five_seconds() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    look_up(&gateway, &session);
    let children = gateway.children();
    assert!(!children.is_empty());
    gateway.signal(rustix::process::Signal::KILL);
    gateway.wait();
    let killed = Instant::now();
    let lives = |child: &rustix::process::Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap_or_default();
        stat.contains("mendline") && !stat.contains(") Z ")
    };
    eventually("its servers end", || !children.iter().any(lives));
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
}
