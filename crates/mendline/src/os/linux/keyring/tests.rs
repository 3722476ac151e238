//! The keyring with a bus that misbehaves. `tests/tests/keyring.rs` uses a real one.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use super::*;

/// Serves one connection, and returns the keyring behind it.
fn keyring(serve: impl FnOnce(UnixStream) + Send + 'static) -> (SystemKeyring, JoinHandle<()>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("bus")).unwrap();
    let serving = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let runtime = folder.path().as_os_str().to_owned();
    let keyring = SystemKeyring::from_variables(|name| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone()));
    (SystemKeyring { limit: Duration::from_millis(200), addresses: keyring.addresses[..1].to_vec() }, serving, folder)
}

/// Accepts the authentication, and answers the first message with these bytes.
fn answering(bytes: &'static [u8]) -> impl FnOnce(UnixStream) + Send + 'static {
    move |mut stream| {
        let mut read = [0; 64];
        let _ = stream.read(&mut read);
        stream.write_all(b"OK 1234\r\n").unwrap();
        let _ = stream.read(&mut read);
        stream.write_all(bytes).unwrap();
        // It stays open until the caller gives up.
        while stream.read(&mut read).is_ok_and(|count| count > 0) {}
    }
}

#[test]
fn silent_bus_is_given_up_in_time() {
    let silent = |mut stream: UnixStream| while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {};
    for (bus, serving, _folder) in [keyring(silent), keyring(answering(b""))] {
        assert_eq!(bus.keys().unwrap_err(), KeyringError::TimedOut);
        serving.join().unwrap();
    }
}

#[test]
fn malformed_or_large_answer_is_refused() {
    let cases: [&[u8]; 3] = [
        b"l\x02\x00\x01\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00",
        b"B\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",
        b"l\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x05\x01(\x00\x00\x00\x00\x00",
    ];
    for bytes in cases {
        let (bus, serving, _folder) = keyring(answering(bytes));
        assert_eq!(bus.keys().unwrap_err(), KeyringError::Malformed, "{bytes:?}");
        serving.join().unwrap();
    }
}

#[test]
fn bus_that_refuses_this_user_is_no_keyring() {
    let (bus, serving, _folder) = keyring(|mut stream| stream.write_all(b"REJECTED EXTERNAL\r\n").unwrap());
    assert!(matches!(bus.keys().unwrap_err(), KeyringError::NoKeyring { .. }));
    serving.join().unwrap();
    let none = SystemKeyring { addresses: Vec::new(), limit: LIMIT };
    assert!(matches!(none.add(&Secret::new("x")).unwrap_err(), KeyringError::NoKeyring { .. }));
}
