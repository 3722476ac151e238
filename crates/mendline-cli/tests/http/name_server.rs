//! A name server of a story's own, which knows one name and tells of it what the story wants.
//!
//! It listens on 127.0.0.1:53 of the story's namespace, and the files that say where names are looked up are covered by
//! ones that lead there and nowhere else. What it knows of DNS (RFC 1035) is what a question for one name needs.

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::NamedTempFile;

use crate::namespace::cover;

/// The name that it knows, and the same as it is written in a question.
pub(crate) const NAME: &str = "server.test";
const WRITTEN: &[u8] = b"\x06server\x04test\0";

/// A look-up asks once for the name as it is, and gives up after a second. Whatever is put to its end then makes it one
/// that is not counted.
const RESOLVER: &str = "nameserver 127.0.0.1\nsearch elsewhere.test\noptions timeout:1 attempts:1\n";
const SOURCES: &str = "hosts: dns\n";

const HEAD: usize = 12;
/// An answer, recursion as it was wished and to be had; the last four bits say what became of it.
const ANSWER: u16 = 0x8180;
const NO_SUCH_NAME: u16 = 3;
/// The type of the question, and the class of all: an IPv4 address in the Internet.
const IPV4: [u8; 2] = [0, 1];
const INTERNET: [u8; 2] = [0, 1];
/// "The name that stands in the question", and an answer that nobody may keep.
const THE_SAME_NAME: [u8; 2] = [0xc0, HEAD as u8];
const NOT_KEPT: [u8; 4] = [0; 4];

/// What is told of the name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Address(Ipv4Addr),
    NoSuchName,
    Nothing,
}

/// The name server. It runs as long as its process.
pub(crate) struct NameServer(Arc<Mutex<State>>);

struct State {
    reply: Reply,
    /// How often the IPv4 address of the name was asked for.
    asked: usize,
}

impl NameServer {
    /// Starts, inside of a namespace, as the only source of names.
    pub(crate) fn start(reply: Reply) -> NameServer {
        covered("/etc/resolv.conf", RESOLVER);
        // A system without it asks the name server anyhow.
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

    /// What it tells from now on.
    pub(crate) fn set_reply(&self, reply: Reply) {
        self.0.lock().unwrap().reply = reply;
    }

    /// How often the name was looked up.
    pub(crate) fn look_ups(&self) -> usize {
        self.0.lock().unwrap().asked
    }
}

impl State {
    fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let question = message.get(HEAD..)?;
        // The name is followed by the type and the class, two bytes each.
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
        // One question, as many answers, nothing else; then the question as it came.
        answer.extend([0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
        answer.extend(question);
        if let Some(address) = address {
            let (length, bytes) = ([0, 4], address.octets());
            answer.extend([&THE_SAME_NAME[..], &IPV4, &INTERNET, &NOT_KEPT, &length, &bytes].concat());
        }
        Some(answer)
    }
}

/// The file stays where it is until the namespace is gone: what covers needs no name.
fn covered(path: &str, text: &str) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    cover(path, file.path().to_str().unwrap());
}
