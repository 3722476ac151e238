//! Control sockets that are valid, stale, hung, of another user, or not sockets.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::{SOON, eventually};
use crate::stage::{LATER, Stage, kind};

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn socket_is_private_and_removed_at_exit() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let sockets = stage.sockets();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    assert_eq!((mode(&sockets[0]), mode(&stage.runtime())), (0o600, 0o700));
    let name = sockets[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name, format!("notes-{}.sock", client.process.id()));
    client.stdin = None;
    assert_eq!(client.exit_code(LATER), Some(0));
    assert_eq!(fs::read_dir(stage.runtime()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn socket_of_killed_process_is_removed_by_status() {
    let stage = Stage::new();
    let (mut killed, _stays) = (stage.bridge("killed"), stage.bridge("stays"));
    killed.signal(Signal::KILL);
    killed.process.wait().unwrap();
    assert_eq!(stage.sockets().len(), 2);
    let report = stage.query(&["status", "--json"]).json();
    assert!(!report.to_string().contains("killed"), "{report:#}");
    assert_eq!(stage.sockets().len(), 1, "swept");
    let report = stage.report_until(|report| report["unresponsive"] == json!([]));
    let names: Vec<_> = report["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(names, [&json!("stays")]);
}

#[test]
fn status_without_processes_says_what_to_do() {
    let stage = Stage::new();
    let output = stage.query(&["status"]);
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stdout.contains("No Mendline is running") && output.stdout.contains("mendline wrap"), "{output:?}");
    let report = stage.query(&["status", "--json"]).json();
    assert_eq!(report, json!({ "version": 2, "servers": [], "unresponsive": [], "probed": [], "logins": [] }));
    assert!(!stage.runtime().exists(), "to look makes nothing");
}

#[test]
fn stopped_process_delays_status_briefly_and_hides_no_other() {
    let stage = Stage::new();
    let (hung, _well) = (stage.bridge("hung"), stage.bridge("well"));
    hung.signal(Signal::STOP);
    // Often enough to fill the backlog of a socket that accepts no connection.
    for _ in 0..3 {
        let unresponsive = json!([{ "name": "hung", "pid": hung.process.id(), "why": "does not answer" }]);
        let output = stage.query_until(&["status", "--json"], |output| output.json()["unresponsive"] == unresponsive);
        assert_eq!(kind(&output.json()["servers"][0]), "ready");
        // The query itself takes one second. The rest allows for a busy machine.
        assert!(output.took >= Duration::from_millis(950) && output.took < SOON, "{:?}", output.took);
    }
    let output = stage.query(&["status", "hung"]);
    assert!(output.code == Some(1) && output.stdout.contains("does not answer"), "{output:?}");
    let output = stage.query(&["reconnect", "hung"]);
    assert!(output.code == Some(1) && output.stdout.contains("does not answer"), "{output:?}");
    hung.signal(Signal::CONT);
    stage.until("hung", "it is ready again", |server| kind(server) == "ready");
}

#[test]
fn full_backlog_does_not_block_status() {
    let stage = Stage::new();
    let _well = stage.bridge("well");
    let full = stage.runtime().join("full-1.sock");
    let listener = UnixListener::bind(&full).unwrap();
    let mut waiting = Vec::new();
    // Fills the backlog. One more blocking connect would wait without end.
    while let Ok(stream) = connect_at_once(&full) {
        waiting.push(stream);
        assert!(waiting.len() < 100_000, "its queue has no end");
    }
    let report = stage.report_until(|report| report["servers"][0]["name"] == "well");
    assert_eq!(report["unresponsive"][0]["why"], "does not answer", "{report:#}");
    drop(listener);
}

fn connect_at_once(path: &std::path::Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[test]
fn invalid_reply_is_reported_and_non_socket_is_kept() {
    let stage = Stage::new();
    let _well = stage.bridge("well");
    let runtime = stage.runtime();
    for name in ["plain-7.sock", "strange.sock", "other.txt"] {
        fs::write(runtime.join(name), "not a socket").unwrap();
    }
    let listener = UnixListener::bind(runtime.join("liar-42.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 256]);
            let _ = stream.write_all(b"{\"snapshot\": \x1b[2J}\n");
        }
    });
    let is_heard = |report: &serde_json::Value| {
        report["unresponsive"][0]["why"].as_str().is_some_and(|why| why.contains("cannot be read"))
            && report["servers"].as_array().unwrap().len() == 1
    };
    let output = stage.query_until(&["status", "--json"], |output| is_heard(&output.json()));
    let report = output.json();
    assert_eq!((&report["unresponsive"][0]["name"], &report["unresponsive"][0]["pid"]), (&json!("liar"), &json!(42)));
    assert!(!output.stdout.contains('\u{1b}'), "{output:?}");
    assert!(runtime.join("plain-7.sock").exists() && runtime.join("strange.sock").exists());
}

#[test]
fn runtime_directory_readable_by_others_is_not_used() {
    let stage = Stage::new();
    fs::create_dir(stage.runtime()).unwrap();
    fs::set_permissions(stage.runtime(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = stage.bridge("notes");
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42", "calls go on");
    eventually("the log reports it", SOON, || client.log().contains("`mendline status` will not see this process"));
    eventually("the log reports it", SOON, || client.log().contains("chmod 700"));
    assert_eq!(fs::read_dir(stage.runtime()).unwrap().count(), 0);
    let output = stage.query(&["status"]);
    assert!(output.code == Some(3) && output.stderr.contains("others may look into it"), "{output:?}");
}

#[test]
fn runtime_directory_of_other_user_is_not_used() {
    let stage = Stage::new();
    fs::create_dir(stage.runtime()).unwrap();
    fs::set_permissions(stage.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(stage.runtime(), Some(12_345), None).is_err() {
        // Only root can change the owner. A unit test covers the rule itself.
        return;
    }
    let client = stage.bridge("notes");
    eventually("the log reports it", SOON, || client.log().contains("belongs to another user"));
    let output = stage.query(&["status"]);
    assert!(output.code == Some(3) && output.stderr.contains("belongs to another user"), "{output:?}");
}

#[test]
fn missing_runtime_directory_stops_no_call() {
    let stage = Stage::at("missing/run");
    let mut client = stage.bridge("notes");
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
    eventually("the log reports it", SOON, || client.log().contains("`mendline status` will not see this process"));
}

#[test]
fn overlong_socket_path_works() {
    let stage = Stage::at(&"x".repeat(150));
    let _client = stage.bridge(&"n".repeat(64));
    let server = stage.until(&"n".repeat(64), "it is ready", |server| kind(server) == "ready");
    assert_eq!(server["name"].as_str().unwrap().len(), 64);
    assert_eq!(mode(&stage.sockets()[0]), 0o600);
}
