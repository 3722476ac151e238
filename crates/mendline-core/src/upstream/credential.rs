//! The credential of a server: renewed after a refusal, once for all calls.

use super::Upstream;
use crate::cx::Cx;
use crate::reason::CredentialError;

impl Upstream {
    /// Handles a new credential: a server that needed a login is probed at once.
    pub fn handle_credential_changed(&mut self, number: u32, cx: &mut Cx<'_>) {
        let _ = number;
        self.probe_login(cx);
    }

    /// Handles a renewal without a newer credential.
    pub fn handle_credential_failed(&mut self, why: CredentialError, cx: &mut Cx<'_>) {
        let _ = (why, cx);
    }
}
