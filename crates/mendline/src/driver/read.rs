//! Reads from clients, children and HTTP, and passes the input to the engine.
//!
//! Each source may deliver a few lines per iteration, and no more bytes than one read returns. The output of an exited
//! child is read to its last line before its exit is reported.

use std::task::{Context, Poll};

use mendline_core::port::Pipe;
use mendline_core::{Engine, Input, Moment, Port, StreamId};
use mendline_wire::Received;

use super::link::{self, Link};
use super::source::{READ_CHUNK, Step};
use super::{Child, Direction, Driver, Host, Iteration, Observer, peer_text, wire};
use crate::frontend::Frontend;
use crate::observe::redact::Redactor;
use crate::transport::http::{Dial, Http};

/// The limit of lines from one source in one iteration. A long burst is read in parts, so that the receiver of the
/// first part works while the next one is read.
const INPUTS_PER_ITERATION: usize = 8;

/// The limit of inputs from one HTTP transport in one iteration. A call has four of them. The responses of one
/// iteration are written to the client together, so a burst of them takes few writes, each of which may wake the
/// client.
const HTTP_INPUTS_PER_ITERATION: usize = 64;

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    pub(super) fn read_clients(&mut self, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        for at in 0..self.clients.len() {
            self.read_client(at, cx, now, iteration);
        }
    }

    fn read_client(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        let connected = &mut self.clients[at];
        let client = connected.id;
        let mut allowance = READ_CHUNK;
        connected.paused = false;
        for _ in 0..INPUTS_PER_ITERATION {
            if !self.engine.may_read(Port::Client(client)) {
                connected.paused = true;
                iteration.paused = true;
                return;
            }
            match connected.frontend.poll_input(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wire_enabled {
                        wire::show_line(&mut self.observer, connected.upstream, Direction::FromClient, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromClient { client, stream: StreamId::COMMON, received }, now);
                }
                Step::End => {
                    connected.next_check = Some(now);
                    self.engine.handle(Input::ClientEnded { client }, now);
                }
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        iteration.again = true;
    }

    pub(super) fn read_links(&mut self, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        let mut at = 0;
        while at < self.links.len() {
            if self.links[at].child.poll_exited(cx).is_ready() {
                let link = self.links.swap_remove(at);
                self.reap(link, now);
                iteration.again = true;
                continue;
            }
            self.read_stdout(at, cx, now, iteration);
            self.read_stderr(at, cx, now, iteration);
            at += 1;
        }
    }

    pub(super) fn read_remotes(&mut self, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        let mut buffered: usize = self.remotes.iter().map(|remote| remote.http.buffered()).sum();
        for remote in self.remotes.iter_mut() {
            let http = &mut remote.http;
            let observer = self.wire_enabled.then_some(&mut self.observer);
            // All transports share one memory budget.
            let others = buffered - http.buffered();
            http.limit_buffers(self.engine.read_budget().saturating_sub(others));
            http.limit_calls(self.members.call_limit(self.engine.in_flight_limit(remote.upstream)));
            iteration.again |= read_http(http, &mut self.engine, &self.redactor, observer, cx, now);
            buffered = others + http.buffered();
        }
        self.engine.note_buffered(buffered);
        self.remotes.drop_ended();
    }

    fn read_stdout(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        link.paused = false;
        for _ in 0..INPUTS_PER_ITERATION {
            if !self.engine.may_read(Port::Link(link.id)) {
                link.paused = true;
                iteration.paused = true;
                return;
            }
            match link.stdout.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wire_enabled {
                        wire::show_line(&mut self.observer, link.id.upstream, Direction::FromServer, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromLink { link: link.id, received }, now);
                }
                Step::End => link.suspect(Pipe::Stdout, now),
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        iteration.again = true;
    }

    fn read_stderr(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        for _ in 0..INPUTS_PER_ITERATION {
            match link.stderr.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    let line = peer_text::stderr_line(&self.redactor, &line);
                    self.observer.on_stderr(link.id.upstream, &line);
                    self.engine.handle(Input::Stderr { link: link.id, line }, now);
                }
                Step::Spent => break,
                Step::End | Step::Wait => return,
            }
        }
        iteration.again = true;
    }

    /// Reaps a child: reads the rest of its output, kills the rest of its process group, and reports its exit.
    fn reap(&mut self, mut link: Link<H::Child>, now: Moment) {
        let id = link.id;
        let (engine, observer, limits, child) = (&mut self.engine, &mut self.observer, &self.limits, &link.child);
        let (wire_enabled, redactor) = (self.wire_enabled, &self.redactor);
        link.stdout.drain_lines(
            link::DRAIN_BYTES,
            |stdout, buffer| child.drain_stdout(stdout, buffer),
            |line| {
                if wire_enabled {
                    wire::show_line(observer, id.upstream, Direction::FromServer, &line);
                }
                engine.handle(Input::FromLink { link: id, received: Received::from_line(line, limits) }, now);
            },
        );
        link.stderr.drain_lines(
            link::DRAIN_BYTES,
            |stderr, buffer| child.drain_stderr(stderr, buffer),
            |line| {
                let line = peer_text::stderr_line(redactor, &line);
                observer.on_stderr(id.upstream, &line);
                engine.handle(Input::Stderr { link: id, line }, now);
            },
        );
        let how = link.child.reap();
        // The system accepted the unread bytes of the pipe, but no process received them.
        let unread = link.stdin.writer().map_or(0, |stdin| link.child.unread(stdin));
        let written = link.stdin.accepted().saturating_sub(unread);
        self.engine.handle(Input::ChildExited { link: id, how, written }, now);
    }
}

/// Passes input from HTTP to the engine. Returns whether the limit was reached, so that there may be more.
fn read_http<D: Dial, O: Observer>(
    http: &mut Http<D>,
    engine: &mut Engine,
    redactor: &Redactor,
    mut observer: Option<&mut O>,
    cx: &mut Context<'_>,
    now: Moment,
) -> bool {
    for _ in 0..HTTP_INPUTS_PER_ITERATION {
        match http.poll_input(cx, |exchange| engine.may_read(Port::Exchange(exchange))) {
            Poll::Ready(input) => {
                let input = peer_text::http_input(redactor, input);
                if let Some(observer) = &mut observer {
                    wire::show_http_input(*observer, &input);
                }
                engine.handle(input, now);
            }
            Poll::Pending => return false,
        }
    }
    true
}
