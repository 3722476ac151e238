//! Which running servers somebody means: `notes`, `notes#4711` or `4711`.

use mendline_config::nearest;

use crate::outside::one_line;

/// A server by its name, by its process, or by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    text: String,
    name: Option<String>,
    pid: Option<u32>,
}

impl Wanted {
    pub(crate) fn parse(text: &str) -> Wanted {
        let (name, pid) = match text.rsplit_once('#').map(|(name, pid)| (name, pid.parse())) {
            Some((name, Ok(pid))) => (Some(name.to_owned()), Some(pid)),
            _ => (None, text.parse().ok()),
        };
        Wanted { text: text.to_owned(), name, pid }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Is this one meant? A name of digits alone may be meant as one, too.
    pub(crate) fn is(&self, name: &str, pid: u32) -> bool {
        match &self.name {
            Some(wanted) => wanted == name && self.pid == Some(pid),
            None => self.text == name || self.pid == Some(pid),
        }
    }
}

/// Says that there is nothing of that name, and what there is.
pub(crate) fn unknown(wanted: &Wanted, running: &[String]) -> String {
    let text = &wanted.text;
    if running.is_empty() {
        return format!("error: {text:?} does not run, and nothing else does\n\n{HOW}");
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

/// Says that there is nothing at all, and how that is changed.
pub(crate) fn nothing_runs() -> String {
    format!("No Mendline is running.\n\n{HOW}")
}

const HOW: &str = "  mendline run -- npx -y @modelcontextprotocol/server-everything   runs one server by hand
  mendline wrap                                                    lets your clients run theirs through it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_meant_by_its_name_its_process_or_both() {
        assert!(Wanted::parse("notes").is("notes", 7) && !Wanted::parse("notes").is("files", 7));
        assert!(Wanted::parse("notes#7").is("notes", 7) && !Wanted::parse("notes#7").is("notes", 8));
        assert!(Wanted::parse("7").is("notes", 7) && Wanted::parse("7").is("7", 9));
        assert!(!Wanted::parse("notes#x").is("notes", 7));
    }

    #[test]
    fn whoever_mistypes_is_told_what_there_is() {
        let words = unknown(&Wanted::parse("ntoes"), &["files".to_owned(), "notes".to_owned()]);
        assert!(words.contains("did you mean \"notes\"?") && words.contains("Running: files, notes"), "{words}");
    }
}
