//! Scenarios in text files: a comment, commands, and the recorded output under `----`.
//!
//! A scenario runs against the engine in a world without random choices: one client per upstream, every duration given.
//! The output is compared with the recording; `MENDLINE_RECORD=1` records it again. All checks run as well: a broken
//! invariant is a line of the output.
//!
//! ```text
//! # The answer to an unsafe call is lost.
//! upstream notes child
//! client initializes
//! client asks id=7 tools/call create_note
//! ----
//! notes     Idle → Dialing
//! …
//! ```
//!
//! [`runner`] lists the commands.

mod log;
pub mod runner;

pub use log::ScenarioLog;

/// One step of a scenario: its commands and its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Block {
    input: Vec<String>,
    recorded: Vec<String>,
}

/// Runs a scenario. Returns its text with the new output.
pub fn play(text: &str) -> Result<String, String> {
    let mut runner = runner::Runner::default();
    let mut out = String::new();
    for block in blocks(text) {
        if !out.is_empty() {
            out.push('\n');
        }
        for line in &block.input {
            out.push_str(&format!("{line}\n"));
        }
        let commands: Vec<&str> =
            block.input.iter().map(|line| line.trim()).filter(|line| !line.starts_with('#')).collect();
        if commands.is_empty() {
            continue;
        }
        for command in commands {
            runner.execute(command).map_err(|why| format!("`{command}`: {why}"))?;
        }
        out.push_str("----\n");
        for line in runner.take_lines() {
            out.push_str(&format!("{line}\n"));
        }
    }
    Ok(out)
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut block = Block::default();
    let mut answering = false;
    for line in text.lines() {
        match line.trim_end() {
            "" => {
                if block != Block::default() {
                    blocks.push(std::mem::take(&mut block));
                }
                answering = false;
            }
            "----" => answering = true,
            line if answering => block.recorded.push(line.to_owned()),
            line => block.input.push(line.to_owned()),
        }
    }
    if block != Block::default() {
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_split_into_steps() {
        let read = blocks("# One.\nupstream a child\n----\na  Idle → Dialing\n\n# Only prose.\n\ntick 1s\n----\n");
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].input, ["# One.", "upstream a child"]);
        assert_eq!(read[0].recorded, ["a  Idle → Dialing"]);
        assert_eq!(read[2].input, ["tick 1s"]);
    }

    #[test]
    fn unknown_command_is_an_error() {
        let why = play("upstream a child\njump\n----\n").unwrap_err();
        assert!(why.contains("`jump`"), "{why}");
    }
}
