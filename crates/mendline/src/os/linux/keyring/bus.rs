//! A connection to the message bus of the session (D-Bus), for calls one after the other.
//!
//! The whole conversation has one deadline, because the service behind the bus may hang.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::value::{Malformed, Value, length, pad, read_all, write_u32};
use crate::os::files::user_id;

/// The largest message that is read.
const MAX_MESSAGE: usize = 1024 * 1024;
/// The longest line of the authentication.
const MAX_LINE: usize = 1024;
const HEAD: usize = 16;
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
const LITTLE_ENDIAN: u8 = b'l';
const PROTOCOL: u8 = 1;
const FIELD_PATH: u8 = 1;
const FIELD_INTERFACE: u8 = 2;
const FIELD_MEMBER: u8 = 3;
const FIELD_ERROR: u8 = 4;
const FIELD_REPLY: u8 = 5;
const FIELD_DESTINATION: u8 = 6;
const FIELD_SIGNATURE: u8 = 8;

/// The reason why a call failed.
#[derive(Debug)]
pub(super) enum BusError {
    Io(io::Error),
    TimedOut,
    /// The bus or the service answered with an error.
    Refused {
        name: String,
    },
    Malformed,
}

impl From<io::Error> for BusError {
    fn from(error: io::Error) -> BusError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => BusError::TimedOut,
            _ => BusError::Io(error),
        }
    }
}

impl From<Malformed> for BusError {
    fn from(_: Malformed) -> BusError {
        BusError::Malformed
    }
}

/// The recipient of a call, and the method.
#[derive(Clone, Copy)]
pub(super) struct Method<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) name: &'a str,
}

/// A connection to the bus.
pub(super) struct Bus {
    stream: UnixStream,
    deadline: Instant,
    serial: u32,
}

impl Bus {
    /// Connects to the first address that works.
    pub(super) fn connect(addresses: &[SocketAddrUnix], deadline: Instant) -> Result<Bus, BusError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match connect(address) {
                Ok(stream) => {
                    let mut bus = Bus { stream, deadline, serial: 0 };
                    bus.authenticate()?;
                    bus.call(
                        Method {
                            destination: "org.freedesktop.DBus",
                            path: "/org/freedesktop/DBus",
                            interface: "org.freedesktop.DBus",
                            name: "Hello",
                        },
                        &[],
                    )?;
                    return Ok(bus);
                }
                Err(error) => last = error,
            }
        }
        Err(BusError::Io(last))
    }

    /// Calls a method and returns the values of its answer.
    pub(super) fn call(&mut self, method: Method<'_>, body: &[Value]) -> Result<Vec<Value>, BusError> {
        self.serial += 1;
        let mut message = message(self.serial, method, body);
        self.limit()?;
        let sent = self.stream.write_all(&message);
        // It may contain a key.
        message.fill(0);
        sent?;
        loop {
            let answer = self.receive()?;
            if answer.reply_to != Some(self.serial) {
                continue;
            }
            match answer.kind {
                RETURN => return Ok(answer.body),
                ERROR => return Err(BusError::Refused { name: answer.error.unwrap_or_default() }),
                _ => {}
            }
        }
    }

    /// Authenticates this user by the credentials of the socket.
    fn authenticate(&mut self) -> Result<(), BusError> {
        let uid: String = user_id().to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        self.limit()?;
        self.stream.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
        let line = self.line()?;
        if !line.starts_with(b"OK ") {
            return Err(BusError::Refused { name: "authentication".to_owned() });
        }
        self.stream.write_all(b"BEGIN\r\n")?;
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>, BusError> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.extend(byte);
            if line.len() > MAX_LINE {
                return Err(BusError::Malformed);
            }
        }
        Ok(line)
    }

    fn receive(&mut self) -> Result<Message, BusError> {
        let mut head = [0; HEAD];
        self.read(&mut head)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (body, fields) = (number(4) as usize, number(12) as usize);
        if head[0] != LITTLE_ENDIAN || head[3] != PROTOCOL || body > MAX_MESSAGE || fields > MAX_MESSAGE {
            return Err(BusError::Malformed);
        }
        let mut rest = vec![0; fields.next_multiple_of(8) + body];
        self.read(&mut rest)?;
        let message = Message::parse(&head, fields, &rest);
        rest.fill(0);
        Ok(message?)
    }

    /// Reads exactly this many bytes before the deadline.
    fn read(&mut self, mut buffer: &mut [u8]) -> Result<(), BusError> {
        while !buffer.is_empty() {
            self.limit()?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(BusError::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sets the time limit of the next operation.
    fn limit(&self) -> Result<(), BusError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(BusError::TimedOut);
        }
        let left = Some(left.max(Duration::from_millis(1)));
        self.stream.set_read_timeout(left)?;
        self.stream.set_write_timeout(left)?;
        Ok(())
    }
}

struct Message {
    kind: u8,
    reply_to: Option<u32>,
    error: Option<String>,
    body: Vec<Value>,
}

impl Message {
    fn parse(head: &[u8; HEAD], fields: usize, rest: &[u8]) -> Result<Message, Malformed> {
        // The array of fields begins with its length, which the head ends with. Its elements are aligned in both.
        let padded = fields.next_multiple_of(8);
        let mut array = vec![0; 4];
        array.extend_from_slice(&head[12..]);
        array.extend_from_slice(rest.get(..fields).ok_or(Malformed)?);
        let mut message = Message { kind: head[1], reply_to: None, error: None, body: Vec::new() };
        let mut signature = String::new();
        let values = read_all("ua(yv)", &array)?;
        let [_, Value::List(fields)] = values.as_slice() else { return Err(Malformed) };
        for field in fields {
            let Value::Struct(members) = field else { return Err(Malformed) };
            let [Value::Byte(code), Value::Variant(value)] = members.as_slice() else { return Err(Malformed) };
            match (code, value.as_ref()) {
                (&FIELD_ERROR, Value::Text(name)) => message.error = Some(name.clone()),
                (&FIELD_REPLY, Value::U32(serial)) => message.reply_to = Some(*serial),
                (&FIELD_SIGNATURE, Value::Signature(text)) => signature.clone_from(text),
                _ => {}
            }
        }
        message.body = read_all(&signature, rest.get(padded..).ok_or(Malformed)?)?;
        Ok(message)
    }
}

/// Connects without waiting: a bus whose backlog is full does not answer.
fn connect(address: &SocketAddrUnix) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns the bytes of a call.
fn message(serial: u32, method: Method<'_>, body: &[Value]) -> Vec<u8> {
    let mut written = Vec::new();
    body.iter().for_each(|value| value.write(&mut written));
    let signature: String = body.iter().map(Value::signature).collect();
    let field = |code: u8, value: Value| Value::Struct(vec![Value::Byte(code), Value::variant(value)]);
    let mut fields = vec![
        field(FIELD_PATH, Value::Path(method.path.to_owned())),
        field(FIELD_INTERFACE, Value::text(method.interface)),
        field(FIELD_MEMBER, Value::text(method.name)),
        field(FIELD_DESTINATION, Value::text(method.destination)),
    ];
    if !signature.is_empty() {
        fields.push(field(FIELD_SIGNATURE, Value::Signature(signature)));
    }
    let mut out = vec![LITTLE_ENDIAN, CALL, 0, PROTOCOL];
    write_u32(&mut out, length(written.len()));
    write_u32(&mut out, serial);
    Value::Array("(yv)", fields).write(&mut out);
    pad(&mut out, 8);
    out.extend_from_slice(&written);
    // It may contain a key.
    written.fill(0);
    out
}

/// Returns the addresses of the bus of this user's session: the named ones, or the usual sockets. Many clients start
/// their servers with an almost empty environment.
pub(super) fn addresses(variable: impl Fn(&str) -> Option<OsString>) -> Vec<SocketAddrUnix> {
    if let Some(named) = variable("DBUS_SESSION_BUS_ADDRESS").filter(|value| !value.is_empty()) {
        return named.to_string_lossy().split(';').filter_map(parse_address).collect();
    }
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = [runtime, Some(PathBuf::from(format!("/run/user/{}", user_id())))];
    let sockets = usual.into_iter().flatten().map(|folder| folder.join("bus")).filter(|socket| socket.exists());
    sockets.filter_map(|socket| SocketAddrUnix::new(socket).ok()).collect()
}

/// Parses an address of a socket on this machine, such as `unix:path=/run/user/1000/bus`.
fn parse_address(address: &str) -> Option<SocketAddrUnix> {
    let keys = address.strip_prefix("unix:")?;
    keys.split(',').find_map(|pair| match pair.split_once('=')? {
        ("path", path) => SocketAddrUnix::new(OsString::from_vec(unescape(path)?)).ok(),
        ("abstract", name) => SocketAddrUnix::new_abstract_name(&unescape(name)?).ok(),
        _ => None,
    })
}

/// Resolves escapes of the form `%2f`.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(address: &str) -> Vec<SocketAddrUnix> {
        addresses(|name| (name == "DBUS_SESSION_BUS_ADDRESS").then(|| OsString::from(address)))
    }

    #[test]
    fn addresses_of_sockets_are_parsed() {
        let found = named("tcp:host=x,port=1;unix:path=/tmp/a%20b,guid=1;unix:abstract=/tmp/dbus-x,guid=2");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].path().map(|path| path.to_bytes().to_vec()).as_deref(), Some(&b"/tmp/a b"[..]));
        assert_eq!(found[1].abstract_name(), Some(&b"/tmp/dbus-x"[..]));
        assert!(named("unix:path=%zz").is_empty() && named("autolaunch:").is_empty());
    }

    #[test]
    fn written_message_has_the_form_of_a_received_one() {
        let method = Method { destination: "a.b", path: "/x", interface: "a.b.C", name: "D" };
        let bytes = message(7, method, &[Value::text("hello"), Value::U32(1)]);
        let head: [u8; HEAD] = bytes[..HEAD].try_into().unwrap();
        let fields = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
        let parsed = Message::parse(&head, fields, &bytes[HEAD..]).unwrap();
        assert_eq!((parsed.kind, parsed.body), (CALL, vec![Value::text("hello"), Value::U32(1)]));
    }
}
