//! A network and a view of the files that are a story's own.
//!
//! The story starts its own program again inside namespaces, where it may take interfaces down, name routes and put files
//! over those of the system without anybody noticing. It is left out, with the reason printed, only where the kernel does
//! not allow namespaces.

use std::process::{Command, Output};

/// Set for the program that runs inside.
const INSIDE: &str = "MENDLINE_TEST_INSIDE_A_NAMESPACE";

/// Runs the story of the test that has this name, inside: without any network but a loopback that is up.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    inside_of(&["--net", "--mount"], name, || {
        ip(&["link", "set", "lo", "up"]);
        test();
    });
}

/// Runs the story of the test that has this name in namespaces of these kinds, which are options of `unshare`.
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
pub(crate) fn inside_of(kinds: &[&str], name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let attempt = isolated(kinds, "true", &[]);
    if !attempt.status.success() {
        println!("left out, no namespaces here: {}", String::from_utf8_lossy(&attempt.stderr));
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = isolated(kinds, program.to_str().unwrap(), &["--exact", name, "--nocapture"]);
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

/// Changes something about the network inside.
pub(crate) fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    assert!(status.expect("ip, of iproute2, is needed for this").success(), "ip {arguments:?}");
}

/// Puts one file over another; only what runs inside sees it.
pub(crate) fn cover(file: &str, with: &str) {
    let status = Command::new("mount").args(["--bind", with, file]).status();
    assert!(status.expect("mount, of util-linux, is needed for this").success(), "{with} over {file}");
}

fn isolated(kinds: &[&str], program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(kinds).arg("--").arg(program).args(arguments).env(INSIDE, "1");
    command.output().expect("unshare, of util-linux, is needed for this")
}
