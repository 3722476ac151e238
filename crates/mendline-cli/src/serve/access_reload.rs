//! Reload of the rules of access: with the configuration file, with the stored tokens, and with the certificate.
//!
//! New rules apply to the next request. A token that is gone ends its sessions at once. Files with a mistake change
//! nothing, and the log names the mistake.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mendline::frontend::http::{CertificateChange, Gateway, ServerTls, token_file};
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::os::files::identity;
use mendline_config::AccessSettings;

use super::served_file::ServedFile;
use crate::access_flags::AccessOptions;
use crate::external_inputs::WatchedFile;
use crate::gateway_access::{certificate, rules};

/// The files of a running gateway.
pub(super) struct WatchedFiles {
    pub(super) file: Option<ServedFile>,
    pub(super) access: AccessReload,
}

impl WatchedFile for WatchedFiles {
    fn look(&mut self, log: &LogHandle) {
        if let Some(settings) = self.file.as_mut().and_then(|file| file.look(log)) {
            self.access.take(settings, log);
        }
        self.access.look(log);
    }

    fn read(&mut self, log: &LogHandle) {
        if let Some(settings) = self.file.as_mut().and_then(|file| file.read(log)) {
            self.access.take(settings, log);
        }
        self.access.read(log);
    }
}

/// The rules of access, with everything that they come from.
pub(super) struct AccessReload {
    options: AccessOptions,
    settings: AccessSettings,
    listen: SocketAddr,
    state: Option<PathBuf>,
    /// The file of the stored tokens, when it was read last.
    tokens: Stamp,
    tls: Option<ServerTls>,
    gateway: Arc<Gateway>,
}

impl AccessReload {
    pub(super) fn new(
        options: AccessOptions,
        settings: AccessSettings,
        listen: SocketAddr,
        state: Option<PathBuf>,
        tls: Option<ServerTls>,
        gateway: Arc<Gateway>,
    ) -> AccessReload {
        // The rules may be older than the file, so the first look reads it.
        AccessReload { options, settings, listen, state, tokens: None, tls, gateway }
    }

    /// Applies the settings of a changed configuration file.
    fn take(&mut self, settings: AccessSettings, log: &LogHandle) {
        let (old, new) = (certificate(&self.options, &self.settings), certificate(&self.options, &settings));
        match (&self.tls, &new) {
            (Some(tls), Some(files)) if old != new => match tls.replace(&files.certificate, &files.key) {
                Ok(()) => log.write(LogLevel::Info, "the certificate of the gateway is replaced"),
                Err(fault) => log.write(LogLevel::Error, &format!("{fault}; the old certificate stays in use")),
            },
            (Some(_), None) | (None, Some(_)) => {
                log.write(LogLevel::Warn, "`access.tls` is switched on or off by a restart of the gateway");
            }
            _ => {}
        }
        if (settings.audit, settings.log) != (self.settings.audit, self.settings.log) {
            log.write(LogLevel::Warn, "`access.audit` and `access.log` change with a restart of the gateway");
        }
        self.settings = settings;
        self.apply(log);
    }

    /// Checks the stored tokens and the certificate.
    fn look(&mut self, log: &LogHandle) {
        let tokens = self.state.as_deref().and_then(stamp);
        if tokens != self.tokens {
            self.tokens = tokens;
            self.apply(log);
        }
        report(self.tls.as_ref().map(ServerTls::look), log);
    }

    /// Reads them at SIGHUP.
    fn read(&mut self, log: &LogHandle) {
        self.apply(log);
        report(self.tls.as_ref().map(ServerTls::look_anew), log);
    }

    fn apply(&self, log: &LogHandle) {
        let last = self.gateway.access();
        match rules(&self.options, &self.settings, Some(&last), self.listen, self.state.as_deref()) {
            Ok(access) => self.gateway.set_access(access),
            Err(error) => log.write(LogLevel::Error, &format!("{error}; the old rules of access stay")),
        }
    }
}

/// The identity, the time of the last change and the size of a file that exists.
type Stamp = Option<((u64, u64), SystemTime, u64)>;

fn stamp(state: &Path) -> Stamp {
    let seen = std::fs::metadata(token_file::path(state)).ok()?;
    Some((identity(&seen), seen.modified().ok()?, seen.len()))
}

fn report(change: Option<CertificateChange>, log: &LogHandle) {
    match change {
        None | Some(CertificateChange::None) => {}
        Some(CertificateChange::Renewed) => log.write(LogLevel::Info, "the certificate of the gateway is renewed"),
        Some(CertificateChange::Unusable(fault)) => {
            log.write(LogLevel::Error, &format!("{fault}; the old certificate of the gateway stays in use"));
        }
    }
}
