//! `mendline login --on USER@HOST` with a real sshd.
//!
//! The other machine is a network namespace with its own loopback interface, because the callback has the same port on
//! both machines. ssh starts sshd in it, and forwards the ports of the servers into it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mendline_faults::AuthorizationSettings;
use mendline_peers::logins::{Browser, Home, NAME};

use crate::programs;
use crate::stage::{Stage, call, succeeded};

/// A machine that ssh reaches as `box`.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// Prepares keys, the configuration of sshd and that of ssh. `None` if the kernel allows no namespaces.
    fn new(folder: &Path, ports: &[u16]) -> Option<Machine> {
        let attempt = Command::new("sh").args(["-c", &in_namespace("true")]).output().unwrap();
        if !attempt.status.success() {
            println!("left out, no namespaces here: {}", String::from_utf8_lossy(&attempt.stderr));
            return None;
        }
        let machine = Machine { folder: folder.join("machine") };
        fs::create_dir_all(machine.folder.join("bin")).unwrap();
        std::os::unix::fs::symlink(programs::built().mendline, machine.folder.join("bin/mendline")).unwrap();
        for key in ["host", "person"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(machine.folder.join(key))
                .status();
            assert!(made.unwrap().success());
        }
        machine.write_sshd();
        machine.write_ssh(ports);
        Some(machine)
    }

    fn write_sshd(&self) {
        let folder = self.folder.display();
        let path = std::env::var("PATH").unwrap_or_default();
        self.write(
            "sshd_config",
            &format!(
                "HostKey {folder}/host\nAuthorizedKeysFile {folder}/person.pub\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n\
                 SetEnv HOME={folder} PATH={folder}/bin:{path} MENDLINE_KEYRING=never\n"
            ),
        );
        // Debian keeps sshd in a folder that only root has in its path; as root it needs a directory of its own.
        let sshd = format!(
            "[ \"$(id -u)\" != 0 ] || mkdir -p /run/sshd; ip link set lo up && exec \"$(PATH=$PATH:/usr/sbin command -v \
             sshd)\" -i -e -f {folder}/sshd_config 2>{folder}/sshd.log"
        );
        self.write("sshd.sh", &sshd);
    }

    fn write_ssh(&self, ports: &[u16]) {
        let folder = self.folder.display();
        let host_key = fs::read_to_string(self.folder.join("host.pub")).unwrap();
        self.write("known_hosts", &format!("box {host_key}"));
        let forwards: String =
            ports.iter().map(|port| format!("  RemoteForward 127.0.0.1:{port} 127.0.0.1:{port}\n")).collect();
        let proxy = in_namespace(&format!("sh {folder}/sshd.sh"));
        self.write(
            "ssh_config",
            &format!(
                "Host box\n  IdentityFile {folder}/person\n  IdentitiesOnly yes\n  UserKnownHostsFile \
                 {folder}/known_hosts\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  ProxyCommand {proxy}\n\
                 {forwards}"
            ),
        );
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("sshd.log")).unwrap_or_default()
    }
}

/// A command line in a network namespace of its own, as this user.
fn in_namespace(command: &str) -> String {
    let options = if rustix::process::geteuid().is_root() { "--net" } else { "--map-current-user --keep-caps --net" };
    format!("unshare {options} {command}")
}

/// A program `ssh` that uses the configuration of the machine, in a folder for `PATH`.
fn ssh_for(home: &Path, machine: &Machine) -> PathBuf {
    let folder = home.join("bin");
    fs::create_dir_all(&folder).unwrap();
    let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}/ssh_config' \"$@\"\n", machine.folder.display());
    fs::write(folder.join("ssh"), script).unwrap();
    fs::set_permissions(folder.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap()
}

#[test]
fn login_on_another_machine_opens_the_browser_here_and_stores_it_there() {
    let stage = Stage::new(AuthorizationSettings::default());
    let ports = [port(&stage.server.url()), port(&stage.authorization.issuer())];
    let Some(machine) = Machine::new(stage.folder(), &ports) else { return };
    let bin = ssh_for(stage.folder(), &machine);
    let user = Command::new("id").arg("-un").output().unwrap();
    let host = format!("{}@box", String::from_utf8_lossy(&user.stdout).trim());
    let output = stage.home.run_with_path(&bin, &["login", "--on", &host, &stage.server.url()]).unwrap();
    let shown = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && shown.contains("Logged in to"), "{shown}\n{}", machine.log());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!((stage.authorization.counts().logins, stage.home.visits()), (1, 1));
    let logins = |home: &Path| {
        let files = fs::read_dir(home.join(".local/state/mendline/credentials")).into_iter().flatten();
        files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("login-")).count()
    };
    assert_eq!(logins(stage.folder()), 0, "nothing is stored here");
    assert!(logins(&machine.folder) > 0);
    // The machine uses the login.
    let there = Home::new(&machine.folder, &programs::built(), Browser::Redirects).unwrap();
    there.configure(&stage.server.url(), &serde_json::Value::Null).unwrap();
    let mut caller = there.start(0, &["--login", "never"]).unwrap();
    caller.initialize(crate::stage::SOON).unwrap();
    assert!(succeeded(&call(&mut caller, "create_note", "there")), "{}", caller.log());
    assert_eq!((stage.executions_of("there"), NAME), (1, "notes"));
}

#[test]
fn login_on_a_machine_that_refuses_says_what_ssh_said() {
    let stage = Stage::new(AuthorizationSettings::default());
    let Some(machine) = Machine::new(stage.folder(), &[]) else { return };
    fs::write(machine.folder.join("person.pub"), "").unwrap();
    let bin = ssh_for(stage.folder(), &machine);
    let output = stage.home.run_with_path(&bin, &["login", "--on", "other@box", &stage.server.url()]).unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("Permission denied") && words.contains("ssh other@box"), "{words}");
    assert_eq!(stage.home.visits(), 0);
}
