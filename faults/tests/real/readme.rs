//! Tests that the README matches the code.

use mendline_faults::fault::{self, Runs};
use mendline_faults::toxic::{self, Slicer, Toxic};
use mendline_faults::{Answers, Direction, Proxy, Rule, Server, Settings};

use crate::client::{Client, End};

const README: &str = include_str!("../../README.md");

#[test]
fn every_fault_has_a_row_in_the_readme() {
    for fault in fault::ALL {
        let runs = match fault.runs {
            Runs::Never => "no",
            Runs::PerRule => "per rule",
            Runs::Always => "yes",
        };
        let row = format!("| `{}` | {} | {} | {} | {} |", fault.name, fault.row, fault.description, runs, fault.value);
        assert!(README.lines().any(|line| line == row), "the README has no line\n{row}");
    }
    for (name, row, description) in toxic::ALL {
        let row = format!("| `{name}` | {row} | {description} |");
        assert!(README.lines().any(|line| line == row), "the README has no line\n{row}");
    }
    let rows = README.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, fault::ALL.len() + toxic::ALL.len(), "a row without a fault or toxic");
}

#[tokio::test]
async fn readme_example_works() {
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    server.add(Rule::new("t13_reset_before_headers").tool("create_note").nth(2)).unwrap();
    proxy.add(Direction::Down, Toxic::Slicer(Slicer { bytes: 1, gap_ms: 0 }));
    let client = Client::modern(proxy.address());
    assert_eq!(client.call("create_note", "first").await.tool_text(), "wrote first");
    assert_eq!(client.call("create_note", "second").await.end, End::Reset);
    assert_eq!(server.oracle().counts().executions_of("second"), 1);
}
