//! Many processes at once. `cargo xtask bench --status` measures the time on an idle machine.

use crate::client::MENDLINE;
use crate::stage::{LATER, Stage};

#[test]
fn fifty_processes_are_shown_in_one_table() {
    let stage = Stage::new();
    let mut clients: Vec<_> = (0..50)
        .map(|number| {
            stage.run(&["--name", &format!("server-{number:02}"), "--startup", "wait", "--", MENDLINE, "demo-server"])
        })
        .collect();
    for client in &mut clients {
        client.initialize_within(2 * LATER);
    }
    let output = stage.query_until(&["status"], |output| output.stdout.contains("\n50 servers: 50 ready\n"));
    assert_eq!(output.code, Some(0), "{output:?}");
    for number in 0..50 {
        assert!(output.stdout.contains(&format!("\nserver-{number:02}  test    stdio  ready ")), "{}", output.stdout);
    }
    assert_eq!(stage.sockets().len(), 50);
}
