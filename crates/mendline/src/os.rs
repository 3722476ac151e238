//! Everything that depends on the operating system.
//!
//! Each concern is one module, with functions in the words of its users. `linux` has what only Linux offers, `unix`
//! what all Unix systems share. No other module names a platform, a system call or a file of the kernel; a test checks
//! that. A port to another system is a folder beside these two, with the same modules.
//!
//! | Concern | Module |
//! |---|---|
//! | child processes, their groups, pipes and exits | `child` |
//! | the PATH of the user's shell | `login_shell` |
//! | the process that ends children after Mendline dies | [`guard`] |
//! | stdin and stdout as streams that never block | [`stdio`] |
//! | the socket of `mendline status` | [`control_socket`] |
//! | a listening socket of the service manager | [`activation`] |
//! | the user at the other end of a loopback connection | `peer_user` |
//! | other processes: names, parents, memory, signals to them | [`processes`] |
//! | the keyring of the desktop session | [`keyring`] |
//! | sleep and resume, the clock that includes them | `sleep` |
//! | network changes | `network` |
//! | the limit of open file descriptors | `descriptors` |
//! | owners and permissions of files | [`files`] |
//! | directories of the user | [`directories`] |
//! | blocking writes to stdout and stderr | [`output`] |
//! | size, modes and input of the terminal | [`terminal`] |
//! | signals to this process | [`signals`] |
//! | options and state of TCP connections | `tcp` |
//! | names and numbers of errors | `errors` |
//! | names and versions of this machine | [`system`] |

pub mod directories;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;

#[cfg(not(target_os = "linux"))]
compile_error!("Mendline runs on Linux; another system needs a folder with the modules of `os/linux`");

#[cfg(target_os = "linux")]
pub use linux::{activation, control_socket, guard, keyring, processes, stdio, system};
#[cfg(target_os = "linux")]
pub(crate) use linux::{child, login_shell, network, peer_user, sleep};
#[cfg(unix)]
pub(crate) use unix::{descriptors, errors, tcp};
#[cfg(unix)]
pub use unix::{files, output, signals, terminal};
