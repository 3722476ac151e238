//! The log files of this user, by server and process.
//!
//! A file is named after the only server of its process. The file of a gateway has the lines of all its servers; which
//! servers these are, only its lines show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mendline::observe::files::{GATEWAY, SUFFIX, WIRE_SUFFIX};
use mendline::os::processes::runs_this_program;

use super::when::Timestamp;
use crate::target::ServerSelector;

/// Maximum number of files in the directory.
const MOST: usize = 100_000;

/// The bytes of a line that contain the name of its server.
const HEAD: usize = 256;

/// The text before the name of a server.
const SERVER: &[u8] = b",\"server\":\"";

/// A log file.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    number: u32,
}

/// The files of one process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) server: String,
    pub(super) pid: u32,
    pub(super) began: Timestamp,
    is_wire: bool,
    /// The servers of a gateway, if its lines were read.
    served: Option<BTreeSet<String>>,
    /// In the order of writing; never empty.
    pub(super) files: Vec<LogFile>,
}

impl Process {
    /// Returns the time of the last write.
    pub(super) fn last(&self) -> Timestamp {
        self.files.last().map_or(self.began, |file| file.modified)
    }

    /// Returns the names of its servers, and that of a gateway.
    fn names(&self) -> impl Iterator<Item = &str> {
        let served = self.served.iter().flatten().map(String::as_str);
        std::iter::once(self.server.as_str()).chain(served)
    }

    /// Returns whether it can have lines of a selected server.
    fn may_have(&self, wanted: &ServerSelector) -> bool {
        let is_unread = self.server == GATEWAY && self.served.is_none();
        is_unread || self.names().any(|name| wanted.is_or_becomes(name, self.pid))
    }

    /// Returns the time until which it ran at least: a process that runs may write nothing for a long time.
    fn ran_until(&self) -> Timestamp {
        if runs_this_program(self.pid) { Timestamp::of_time(SystemTime::now()) } else { self.last() }
    }
}

/// A listing of the directory.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    with_messages: bool,
    pub(super) processes: Vec<Process>,
}

impl Folder {
    /// Lists the directory. A missing directory counts as empty.
    pub(super) fn read(path: &Path, with_messages: bool) -> io::Result<Folder> {
        let mut found: BTreeMap<(Timestamp, String, u32, bool), Vec<LogFile>> = BTreeMap::new();
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Folder { path: path.to_owned(), with_messages, processes: Vec::new() });
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        for entry in entries.flatten().take(MOST) {
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(parse_name) else { continue };
            // The file may be removed meanwhile.
            let Ok(about) = entry.metadata().map_err(drop) else { continue };
            if !about.is_file() || (name.is_wire && !with_messages) {
                continue;
            }
            let modified = Timestamp::of_time(about.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let file = LogFile { path: entry.path(), size: about.len(), modified, number: name.number };
            found.entry((name.began, name.server.to_owned(), name.pid, name.is_wire)).or_default().push(file);
        }
        let processes = found.into_iter().map(|((began, server, pid, is_wire), mut files)| {
            files.sort_by_key(|file| file.number);
            Process { server, pid, began, is_wire, served: None, files }
        });
        Ok(Folder { path: path.to_owned(), with_messages, processes: processes.collect() })
    }

    /// Reads which servers the gateways have lines of.
    pub(super) fn with_served(mut self) -> Folder {
        for process in self.processes.iter_mut().filter(|process| process.server == GATEWAY) {
            let mut served = BTreeSet::new();
            // A file may be removed meanwhile.
            for text in process.files.iter().filter_map(|file| fs::read(&file.path).ok()) {
                add_servers(&text, &mut served);
            }
            process.served = Some(served);
        }
        self
    }

    /// Lists the directory again.
    pub(super) fn look_again(&self) -> io::Result<Folder> {
        Folder::read(&self.path, self.with_messages)
    }

    /// Returns the files of the selected servers, or all.
    pub(super) fn of(&self, wanted: Option<&ServerSelector>) -> Folder {
        let is_meant = |process: &&Process| wanted.is_none_or(|wanted| process.may_have(wanted));
        let processes = self.processes.iter().filter(is_meant).cloned().collect();
        Folder { path: self.path.clone(), with_messages: self.with_messages, processes }
    }

    /// Returns the files without the logged messages.
    pub(super) fn without_messages(&self) -> Folder {
        let processes = self.processes.iter().filter(|process| !process.is_wire).cloned().collect();
        Folder { path: self.path.clone(), with_messages: false, processes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(super) fn has_messages(&self) -> bool {
        self.processes.iter().any(|process| process.is_wire)
    }

    /// Returns the names of all servers, each once.
    pub(super) fn servers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.processes.iter().flat_map(Process::names).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(super) fn pid(&self, process: usize) -> u32 {
        self.processes.get(process).map_or(0, |process| process.pid)
    }

    /// Returns whether two entries belong to one process: its log, and its logged messages.
    pub(super) fn is_same(&self, one: usize, other: usize) -> bool {
        let who = |at: usize| self.processes.get(at).map(|process| (process.began, process.pid, &process.server));
        who(one) == who(other)
    }

    /// Returns whether two processes of this name ran at the same time.
    pub(super) fn has_doubles(&self, server: &str) -> bool {
        let mut ends: Vec<(Timestamp, Timestamp)> = self
            .processes
            .iter()
            .filter(|process| process.names().any(|name| name == server) && !process.is_wire)
            .map(|process| (process.began, process.ran_until()))
            .collect();
        ends.sort_unstable();
        ends.windows(2).any(|pair| pair[1].0 < pair[0].1)
    }
}

/// Adds the servers that these lines name. The name of the server is near the beginning of a line.
fn add_servers(text: &[u8], served: &mut BTreeSet<String>) {
    let (mut lines, mut last) = (text, &b""[..]);
    while !lines.is_empty() {
        let end = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
        let head = &lines[..end.min(HEAD)];
        if let Some(at) = memchr::memmem::find(head, SERVER) {
            let name = head[at + SERVER.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
            if name != last {
                served.insert(String::from_utf8_lossy(name).into_owned());
                last = name;
            }
        }
        lines = lines.get(end + 1..).unwrap_or_default();
    }
}

/// The parts of a file name.
struct FileName<'a> {
    server: &'a str,
    began: Timestamp,
    pid: u32,
    number: u32,
    is_wire: bool,
}

fn parse_name(name: &str) -> Option<FileName<'_>> {
    let (stem, is_wire) = match name.strip_suffix(WIRE_SUFFIX) {
        Some(stem) => (stem, true),
        None => (name.strip_suffix(SUFFIX)?, false),
    };
    let mut parts = stem.rsplitn(4, '.');
    let number = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    let began = Timestamp::of_name(parts.next()?)?;
    let server = parts.next().filter(|server| !server.is_empty())?;
    Some(FileName { server, began, pid, number, is_wire })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_files_are_recognized_by_name_and_others_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "notes.20261115T122012Z.4711.2.jsonl",
            "notes.20261115T122012Z.4711.10.jsonl",
            "notes.20261115T122012Z.4711.1.jsonl",
            "notes.20261115T122012Z.4711.1.wire.jsonl",
            "git.hub.20261115T110000Z.12.1.jsonl",
            "notes.jsonl",
            "notes.20261115T122012Z.x.1.jsonl",
            "README",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = Folder::read(folder.path(), false).unwrap();
        assert_eq!(found.servers(), ["git.hub", "notes"]);
        let numbers: Vec<u32> =
            found.of(Some(&ServerSelector::parse("notes"))).processes[0].files.iter().map(|file| file.number).collect();
        assert_eq!(numbers, [1, 2, 10]);
        let selected = |text| found.of(Some(&ServerSelector::parse(text))).servers().join(" ");
        assert_eq!((selected("notes#4711").as_str(), selected("12").as_str()), ("notes", "git.hub"));
        assert_eq!((selected("notes#12").as_str(), selected("no#tes").as_str()), ("", ""));
        assert!(!found.has_messages());
        assert!(Folder::read(folder.path(), true).unwrap().has_messages());
        assert!(Folder::read(&folder.path().join("none"), false).unwrap().is_empty());
    }

    #[test]
    fn gateway_is_found_by_the_servers_of_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let line = |server: &str| format!(r#"{{"time":"x","level":"info"{server},"pid":12,"kind":"message"}}"#);
        let text = [line(""), line(r#","server":"notes""#), line(r#","server":"files""#)].join("\n");
        fs::write(folder.path().join("serve.20261115T110000Z.12.1.jsonl"), text).unwrap();
        fs::write(folder.path().join("mail.20261115T110000Z.13.1.jsonl"), "").unwrap();
        let found = Folder::read(folder.path(), false).unwrap();
        let selected = |folder: &Folder, text| {
            let pids = folder.of(Some(&ServerSelector::parse(text))).processes;
            pids.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(selected(&found, "mail"), [13, 12], "the lines of the gateway are not read yet");
        let found = found.with_served();
        assert_eq!(found.servers(), ["files", "mail", "notes", "serve"]);
        for (text, pids) in [("notes", vec![12]), ("mail", vec![13]), ("serve", vec![12]), ("12", vec![12])] {
            assert_eq!(selected(&found, text), pids, "{text}");
        }
        assert_eq!((selected(&found, "files#12"), selected(&found, "files#13")), (vec![12], vec![]));
    }

    #[test]
    fn processes_are_duplicates_only_at_the_same_time() {
        let stamp = |second: u64| Timestamp::of_time(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second));
        let process = |began, ended, pid| Process {
            server: "notes".to_owned(),
            pid,
            began: stamp(began),
            is_wire: false,
            served: None,
            files: vec![LogFile { path: PathBuf::new(), size: 0, modified: stamp(ended), number: 1 }],
        };
        let folder = |processes| Folder { path: PathBuf::new(), with_messages: false, processes };
        assert!(!folder(vec![process(1, 5, 1), process(6, 9, 2)]).has_doubles("notes"));
        assert!(folder(vec![process(1, 7, 1), process(6, 9, 2)]).has_doubles("notes"));
    }
}
