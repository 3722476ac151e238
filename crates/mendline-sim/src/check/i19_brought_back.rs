//! I19: what a client relies on survives the loss of its server.
//!
//! A legacy server that was started again knows nothing of the client before it. Once calls are answered again it has been
//! told the log level and exactly the subscriptions that the client set last; a list that the client has read and that reads
//! differently now was said to have changed, and none is said to have changed without cause. In the modern era a
//! subscription that is open is one that the current server serves. Nothing in here is about time: the world compares notes
//! when everything has healed and come to rest.
//!
//! What the client cannot know itself is not held against anybody: a change that was never confirmed may have been made or
//! not. A list that could not be read at all is a list that has changed.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::{ClientId, Moment};
use mendline_wire::{Kind, Message, Method};

use super::Check;
use crate::client::ExpectedState;
use crate::fact::{Fact, Via};
use crate::oracle::{Key, Oracle, Verdict};
use crate::server::SessionState;

/// Which lists have a reason to be said to have changed.
#[derive(Default)]
pub(super) struct BroughtBack {
    /// Upstreams that have had more than one edition, or whose lists could not be read.
    changed: BTreeSet<usize>,
    /// Lists that we read ourselves, by the id that the server knows them under.
    lists: BTreeSet<(usize, Vec<u8>)>,
    upstream_of: BTreeMap<ClientId, usize>,
    modern: BTreeSet<ClientId>,
}

fn is_list(method: Method) -> bool {
    matches!(method, Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::ResourcesTemplatesList)
}

fn is_change(method: Method) -> bool {
    matches!(method, Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged)
}

fn compare(client: ClientId, expected: &ExpectedState, state: &SessionState, edition: u32) -> Result<(), String> {
    if let Some(level) = expected.level()
        && level != state.level.as_deref()
    {
        return Err(format!("client {} chose the level {level:?}, and its server knows {:?}", client.0, state.level));
    }
    for (uri, wanted) in &expected.subscriptions {
        let known = state.subscriptions.contains(uri);
        if wanted.is_some_and(|wanted| wanted != known) {
            let state = if known { "has" } else { "has not" };
            return Err(format!(
                "client {} was last told that its subscription to {uri} is {wanted:?}, and its server {state} it",
                client.0
            ));
        }
    }
    if let Some(uri) = state.subscriptions.iter().find(|uri| !expected.subscriptions.contains_key(*uri)) {
        return Err(format!("the server of client {} has a subscription to {uri}, which it never wanted", client.0));
    }
    match expected.lists.iter().find(|(_, read)| read.edition != edition && !read.stale) {
        Some((method, read)) => Err(format!(
            "client {} has read edition {} of {method:?}, its server has {edition}, and nobody said so",
            client.0, read.edition
        )),
        None => Ok(()),
    }
}

impl BroughtBack {
    fn given(&mut self, by: Via, message: &Message) {
        // Some servers give a number back as a string.
        let id = message.id().unwrap_or_default();
        let id = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id).to_vec();
        if message.kind() == Kind::Error && self.lists.contains(&(by.upstream(), id)) {
            self.changed.insert(by.upstream());
        }
    }

    fn unserved(key: Key, oracle: &Oracle) -> Result<(), String> {
        Err(format!("{} listens, and the current server does not know of it", oracle.of(key).id))
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
            // Who could not have a list has seen nothing of it, and anything is news.
            Fact::Answered { key, verdict: Verdict::Failed(_), .. } if is_list(oracle.of(*key).method) => {
                self.changed.insert(oracle.of(*key).upstream);
            }
            Fact::Received { by, message: Some(message) } => self.given(*by, message),
            // What cannot be read may be a list, and a list that cannot be read is not what it was.
            Fact::Received { by, message: None } => {
                self.changed.insert(by.upstream());
            }
            Fact::NotificationRead { client, message, stamp: None } if is_change(message.method()) => {
                let upstream = self.upstream_of.get(client).copied().unwrap_or_default();
                if !self.modern.contains(client) && !self.changed.contains(&upstream) {
                    return Err(format!(
                        "client {} was told {}, and nothing has changed",
                        client.0,
                        message.method_name()
                    ));
                }
            }
            Fact::StateCompared { unserved: Some(key), .. } => return Self::unserved(*key, oracle),
            Fact::StateCompared { client, expected, state: Some(state), edition, .. } => {
                return compare(*client, expected, state, *edition);
            }
            _ => {}
        }
        Ok(())
    }
}
