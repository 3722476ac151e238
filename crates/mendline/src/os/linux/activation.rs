//! A listening socket that the service manager has opened and passed on (socket activation).
//!
//! The socket exists before the process and after it. Connections that arrive while no process runs wait in its queue,
//! so a restart refuses no client.

use std::io;
use std::net::TcpListener;

use super::raw;

/// The variable with the process that the sockets are for.
const PID: &str = "LISTEN_PID";
/// The variable with their number.
const COUNT: &str = "LISTEN_FDS";

/// Takes the listening socket that was passed to this process, the first time that it is called. Fails if there are
/// several, or if it is not a TCP socket.
pub fn listening_socket() -> io::Result<Option<TcpListener>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    if number(PID) != Some(std::process::id()) {
        return Ok(None);
    }
    match number(COUNT) {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => {
            let why = format!("{count} sockets were passed, and one is possible; use one ListenStream");
            return Err(io::Error::other(why));
        }
    }
    let Some(socket) = raw::take_passed_descriptor() else { return Ok(None) };
    let listener = TcpListener::from(socket);
    listener
        .local_addr()
        .map_err(|error| io::Error::other(format!("the passed socket is not a TCP socket: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}
