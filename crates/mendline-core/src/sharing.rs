//! The decision which clients of a server share a process or a session.
//!
//! A server of the configuration has one upstream from the start, its *base*, and more while clients need them. Clients
//! with equal keys share an upstream: the same principal, revision and capabilities. What a server may do depends on the
//! directories of its client (roots), and those are not known at the handshake, so a client with roots shares with no
//! other. Requests of the modern era carry everything that a server needs, so all of one principal share one upstream.
//!
//! An upstream whose last client has left is removed at once, or kept for the idle time, so that a client which comes
//! back finds it. The base stays, but its process or session ends, and the next client begins a new one.
//!
//! A server has a limit of upstreams, and each principal a lower one, so that one principal cannot keep the others out.
//! At a limit the upstream without clients that its principal has left the longest time ago makes room.
//!
//! The shell passes the steps on to the engine: [`Input::AddUpstream`](crate::Input::AddUpstream),
//! [`Input::RemoveUpstream`](crate::Input::RemoveUpstream) and [`Input::StopIdle`](crate::Input::StopIdle).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Sharing, UpstreamConfig};
use crate::defaults;
use crate::moment::Moment;
use crate::port::UpstreamId;

/// What two clients must have in common to share an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareKey {
    /// A client that shares with no other.
    Alone,
    /// Clients with this handshake.
    Handshake {
        /// The principal.
        principal: Arc<str>,
        /// The revision that the client asked for.
        revision: String,
        /// Its capabilities, as JSON with sorted names.
        capabilities: String,
    },
    /// Requests of the modern era.
    Modern {
        /// The principal.
        principal: Arc<str>,
    },
    /// Clients of the legacy era whose handshake is not known.
    WithoutHandshake {
        /// The principal.
        principal: Arc<str>,
        /// The revision of their requests.
        revision: String,
    },
}

impl ShareKey {
    /// The key of a client with these `initialize` parameters. A client whose parameters are unreadable shares with no
    /// other.
    pub fn of_handshake(principal: &Arc<str>, params: &[u8]) -> ShareKey {
        let Ok(params) = serde_json::from_slice::<serde_json::Value>(params) else { return ShareKey::Alone };
        let Some(revision) = params["protocolVersion"].as_str() else { return ShareKey::Alone };
        let capabilities = &params["capabilities"];
        if !capabilities["roots"].is_null() {
            return ShareKey::Alone;
        }
        let (revision, capabilities) = (revision.to_owned(), sorted(capabilities).to_string());
        ShareKey::Handshake { principal: Arc::clone(principal), revision, capabilities }
    }
}

/// The same value with the members of all objects in the order of their names.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.into_iter().collect()
        }
        serde_json::Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// The rules of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who shares.
    pub sharing: Sharing,
    /// The limit of upstreams.
    pub limit: usize,
    /// The limit of upstreams of one principal.
    pub limit_of_principal: usize,
    /// The time after which an unused process ends; `None`: a session over HTTP ends with its client, and not before.
    pub idle: Option<Duration>,
}

impl Rules {
    /// The rules of this configuration.
    pub fn of(config: &UpstreamConfig) -> Rules {
        let is_child = config.transport == crate::config::Transport::Child;
        let default = if is_child { Sharing::Shared } else { Sharing::PerClient };
        let (limit, limit_of_principal) = match is_child {
            true => (defaults::PROCESSES, defaults::PROCESSES_OF_PRINCIPAL),
            false => (defaults::SESSIONS, defaults::SESSIONS_OF_PRINCIPAL),
        };
        Rules {
            sharing: config.sharing.unwrap_or(default),
            limit,
            limit_of_principal,
            idle: is_child.then_some(config.idle),
        }
    }
}

/// The upstream of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The upstream.
    pub upstream: UpstreamId,
    /// It is to be added first.
    pub is_new: bool,
    /// Another upstream makes room, and is to be removed.
    pub evicted: Option<UpstreamId>,
}

/// An error: the server has as many processes or sessions as it may, or the principal of the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The limit.
    pub limit: usize,
    /// The limit of the client's own principal is reached.
    pub is_own: bool,
}

/// A step for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The upstream is not needed any more.
    Remove(UpstreamId),
    /// The process or session of the upstream is not used.
    StopIdle(UpstreamId),
}

/// The use of an upstream by its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A client has a connection.
    Now,
    /// The last request was at this time.
    Last(Moment),
}

/// One upstream of a server.
#[derive(Debug)]
struct Member {
    upstream: UpstreamId,
    /// `None` if its next client is served as the first.
    key: Option<ShareKey>,
    /// The principal of its clients.
    principal: Option<Arc<str>>,
    clients: usize,
    /// The time at which the last client came or left.
    changed: Moment,
}

#[derive(Debug)]
struct Server {
    base: UpstreamId,
    rules: Rules,
    members: Vec<Member>,
}

/// The upstreams of all servers of a gateway.
#[derive(Debug)]
pub struct UpstreamPool {
    servers: Vec<Server>,
    /// Numbers that were never used.
    next: u16,
    /// Numbers of removed upstreams, longest unused first.
    free: VecDeque<UpstreamId>,
}

impl UpstreamPool {
    /// Creates a pool without servers. Numbers below `first` are in use.
    pub fn new(first: u16) -> UpstreamPool {
        UpstreamPool { servers: Vec::new(), next: first, free: VecDeque::new() }
    }

    /// Returns a number for another upstream, if there is one.
    pub fn new_id(&mut self) -> Option<UpstreamId> {
        if let Some(id) = self.free.pop_front() {
            return Some(id);
        }
        let id = UpstreamId(self.next);
        if id == UpstreamId::NONE {
            return None;
        }
        self.next += 1;
        Some(id)
    }

    /// Records that an upstream was removed from the engine.
    pub fn release(&mut self, upstream: UpstreamId) {
        self.free.push_back(upstream);
    }

    /// Adds a server with its base.
    pub fn add_server(&mut self, base: UpstreamId, rules: Rules) {
        let member = Member { upstream: base, key: None, principal: None, clients: 0, changed: Moment::ZERO };
        self.servers.push(Server { base, rules, members: vec![member] });
    }

    /// Applies other rules to a server. They hold for clients that come from now on.
    pub fn change_rules(&mut self, base: UpstreamId, rules: Rules) {
        if let Some(server) = self.server_mut(base) {
            server.rules = rules;
        }
    }

    /// Removes a server. Returns its upstreams.
    pub fn remove_server(&mut self, base: UpstreamId) -> Vec<UpstreamId> {
        let Some(at) = self.servers.iter().position(|server| server.base == base) else { return Vec::new() };
        self.servers.remove(at).members.into_iter().map(|member| member.upstream).collect()
    }

    /// The upstreams of a server.
    pub fn upstreams(&self, base: UpstreamId) -> Vec<UpstreamId> {
        let server = self.servers.iter().find(|server| server.base == base);
        server.map(|server| server.members.iter().map(|member| member.upstream).collect()).unwrap_or_default()
    }

    /// Chooses the upstream of a new client of this server.
    pub fn place(
        &mut self,
        base: UpstreamId,
        principal: &Arc<str>,
        key: ShareKey,
        now: Moment,
    ) -> Result<Placement, NoRoom> {
        let no_server = NoRoom { limit: 0, is_own: false };
        let at = self.servers.iter().position(|server| server.base == base).ok_or(no_server)?;
        let rules = self.servers[at].rules;
        let key = match (rules.sharing, key) {
            (Sharing::PerClient, ShareKey::Handshake { .. }) => ShareKey::Alone,
            (_, key) => key,
        };
        let members = &mut self.servers[at].members;
        let is_equal = |member: &&mut Member| key != ShareKey::Alone && member.key.as_ref() == Some(&key);
        if let Some(member) = members.iter_mut().find(is_equal) {
            member.enter(now);
            return Ok(Placement { upstream: member.upstream, is_new: false, evicted: None });
        }
        let evicted = self.servers[at].make_room(principal)?;
        let members = &mut self.servers[at].members;
        if let Some(member) = members.iter_mut().find(|member| member.key.is_none()) {
            (member.key, member.principal) = (Some(key), Some(Arc::clone(principal)));
            member.enter(now);
            return Ok(Placement { upstream: member.upstream, is_new: false, evicted });
        }
        let upstream = self.new_id().ok_or(NoRoom { limit: usize::from(u16::MAX), is_own: false })?;
        let principal = Some(Arc::clone(principal));
        self.servers[at].members.push(Member { upstream, key: Some(key), principal, clients: 1, changed: now });
        Ok(Placement { upstream, is_new: true, evicted })
    }

    /// Records that a client of this upstream has left.
    pub fn leave(&mut self, upstream: UpstreamId, now: Moment) -> Option<Step> {
        let is_its = |server: &&mut Server| server.members.iter().any(|member| member.upstream == upstream);
        let server = self.servers.iter_mut().find(is_its)?;
        let member = server.members.iter_mut().find(|member| member.upstream == upstream)?;
        member.clients = member.clients.saturating_sub(1);
        member.changed = now;
        let is_kept = member.key != Some(ShareKey::Alone) && server.rules.idle.is_some();
        if member.clients > 0 || is_kept {
            return None;
        }
        Some(server.end(upstream))
    }

    /// Ends what was not used for the idle time. `uses` has the uses of upstreams that have clients.
    pub fn expire(&mut self, now: Moment, uses: &BTreeMap<UpstreamId, Use>) -> Vec<Step> {
        let mut steps = Vec::new();
        for server in &mut self.servers {
            let Some(idle) = server.rules.idle else { continue };
            let last_use = |member: &Member| match uses.get(&member.upstream) {
                Some(Use::Now) => now,
                Some(Use::Last(at)) => member.changed.max(*at),
                None => member.changed,
            };
            let is_idle = |member: &&Member| member.key.is_some() && now.since(last_use(member)) >= idle;
            let unused: Vec<_> = server.members.iter().filter(is_idle).map(|it| (it.upstream, it.clients)).collect();
            for (upstream, clients) in unused {
                // Clients that come back find their upstream, and it starts again.
                steps.push(if clients > 0 { Step::StopIdle(upstream) } else { server.end(upstream) });
            }
        }
        steps
    }

    fn server_mut(&mut self, base: UpstreamId) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.base == base)
    }
}

impl Server {
    /// Finds room for another upstream of a principal. Returns the upstream that goes for it, if one must.
    fn make_room(&mut self, principal: &Arc<str>) -> Result<Option<UpstreamId>, NoRoom> {
        let Rules { limit, limit_of_principal, .. } = self.rules;
        let is_its = |member: &&Member| member.principal.as_ref() == Some(principal);
        let is_full = self.members.iter().filter(|member| member.key.is_some()).count() >= limit;
        let is_own = self.members.iter().filter(is_its).count() >= limit_of_principal;
        if !is_full && !is_own {
            return Ok(None);
        }
        // The base is not removed; its next client is served as the first.
        let unused = self.members.iter().filter(is_its).filter(|member| member.clients == 0);
        let Some(oldest) = unused.filter(|member| member.upstream != self.base).min_by_key(|member| member.changed)
        else {
            return Err(NoRoom { limit: if is_own { limit_of_principal } else { limit }, is_own });
        };
        let evicted = oldest.upstream;
        self.members.retain(|member| member.upstream != evicted);
        Ok(Some(evicted))
    }

    /// Ends an upstream without clients. The base stays.
    fn end(&mut self, upstream: UpstreamId) -> Step {
        if upstream == self.base {
            for base in self.members.iter_mut().filter(|member| member.upstream == upstream) {
                (base.key, base.principal) = (None, None);
            }
            return Step::StopIdle(upstream);
        }
        self.members.retain(|member| member.upstream != upstream);
        Step::Remove(upstream)
    }
}

impl Member {
    fn enter(&mut self, now: Moment) {
        self.clients += 1;
        self.changed = now;
    }
}

#[cfg(test)]
mod tests;
