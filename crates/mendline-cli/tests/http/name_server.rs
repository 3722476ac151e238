//! A DNS server that knows one name and gives the replies that a test sets.
//!
//! It listens on 127.0.0.1:53 of the network namespace of the test. Bind mounts replace the files that configure the
//! resolver. It implements the part of DNS (RFC 1035) that a query for one name needs.

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::NamedTempFile;

use crate::namespace::cover;

/// The name that the server knows, in text form and in the form of a DNS query.
pub(crate) const NAME: &str = "server.test";
const WRITTEN: &[u8] = b"\x06server\x04test\0";

/// The resolver asks once and gives up after one second. The search domain makes any further query one for another
/// name, which is not counted.
const RESOLVER: &str = "nameserver 127.0.0.1\nsearch elsewhere.test\noptions timeout:1 attempts:1\n";
const SOURCES: &str = "hosts: dns\n";

const HEAD: usize = 12;
/// A response with recursion desired and available; the last four bits are the status.
const ANSWER: u16 = 0x8180;
const NO_SUCH_NAME: u16 = 3;
/// The type and the class of the query: an IPv4 address in the Internet class.
const IPV4: [u8; 2] = [0, 1];
const INTERNET: [u8; 2] = [0, 1];
/// A pointer to the name in the query, and a time to live of zero.
const THE_SAME_NAME: [u8; 2] = [0xc0, HEAD as u8];
const NOT_KEPT: [u8; 4] = [0; 4];

/// The reply to a query for the name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Address(Ipv4Addr),
    NoSuchName,
    Nothing,
}

/// The DNS server. It runs until the process ends.
pub(crate) struct NameServer(Arc<Mutex<State>>);

struct State {
    reply: Reply,
    /// The number of queries for the IPv4 address of the name.
    asked: usize,
}

impl NameServer {
    /// Starts the server as the only source of names. It must run inside of a namespace.
    pub(crate) fn start(reply: Reply) -> NameServer {
        covered("/etc/resolv.conf", RESOLVER);
        // A system without this file asks the DNS server anyway.
        if Path::new("/etc/nsswitch.conf").exists() {
            covered("/etc/nsswitch.conf", SOURCES);
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
        let book = Arc::new(Mutex::new(State { reply, asked: 0 }));
        let server = NameServer(Arc::clone(&book));
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let answer = book.lock().unwrap().answer(&question[..length]);
                if let Some(answer) = answer {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        server
    }

    /// Sets the reply from now on.
    pub(crate) fn set_reply(&self, reply: Reply) {
        self.0.lock().unwrap().reply = reply;
    }

    /// Returns the number of queries for the name.
    pub(crate) fn lookups(&self) -> usize {
        self.0.lock().unwrap().asked
    }
}

impl State {
    fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let question = message.get(HEAD..)?;
        // The type and the class follow the name, with two bytes each.
        let known = question.strip_prefix(WRITTEN).is_some_and(|rest| rest.len() >= 4);
        let ipv4 = known && question[WRITTEN.len()..].starts_with(&IPV4);
        if ipv4 {
            self.asked += 1;
        }
        let (outcome, address) = match self.reply {
            Reply::Nothing => return None,
            Reply::Address(address) if known => (0, ipv4.then_some(address)),
            Reply::Address(_) | Reply::NoSuchName => (NO_SUCH_NAME, None),
        };
        let mut answer = message[..2].to_vec();
        answer.extend((ANSWER | outcome).to_be_bytes());
        // One question, zero or one answer; then the question is repeated.
        answer.extend([0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
        answer.extend(question);
        if let Some(address) = address {
            let (length, bytes) = ([0, 4], address.octets());
            answer.extend([&THE_SAME_NAME[..], &IPV4, &INTERNET, &NOT_KEPT, &length, &bytes].concat());
        }
        Some(answer)
    }
}

/// Mounts a text over a file. The mount keeps the source file alive until the namespace ends.
fn covered(path: &str, text: &str) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    cover(path, file.path().to_str().unwrap());
}
