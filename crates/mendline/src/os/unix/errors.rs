//! Errors of the system: their names and numbers, and the reasons why a program cannot be started.

use std::io;

use rustix::io::Errno;

/// A system error: its name, its number on this system, and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemError {
    /// The name, as in `errno.h`.
    pub name: &'static str,
    /// The number on this system.
    pub number: i32,
    /// The system's message, in lower case.
    pub message: &'static str,
}

const fn error(name: &'static str, errno: Errno, message: &'static str) -> SystemError {
    SystemError { name, number: errno.raw_os_error(), message }
}

/// Errors that concern a connection, a process or a file.
pub(crate) const ERRORS: &[SystemError] = &[
    error("ECONNREFUSED", Errno::CONNREFUSED, "connection refused"),
    error("ECONNRESET", Errno::CONNRESET, "connection reset"),
    error("ECONNABORTED", Errno::CONNABORTED, "connection abort"),
    error("ETIMEDOUT", Errno::TIMEDOUT, "timed out"),
    error("EHOSTUNREACH", Errno::HOSTUNREACH, "no route to host"),
    error("ENETUNREACH", Errno::NETUNREACH, "network is unreachable"),
    error("ENETDOWN", Errno::NETDOWN, "network is down"),
    error("EADDRINUSE", Errno::ADDRINUSE, "address already in use"),
    error("EADDRNOTAVAIL", Errno::ADDRNOTAVAIL, "cannot assign requested address"),
    error("ENOTCONN", Errno::NOTCONN, "endpoint is not connected"),
    error("EPIPE", Errno::PIPE, "broken pipe"),
    error("ENOENT", Errno::NOENT, "no such file or directory"),
    error("EACCES", Errno::ACCESS, "permission denied"),
    error("EPERM", Errno::PERM, "operation not permitted"),
    error("ENOEXEC", Errno::NOEXEC, "exec format error"),
    error("ETXTBSY", Errno::TXTBSY, "text file busy"),
    error("E2BIG", Errno::TOOBIG, "argument list too long"),
    error("EAGAIN", Errno::AGAIN, "resource temporarily unavailable"),
    error("EMFILE", Errno::MFILE, "too many open files"),
    error("ENFILE", Errno::NFILE, "too many open files in system"),
    error("ENOMEM", Errno::NOMEM, "cannot allocate memory"),
    error("ENOSPC", Errno::NOSPC, "no space left on device"),
    error("EDQUOT", Errno::DQUOT, "disk quota exceeded"),
    error("EROFS", Errno::ROFS, "read-only file system"),
    error("EIO", Errno::IO, "input/output error"),
];

/// The kinds of failed starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartFailure {
    /// There is no such program.
    NotFound,
    /// The file is not executable by this user.
    NotExecutable,
    /// The file is no program for this machine.
    NotAProgram,
    /// The machine or the user has no processes, memory or descriptors left.
    Exhausted,
    /// Another reason.
    Other,
}

/// Returns why a program could not be started.
pub(crate) fn start_failure(error: &io::Error) -> StartFailure {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => StartFailure::NotFound,
        Some(Errno::ACCESS) => StartFailure::NotExecutable,
        Some(Errno::NOEXEC) => StartFailure::NotAProgram,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => StartFailure::Exhausted,
        _ => StartFailure::Other,
    }
}
