//! Tests in their own network and mount namespaces.
//!
//! A test starts its own binary again inside of namespaces. There it may take interfaces down, add routes and mount
//! files without effects on the machine. It is skipped, with the reason printed, only where the kernel does not allow
//! namespaces.

use std::process::{Command, Output};

/// The variable that is set for the process inside.
const INSIDE: &str = "MENDLINE_TEST_INSIDE_A_NAMESPACE";

/// Runs the test of this name in network and mount namespaces, with only a loopback interface that is up.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    inside_of(&["--net", "--mount"], name, || {
        ip(&["link", "set", "lo", "up"]);
        test();
    });
}

/// Runs the test of this name in these namespaces, which are options of `unshare`.
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

/// Changes the network inside of the namespace.
pub(crate) fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    assert!(status.expect("ip, of iproute2, is needed for this").success(), "ip {arguments:?}");
}

/// Mounts one file over another, inside of the namespace.
pub(crate) fn cover(file: &str, with: &str) {
    let status = Command::new("mount").args(["--bind", with, file]).status();
    assert!(status.expect("mount, of util-linux, is needed for this").success(), "{with} over {file}");
}

fn isolated(kinds: &[&str], program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(kinds).arg("--").arg(program).args(arguments).env(INSIDE, "1");
    command.output().expect("unshare, of util-linux, is needed for this")
}
