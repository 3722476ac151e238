//! I19: session state survives the loss of a server.
//!
//! A restarted legacy server has no session state. Once calls are answered again, it has received the log level and
//! exactly the subscriptions that the client set last. A list that changed since the client read it was reported as
//! changed, and no list is reported as changed without a reason. In the modern era, an open subscription is served by
//! the current server. The world compares the states after all faults; this check has no time bounds.
//!
//! An unconfirmed change may or may not have been made, so it is not checked. A list that could not be read counts as
//! changed. Several clients share a session: its level is at least as verbose as that of each, and it has the
//! subscriptions of all.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::{ClientId, Moment};
use mendline_wire::{Kind, Message, Method};

use super::{Check, is_list_change};
use crate::client::ExpectedState;
use crate::fact::{Fact, Via};
use crate::oracle::{Key, Oracle, Verdict};
use crate::server::SessionState;

/// The lists with a reason to be reported as changed.
#[derive(Default)]
pub(super) struct BroughtBack {
    /// Upstreams with more than one edition, or with lists that could not be read.
    changed: BTreeSet<usize>,
    /// Lists that Mendline requested, by the id of the server.
    lists: BTreeSet<(usize, Vec<u8>)>,
    upstream_of: BTreeMap<ClientId, usize>,
    modern: BTreeSet<ClientId>,
}

fn is_list(method: Method) -> bool {
    matches!(method, Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::ResourcesTemplatesList)
}

/// Returns how verbose a log level is, from the most verbose; without a level, the server decides.
fn verbosity(level: Option<&str>) -> usize {
    let levels = ["debug", "info", "warning", "error"];
    level.and_then(|level| levels.iter().position(|it| *it == level)).unwrap_or(levels.len())
}

fn compare(
    client: ClientId,
    expected: &ExpectedState,
    others: &[ExpectedState],
    state: &SessionState,
    edition: u32,
) -> Result<(), String> {
    let is_served = |level: Option<&str>| match others {
        [] => level == state.level.as_deref(),
        _ => verbosity(state.level.as_deref()) <= verbosity(level),
    };
    if let Some(level) = expected.level()
        && !is_served(level)
    {
        return Err(format!("client {} set the level {level:?}, but its server has {:?}", client.0, state.level));
    }
    for (uri, wanted) in &expected.subscriptions {
        let known = state.subscriptions.contains(uri);
        let is_of_others = others.iter().any(|other| other.subscriptions.contains_key(uri));
        if wanted.is_some_and(|wanted| wanted != known && (wanted || !is_of_others)) {
            let state = if known { "has" } else { "has not" };
            return Err(format!(
                "client {} was last told that its subscription to {uri} is {wanted:?}, and its server {state} it",
                client.0
            ));
        }
    }
    let is_requested =
        |uri: &&String| others.iter().chain([expected]).any(|expected| expected.subscriptions.contains_key(*uri));
    if let Some(uri) = state.subscriptions.iter().find(|uri| !is_requested(uri)) {
        return Err(format!("the server of client {} has a subscription to {uri}, which it never requested", client.0));
    }
    match expected.lists.iter().find(|(_, read)| read.edition != edition && !read.stale) {
        Some((method, read)) => Err(format!(
            "client {} has read edition {} of {method:?}, its server has {edition}, and no notification said so",
            client.0, read.edition
        )),
        None => Ok(()),
    }
}

impl BroughtBack {
    fn given(&mut self, by: Via, message: &Message) {
        // Some servers return a numeric id as a string.
        let id = message.id().unwrap_or_default();
        let id = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id).to_vec();
        if message.kind() == Kind::Error && self.lists.contains(&(by.upstream(), id)) {
            self.changed.insert(by.upstream());
        }
    }

    fn unserved(key: Key, oracle: &Oracle) -> Result<(), String> {
        Err(format!("{} is an open subscription that the current server does not serve", oracle.of(key).id))
    }
}

impl Check for BroughtBack {
    fn name(&self) -> &'static str {
        "I19 brought back"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Arrived(key) => {
                let record = oracle.of(*key);
                self.upstream_of.insert(record.client, record.upstream);
                if record.method == Method::Discover {
                    self.modern.insert(record.client);
                }
            }
            Fact::NewEdition(upstream) => {
                self.changed.insert(*upstream);
            }
            Fact::HandedOut { by, message, key: None } if is_list(message.method()) => {
                self.lists.insert((by.upstream(), message.id().unwrap_or_default().to_vec()));
            }
            // A client that failed to read a list may be notified of any change.
            Fact::Answered { key, verdict: Verdict::Failed(_), .. } if is_list(oracle.of(*key).method) => {
                self.changed.insert(oracle.of(*key).upstream);
            }
            Fact::Received { by, message: Some(message) } => self.given(*by, message),
            // An invalid message may be a list, which then counts as changed.
            Fact::Received { by, message: None } => {
                self.changed.insert(by.upstream());
            }
            Fact::NotificationRead { client, message, stamp: None } if is_list_change(message.method()) => {
                let upstream = self.upstream_of.get(client).copied().unwrap_or_default();
                if !self.modern.contains(client) && !self.changed.contains(&upstream) {
                    return Err(format!(
                        "client {} received {}, but no list has changed",
                        client.0,
                        message.method_name()
                    ));
                }
            }
            Fact::StateCompared { unserved: Some(key), .. } => return Self::unserved(*key, oracle),
            Fact::StateCompared { client, expected, others, state: Some(state), edition, .. } => {
                return compare(*client, expected, others, state, *edition);
            }
            _ => {}
        }
        Ok(())
    }
}
