//! Upstreams, clients and processes that come and go in random order: every request is answered once, and nothing is
//! left of what was removed.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::Exit;
use mendline_core::{
    ClientId, ClientStreams, Config, Engine, Input, Lifetime, LinkId, Moment, Output, Port, SeededRng, StreamId,
    UpstreamConfig, UpstreamId,
};
use mendline_wire::{Limits, Line, Received};
use serde_json::{Value, json};

/// Places for upstreams besides the first.
const PLACES: u16 = 5;

struct World {
    engine: Engine,
    now: Moment,
    rng: SeededRng,
    /// Processes, with the bytes that each has read.
    children: BTreeMap<LinkId, u64>,
    links: BTreeSet<LinkId>,
    /// Upstreams that the engine has.
    upstreams: BTreeSet<UpstreamId>,
    leaving: BTreeSet<UpstreamId>,
    /// Clients, with the requests that are not answered.
    clients: BTreeMap<ClientId, BTreeSet<u64>>,
    next: u64,
    is_finished: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let config = Config { lifetime: Lifetime::UntilStopped, ..Config::new(vec![server()]) };
        World {
            engine: Engine::new(config, seed),
            now: Moment::ZERO,
            rng: SeededRng::new(seed),
            children: BTreeMap::new(),
            links: BTreeSet::new(),
            upstreams: BTreeSet::from([UpstreamId(0)]),
            leaving: BTreeSet::new(),
            clients: BTreeMap::new(),
            next: 0,
            is_finished: false,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        let time = self.rng.between(Duration::ZERO, Duration::from_nanos(limit * 1_000));
        (u64::try_from(time.as_nanos()).unwrap() / 1_000).min(limit - 1)
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Spawn { link } => {
                    assert!(self.links.insert(link), "{link:?} was used before");
                    assert!(self.upstreams.contains(&link.upstream), "{link:?} has no upstream");
                    self.children.insert(link, 0);
                    self.engine.handle(Input::Spawned { link, pid: 1 }, self.now);
                }
                Output::CloseStdin { link } | Output::Signal { link, .. } => self.exit(link),
                Output::UpstreamRemoved { upstream } => {
                    assert!(self.leaving.remove(&upstream) && self.upstreams.remove(&upstream), "{upstream:?}");
                    assert!(!self.children.keys().any(|link| link.upstream == upstream), "its process still runs");
                }
                Output::Finished { .. } => self.is_finished = true,
                _ => {}
            }
        }
    }

    fn exit(&mut self, link: LinkId) {
        if let Some(written) = self.children.remove(&link) {
            self.engine.handle(Input::ChildExited { link, how: Exit::Code(0), written }, self.now);
        }
    }

    /// Lets a process read everything, and answer it.
    fn serve(&mut self, link: LinkId) {
        while let Some(message) = self.engine.poll_write(Port::Link(link), self.now) {
            let text = message.to_bytes();
            *self.children.entry(link).or_default() += text.len() as u64 + 1;
            let request: Value = serde_json::from_slice(&text).unwrap();
            if request.get("method").is_some() && request.get("id").is_some() {
                let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "tools": [] });
                let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
                self.input(Input::FromLink { link, received: received(&answer) });
            }
            self.collect();
        }
    }

    fn read_clients(&mut self) {
        for (client, open) in &mut self.clients {
            while let Some(message) = self.engine.poll_write(Port::Client(*client), self.now) {
                let message: Value = serde_json::from_slice(&message.to_bytes()).unwrap();
                if let Some(id) = message["id"].as_u64() {
                    assert!(open.remove(&id), "a second answer, or one to another client: {message}");
                }
            }
        }
    }

    fn send(&mut self, client: ClientId, method: &str, params: &Value) {
        self.next += 1;
        let id = self.next;
        self.clients.get_mut(&client).unwrap().insert(id);
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        self.input(Input::FromClient { client, stream: StreamId::COMMON, received: received(&text) });
    }

    fn step(&mut self) {
        let upstream = UpstreamId(u16::try_from(self.below(u64::from(PLACES) + 1)).unwrap());
        let at = usize::try_from(self.below(100)).unwrap();
        let client = self.clients.keys().nth(at % self.clients.len().max(1)).copied();
        let link = self.children.keys().nth(at % self.children.len().max(1)).copied();
        let is_there = self.upstreams.contains(&upstream);
        match (self.below(12), client, link) {
            (0 | 1, ..) if !is_there => {
                self.upstreams.insert(upstream);
                let like = Some(UpstreamId(0));
                self.input(Input::AddUpstream { upstream, config: Box::new(server()), like });
            }
            (2, ..) if is_there && upstream.0 > 0 && self.leaving.insert(upstream) => {
                self.input(Input::RemoveUpstream { upstream });
            }
            (3, ..) => self.input(Input::StopIdle { upstream }),
            (4, ..) if is_there && self.clients.len() < 8 => {
                self.next += 1;
                let client = ClientId(u32::try_from(self.next).unwrap());
                self.clients.insert(client, BTreeSet::new());
                self.input(Input::ClientOpened { client, upstream, streams: ClientStreams::One });
                self.send(client, "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
            }
            (5, Some(client), _) => {
                self.clients.remove(&client);
                self.input(Input::ClientLost { client });
            }
            (6 | 7, Some(client), _) => self.send(client, "tools/call", &json!({ "name": "read" })),
            (8 | 9, _, Some(link)) => self.serve(link),
            (10, _, Some(link)) => self.exit(link),
            _ => self.pass(Duration::from_millis(700)),
        }
        self.collect();
        self.read_clients();
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.handle_timeout(at);
            self.collect();
        }
        self.now = end;
    }

    /// Lets everything that is open come to its end.
    fn settle(&mut self) {
        for _ in 0..400 {
            self.pass(Duration::from_secs(1));
            let links: Vec<LinkId> = self.children.keys().copied().collect();
            links.into_iter().for_each(|link| self.serve(link));
            self.read_clients();
        }
    }
}

fn server() -> UpstreamConfig {
    UpstreamConfig::child("notes", "notes-server")
}

fn received(text: &str) -> Received {
    Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default())
}

#[test]
fn nothing_is_left_of_upstreams_that_come_and_go() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
        }
        world.settle();
        let open: Vec<_> = world.clients.values().flatten().collect();
        assert!(open.is_empty(), "seed {seed}: without an answer: {open:?}");
        assert!(world.leaving.is_empty(), "seed {seed}: not removed: {:?}", world.leaving);
        for client in std::mem::take(&mut world.clients).into_keys() {
            world.input(Input::ClientLost { client });
        }
        for upstream in world.upstreams.clone().into_iter().filter(|upstream| upstream.0 > 0) {
            world.leaving.insert(upstream);
            world.input(Input::RemoveUpstream { upstream });
        }
        world.input(Input::StopIdle { upstream: UpstreamId(0) });
        world.settle();
        let load = world.engine.load();
        assert_eq!((world.upstreams.len(), world.children.len()), (1, 0), "seed {seed}");
        assert_eq!(
            (load.requests, load.calls, load.for_clients, load.for_links),
            (0, 0, 0, 0),
            "seed {seed}: {load:?}"
        );
        assert_eq!((load.bytes, load.timers), (0, 0), "seed {seed}: {load:?}");
        world.input(Input::Stop);
        world.settle();
        assert!(world.is_finished, "seed {seed}");
    }
}
