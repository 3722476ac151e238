//! Measures the time to the tools of a server that has not started.
//!
//! One run fills the catalogue with the lists of the demo server. Then the server is prevented from starting, and
//! clients repeatedly start Mendline, initialize and list the tools. Both must be answered from the catalogue. The time
//! is measured from the start of the process, and from the first request to a running process.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::scratch::{INITIALIZE, in_scratch_folder};

const STARTS: usize = 50;
/// The target for handshake and list together.
const TARGET: Duration = Duration::from_millis(5);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

/// Measures and prints the figures. `--mendline PATH` is the binary; with `--gate` a missed target is an error.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut from_start, mut from_request) = in_scratch_folder(args, measure)?;
    from_start.sort();
    from_request.sort();
    let figure = |times: &[Duration]| {
        let millis = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
        format!("p50 {:.2} ms, p90 {:.2} ms, slowest {:.2} ms", millis(50), millis(90), millis(100))
    };
    println!("initialize + tools/list from the catalogue, the server not started, {STARTS} starts");
    println!("  from the start of the process  {}", figure(&from_start));
    println!("  from the first request         {}", figure(&from_request));
    let median = from_request[from_request.len() / 2];
    let met = median <= TARGET;
    println!("  target: {TARGET:?} from the first request, {}", if met { "met" } else { "missed" });
    if args.iter().any(|arg| arg == "--gate") && !met { Err("the target was missed".into()) } else { Ok(()) }
}

fn measure(mendline: &Path, folder: &Path) -> io::Result<(Vec<Duration>, Vec<Duration>)> {
    let gate = folder.join("gate");
    fs::write(&gate, "")?;
    let mut first = Client::start(mendline, folder)?;
    first.initialize_and_list()?;
    first.end()?;
    fs::remove_file(&gate)?;
    let (mut from_start, mut from_request) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut client = Client::start(mendline, folder)?;
        client.initialize_and_list()?;
        from_start.push(begun.elapsed());
        client.kill()?;
        let mut client = Client::start(mendline, folder)?;
        // Long enough for the process to start and to load the catalogue.
        std::thread::sleep(Duration::from_millis(30));
        let begun = Instant::now();
        client.initialize_and_list()?;
        from_request.push(begun.elapsed());
        client.kill()?;
    }
    Ok((from_start, from_request))
}

struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(mendline: &Path, folder: &Path) -> io::Result<Client> {
        let mut process = Command::new(mendline)
            .args(["run", "--log-level", "off", "--"])
            .arg(mendline)
            .args(["demo-server", "--fault"])
            .arg(format!("wait-for={}", folder.join("gate").display()))
            .env("MENDLINE_STATE_DIR", folder.join("state"))
            .env("MENDLINE_RUNTIME_DIR", folder.join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        Ok(Client { process, stdin, stdout: BufReader::new(stdout) })
    }

    /// Initializes and lists the tools, one after the other as clients do.
    fn initialize_and_list(&mut self) -> io::Result<()> {
        self.send(INITIALIZE)?;
        self.expect("protocolVersion")?;
        self.send(INITIALIZED)?;
        self.send(LIST)?;
        self.expect("tools")
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(format!("{line}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn expect(&mut self, expected: &str) -> io::Result<()> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.contains(expected) && !line.contains(r#""version":"unknown""#) {
            true => Ok(()),
            false => Err(io::Error::other(format!("not an answer from the catalogue: {line}"))),
        }
    }

    /// Closes its stdin and waits for its end. The catalogue is written by then.
    fn end(mut self) -> io::Result<()> {
        self.stdin = None;
        self.process.wait().map(drop)
    }

    fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}
