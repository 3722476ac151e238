//! The stored logins of this user, without their tokens.

use std::time::{Duration, SystemTime};

use mendline::transport::http::Target;
use mendline_oauth::LoginInfo;
use serde::Serialize;

use crate::login::outcome::{until, who};
use crate::plan::credential;

/// A stored login.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Login {
    /// Origin of the server; the rest of a URL may be a secret.
    pub(crate) server: String,
    /// Account of the configuration.
    pub(crate) account: Option<String>,
    /// The person, as far as the provider said it.
    pub(crate) who: Option<String>,
    pub(crate) issuer: String,
    /// Time until the access token expires; 0 if it has.
    pub(crate) expires_in_ms: Option<u64>,
    /// True if it renews itself.
    pub(crate) renews: bool,
    /// True if the provider has ended it.
    pub(crate) ended: bool,
    pub(crate) scopes: Vec<String>,
    /// True if it is sealed with a key in the system keyring.
    pub(crate) sealed: bool,
    /// True if the provider does not say whether it is the login of the account.
    pub(crate) unverified: bool,
}

impl Login {
    pub(crate) fn of(info: &LoginInfo, now: SystemTime) -> Login {
        let origin = Target::parse(&info.server).map(|target| target.origin().to_string());
        let left = |time: SystemTime| time.duration_since(now).unwrap_or(Duration::ZERO);
        Login {
            server: origin.unwrap_or_default(),
            account: info.account.clone(),
            who: who(info),
            issuer: info.issuer.clone(),
            expires_in_ms: info.expires_at.map(|time| u64::try_from(left(time).as_millis()).unwrap_or(u64::MAX)),
            renews: info.has_refresh,
            ended: info.ended,
            scopes: info.scopes.clone(),
            sealed: info.sealed,
            unverified: info.unverified,
        }
    }

    /// Returns who is logged in where, and until when.
    pub(crate) fn words(&self) -> String {
        let who = match (&self.who, &self.account) {
            (who, Some(account)) if self.unverified => {
                format!("{} (account {account} is not verified)", who.as_deref().unwrap_or("logged in"))
            }
            (who, _) => who.clone().unwrap_or_else(|| "logged in".to_owned()),
        };
        let now = SystemTime::UNIX_EPOCH;
        let expiry = self.expires_in_ms.map(|left| until(now + Duration::from_millis(left), now));
        let life = match (self.ended, self.renews, expiry, self.expires_in_ms) {
            (true, ..) => "ended by the provider: log in again".to_owned(),
            (_, false, _, Some(0)) => "expired, and it cannot be renewed: log in again".to_owned(),
            (_, true, _, Some(0)) => "expired, renewed with the next request".to_owned(),
            (_, true, Some(expiry), _) => format!("token expires {expiry}, renews itself"),
            (_, false, Some(expiry), _) => format!("ends {expiry}, because the provider gave no refresh token"),
            (_, _, None, _) => "without a known end".to_owned(),
        };
        format!("{who}, at {}; {life}", self.issuer)
    }
}

/// Returns what is to be said about files of logins that cannot be used.
pub(crate) fn troubles() -> Vec<String> {
    credential::store().map_or_else(|_| Vec::new(), |store| store.troubles())
}

/// Returns the stored logins, or a warning.
pub(crate) fn stored() -> Result<Vec<Login>, String> {
    // Without a place for logins there are none.
    let Ok(store) = credential::store() else { return Ok(Vec::new()) };
    let now = SystemTime::now();
    let logins = store.logins().map_err(|error| error.to_string())?;
    Ok(logins.iter().map(|info| Login::of(info, now)).collect())
}

/// Returns the number of requests about the login to an origin that were fruitless today, over all processes.
pub(crate) fn fruitless_today(origin: &str) -> u32 {
    credential::store().map_or(0, |store| store.fruitless_today(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(expires_in_ms: Option<u64>, renews: bool) -> Login {
        Login {
            server: "https://x.test".to_owned(),
            account: None,
            who: Some("me".to_owned()),
            issuer: "https://i.test".to_owned(),
            expires_in_ms,
            renews,
            ended: false,
            scopes: Vec::new(),
            sealed: false,
            unverified: false,
        }
    }

    #[test]
    fn account_that_is_not_verified_is_said() {
        let login = Login { who: None, account: Some("me@work".to_owned()), unverified: true, ..login(None, true) };
        assert!(login.words().contains("account me@work is not verified"), "{}", login.words());
    }

    #[test]
    fn login_words_tell_whether_a_person_is_needed() {
        assert!(login(Some(60_000), true).words().contains("renews itself"));
        assert!(login(Some(60_000), false).words().contains("ends in 1"), "{}", login(Some(60_000), false).words());
        assert!(login(Some(0), false).words().contains("log in again"));
        assert!(Login { ended: true, ..login(Some(60_000), true) }.words().contains("log in again"));
    }
}
