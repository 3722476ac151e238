//! A server process that is killed and restarted on the same port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mendline_faults::Rule;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::client::{SOON, eventually, failure};
use crate::site::{initialized, never_answered};

/// The variable that makes this binary a server, with its arguments.
const SERVER_ARGUMENTS: &str = "MENDLINE_FAULTS_WORDS";

/// Not a test: the server process of the tests below. It does nothing unless the variable is set.
#[test]
#[ignore = "started by the others"]
fn server_process() {
    let Ok(words) = std::env::var(SERVER_ARGUMENTS) else { return };
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(mendline_faults::command::run(&words)).map_err(|failure| failure.to_string()).unwrap();
    runtime.shutdown_background();
}

/// A server in its own process.
struct ServerProcess {
    process: Child,
    address: SocketAddr,
    control: SocketAddr,
    /// The port of a killed server: bound without a listener, so that no other process gets it.
    kept: Option<TcpSocket>,
}

impl ServerProcess {
    fn start(words: &str) -> ServerProcess {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "restarts::server_process", "--ignored", "--nocapture"])
            .env(SERVER_ARGUMENTS, format!("server answers=json era=legacy {words}").trim_end())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let places = stdout.lines().map_while(Result::ok).find_map(|line| {
            // The test harness may have started the line that the server continues.
            serde_json::from_str::<Value>(&line[line.find('{')?..]).ok()
        });
        let places = places.expect("a server that prints its address");
        let address = |name: &str| {
            let url = places[name].as_str().unwrap();
            url.trim_start_matches("http://").split('/').next().unwrap().parse().unwrap()
        };
        ServerProcess { address: address("url"), control: address("control"), process, kept: None }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Kills the server with SIGKILL. The kernel resets its connections.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let kept = TcpSocket::new_v4().unwrap();
        kept.set_reuseaddr(true).unwrap();
        kept.bind(self.address).unwrap();
        self.kept = Some(kept);
    }

    /// Starts the server again on the same port.
    fn start_again(&mut self) {
        *self = ServerProcess::start(&format!("listen={}", self.address));
    }

    /// Returns the counts of the server.
    fn counts(&self) -> Value {
        self.request("GET", "counts", "")
    }

    /// Adds a fault rule.
    fn add_fault(&self, rule: &Rule) {
        let reply = self.request("POST", "rules", &serde_json::to_string(rule).unwrap());
        assert_eq!(reply, json!({}));
    }

    fn request(&self, verb: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(self.control).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let head = format!("{verb} /_faults/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn runs(&self, key: &str) -> bool {
        self.counts()["executions"][key] == 1
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn killed_server_is_reinitialized_after_restart() {
    let mut server = ServerProcess::start("");
    let mut client = initialized(&server.url(), &[]);
    for round in 0..3 {
        let [read, write] = ["r", "w"].map(|key| format!("{key}{round}"));
        server.add_fault(&never_answered("lookup", 1));
        client.call(&read, "lookup", &json!({ "key": read }));
        client.call(&write, "create_note", &json!({ "key": write, "delayMs": 600_000 }));
        eventually("both run", SOON, || server.runs(&read) && server.runs(&write));
        server.kill();
        client.call("waits", "create_note", &json!({ "key": "waits" }));
        server.start_again();
        let mut results = std::collections::BTreeMap::new();
        for _ in 0..3 {
            let answer: Value = serde_json::from_str(&client.line_within(2 * SOON)).unwrap();
            results.insert(answer["id"].as_str().unwrap().to_owned(), answer["result"].clone());
        }
        assert_eq!(results[&read]["content"][0]["text"], format!("{read} is 42"), "{}", results[&read]);
        assert_eq!(failure(&results[&write])["outcome"], "unknown", "{}", results[&write]);
        assert_eq!(results["waits"]["content"][0]["text"], "wrote waits", "{}", results["waits"]);
        let counts = server.counts();
        assert_eq!(counts["executions"], json!({ &read: 1, "waits": 1 }), "{counts}");
        assert_eq!(counts["sessionsOpened"], 1, "{counts}");
    }
}

#[test]
fn server_killed_while_idle_is_reinitialized_by_next_call() {
    let mut server = ServerProcess::start("");
    let mut client = initialized(&server.url(), &[]);
    server.kill();
    server.start_again();
    let begin = std::time::Instant::now();
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(server.counts()["executions"], json!({ "k": 1 }));
}
