//! A conversation that a test can interrupt: a real client performs its steps, and waits for the test at each `pause`.
//!
//! The client is a process in one of three languages, so the two synchronise by files: at a pause the client creates
//! the file `NAME.here` and continues when `NAME.on` exists. Meanwhile the test kills, freezes or restarts the server.
//! Dropping the value kills the client and its descendants.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{Era, Stage};

/// The interval of checking for a file.
const GLANCE: Duration = Duration::from_millis(10);

/// Longer than the client's own timeout, so that the client's error is reported.
const PATIENCE: Duration = Duration::from_secs(100);

/// A client in a conversation.
#[derive(Debug)]
pub struct LiveClient {
    child: Child,
    folder: PathBuf,
}

/// Returns a step at which the client waits for the test.
pub fn pause(name: &str) -> Value {
    json!({ "do": "pause", "pause": name })
}

impl LiveClient {
    /// Starts the client with this server command, in its own directory and with these variables.
    ///
    /// # Errors
    ///
    /// Fails if a program is not installed or cannot be started.
    pub fn start(
        stage: &Stage,
        folder: PathBuf,
        steps: &[Value],
        server: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Result<Self, String> {
        let steps: Vec<Value> = steps.iter().map(|step| with_pause_path(step, &folder)).collect();
        let script = folder.join("script.json");
        fs::write(&script, Value::Array(steps).to_string()).map_err(|why| why.to_string())?;
        let era = match stage.era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
            Era::Probing => "probing",
        };
        let [client, args @ ..] = &stage.client_command()?[..] else { return Err("no client".into()) };
        let file = |name: &str| File::create(folder.join(name)).map_err(|why| why.to_string());
        let child = Command::new(client)
            .args(args)
            .arg(script)
            .arg(era)
            .args(server)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file("report.json")?)
            .stderr(file("stderr.txt")?)
            .spawn()
            .map_err(|why| format!("{}: {why}", client.display()))?;
        Ok(Self { child, folder })
    }

    /// Waits until the client reaches this pause, and returns the time until then.
    ///
    /// # Errors
    ///
    /// Fails if the client exits before, or takes too long. The error contains its output.
    pub fn wait_for_pause(&mut self, pause: &str) -> Result<Duration, String> {
        let (here, begun) = (self.folder.join(format!("{pause}.here")), Instant::now());
        loop {
            if here.exists() {
                return Ok(begun.elapsed());
            }
            if let Some(status) = self.child.try_wait().map_err(|why| why.to_string())? {
                return Err(format!("the client ended ({status}) before {pause:?}:\n{}", self.output()));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the client did not come to {pause:?}:\n{}", self.output()));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Lets the client continue from this pause.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub fn resume_from(&self, pause: &str) -> Result<(), String> {
        File::create(self.folder.join(format!("{pause}.on"))).map(drop).map_err(|why| why.to_string())
    }

    /// Waits for the end of the conversation and returns the report of the client.
    ///
    /// # Errors
    ///
    /// Fails if the client fails. The error contains its output.
    pub fn report(mut self) -> Result<Value, String> {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().map_err(|why| why.to_string())? {
                Some(status) => break status,
                None if begun.elapsed() > PATIENCE => {
                    return Err(format!("the client did not end:\n{}", self.output()));
                }
                None => std::thread::sleep(GLANCE),
            }
        };
        if !status.success() {
            return Err(format!("the client failed ({status}):\n{}", self.output()));
        }
        let report = fs::read(self.folder.join("report.json")).map_err(|why| why.to_string())?;
        serde_json::from_slice(&report).map_err(|why| why.to_string())
    }

    /// Returns the pid of the client.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the client.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the stderr of the client and of Mendline.
    pub fn output(&self) -> String {
        fs::read_to_string(self.folder.join("stderr.txt")).unwrap_or_default()
    }
}

impl Drop for LiveClient {
    fn drop(&mut self) {
        // Mendline exits with its client, and its server with it.
        self.kill();
    }
}

/// Adds the absolute path of its files to a pause, because the client may run in any directory.
fn with_pause_path(step: &Value, folder: &Path) -> Value {
    let mut step = step.clone();
    if let Some(name) = step["pause"].as_str() {
        step["file"] = folder.join(name).to_string_lossy().into();
    }
    step
}
