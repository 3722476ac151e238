//! The login shell of the user, and the PATH that its start-up files set.
//!
//! A client that was started from a desktop passes on the PATH of the desktop. Programs that a version manager has
//! installed are only on the PATH that the start-up files of the shell set.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::raw;

/// The limit for the start-up files of the shell.
const LIMIT: Duration = Duration::from_secs(5);

/// The interval at which the shell is checked for its end.
const INTERVAL: Duration = Duration::from_millis(10);

/// The longest output that is read.
const OUTPUT_BYTES: u64 = 256 * 1024;

/// Encloses the PATH in the output, because start-up files may print, too.
const MARK: &str = "__mendline_path__";

/// Returns the PATH of the user's login shell. The shell is started once per process, and only for the first caller. Blocks
/// until the shell has ended, for a few seconds at most.
pub fn path() -> Option<OsString> {
    static PATH: OnceLock<Option<OsString>> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os("SHELL").and_then(|shell| path_of(&shell, LIMIT))).clone()
}

/// Returns the PATH that this shell has after its start-up files. Version managers write to the files of interactive
/// shells, too.
fn path_of(shell: &OsStr, limit: Duration) -> Option<OsString> {
    let mut command = Command::new(shell);
    command.args(["-l", "-i", "-c", &format!("printf '{MARK}%s{MARK}' \"$PATH\"")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // An interactive shell must not take the terminal of the client.
    raw::new_session(&mut command);
    raw::inherit_only_standard(&mut command);
    let mut process = command.spawn().ok()?;
    let output = process.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.take(OUTPUT_BYTES).read_to_end(&mut text);
        text
    });
    let has_ended = wait(&mut process, limit);
    // Start-up files may leave processes behind, which would keep the output open.
    if let Some(group) = Pid::from_raw(process.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = process.wait();
    let text = reader.join().ok().filter(|_| has_ended)?;
    enclosed(&text).map(|path| OsString::from_vec(path.to_vec())).filter(|path| !path.is_empty())
}

/// Waits for the end of a process. Returns whether it ended in time. The process is not reaped before, so that its id
/// stays that of its group.
fn wait(process: &mut Child, limit: Duration) -> bool {
    let id = Pid::from_child(process);
    let options = rustix::process::WaitIdOptions::EXITED
        | rustix::process::WaitIdOptions::NOHANG
        | rustix::process::WaitIdOptions::NOWAIT;
    let end = Instant::now() + limit;
    loop {
        match rustix::process::waitid(rustix::process::WaitId::Pid(id), options) {
            Ok(None) if Instant::now() < end => thread::sleep(INTERVAL),
            Ok(None) | Err(_) => return false,
            Ok(Some(_)) => return true,
        }
    }
}

/// Returns the text between the last two marks.
fn enclosed(text: &[u8]) -> Option<&[u8]> {
    let last = memchr::memmem::rfind(text, MARK.as_bytes())?;
    let first = memchr::memmem::rfind(&text[..last], MARK.as_bytes())?;
    Some(&text[first + MARK.len()..last])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn shell(folder: &tempfile::TempDir, script: &str) -> OsString {
        let path = folder.path().join("shell");
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path.into_os_string()
    }

    #[test]
    fn path_is_that_after_the_start_up_files() {
        let folder = tempfile::tempdir().unwrap();
        let shell =
            shell(&folder, "[ \"$1 $2 $3\" = '-l -i -c' ] || exit 1; PATH=/opt/tools:/bin; echo hello; eval \"$4\"");
        assert_eq!(path_of(&shell, LIMIT), Some("/opt/tools:/bin".into()));
    }

    #[test]
    fn process_left_behind_does_not_delay_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let shell = shell(&folder, "sleep 600 & PATH=/left; eval \"$4\"");
        let begun = Instant::now();
        assert_eq!(path_of(&shell, Duration::from_secs(300)), Some("/left".into()));
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn shell_that_hangs_fails_or_is_missing_gives_no_path() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(path_of(&shell(&folder, "sleep 600"), Duration::from_millis(50)), None);
        assert_eq!(path_of(&shell(&folder, "exit 3"), LIMIT), None);
        assert_eq!(path_of(OsStr::new("/nonexistent/shell"), LIMIT), None);
    }
}
