//! The browser of the tests: a program that records the address, and a client that follows redirects.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::client::{SOON, eventually};

/// The most redirects of one visit.
const MAX_REDIRECTS: usize = 10;

/// A program for `BROWSER`. It appends each address to a file.
pub(crate) struct Browser {
    pub(crate) program: PathBuf,
    addresses: PathBuf,
}

impl Browser {
    pub(crate) fn new(folder: &Path) -> Browser {
        let (program, addresses) = (folder.join("browser"), folder.join("addresses"));
        fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$1\" >> '{}'\n", addresses.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Browser { program, addresses }
    }

    /// Returns all addresses that were opened.
    pub(crate) fn opened(&self) -> Vec<String> {
        fs::read_to_string(&self.addresses).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits for the address with this index, from 0, and follows it. Returns the last page.
    pub(crate) fn follow(&self, index: usize) -> String {
        eventually("the browser opens", SOON, || self.opened().len() > index);
        visit(&self.opened()[index])
    }
}

/// Visits an address, follows redirects, and returns the last page.
pub(crate) fn visit(address: &str) -> String {
    let mut address = address.to_owned();
    for _ in 0..MAX_REDIRECTS {
        let (head, body) = get(&address);
        let location = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        match location {
            Some(next) => address = next,
            None => return body,
        }
    }
    panic!("too many redirects");
}

fn get(address: &str) -> (String, String) {
    let rest = address.strip_prefix("http://").unwrap_or_else(|| panic!("not http: {address}"));
    let (authority, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.to_owned()));
    let mut stream = TcpStream::connect(authority).unwrap_or_else(|error| panic!("{authority}: {error}"));
    stream.set_read_timeout(Some(SOON)).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}
