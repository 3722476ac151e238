//! A credential from a command, such as the client of a password manager.
//!
//! The command is a program with arguments, without a shell. It prints one line, the token, or a JSON object with
//! headers, as helpers of MCP clients do: `{"Authorization": "…"}`, or `{"headers": {…}, "expiresAt": …}` with a time as
//! RFC 3339 or in seconds since 1970. Errors never contain its output. At its end, and after the time limit, its whole
//! process group is ended.

mod output;

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use mendline_core::port::Exit;
use mendline_core::reason::CredentialError;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::{Credential, CredentialSource, HeaderForm, Occasion, SourceFuture};
use crate::os::child::{ChildProcess, PipeReader, read_available};
use crate::transport::child::{ChildCommand, spawn_error};

/// The default time limit: a password manager may ask a person.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The longest output.
const MAX_BYTES: usize = 64 * 1024;

/// A command that prints a credential.
#[derive(Debug)]
pub struct CommandSource {
    command: ChildCommand,
    form: HeaderForm,
    limit: Duration,
}

impl CommandSource {
    /// Creates a source that runs this command, with a time limit of ten seconds.
    pub fn new(command: ChildCommand, form: HeaderForm) -> CommandSource {
        CommandSource { command, form, limit: TIME_LIMIT }
    }

    /// Sets the time limit.
    pub fn time_limit(mut self, limit: Duration) -> CommandSource {
        self.limit = limit;
        self
    }

    async fn run(&self) -> Result<Credential, CredentialError> {
        let failed = |why: String| CredentialError::Command { why };
        let started = ChildProcess::start(&mut self.command.to_command(), None);
        let (mut process, (stdin, stdout, stderr)) =
            started.map_err(|error| failed(spawn_error(&self.command, &error).to_string()))?;
        drop(stdin);
        // A time-out drops the process, which ends its whole group.
        let ended = timeout(self.limit, collect(&mut process, stdout, stderr)).await;
        let mut output = ended.map_err(|_| CredentialError::CommandTimedOut { after: self.limit })?;
        let exit = process.end();
        let read = self.credential(&output, exit).map_err(failed);
        output.text.fill(0);
        read
    }

    fn credential(&self, output: &Output, exit: Exit) -> Result<Credential, String> {
        let name = self.command.program.to_string_lossy();
        if output.is_too_long {
            return Err(format!("`{name}` printed more than {} KiB", MAX_BYTES / 1024));
        }
        let end = match exit {
            Exit::Code(0) => None,
            Exit::Code(code) => Some(format!("exited with code {code}")),
            Exit::Signal(signal) => Some(format!("was ended by signal {signal}")),
        };
        if let Some(end) = end {
            let stderr = if output.has_stderr { " and wrote to stderr" } else { "" };
            return Err(format!("`{name}` {end}{stderr}; run it in a terminal to see why"));
        }
        output::credential(&output.text, &self.form)
            .map_err(|why| format!("the output of `{name}` cannot be used: {why}"))
    }
}

impl CredentialSource for CommandSource {
    fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(async { self.run().await.map(Some) })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// The output of a command.
struct Output {
    text: BytesMut,
    is_too_long: bool,
    /// It wrote to stderr; the text is not kept.
    has_stderr: bool,
}

/// Reads the output of a process until it exits or prints too much. A process that it leaves behind may hold the pipes
/// open, so their end is not awaited.
async fn collect(process: &mut ChildProcess, mut stdout: PipeReader, mut stderr: PipeReader) -> Output {
    let mut output = Output { text: BytesMut::new(), is_too_long: false, has_stderr: false };
    let mut scratch = BytesMut::new();
    let (mut is_stdout_open, mut is_stderr_open) = (true, true);
    while output.text.len() <= MAX_BYTES {
        scratch.clear();
        tokio::select! {
            biased;
            read = stdout.read_buf(&mut output.text), if is_stdout_open => is_stdout_open = read.is_ok_and(|count| count > 0),
            read = stderr.read_buf(&mut scratch), if is_stderr_open => {
                is_stderr_open = read.is_ok_and(|count| count > 0);
                output.has_stderr |= is_stderr_open;
            }
            () = poll_fn(|cx| process.poll_exited(cx)) => break,
        }
    }
    while output.text.len() <= MAX_BYTES && read_available(&stdout, &mut output.text) > 0 {}
    output.has_stderr |= read_available(&stderr, &mut scratch) > 0;
    scratch.advance(scratch.len());
    output.is_too_long = output.text.len() > MAX_BYTES;
    output
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::os::processes::{self, State};

    fn source(script: &str) -> CommandSource {
        CommandSource::new(ChildCommand::new("sh", ["-c".into(), script.into()]), HeaderForm::default())
    }

    async fn read(script: &str) -> Result<String, String> {
        let mut source = source(script);
        match source.read(&Occasion::Start).await {
            Ok(credential) => {
                let headers = credential.unwrap().headers;
                Ok(headers
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", value.expose()))
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn output_is_a_token_or_headers() {
        assert_eq!(read("echo abc").await.as_deref(), Ok("Authorization: Bearer abc"));
        assert_eq!(read("printf abc; echo note >&2").await.as_deref(), Ok("Authorization: Bearer abc"));
        assert_eq!(read(r#"echo '{"X-Key": "abc"}'"#).await.as_deref(), Ok("X-Key: abc"));
        assert_eq!(read("cat; echo end").await.as_deref(), Ok("Authorization: Bearer end"), "stdin is empty");
        assert_eq!(read("echo abc; sleep 1000 &").await.as_deref(), Ok("Authorization: Bearer abc"));
    }

    #[tokio::test]
    async fn errors_never_contain_the_output() {
        for (script, expected) in [
            ("echo hunter2; exit 3", "`sh` exited with code 3; run it in a terminal to see why"),
            (
                "echo hunter2 >&2; exit 1",
                "`sh` exited with code 1 and wrote to stderr; run it in a terminal to see why",
            ),
            (
                "echo hunter2; echo hunter2",
                "the output of `sh` cannot be used: it has more than one line; a token is one line",
            ),
            ("true", "the output of `sh` cannot be used: it is empty"),
            (r"printf '\377hunter2'", "the output of `sh` cannot be used: it is not text in UTF-8"),
            ("yes hunter2", "`sh` printed more than 64 KiB"),
            (r#"echo '{"hunter2"'"#, "the output of `sh` cannot be used: it begins like JSON and cannot be parsed"),
        ] {
            let why = read(script).await.unwrap_err();
            assert_eq!(why, format!("the command for the credential failed: {expected}"));
        }
        let mut missing = CommandSource::new(ChildCommand::new("no-such-helper", []), HeaderForm::default());
        let why = missing.read(&Occasion::Start).await.unwrap_err();
        assert!(!why.can_pass());
        assert!(why.to_string().contains("`no-such-helper` was not found"), "{why}");
    }

    #[tokio::test]
    async fn a80_hanging_command_is_ended_with_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        let script = format!("sleep 1000 & echo $! $$ > '{0}.new' && mv '{0}.new' '{0}'; wait", pids.display());
        let mut source = source(&script).time_limit(Duration::from_secs(2));
        let begin = Instant::now();
        let why = source.read(&Occasion::Start).await.unwrap_err();
        assert_eq!(why, CredentialError::CommandTimedOut { after: Duration::from_secs(2) });
        assert!(why.can_pass() && begin.elapsed() < Duration::from_secs(60));
        let pids = std::fs::read_to_string(pids).unwrap();
        for pid in pids.split_whitespace() {
            // A killed process of the group may still be a zombie of another parent for a moment.
            let runs = || processes::state(pid.parse().unwrap()).is_some_and(|state| state != State::Ended);
            while runs() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}
