//! A conversation that a test can interrupt: a real client performs its steps, and at a `pause` it waits for the test.
//!
//! The client is a process of its own in one of three languages, so the two talk by files: at a pause the client makes the
//! file `NAME.here` and goes on when there is a `NAME.on`. In between the test kills, freezes or restarts whatever stands
//! behind the client, which knows nothing of it. The client and whatever it has started is ended when the value is dropped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{Era, Stage};

/// How often a file is looked for.
const GLANCE: Duration = Duration::from_millis(10);

/// Longer than a client's own patience, so that its words are read and not ours.
const PATIENCE: Duration = Duration::from_secs(100);

/// A client in conversation.
#[derive(Debug)]
pub struct LiveClient {
    child: Child,
    folder: PathBuf,
}

/// A step at which the client waits for the test.
pub fn pause(name: &str) -> Value {
    json!({ "do": "pause", "pause": name })
}

impl LiveClient {
    /// Starts the client before this command, in a folder that is its own and with these variables.
    ///
    /// # Errors
    ///
    /// When something is not installed or cannot be started.
    pub fn start(
        stage: &Stage,
        folder: PathBuf,
        steps: &[Value],
        server: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Result<Self, String> {
        let steps: Vec<Value> = steps.iter().map(|step| placed(step, &folder)).collect();
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

    /// Waits until the client has come to this pause, and says how long that took.
    ///
    /// # Errors
    ///
    /// When the client ends before it does, or it takes far too long. The text has what it printed.
    pub fn arrives_at(&mut self, pause: &str) -> Result<Duration, String> {
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

    /// Lets the client go on from this pause.
    ///
    /// # Errors
    ///
    /// When the file cannot be made.
    pub fn goes_on_from(&self, pause: &str) -> Result<(), String> {
        File::create(self.folder.join(format!("{pause}.on"))).map(drop).map_err(|why| why.to_string())
    }

    /// Waits for the end of the conversation, and gives what the client's API returned.
    ///
    /// # Errors
    ///
    /// When the client fails. The text has what it printed.
    pub fn report(mut self) -> Result<Value, String> {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().map_err(|why| why.to_string())? {
                Some(status) => break status,
                None if begun.elapsed() > PATIENCE => return Err(format!("the client did not end:\n{}", self.output())),
                None => std::thread::sleep(GLANCE),
            }
        };
        if !status.success() {
            return Err(format!("the client failed ({status}):\n{}", self.output()));
        }
        let report = fs::read(self.folder.join("report.json")).map_err(|why| why.to_string())?;
        serde_json::from_slice(&report).map_err(|why| why.to_string())
    }

    /// The client's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the client, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// All that the client and Mendline have printed for people.
    pub fn output(&self) -> String {
        fs::read_to_string(self.folder.join("stderr.txt")).unwrap_or_default()
    }
}

impl Drop for LiveClient {
    fn drop(&mut self) {
        // Mendline ends with its client, and its server with it.
        self.kill();
    }
}

/// A step with a pause knows the path of its files, without which it would depend on where the client runs.
fn placed(step: &Value, folder: &Path) -> Value {
    let mut step = step.clone();
    if let Some(name) = step["pause"].as_str() {
        step["file"] = folder.join(name).to_string_lossy().into();
    }
    step
}
