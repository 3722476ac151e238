//! A running gateway, and a client that writes HTTP by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary under test.
pub(crate) const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

/// The deadline for anything that should happen at once, on a busy machine. It only bounds the time until a test fails.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A running `mendline serve` with the demo server.
pub(crate) struct Gateway {
    process: Child,
    pub(crate) address: SocketAddr,
    state: TempDir,
    log: Mutex<Receiver<String>>,
}

impl Gateway {
    /// Starts a gateway whose server has the name `demo`.
    pub(crate) fn start(flags: &[&str]) -> Gateway {
        let state = tempfile::tempdir().unwrap();
        let (process, address, log) = start(&state, "127.0.0.1:0", flags);
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// Starts a gateway with a configuration file. An entry without a command runs the demo server.
    pub(crate) fn with_servers(servers: &Value) -> Gateway {
        let state = tempfile::tempdir().unwrap();
        let config = state.path().join("config.json");
        std::fs::write(&config, servers_text(servers)).unwrap();
        let mut command = Command::new(MENDLINE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(config).stdin(Stdio::null());
        let (process, address, log) = spawn(command, &state);
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// Starts a gateway with a listening socket, as a service manager does.
    pub(crate) fn with_socket(socket: &TcpListener) -> Gateway {
        let state = tempfile::tempdir().unwrap();
        let script = r#"export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&0 </dev/null; exec "$0" "$@""#;
        let mut command = Command::new("sh");
        command.args(["-c", script, MENDLINE, "serve", "--name", "demo", "--", MENDLINE, "demo-server"]);
        command.stdin(std::os::fd::OwnedFd::from(socket.try_clone().unwrap()));
        let (process, mut address, log) = spawn(command, &state);
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// Starts a gateway from a shell script, which gets its command as `$0` and `$@`.
    pub(crate) fn from_script(script: &str, arguments: &[&str]) -> Gateway {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script, MENDLINE, "serve", "--listen", "127.0.0.1:0"]).args(arguments).stdin(Stdio::null());
        let (process, address, log) = spawn(command, &state);
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// The resident memory of the gateway.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Writes other servers into the configuration file.
    pub(crate) fn write_servers(&self, servers: &Value) {
        self.write_text(&servers_text(servers));
    }

    /// Replaces the configuration file.
    pub(crate) fn write_text(&self, text: &str) {
        let new = self.state.path().join("config.json.new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.state.path().join("config.json")).unwrap();
    }

    /// Waits for a line of the log.
    pub(crate) fn wait_for_log(&self, words: &str) {
        let log = self.log.lock().unwrap();
        while !log.recv_timeout(SOON).unwrap_or_else(|_| panic!("no line with {words:?}")).contains(words) {}
    }

    /// The processes of servers, oldest first.
    pub(crate) fn children(&self) -> Vec<rustix::process::Pid> {
        let mut children = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
            // After the name of the program, which is in parentheses: the state and the parent.
            let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(1);
            let is_child = fields.next() == Some(&self.process.id().to_string());
            if is_child && line.windows(11).any(|word| word == b"demo-server") {
                children.extend(rustix::process::Pid::from_raw(pid));
            }
        }
        children.sort_by_key(|pid| pid.as_raw_nonzero());
        children
    }

    /// The status of a server, from the page of the gateway.
    pub(crate) fn server_status(&self, name: &str) -> Value {
        let page = self.send("GET", "/api/status", &[], "").json();
        page["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap().clone()
    }

    /// The environment for commands that look for the gateway.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("MENDLINE_STATE_DIR", self.state.path().into()), ("MENDLINE_RUNTIME_DIR", self.state.path().join("run"))]
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.state.path().join("config.json")
    }

    /// Sends a signal to the gateway.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for the end of the gateway. Returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Starts a gateway with a configuration file whose `mendline` has these members, and whose server is `demo`. `server`
    /// are further members of its entry.
    pub(crate) fn configured(access: &str, server: &str, flags: &[&str]) -> Gateway {
        Gateway::configured_at("127.0.0.1:0", access, server, flags)
    }

    /// The same, at an address.
    pub(crate) fn configured_at(listen: &str, access: &str, server: &str, flags: &[&str]) -> Gateway {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("config.json");
        let entry = format!(r#""command": {MENDLINE:?}, "args": ["demo-server"]{server}"#);
        let text = format!(
            r#"{{ "mendline": {{ {access} }}, "mcpServers": {{ "demo": {{ {entry} }}, "other": {{ {entry} }} }} }}"#
        );
        std::fs::write(&file, text).unwrap();
        let (process, mut address, log) =
            spawn(serve(listen, &[&["--config", file.to_str().unwrap()], flags].concat()), &state);
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// Starts a gateway at an address off loopback, without tokens, with this state directory.
    pub(crate) fn at_any_address(state: TempDir) -> Gateway {
        let (process, mut address, log) = start(&state, "0.0.0.0:0", &[]);
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        Gateway { process, address, state, log: Mutex::new(log) }
    }

    /// Ends the gateway. Returns its state directory.
    pub(crate) fn into_state(mut self) -> TempDir {
        let _ = self.terminate();
        std::mem::replace(&mut self.state, tempfile::tempdir().unwrap())
    }

    /// The state directory.
    pub(crate) fn state(&self) -> &std::path::Path {
        self.state.path()
    }

    /// Returns the next line of its stderr that contains a text.
    pub(crate) fn line(&self, text: &str) -> String {
        let log = self.log.lock().unwrap();
        loop {
            let line = log.recv_timeout(SOON).unwrap_or_else(|_| panic!("no line with {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the lines of its stderr so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().try_iter().collect()
    }

    /// Kills the gateway and starts it again at the same address.
    pub(crate) fn kill_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let (process, address, log) = start(&self.state, &self.address.to_string(), &[]);
        (self.process, self.address, self.log) = (process, address, Mutex::new(log));
    }

    /// Ends the gateway with SIGTERM. Returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.wait()
    }

    /// Makes a POST to the server with these headers.
    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> Response {
        self.send("POST", "/mcp/demo", headers, body)
    }

    /// Makes a request with the headers of an MCP client, unless others are given.
    pub(crate) fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut text = format!("{verb} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let host = self.address.to_string();
        let usual = [
            ("Host", &host[..]),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(name, _)| !is_given(name)).chain(headers) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(SOON)).unwrap();
        // A server that refuses a body early may close before it has read all of it.
        let _ = connection.write_all(text.as_bytes());
        Response::read(connection)
    }

    /// Makes the handshake. Returns the session id.
    pub(crate) fn initialize(&self, revision: &str) -> String {
        let answer = self.post(&[], &super::initialize(revision));
        assert_eq!(answer.status, 200);
        let id = answer.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {:?}", answer.head)).to_owned();
        let result = answer.json();
        assert_eq!(result["result"]["serverInfo"]["name"], "demo-server", "{result}");
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], initialized).status, 202);
        id
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            let log = self.log.get_mut().map(|log| log.try_iter().collect::<Vec<_>>().join("\n"));
            let _ = writeln!(std::io::stderr(), "log of the gateway:\n{}", log.unwrap_or_default());
        }
    }
}

fn start(state: &TempDir, listen: &str, flags: &[&str]) -> (Child, SocketAddr, Receiver<String>) {
    spawn(serve(listen, &[&["--name", "demo"], flags, &["--", MENDLINE, "demo-server"]].concat()), state)
}

/// The command of a gateway at this address.
fn serve(listen: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(MENDLINE);
    command.args(["serve", "--listen", listen]).args(flags).stdin(Stdio::null());
    command
}

/// The text of a configuration file with these servers.
fn servers_text(servers: &Value) -> String {
    let mut servers = servers.clone();
    let has_endpoint = |entry: &Value| entry.get("command").is_some() || entry.get("url").is_some();
    for entry in servers.as_object_mut().unwrap().values_mut().filter(|entry| !has_endpoint(entry)) {
        (entry["command"], entry["args"]) = (json!(MENDLINE), json!(["demo-server"]));
    }
    json!({ "mendline": {}, "mcpServers": servers }).to_string()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[allow(clippy::zombie_processes, reason = "the gateway waits for it when it is dropped")]
fn spawn(mut command: Command, state: &TempDir) -> (Child, SocketAddr, Receiver<String>) {
    command.env("MENDLINE_STATE_DIR", state.path()).env("MENDLINE_RUNTIME_DIR", state.path().join("run"));
    command.env_remove("MENDLINE_LOG").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let (sender, log) = channel();
    let stderr = BufReader::new(process.stderr.take().unwrap());
    thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    // The lines before that are kept for the test.
    let (again, kept) = channel();
    loop {
        let line = log.recv_timeout(SOON).expect("the gateway says where it listens");
        let is_address = line.contains(" at http://") || line.contains(" at https://");
        let address = line
            .split_once("://")
            .filter(|_| is_address)
            .map(|(_, url)| url.split('/').next().unwrap().parse().unwrap());
        drop(again.send(line));
        if let Some(address) = address {
            thread::spawn(move || log.iter().for_each(|line| drop(again.send(line))));
            return (process, address, kept);
        }
    }
}

/// A response, of which the head is read.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Vec<(String, String)>,
    body: Body,
}

/// The body of a response: chunked, or up to the end of the connection.
struct Body {
    reader: BufReader<TcpStream>,
    is_chunked: bool,
    /// Decoded bytes that were not taken yet.
    decoded: Vec<u8>,
    is_over: bool,
    /// The last chunk was read.
    was_completed: bool,
}

impl Response {
    fn read(connection: TcpStream) -> Response {
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}")).parse().unwrap();
        let mut head = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            head.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let is_chunked = head.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Response {
            status,
            head,
            body: Body { reader, is_chunked, decoded: Vec::new(), is_over: false, was_completed: false },
        }
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(its, _)| its == name).map(|(_, value)| &value[..])
    }

    /// Returns the whole body.
    pub(crate) fn text(mut self) -> String {
        while self.body.fill() {}
        String::from_utf8(self.body.decoded).unwrap()
    }

    /// Returns the whole body as JSON.
    pub(crate) fn json(self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{:?}", self.head);
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"))
    }

    /// Returns the next event of a stream, or nothing at its end. Comments are skipped.
    pub(crate) fn event(&mut self) -> Option<Event> {
        loop {
            let end = self.body.decoded.windows(2).position(|pair| pair == b"\n\n");
            let Some(end) = end else {
                if !self.body.fill() {
                    return None;
                }
                continue;
            };
            let text = String::from_utf8(self.body.decoded.drain(..end + 2).collect()).unwrap();
            let field = |name: &str| {
                let prefix = format!("{name}: ");
                text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
            };
            if let Some(data) = field("data") {
                return Some(Event { id: field("id"), name: field("event"), data });
            }
        }
    }

    /// Returns whether the end of the body was written.
    pub(crate) fn ended_cleanly(&self) -> bool {
        self.body.is_over && self.body.was_completed
    }

    /// Returns the message of the next event that has one.
    pub(crate) fn message(&mut self) -> Value {
        loop {
            let event = self.event().expect("a message");
            if !event.data.is_empty() {
                return serde_json::from_str(&event.data).unwrap();
            }
        }
    }
}

/// A server-sent event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl Body {
    /// Reads more. Returns false at the end.
    fn fill(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        if self.is_chunked {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                self.is_over = true;
                return false;
            }
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            self.decoded.extend_from_slice(&chunk[..size]);
            self.is_over = size == 0;
            self.was_completed = size == 0;
        } else {
            self.reader.read_to_end(&mut self.decoded).unwrap();
            self.is_over = true;
        }
        !self.is_over || !self.is_chunked
    }
}
