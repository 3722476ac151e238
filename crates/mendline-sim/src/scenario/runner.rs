//! The commands of a scenario.
//!
//! | Command | Effect |
//! |---|---|
//! | `upstream NAME child [modern] [call=3s] [total=9s] [recovery=5s] [handshake=5s] [in-flight=1] [waiting=2] [work=50ms] [start=10ms] [startup=at-once] [pipe=200] [max-retries=3]` | configures a server; must come first |
//! | `upstream NAME http [stateful] [stateless] [sse] [modern] [dialect=auto] [events] [named] [polls] [quiet] [credential=login] …` | configures an HTTP server: its protocol, the configured dialect, and the form of its answers |
//! | `client [of NAME] initializes` | completes the handshake of its era |
//! | `client [of NAME] asks id=7 tools/call create_note` | sends a request; the id is any JSON |
//! | `client [of NAME] asks id=10..29 tools/call read_note,create_note` | sends twenty requests together, of these tools in turn |
//! | `client [of NAME] cancels id=7` | cancels a request |
//! | `client [of NAME] leaves`, `closes`, `stops-reading`, `reads-again` | disconnects, closes its output, stops or resumes reading |
//! | `kill NAME`, `exit NAME 3`, `halt NAME`, `resume NAME` | kills, ends, stops or continues the process |
//! | `fault NAME begins p55_crash_loop [chance=100] [after=5ms]`, `strikes`, `ends` | begins, repeats or ends a fault of the matrix; the options replace its random percentage and time |
//! | `respond NAME 429 [retry-after=3600] [to=read_note]` | answers every POST, or every call of a tool, with this status |
//! | `busy NAME` | the server goes on with its work and reads no other request |
//! | `heal NAME` | ends all faults of a server |
//! | `refuse-resumption NAME` | the HTTP server resumes no stream |
//! | `restart NAME`, `forget NAME` | the HTTP server loses all its state and connections, or its sessions |
//! | `cut NAME id=7` | resets the connection that carries this request |
//! | `reload NAME` | the settings of the transport change, e.g. a credential |
//! | `expire NAME`, `log-in NAME` | the server refuses the current credential from now on; the shell gets the next one |
//! | `restrict NAME` | the tool `create_note` needs permissions that the login does not have |
//! | `source NAME works`, `down`, `hangs`, `ended` | the state of the source of the credential |
//! | `says NAME {"jsonrpc":…}` | the process writes this line |
//! | `tick 100ms` | advances the time |
//! | `reconnect NAME`, `stop` | actions of the operator |
//! | `oracle` | prints which requests were executed |
//! | `brief 20ms` | from now on lines about calls are counted, those within this time together; the oracle counts too |

use std::time::Duration;

use bytes::Bytes;
use mendline_core::config::{AutoReconnect, Catalogue, CredentialKind, Dialect, Startup, Transport};
use mendline_core::port::Change;
use mendline_core::reason::CutReason;
use mendline_core::{ClientId, Config, Lifetime, UpstreamConfig};

use super::ScenarioLog;
use crate::authorization::SourceState;
use crate::client::{Client, RequestSpec, Workload};
use crate::clock::Ending;
use crate::fault;
use crate::journal::Journal;
use crate::machine::EngineKind;
use crate::network_faults::{InjectedResponse, NetworkFaults, SessionLostReply};
use crate::oracle::{Effect, Key};
use crate::rng::Rng;
use crate::server::{Era, ServerProfile};
use crate::server_faults::ServerFaults;
use crate::site::{HttpServerKind, Site};
use crate::world::{Host, World};

/// Builds a world from commands and runs it.
#[derive(Default)]
pub struct Runner {
    upstreams: Vec<UpstreamConfig>,
    hosts: Vec<Host>,
    world: Option<World>,
}

impl Runner {
    /// Executes one command.
    pub fn execute(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["upstream", name, kind @ ("child" | "http"), options @ ..] = words.as_slice() {
            return self.configure(name, *kind == "http", options);
        }
        self.begin();
        match words.as_slice() {
            ["client", "of", name, rest @ ..] => {
                let index = self.index_of(name)?;
                self.client(index, rest)
            }
            ["client", rest @ ..] => self.client(0, rest),
            ["tick", time] => {
                let time = duration(time)?;
                self.world()?.run_for(time);
                Ok(())
            }
            ["kill", name] => self.end(name, Ending::Signal(9)),
            ["exit", name, code] => self.end(name, Ending::Code(code.parse().map_err(|_| "not an exit code")?)),
            ["halt", name] => self.at(name, |world, index| world.halt(index)),
            ["resume", name] => self.at(name, |world, index| world.release(index)),
            ["reconnect", name] => self.at(name, |world, index| world.reconnect(index)),
            ["fault", name, verb, fault, options @ ..] => self.fault(name, verb, fault, options),
            ["respond", name, status, options @ ..] => self.respond(name, status, options),
            ["busy", name] => self.at(name, |world, index| world.hosts[index].faults.ignores_stdin = true),
            ["heal", name] => self.at(name, fault::restore),
            ["refuse-resumption", name] => self.at(name, |world, index| {
                world.hosts[index].site.iter_mut().for_each(|site| site.faults.resumes_nothing = true);
            }),
            ["restart", name] => self.at(name, |world, index| world.restart(index)),
            ["forget", name] => self.at(name, |world, index| world.forget_sessions(index)),
            ["cut", name, id] => self.cut(name, id),
            ["reload", name] => self.at(name, |world, index| world.reconfigure(index, Change::Transport, |_| {})),
            ["expire", name] => self.at(name, |world, index| world.origins[index].authorization.expire()),
            ["restrict", name] => self.at(name, |world, index| {
                let authorization = &mut world.origins[index].authorization;
                (authorization.permitted_from, authorization.lacks_permissions) = (authorization.current + 1, true);
            }),
            ["log-in", name] => self.at(name, |world, index| world.log_in(index)),
            ["source", name, state] => {
                let state = match *state {
                    "works" => SourceState::Works,
                    "down" => SourceState::Down,
                    "hangs" => SourceState::Hangs,
                    "ended" => SourceState::Ended,
                    _ => return Err("no such state of a source".into()),
                };
                self.at(name, |world, index| world.origins[index].authorization.source = state)
            }
            ["brief", window] => {
                let window = duration(window)?;
                self.world()?.scenario_log.iter_mut().for_each(|log| log.shorten(window));
                Ok(())
            }
            ["says", name, ..] => {
                let text = line.splitn(3, char::is_whitespace).nth(2).unwrap_or_default();
                let text = Bytes::copy_from_slice(text.as_bytes());
                self.at(name, |world, index| {
                    for link in world.living(index) {
                        world.child_writes(link, text.clone());
                    }
                })
            }
            ["stop"] => {
                self.world()?.stop();
                Ok(())
            }
            ["oracle"] => self.oracle(),
            _ => Err("no such command".into()),
        }
    }

    /// Returns the output since the last call, and a broken invariant if there is one.
    pub fn take_lines(&mut self) -> Vec<String> {
        let Some(world) = &mut self.world else { return Vec::new() };
        world.settle_and_check();
        let mut lines = world.scenario_log.as_mut().map(ScenarioLog::take).unwrap_or_default();
        lines.extend(world.violation.take().map(|violation| format!("BROKEN    {violation}")));
        lines
    }

    fn configure(&mut self, name: &str, over_http: bool, options: &[&str]) -> Result<(), String> {
        if self.world.is_some() {
            return Err("all upstreams must be configured before the first other command".into());
        }
        let mut config = if over_http {
            UpstreamConfig::http(name, "http://notes.example/mcp", Dialect::Auto)
        } else {
            UpstreamConfig::child(name, "notes-server")
        };
        // Most scenarios do not test the startup.
        config.catalogue = Catalogue { cache: false, startup: Startup::Wait };
        let mut site = Site {
            kind: HttpServerKind::Stateful,
            faults: NetworkFaults::default(),
            events: 0,
            names: false,
            polls: 0,
            session_lost_reply: SessionLostReply::NotFound,
            comments: false,
            has_notice_stream: true,
            connect: (1, 1),
            harmless: Vec::new(),
        };
        let mut profile =
            ServerProfile { work: (10, 10), progress: 0, server_requests: 0, notices: 0, odd: false, edition: 0 };
        let mut baseline = ServerFaults { start: Duration::from_millis(10), ..ServerFaults::default() };
        let (mut era, mut capacity) = (Era::Legacy, 65_536);
        for option in options {
            match option.split_once('=') {
                None if *option == "modern" => (era, site.kind) = (Era::Modern, HttpServerKind::Modern),
                None if over_http => speak(&mut site, option)?,
                Some(("dialect", "auto")) => config.transport = Transport::Http(Dialect::Auto),
                Some(("dialect", "sse")) => config.transport = Transport::Http(Dialect::Sse),
                Some(("dialect", "streamable")) => config.transport = Transport::Http(Dialect::Streamable),
                Some(("credential", "login")) => config.credential = CredentialKind::Login,
                Some(("credential", "source")) => config.credential = CredentialKind::Source,
                Some(("call", time)) => config.timeouts.call = duration(time)?,
                Some(("total", time)) => config.timeouts.total = duration(time)?,
                Some(("recovery", time)) => config.timeouts.recovery = duration(time)?,
                Some(("handshake", time)) => config.timeouts.handshake = duration(time)?,
                Some(("in-flight", count)) => config.limits.in_flight = number(count)?,
                Some(("waiting", count)) => config.limits.waiting = number(count)?,
                Some(("work", time)) => {
                    let millis = duration(time)?.as_millis() as u64;
                    profile.work = (millis, millis);
                }
                Some(("start", time)) => baseline.start = duration(time)?,
                Some(("startup", "at-once")) => config.catalogue = Catalogue::default(),
                Some(("max-retries", count)) => {
                    let retries = u32::try_from(number(count)?).map_err(|_| "too many")?;
                    let policy = AutoReconnect { max_retries: Some(Some(retries)), ..AutoReconnect::default() };
                    config.reconnect = policy.into();
                }
                Some(("pipe", bytes)) => capacity = number(bytes)? as u64,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        let call_slots = config.limits.in_flight + config.limits.waiting;
        let rng = Rng::new(self.hosts.len() as u64);
        self.hosts.push(Host {
            name: name.into(),
            era,
            flipped: false,
            faults: baseline.clone(),
            baseline,
            profile,
            capacity,
            pull_ahead: 0,
            latency: (0, 0),
            call_slots,
            limits_tools: false,
            site: over_http.then_some(site),
            rng,
        });
        self.upstreams.push(config);
        Ok(())
    }

    fn begin(&mut self) {
        if self.world.is_some() {
            return;
        }
        let mut config = Config::new(self.upstreams.clone());
        config.lifetime = Lifetime::WithClients;
        let mut world = World::new(EngineKind::Engine, &config, 1, self.hosts.clone(), Journal::default());
        world.scenario_log = Some(ScenarioLog::new(self.hosts.iter().map(|host| host.name.clone()).collect()));
        for (index, host) in self.hosts.iter().enumerate() {
            let plain = config.upstreams[index].catalogue.cache;
            let workload = Workload { plain, ..Workload::none(host.era) };
            let rng = Rng::new(index as u64);
            world.connect_client(Client::new(ClientId(index as u32), index, host.era, workload, 65_536, false, rng));
        }
        world.settle_and_check();
        self.world = Some(world);
    }

    fn client(&mut self, index: usize, words: &[&str]) -> Result<(), String> {
        let world = self.world()?;
        let World { clients, oracle, clock, .. } = &mut *world;
        let client = clients.get_mut(index).ok_or("no such client")?;
        match words {
            ["initializes"] => client.initialize(oracle),
            ["asks", id, method, rest @ ..] => {
                let id = id.strip_prefix("id=").ok_or("write the id as id=7")?;
                let specs: Result<Vec<RequestSpec>, String> = match rest.first() {
                    Some(tools) => tools.split(',').map(|tool| spec(method, Some(tool))).collect(),
                    None => spec(method, None).map(|spec| vec![spec]),
                };
                let specs = specs?;
                match id.split_once("..") {
                    Some((first, last)) => {
                        for (id, spec) in (number(first)?..=number(last)?).zip(specs.iter().cycle()) {
                            client.send_request_with_id(*spec, &id.to_string(), oracle);
                        }
                    }
                    None => {
                        client.send_request_with_id(specs[0], id, oracle);
                    }
                }
            }
            ["cancels", id] => {
                let id = id.strip_prefix("id=").ok_or("write the id as id=7")?;
                let open: Option<Key> = client.open_keys().find(|key| oracle.of(*key).id.as_bytes() == id.as_bytes());
                client.cancel(open.ok_or("no open request has that id")?, clock.now(), oracle);
            }
            ["closes"] => client.closing = true,
            ["leaves"] => world.client_disconnects(index),
            ["stops-reading"] => client.reads = false,
            ["reads-again"] => world.client_resumes(index),
            _ => return Err("no such client command".into()),
        }
        // Long enough for a fast server to receive and answer the message.
        world.run_for(Duration::from_millis(50));
        Ok(())
    }

    fn end(&mut self, name: &str, ending: Ending) -> Result<(), String> {
        self.at(name, |world, index| world.kill(index, ending))
    }

    /// Answers requests with a status in place of the server.
    fn respond(&mut self, name: &str, status: &str, options: &[&str]) -> Result<(), String> {
        let status = status.parse().map_err(|_| "not a status")?;
        let (mut wait, mut tool) = (None, None);
        for option in options {
            match option.split_once('=') {
                Some(("retry-after", seconds)) => wait = Some(number(seconds)? as u64),
                Some(("to", name)) => tool = spec("tools/call", Some(name))?.tool,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        let index = self.index_of(name)?;
        let site = self.world()?.hosts[index].site.as_mut().ok_or("only an HTTP server responds")?;
        site.faults.injected = Some((InjectedResponse::Status(status, wait), 100));
        site.faults.injected_tool = tool;
        Ok(())
    }

    /// Cuts the connection of a request.
    fn cut(&mut self, name: &str, id: &str) -> Result<(), String> {
        let id = id.strip_prefix("id=").ok_or("write the id as id=7")?;
        let index = self.index_of(name)?;
        let world = self.world()?;
        let is_meant = |key: Option<Key>| key.is_some_and(|key| world.oracle.of(key).id.as_bytes() == id.as_bytes());
        let connected = world.connected(index);
        let exchange = connected.into_iter().find(|it| world.exchanges.get(it).is_some_and(|it| is_meant(it.key)));
        let exchange = exchange.ok_or("no connection carries that request")?;
        self.at(name, |world, _| world.cut(exchange, CutReason::Reset))
    }

    fn fault(&mut self, name: &str, verb: &str, fault: &str, options: &[&str]) -> Result<(), String> {
        let index = self.index_of(name)?;
        let fault = fault::by_name(fault).ok_or("no such fault")?;
        match verb {
            "begins" => {
                fault.begin(self.world()?, index);
                let host = &mut self.world()?.hosts[index];
                for option in options {
                    match option.split_once('=') {
                        Some(("chance", percent)) => set_chance(host, number(percent)? as u64),
                        Some(("after", time)) => host.faults.crashes_after = Some(duration(time)?),
                        _ => return Err(format!("no such option: {option}")),
                    }
                }
            }
            "strikes" => {
                fault.repeat(self.world()?, index);
            }
            "ends" => fault.end(self.world()?, index),
            _ => return Err("write `begins`, `strikes` or `ends`".into()),
        }
        self.world()?.settle_and_check();
        Ok(())
    }

    fn oracle(&mut self) -> Result<(), String> {
        let world = self.world()?;
        let is_brief = world.scenario_log.as_ref().is_some_and(ScenarioLog::is_brief);
        let mut ran: Vec<String> = world
            .oracle
            .all()
            .filter(|(_, record)| record.what != "initialize")
            .map(|(_, record)| {
                let id = if is_brief { String::new() } else { format!(" id={}", record.id) };
                format!("{}{id} ran {}×, was sent {}×", record.what, record.runs, record.whole)
            })
            .collect();
        if is_brief {
            ran.sort();
            let mut counted: Vec<(String, u32)> = Vec::new();
            for line in ran {
                match counted.last_mut().filter(|(last, _)| *last == line) {
                    Some((_, count)) => *count += 1,
                    None => counted.push((line, 1)),
                }
            }
            ran = counted.into_iter().map(|(line, count)| format!("{line}: {count} requests")).collect();
        }
        if let Some(log) = &mut world.scenario_log {
            log.write_times();
        }
        if let Some(log) = &mut world.scenario_log {
            ran.iter().for_each(|line| log.write("oracle", line));
        }
        Ok(())
    }

    fn at(&mut self, name: &str, act: impl FnOnce(&mut World, usize)) -> Result<(), String> {
        let index = self.index_of(name)?;
        let world = self.world()?;
        act(world, index);
        world.settle_and_check();
        Ok(())
    }

    fn index_of(&self, name: &str) -> Result<usize, String> {
        self.hosts.iter().position(|host| host.name == name).ok_or_else(|| format!("no upstream is called {name}"))
    }

    fn world(&mut self) -> Result<&mut World, String> {
        self.world.as_mut().ok_or_else(|| "no upstream is configured".to_owned())
    }
}

fn spec(method: &str, tool: Option<&str>) -> Result<RequestSpec, String> {
    const METHODS: &[(&str, Effect)] = &[
        ("tools/list", Effect::Read),
        ("resources/read", Effect::Read),
        ("ping", Effect::Read),
        ("logging/setLevel", Effect::Idempotent),
        ("acme/frobnicate", Effect::Unsafe),
    ];
    const TOOLS: &[(&str, Effect)] =
        &[("read_note", Effect::Read), ("put_note", Effect::Idempotent), ("create_note", Effect::Unsafe)];
    if method == "tools/call" {
        let (tool, effect) = TOOLS.iter().find(|(name, _)| Some(*name) == tool).ok_or("no such tool")?;
        return Ok(RequestSpec { method: "tools/call", tool: Some(tool), effect: *effect, continues: false });
    }
    let (method, effect) = METHODS.iter().find(|(name, _)| *name == method).ok_or("no such method")?;
    Ok(RequestSpec { method, tool: None, effect: *effect, continues: false })
}

/// Replaces the percentages of the faults that a host has.
fn set_chance(host: &mut Host, percent: u64) {
    for chance in [&mut host.faults.internal_errors, &mut host.faults.session_errors] {
        *chance = if *chance > 0 { percent } else { 0 };
    }
    let Some(site) = &mut host.site else { return };
    let faults = &mut site.faults;
    faults.injected = faults.injected.map(|(injected, _)| (injected, percent));
    faults.cut = faults.cut.map(|(cut, _)| (cut, percent));
    faults.rejection = faults.rejection.map(|(rejection, _)| (rejection, percent));
}

/// Applies an option of an HTTP server.
fn speak(site: &mut Site, word: &str) -> Result<(), String> {
    match word {
        "stateful" => site.kind = HttpServerKind::Stateful,
        "stateless" => site.kind = HttpServerKind::Stateless,
        "sse" => site.kind = HttpServerKind::Sse,
        "events" => site.events = 100,
        "named" => (site.events, site.names) = (100, true),
        "polls" => site.polls = 100,
        "quiet" => site.has_notice_stream = false,
        _ => return Err(format!("no such option: {word}")),
    }
    Ok(())
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or("a duration needs a unit: ms, s or min")?;
    let count: u64 = text[..split].parse().map_err(|_| format!("not a duration: {text}"))?;
    match &text[split..] {
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        "min" => Ok(Duration::from_secs(60 * count)),
        _ => Err(format!("not a duration: {text}")),
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}
