//! Rendering of a tool's result: text as text, binary content as files.
//!
//! A server with structured output sends it twice: as data and in a text block. Only the text is shown, so that a pipe
//! gets one document; `--json` has both. Structured content without a text is shown as JSON. The server controls nothing of a file's name but its extension, by the MIME type, and no file is overwritten.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mendline::decisions::words::FAILURE_KEY;
use mendline::os::files::{create_private_directories, new_private_file};
use mendline_config::Name;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::NEGATIVE;
use crate::json_text::{Members, pretty};
use crate::mcp_client::Failure;
use crate::untrusted_text::{lines, one_line, size};

/// Maximum number of files with one base name.
const NAMES: usize = 10_000;

/// Outcome of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The tool succeeded.
    Succeeded,
    /// The tool reported an error.
    Failed,
    /// Mendline answered with a failure of its own.
    MendlineFailed(Failure),
}

impl Outcome {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Outcome::Succeeded => 0,
            Outcome::Failed => NEGATIVE,
            Outcome::MendlineFailed(failure) => failure.exit_code(),
        }
    }
}

/// A result, ready to be written.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) outcome: Outcome,
    /// The result itself.
    pub(crate) text: String,
    /// True if `text` is escaped for a person.
    pub(crate) is_escaped: bool,
    /// Remarks about the result, for stderr.
    pub(crate) notes: Vec<String>,
}

impl Rendered {
    /// Renders a tool's result. Files are written to `output`, if it is given.
    pub(crate) fn of(result: &RawValue, tool: &str, output: Option<&Path>) -> Rendered {
        let members = Members::of(result).unwrap_or_default();
        let failure = members.members("_meta").get(FAILURE_KEY).and_then(|facts| {
            let facts: Value = serde_json::from_str(facts.get()).ok()?;
            Failure::of(&facts)
        });
        let outcome = match (members.flag("isError"), failure) {
            (Some(true), Some(failure)) => Outcome::MendlineFailed(failure),
            (Some(true), None) => Outcome::Failed,
            _ => Outcome::Succeeded,
        };
        // A result in a pipe is data for a program and stays unescaped; an error is always a message for a person.
        let is_seen = outcome != Outcome::Succeeded || std::io::stdout().is_terminal();
        let mut renderer = Renderer { is_seen, tool, output, text: String::new(), notes: Vec::new() };
        for block in members.list("content") {
            renderer.block(&block);
        }
        let structured = members.get("structuredContent").filter(|value| value.get() != "null");
        if let Some(structured) = structured.filter(|_| renderer.text.trim().is_empty()) {
            renderer.text.clear();
            renderer.push_text(&pretty(structured));
        }
        Rendered { outcome, text: renderer.text, is_escaped: is_seen, notes: renderer.notes }
    }
}

struct Renderer<'a> {
    is_seen: bool,
    tool: &'a str,
    output: Option<&'a Path>,
    text: String,
    notes: Vec<String>,
}

impl Renderer<'_> {
    fn block(&mut self, block: &RawValue) {
        let members = Members::of(block).unwrap_or_default();
        let text = |name: &str| members.text(name);
        match text("type").as_deref() {
            Some("text") => self.push_text(&text("text").unwrap_or_default()),
            Some("image" | "audio") => {
                self.file(text("mimeType").as_deref(), &text("data").unwrap_or_default());
            }
            Some("resource") => self.resource(&members.members("resource")),
            Some("resource_link") => {
                let (name, uri) = (text("name").unwrap_or_default(), text("uri").unwrap_or_default());
                let kind = text("mimeType").map_or_else(String::new, |kind| format!(" ({})", one_line(&kind)));
                self.push_text(&format!("→ {}{kind} {}", one_line(&name), one_line(&uri)));
            }
            _ => self.push_text(&pretty(block)),
        }
    }

    fn resource(&mut self, resource: &Members) {
        let uri = resource.text("uri").unwrap_or_default();
        match (resource.text("text"), resource.text("blob")) {
            (Some(text), _) => {
                self.notes.push(format!("resource {}", one_line(&uri)));
                self.push_text(&text);
            }
            (None, Some(blob)) => self.file(resource.text("mimeType").as_deref(), &blob),
            (None, None) => self.push_text(&format!("→ {}", one_line(&uri))),
        }
    }

    /// Saves binary content, or describes it if there is no directory.
    fn file(&mut self, kind: Option<&str>, data: &str) {
        let kind = one_line(kind.unwrap_or("application/octet-stream"));
        let Ok(bytes) = STANDARD.decode(data.trim()) else {
            self.notes.push(format!("{kind}: cannot be decoded, it is not base64"));
            return;
        };
        let what = format!("{kind}, {}", size(bytes.len()));
        let Some(output) = self.output else {
            self.notes.push(format!("{what}: use --output DIR to save it"));
            return;
        };
        let saved = save(output, &Name::sanitized(self.tool).to_string(), extension(&kind), &bytes);
        self.notes.push(match saved {
            Ok(path) => format!("{what}: saved as {}", path.display()),
            Err(error) => format!("{what}: could not be saved in {}: {error}", output.display()),
        });
    }

    fn push_text(&mut self, text: &str) {
        let text = if self.is_seen { lines(text) } else { text.to_owned() };
        self.text.push_str(&text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// Writes a new file that only this user can read.
fn save(directory: &Path, name: &str, extension: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    create_private_directories(directory)?;
    for number in 1..=NAMES {
        let path = directory.join(format!("{name}-{number}.{extension}"));
        match new_private_file().write(true).open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are too many files with that name"))
}

fn extension(kind: &str) -> &'static str {
    match kind.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/plain" => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn shown(result: &Value, output: Option<&Path>) -> Rendered {
        Rendered::of(&RawValue::from_string(result.to_string()).unwrap(), "draw it!", output)
    }

    #[test]
    fn u09_text_is_shown_and_structured_output_is_not() {
        let result = json!({
            "content": [{ "type": "text", "text": "{ \"n\": 1 }" }, { "type": "text", "text": "one row" }],
            "structuredContent": { "n": 1 },
        });
        assert_eq!(shown(&result, None).text, "{ \"n\": 1 }\none row\n");
        let differs = json!({
            "content": [{ "type": "text", "text": "[DIR] .git" }],
            "structuredContent": { "content": "[DIR] .git" },
        });
        assert_eq!(shown(&differs, None).text, "[DIR] .git\n");
    }

    #[test]
    fn u09_structured_output_without_text_is_shown() {
        let image = json!({ "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" });
        for content in [json!([]), json!([image]), json!([{ "type": "text", "text": "" }])] {
            let result = json!({ "content": content, "structuredContent": { "n": 1 } });
            assert_eq!(shown(&result, None).text, "{\n  \"n\": 1\n}\n");
        }
    }

    #[test]
    fn image_is_saved_without_overwriting_or_described() {
        let folder = tempfile::tempdir().unwrap();
        let result = json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" }] });
        assert_eq!(shown(&result, None).notes, ["image/png, 5 B: use --output DIR to save it"]);
        let output = folder.path().join("new");
        shown(&result, Some(&output));
        let second = shown(&result, Some(&output));
        assert!(second.notes[0].ends_with("/new/draw-it-2.png"), "{second:?}");
        let first = output.join("draw-it-1.png");
        assert_eq!(std::fs::read(&first).unwrap(), b"hello");
        assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn server_does_not_choose_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let result = json!({ "content": [
            { "type": "resource", "resource": { "uri": "file:///../../etc/passwd", "mimeType": "x/../../y", "blob": "aGVsbG8=" } },
            { "type": "image", "mimeType": "image/png", "data": "not base64" },
        ] });
        let shown = shown(&result, Some(folder.path()));
        assert!(folder.path().join("draw-it-1.bin").exists(), "{shown:?}");
        assert!(shown.notes[1].contains("not base64"), "{shown:?}");
    }

    #[test]
    fn links_and_unknown_content_are_shown() {
        let result = json!({ "content": [
            { "type": "resource_link", "uri": "memo://1", "name": "one", "mimeType": "text/plain" },
            { "type": "hologram", "x": 1 },
            { "type": "resource", "resource": { "uri": "memo://2", "text": "remember" } },
        ] });
        let shown = shown(&result, None);
        assert_eq!(shown.text, "→ one (text/plain) memo://1\n{\n  \"type\": \"hologram\",\n  \"x\": 1\n}\nremember\n");
        assert_eq!(shown.notes, ["resource memo://2"]);
    }

    #[test]
    fn mendline_failure_differs_from_tool_error() {
        let failed = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
        assert_eq!(shown(&failed, None).outcome.exit_code(), 1);
        let facts = json!({ "cause": "outcome_unknown", "outcome": "unknown", "detail": "d" });
        let lost = json!({ "content": [], "isError": true, "_meta": { FAILURE_KEY: facts } });
        assert_eq!(shown(&lost, None).outcome.exit_code(), 4);
    }
}
