//! Stories as text: a sentence, commands, and the recorded answer under `----`.
//!
//! A scenario file is played against the engine in a world without dice: one client per upstream, every span of time
//! written down. What comes out is compared with what is recorded; with `MENDLINE_RECORD=1` it is recorded anew, to be
//! reviewed as text. All checks watch a story too: a broken promise is a line of its output that no one would let pass.
//!
//! ```text
//! # The answer to an unsafe call is lost.
//! upstream notes child
//! client greets
//! client asks id=7 tools/call create_note
//! ----
//! notes     Idle → Dialing
//! …
//! ```
//!
//! [`stage`] lists the commands.

pub mod runner;
mod log;

pub use log::ScenarioLog;

/// One step of a story: what is written before the line, and what comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Block {
    input: Vec<String>,
    recorded: Vec<String>,
}

/// Plays a scenario; gives it back with the answers that came out, in the form of the file.
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
    fn a_file_is_read_as_steps_of_prose_commands_and_answers() {
        let read = blocks("# One.\nupstream a child\n----\na  Idle → Dialing\n\n# Only prose.\n\ntick 1s\n----\n");
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].input, ["# One.", "upstream a child"]);
        assert_eq!(read[0].recorded, ["a  Idle → Dialing"]);
        assert_eq!(read[2].input, ["tick 1s"]);
    }

    #[test]
    fn an_unknown_command_is_named_and_not_skipped() {
        let why = play("upstream a child\njump\n----\n").unwrap_err();
        assert!(why.contains("`jump`"), "{why}");
    }
}
