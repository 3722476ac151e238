//! Selection of running servers: `notes`, `notes#4711` or `4711`.

use mendline_config::{Name, nearest};

use crate::untrusted_text::one_line;

/// A server by its name, by its process, or by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerSelector {
    text: String,
    name: Option<String>,
    pid: Option<u32>,
}

impl ServerSelector {
    pub(crate) fn parse(text: &str) -> ServerSelector {
        let (name, pid) = match text.rsplit_once('#').map(|(name, pid)| (name, pid.parse())) {
            Some((name, Ok(pid))) => (Some(name.to_owned()), Some(pid)),
            _ => (None, text.parse().ok()),
        };
        ServerSelector { text: text.to_owned(), name, pid }
    }

    /// Returns the selection as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether this server is selected. A name may consist of digits, too.
    pub(crate) fn is(&self, name: &str, pid: u32) -> bool {
        match &self.name {
            Some(wanted) => wanted == name && self.pid == Some(pid),
            None => self.text == name || self.pid == Some(pid),
        }
    }
}

impl ServerSelector {
    /// Returns whether this server is selected, also by the name of its entry in a file that the server's name was made
    /// of (`my server` is shown as `my-server`).
    pub(crate) fn is_or_becomes(&self, name: &str, pid: u32) -> bool {
        let written = self.name.as_ref().unwrap_or(&self.text);
        let is_process = self.name.is_none() || self.pid == Some(pid);
        self.is(name, pid) || (is_process && Name::sanitized(written).to_string() == name)
    }
}

/// Returns the error about an unknown name, with the running servers.
pub(crate) fn unknown(wanted: &ServerSelector, running: &[String]) -> String {
    let text = &wanted.text;
    if running.is_empty() {
        return format!("error: no server {text:?} is running, and no other one\n\n{HOW}");
    }
    let mut words = format!("error: no server {text:?} is running");
    if let Some(meant) = nearest(text, running.iter().map(String::as_str)) {
        words.push_str(&format!("; did you mean {meant:?}?"));
    }
    let mut names: Vec<String> = running.iter().map(|name| one_line(name)).collect();
    names.dedup();
    words.push_str(&format!("\n\nRunning: {}", names.join(", ")));
    words
}

/// Returns the message that nothing runs, with the next step.
pub(crate) fn nothing_runs() -> String {
    format!("No Mendline is running.\n\n{HOW}")
}

const HOW: &str = "  mendline run -- npx -y @modelcontextprotocol/server-everything   runs one server
  mendline wrap                                                    routes your clients' servers through it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_selected_by_name_process_or_both() {
        assert!(ServerSelector::parse("notes").is("notes", 7) && !ServerSelector::parse("notes").is("files", 7));
        assert!(ServerSelector::parse("notes#7").is("notes", 7) && !ServerSelector::parse("notes#7").is("notes", 8));
        assert!(ServerSelector::parse("7").is("notes", 7) && ServerSelector::parse("7").is("7", 9));
        assert!(!ServerSelector::parse("notes#x").is("notes", 7));
        assert!(ServerSelector::parse("my server#7").is_or_becomes("my-server", 7));
        assert!(!ServerSelector::parse("my server#8").is_or_becomes("my-server", 7));
    }

    #[test]
    fn unknown_name_lists_running_servers() {
        let words = unknown(&ServerSelector::parse("ntoes"), &["files".to_owned(), "notes".to_owned()]);
        assert!(words.contains("did you mean \"notes\"?") && words.contains("Running: files, notes"), "{words}");
    }
}
