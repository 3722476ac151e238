//! Adapters for the engine and its copy.
//!
//! The types of the copy have the same structure and other paths. Every input and output is converted here; a variant
//! that exists on one side only does not compile.

use mendline_core::port::{ExchangeId, Verb};

use super::{EngineEvent, EngineOutput, EventKind, Load, Machine, Request, UpstreamState};

macro_rules! adapter {
    ($name:ident, $doc:literal, $($core:ident)::+) => {
        #[doc = $doc]
        pub(super) mod $name {
            use mendline_core as real;
            use mendline_wire::{Method, Spliced};
            use $($core)::+ as core;

            use super::{EngineOutput, ExchangeId, EngineEvent, Load, Machine, Request, UpstreamState, Verb, EventKind};

            pub(in crate::machine) struct Adapter {
                engine: core::Engine,
                status: core::status::Status,
            }

            impl Adapter {
                pub(in crate::machine) fn new(config: &real::Config, seed: u64) -> Adapter {
                    let upstreams = config.upstreams.iter().map(upstream).collect();
                    let mut lowered = core::Config::new(upstreams);
                    lowered.ledger_bytes = config.ledger_bytes;
                    lowered.lifetime = match config.lifetime {
                        real::Lifetime::WithClients => core::Lifetime::WithClients,
                        real::Lifetime::UntilStopped => core::Lifetime::UntilStopped,
                    };
                    Adapter { engine: core::Engine::new(lowered, seed), status: core::status::Status::default() }
                }
            }

            impl Machine for Adapter {
                fn handle(&mut self, input: real::Input, now: real::Moment) {
                    self.engine.handle(into(input), core::Moment(now.0));
                }
                fn handle_timeout(&mut self, now: real::Moment) {
                    self.engine.handle_timeout(core::Moment(now.0));
                }
                fn poll_output(&mut self) -> Option<EngineOutput> {
                    let output = self.engine.poll_output()?;
                    if let core::Output::Event(event) = &output {
                        self.status.apply(event);
                    }
                    Some(translate(output))
                }
                fn poll_write(&mut self, wanted: real::Port, now: real::Moment) -> Option<Spliced> {
                    self.engine.poll_write(port(wanted), core::Moment(now.0))
                }
                fn poll_stream(
                    &mut self,
                    id: real::ClientId,
                    stream: real::StreamId,
                    now: real::Moment,
                ) -> Option<Option<Spliced>> {
                    let stream = core::StreamId(stream.0);
                    self.engine.poll_stream(client(id), stream, core::Moment(now.0)).map(|it| it.message)
                }
                fn may_read(&self, wanted: real::Port) -> bool {
                    self.engine.may_read(port(wanted))
                }
                fn poll_timeout(&mut self) -> Option<real::Moment> {
                    self.engine.poll_timeout().map(|moment| real::Moment(moment.0))
                }
                fn load(&self) -> Load {
                    let it = self.engine.load();
                    Load {
                        requests: it.requests,
                        asks: it.server_requests,
                        for_clients: it.for_clients,
                        calls: it.calls,
                        for_links: it.for_links,
                        timers: it.timers,
                        bytes: it.bytes,
                    }
                }
                fn upstream_state(&self, upstream: usize) -> UpstreamState {
                    let id = core::UpstreamId(upstream as u16);
                    let folded = self.status.upstreams.get(&id);
                    UpstreamState {
                        link: folded.map_or("Idle", |it| state(it.link)),
                        open: folded.map_or(0, |it| it.open),
                        out: folded.map_or(0, |it| it.out),
                        silent: folded.map_or(0, |it| it.silent.len() as u64),
                        dropped: folded.map_or(0, |it| it.dropped),
                        breaker: folded.map_or("Closed", |it| breaker_state(it.breaker.state)),
                        flows: folded.is_none_or(|it| {
                            breaker_state(it.breaker.state) == "Closed" && it.tools.is_empty() && it.pause.is_none()
                        }),
                        credential: folded.and_then(|it| it.credential.as_ref()).map_or("current", |it| it.state.name()),
                        own_credential: self.engine.credential_state(id).map_or("current", |state| state.name()),
                        own_breaker: self.engine.breaker(id).map_or("Closed", breaker_state),
                        own_link: self.engine.link_state(id).map_or("Idle", state),
                        own_open: self.engine.open_calls(id) as u64,
                        own_out: self.engine.calls_out(id) as u64,
                        own_silent: self.engine.silent_calls(id) as u64,
                    }
                }
            }

            fn upstream(from: &real::UpstreamConfig) -> core::UpstreamConfig {
                let mut to = core::UpstreamConfig::child(from.name.clone(), from.place.clone());
                to.transport = match from.transport {
                    real::config::Transport::Child => core::config::Transport::Child,
                    real::config::Transport::Http(dialect) => core::config::Transport::Http(match dialect {
                        real::config::Dialect::Auto => core::config::Dialect::Auto,
                        real::config::Dialect::Streamable => core::config::Dialect::Streamable,
                        real::config::Dialect::Sse => core::config::Dialect::Sse,
                    }),
                };
                to.credential = match from.credential {
                    real::config::CredentialKind::Fixed => core::config::CredentialKind::Fixed,
                    real::config::CredentialKind::Source => core::config::CredentialKind::Source,
                    real::config::CredentialKind::Login => core::config::CredentialKind::Login,
                };
                to.timeouts.call = from.timeouts.call;
                to.timeouts.total = from.timeouts.total;
                to.timeouts.recovery = from.timeouts.recovery;
                to.timeouts.handshake = from.timeouts.handshake;
                to.timeouts.ping = from.timeouts.ping;
                to.limits.in_flight = from.limits.in_flight;
                to.limits.waiting = from.limits.waiting;
                to.retry.attempts = from.retry.attempts;
                to.retry.initial = from.retry.initial;
                to.retry.cap = from.retry.cap;
                to.retry.codes = from.retry.codes.iter().map(|(code, it)| (*code, on_error(*it))).collect();
                to.retry.statuses = from.retry.statuses.iter().map(|(code, it)| (*code, on_error(*it))).collect();
                to.breaker = from.breaker.map(breaker);
                to.rate_limit = from.rate_limit.map(rate_limit);
                to.trust_hints = from.trust_hints;
                to.catalogue.cache = from.catalogue.cache;
                to.catalogue.startup = match from.catalogue.startup {
                    real::config::Startup::Immediate => core::config::Startup::Immediate,
                    real::config::Startup::Wait => core::config::Startup::Wait,
                };
                to.tools = from.tools.iter().map(|(tool, it)| (tool.clone(), policy(*it))).collect();
                to.resume_attempts = from.resume_attempts;
                to.keep_alive = from.keep_alive.map(|it| core::config::KeepAlive { interval: it.interval, timeout: it.timeout });
                to.reconnect.first = from.reconnect.first;
                to.reconnect.initial = from.reconnect.initial;
                to.reconnect.multiplier = from.reconnect.multiplier;
                to.reconnect.cap_idle = from.reconnect.cap_idle;
                to.reconnect.cap_called = from.reconnect.cap_called;
                to.reconnect.attempts = from.reconnect.attempts;
                to.reconnect.patience = from.reconnect.patience;
                to.reconnect.silent = from.reconnect.silent;
                to
            }

            fn policy(from: real::config::ToolPolicy) -> core::config::ToolPolicy {
                core::config::ToolPolicy {
                    effect: from.effect.map(effect),
                    timeout: from.timeout,
                    in_flight: from.in_flight,
                    waiting: from.waiting,
                    rate_limit: from.rate_limit.map(rate_limit),
                    breaker: from.breaker.map(|it| it.map(breaker)),
                }
            }

            fn rate_limit(from: real::config::RateLimit) -> core::config::RateLimit {
                core::config::RateLimit { burst: from.burst, per_second: from.per_second }
            }

            fn on_error(from: real::config::OnError) -> core::config::OnError {
                match from {
                    real::config::OnError::Never => core::config::OnError::Never,
                    real::config::OnError::Reads => core::config::OnError::Reads,
                    real::config::OnError::Always => core::config::OnError::Always,
                }
            }

            fn breaker(from: real::config::Breaker) -> core::config::Breaker {
                core::config::Breaker {
                    failures: from.failures,
                    success_rate: from.success_rate,
                    window: from.window,
                    window_calls: from.window_calls,
                    open_for: match from.open_for {
                        real::config::OpenFor::Growing { first, cap } => core::config::OpenFor::Growing { first, cap },
                        real::config::OpenFor::Exactly(time) => core::config::OpenFor::Exactly(time),
                    },
                    successes: from.successes,
                    count_tool_errors: from.count_tool_errors,
                }
            }

            fn breaker_state(from: core::policy::breaker::BreakerState) -> &'static str {
                match from {
                    core::policy::breaker::BreakerState::Closed => "Closed",
                    core::policy::breaker::BreakerState::Open => "Open",
                    core::policy::breaker::BreakerState::HalfOpen => "HalfOpen",
                    core::policy::breaker::BreakerState::Isolated => "Isolated",
                }
            }

            fn effect(from: real::policy::effect::Effect) -> core::policy::effect::Effect {
                match from {
                    real::policy::effect::Effect::Read => core::policy::effect::Effect::Read,
                    real::policy::effect::Effect::Idempotent => core::policy::effect::Effect::Idempotent,
                    real::policy::effect::Effect::Unsafe => core::policy::effect::Effect::Unsafe,
                }
            }

            fn link(from: real::LinkId) -> core::LinkId {
                core::LinkId { upstream: core::UpstreamId(from.upstream.0), dial: from.dial }
            }

            fn named(from: core::LinkId) -> real::LinkId {
                real::LinkId { upstream: real::UpstreamId(from.upstream.0), dial: from.dial }
            }

            fn client(from: real::ClientId) -> core::ClientId {
                core::ClientId(from.0)
            }

            fn port(from: real::Port) -> core::Port {
                match from {
                    real::Port::Client(id) => core::Port::Client(client(id)),
                    real::Port::Stream(id, stream) => core::Port::Stream(client(id), core::StreamId(stream.0)),
                    real::Port::Link(id) => core::Port::Link(link(id)),
                    real::Port::Exchange(id) => core::Port::Exchange(exchange(id)),
                }
            }

            fn exchange(from: ExchangeId) -> core::port::ExchangeId {
                core::port::ExchangeId(from.0)
            }

            fn head(from: real::port::Head) -> core::port::Head {
                core::port::Head {
                    status: from.status,
                    content: match from.content {
                        real::port::Content::Empty => core::port::Content::Empty,
                        real::port::Content::Json => core::port::Content::Json,
                        real::port::Content::Events => core::port::Content::Events,
                        real::port::Content::Other => core::port::Content::Other,
                    },
                    session: from.session,
                    retry_after_ms: from.retry_after_ms,
                    challenge: from.challenge.map(|challenge| match challenge {
                        real::port::Challenge::Credential => core::port::Challenge::Credential,
                        real::port::Challenge::Scope => core::port::Challenge::Scope,
                    }),
                }
            }

            fn end(how: real::port::ExchangeEnd) -> core::port::ExchangeEnd {
                match how {
                    real::port::ExchangeEnd::Complete => core::port::ExchangeEnd::Complete,
                    real::port::ExchangeEnd::NoConnection(why) => core::port::ExchangeEnd::NoConnection(why),
                    real::port::ExchangeEnd::Cut(why) => core::port::ExchangeEnd::Cut(why),
                    real::port::ExchangeEnd::Refused => core::port::ExchangeEnd::Refused,
                    real::port::ExchangeEnd::Aborted => core::port::ExchangeEnd::Aborted,
                    real::port::ExchangeEnd::TooLarge => core::port::ExchangeEnd::TooLarge,
                    real::port::ExchangeEnd::Forbidden(why) => core::port::ExchangeEnd::Forbidden(why),
                }
            }

            fn into(input: real::Input) -> core::Input {
                match input {
                    real::Input::CredentialChanged { upstream, number } => {
                        core::Input::CredentialChanged { upstream: core::UpstreamId(upstream.0), number }
                    }
                    real::Input::CredentialFailed { upstream, why } => {
                        core::Input::CredentialFailed { upstream: core::UpstreamId(upstream.0), why }
                    }
                    real::Input::Cached { upstream, what } => core::Input::Cached {
                        upstream: core::UpstreamId(upstream.0),
                        // Converted through its stored form, as between two processes.
                        what: core::ListCache::read(&what.write()).unwrap_or_default(),
                    },
                    real::Input::ClientOpened { client: id, upstream, streams } => core::Input::ClientOpened {
                        client: client(id),
                        upstream: core::UpstreamId(upstream.0),
                        streams: match streams {
                            real::ClientStreams::One => core::ClientStreams::One,
                            real::ClientStreams::Many { resumed } => core::ClientStreams::Many { resumed },
                        },
                    },
                    real::Input::FromClient { client: id, stream, received } => {
                        core::Input::FromClient { client: client(id), stream: core::StreamId(stream.0), received }
                    }
                    real::Input::StreamAttached { client: id, stream } => {
                        core::Input::StreamAttached { client: client(id), stream: core::StreamId(stream.0) }
                    }
                    real::Input::StreamDetached { client: id, stream } => {
                        core::Input::StreamDetached { client: client(id), stream: core::StreamId(stream.0) }
                    }
                    real::Input::StreamClosed { client: id, stream } => {
                        core::Input::StreamClosed { client: client(id), stream: core::StreamId(stream.0) }
                    }
                    real::Input::RequestRefused { upstream, client: id, method, tool, why } => {
                        let upstream = core::UpstreamId(upstream.0);
                        core::Input::RequestRefused { upstream, client: client(id), method, tool, why }
                    }
                    real::Input::ClientEnded { client: id } => core::Input::ClientEnded { client: client(id) },
                    real::Input::ClientLost { client: id } => core::Input::ClientLost { client: client(id) },
                    real::Input::Spawned { link: id, pid } => core::Input::Spawned { link: link(id), pid },
                    real::Input::SpawnFailed { link: id, why } => core::Input::SpawnFailed {
                        link: link(id),
                        why,
                    },
                    real::Input::FromLink { link: id, received } => core::Input::FromLink { link: link(id), received },
                    real::Input::Stderr { link: id, line } => core::Input::Stderr { link: link(id), line },
                    real::Input::LinkBroken { link: id, pipe } => core::Input::LinkBroken {
                        link: link(id),
                        pipe,
                    },
                    real::Input::ChildExited { link: id, how, written } => core::Input::ChildExited {
                        link: link(id),
                        how,
                        written,
                    },
                    real::Input::Reconnect { upstream } => {
                        core::Input::Reconnect { upstream: core::UpstreamId(upstream.0) }
                    }
                    real::Input::ReconnectAll => core::Input::ReconnectAll,
                    real::Input::Isolate { upstream } => {
                        core::Input::Isolate { upstream: core::UpstreamId(upstream.0) }
                    }
                    real::Input::Resume { upstream } => core::Input::Resume { upstream: core::UpstreamId(upstream.0) },
                    real::Input::Reconfigure { upstream: whose, config, change } => core::Input::Reconfigure {
                        upstream: core::UpstreamId(whose.0),
                        config: Box::new(upstream(&config)),
                        change: match change {
                            real::port::Change::Policies => core::port::Change::Policies,
                            real::port::Change::Transport => core::port::Change::Transport,
                        },
                    },
                    real::Input::AddUpstream { upstream: id, config, like } => core::Input::AddUpstream {
                        upstream: core::UpstreamId(id.0),
                        config: Box::new(upstream(&config)),
                        like: like.map(|like| core::UpstreamId(like.0)),
                    },
                    real::Input::RemoveUpstream { upstream } => {
                        core::Input::RemoveUpstream { upstream: core::UpstreamId(upstream.0) }
                    }
                    real::Input::StopIdle { upstream } => {
                        core::Input::StopIdle { upstream: core::UpstreamId(upstream.0) }
                    }
                    real::Input::SystemResumed => core::Input::SystemResumed,
                    real::Input::NetworkChanged => core::Input::NetworkChanged,
                    real::Input::Stop => core::Input::Stop,
                    real::Input::Reached { exchange: id } => core::Input::Reached { exchange: exchange(id) },
                    real::Input::Head { exchange: id, head: it } => {
                        core::Input::Head { exchange: exchange(id), head: head(it) }
                    }
                    real::Input::ResponseBytes { exchange: id } => {
                        core::Input::ResponseBytes { exchange: exchange(id) }
                    }
                    real::Input::StreamEvent { exchange: id, event } => {
                        core::Input::StreamEvent { exchange: exchange(id), event }
                    }
                    real::Input::Body { exchange: id, received } => {
                        core::Input::Body { exchange: exchange(id), received }
                    }
                    real::Input::End { exchange: id, how, written } => core::Input::End {
                        exchange: exchange(id),
                        how: end(how),
                        written: match written {
                            real::port::Written::Nothing => core::port::Written::Nothing,
                            real::port::Written::Partial => core::port::Written::Partial,
                            real::port::Written::Whole => core::port::Written::Whole,
                        },
                    },
                }
            }

            fn request(ask: core::port::HttpRequest, reuse: core::port::Reuse) -> Request {
                Request {
                    verb: match ask.verb {
                        core::port::Verb::Get => Verb::Get,
                        core::port::Verb::Post => Verb::Post,
                        core::port::Verb::Delete => Verb::Delete,
                    },
                    target: ask.target,
                    headers: ask.headers,
                    body: ask.body.map(|body| body.to_bytes()),
                    fresh: reuse == core::port::Reuse::Fresh,
                }
            }

            fn translate(output: core::Output) -> EngineOutput {
                match output {
                    core::Output::Spawn { link } => EngineOutput::Spawn(named(link)),
                    core::Output::CloseStdin { link } => EngineOutput::CloseStdin(named(link)),
                    core::Output::Signal { link, signal } => EngineOutput::Signal(
                        named(link),
                        match signal {
                            core::port::Signal::Term => real::port::Signal::Term,
                            core::port::Signal::Kill => real::port::Signal::Kill,
                        },
                    ),
                    core::Output::Event(event) => EngineOutput::Event(EngineEvent {
                        upstream: event.upstream().map(|upstream| usize::from(upstream.0)),
                        text: event.to_string(),
                        kind: event_kind(&event),
                        reason: event_reason(&event),
                    }),
                    core::Output::Exchange { exchange, upstream, request: ask, reuse } => {
                        EngineOutput::Exchange(ExchangeId(exchange.0), usize::from(upstream.0), request(*ask, reuse))
                    }
                    core::Output::Abort { exchange } => EngineOutput::Abort(ExchangeId(exchange.0)),
                    core::Output::Cache { upstream, what } => {
                        EngineOutput::StoreCatalogue(usize::from(upstream.0), what.write())
                    }
                    core::Output::ReplaceTransport { upstream } => EngineOutput::Renew(usize::from(upstream.0)),
                    core::Output::RenewCredential { upstream, refused, challenge } => {
                        let challenge = match challenge {
                            core::port::Challenge::Credential => real::port::Challenge::Credential,
                            core::port::Challenge::Scope => real::port::Challenge::Scope,
                        };
                        EngineOutput::RenewCredential(usize::from(upstream.0), refused, challenge)
                    }
                    core::Output::StreamReady { client, stream } => {
                        EngineOutput::StreamReady(real::ClientId(client.0), real::StreamId(stream.0))
                    }
                    core::Output::UpstreamRemoved { upstream } => {
                        EngineOutput::UpstreamRemoved(usize::from(upstream.0))
                    }
                    core::Output::Finished { .. } => EngineOutput::Finished,
                }
            }

            fn event_kind(event: &core::event::Event) -> EventKind {
                use core::event::{Answered, Event};
                match event {
                    Event::AnsweredFromCatalogue { method: Method::Initialize, .. } => EventKind::InitializeFromCatalogue,
                    Event::LinkStateChanged { from, to, .. } => EventKind::Moved(state(*from), state(*to)),
                    Event::MessageDropped { why, .. } => EventKind::Dropped(reason(*why)),
                    Event::CallAccepted { call, tool, .. } => {
                        EventKind::Accepted(*call, tool.as_ref().map(|tool| tool.as_str().to_owned()))
                    }
                    Event::AttemptStarted { call, .. } => EventKind::Sent(*call),
                    Event::CallRetried { call, outcome, why, .. } => {
                        let is_answered = *outcome == core::evidence::Outcome::Answered;
                        let is_own = matches!(why.name(), "unreadable" | "stream_refused" | "timed_out");
                        EventKind::Retried(*call, is_answered || is_own)
                    }
                    Event::CallReturned { call, .. }
                    | Event::VerdictAwaited { call, .. }
                    | Event::HintsAwaited { call, .. } => EventKind::Held(*call),
                    Event::CallSilent { call, .. } => EventKind::Silent(*call),
                    Event::VerdictReached { .. } => EventKind::Verdict,
                    Event::Isolated { .. } => EventKind::Isolated,
                    Event::Resumed { .. } => EventKind::Resumed,
                    Event::CallRejected { .. } => EventKind::Rejected,
                    Event::CallAnswered { call, result: Answered::Ok | Answered::ToolError, .. } => EventKind::Answered(*call),
                    Event::CallAnswered { call, .. } => EventKind::AnsweredWithError(*call),
                    Event::ProvisionalAnswer { call, .. }
                    | Event::CallFailed { call, .. }
                    | Event::CallCancelled { call, .. }
                    | Event::CallAbandoned { call, .. } => EventKind::Ended(*call),
                    Event::BreakerOpened { tool, open_for, .. } => EventKind::Opened(tool.clone(), *open_for),
                    Event::BreakerHalfOpened { tool, .. } => EventKind::HalfOpened(tool.clone()),
                    Event::BreakerClosed { tool, .. } => EventKind::Closed(tool.clone()),
                    Event::ClientLost { .. } => EventKind::ClientLost,
                    _ => EventKind::Other,
                }
            }

            fn event_reason(event: &core::event::Event) -> Option<&'static str> {
                match event {
                    core::event::Event::LinkStateChanged { why: Some(why), .. }
                    | core::event::Event::CallFailed { why, .. }
                    | core::event::Event::CallRetried { why, .. }
                    | core::event::Event::CallRejected { why, .. } => Some(why.name()),
                    _ => None,
                }
            }

            fn state(state: core::event::LinkState) -> &'static str {
                use core::event::LinkState;
                match state {
                    LinkState::Idle => "Idle",
                    LinkState::Dialing => "Dialing",
                    LinkState::Up => "Up",
                    LinkState::Draining => "Draining",
                    LinkState::Waiting => "Waiting",
                    LinkState::Parked => "Parked",
                }
            }

            fn reason(why: core::event::Dropped) -> &'static str {
                use core::event::Dropped;
                match why {
                    Dropped::Late => "late",
                    Dropped::Unknown => "unknown",
                    Dropped::WithoutId => "nameless",
                    Dropped::Undeliverable => "no way",
                    Dropped::StaleProgress => "stale progress",
                    Dropped::StaleReply => "stale reply",
                    Dropped::NoStream => "no stream",
                    Dropped::NotRead => "not read",
                }
            }
        }
    };
}

adapter!(engine, "The engine itself.", mendline_core);
adapter!(copy, "The copy that defects are planted in.", crate::planted);
