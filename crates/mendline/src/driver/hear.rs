//! What has come, told to the engine.
//!
//! Each source has its turn: a few lines, and no more bytes than one read brings. A child that has ended is heard to its
//! last line before its end is told.

use std::task::{Context, Poll};

use bytes::Bytes;
use mendline_core::port::Pipe;
use mendline_core::{Engine, Input, Moment, Port};
use mendline_wire::{Line, Received};
use tokio::io::{AsyncRead, AsyncWrite};

use super::link::{self, Link};
use super::source::{READ_CHUNK, Step};
use super::{Child, Driver, Host, Observer, Turn, Way, wire};
use crate::transport::http::{Dial, Http};

/// How many lines one source may deliver before the others get their turn. A long burst goes on in pieces: whoever gets the
/// first of them works while we read the next.
const INPUTS_PER_TURN: usize = 8;

impl<H, R, W, O> Driver<H, R, W, O>
where
    H: Host,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    O: Observer,
{
    pub(super) fn hear_client(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let client = self.client;
        let mut allowance = READ_CHUNK;
        self.client_held = false;
        for _ in 0..INPUTS_PER_TURN {
            if self.client_lost {
                return;
            }
            if !self.engine.may_read(Port::Client(client)) {
                self.client_held = true;
                turn.held = true;
                return;
            }
            match self.from_client.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wired {
                        wire::came(&mut self.observer, self.upstream, Way::FromClient, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromClient { client, received }, now);
                }
                Step::End => {
                    self.next_look = Some(now);
                    self.engine.handle(Input::ClientEnded { client }, now);
                }
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        turn.again = true;
    }

    pub(super) fn hear_links(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let mut at = 0;
        while at < self.links.len() {
            if self.links[at].child.poll_exited(cx).is_ready() {
                let link = self.links.swap_remove(at);
                self.bury(link, now);
                turn.again = true;
                continue;
            }
            self.hear_stdout(at, cx, now, turn);
            self.hear_stderr(at, cx, now, turn);
            at += 1;
        }
    }

    pub(super) fn hear_remote(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let mut buffered = 0;
        for http in self.remote.iter_mut().chain(&mut self.left) {
            let observer = self.wired.then_some(&mut self.observer);
            http.limit_buffers(self.engine.read_budget());
            http.limit_calls(self.engine.in_flight_limit(self.upstream));
            turn.again |= hear(http, &mut self.engine, observer, cx, now);
            buffered += http.buffered();
        }
        self.engine.note_buffered(buffered);
        self.left.retain(|http| !http.is_over());
    }

    fn hear_stdout(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        link.held = false;
        for _ in 0..INPUTS_PER_TURN {
            if !self.engine.may_read(Port::Link(link.id)) {
                link.held = true;
                turn.held = true;
                return;
            }
            match link.stdout.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wired {
                        wire::came(&mut self.observer, self.upstream, Way::FromServer, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromLink { link: link.id, received }, now);
                }
                Step::End => link.suspect(Pipe::Stdout, now),
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        turn.again = true;
    }

    fn hear_stderr(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        for _ in 0..INPUTS_PER_TURN {
            match link.stderr.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    let line = stderr_text(line);
                    self.observer.said(link.id.upstream, &line);
                    self.engine.handle(Input::Said { link: link.id, line }, now);
                }
                Step::Spent => break,
                Step::End | Step::Wait => return,
            }
        }
        turn.again = true;
    }

    /// The last of a child: everything it wrote, then the rest of its group, then the news.
    fn bury(&mut self, mut link: Link<H::Child>, now: Moment) {
        let id = link.id;
        let (engine, observer, limits, child) = (&mut self.engine, &mut self.observer, &self.limits, &link.child);
        let wired = self.wired;
        link.stdout.last_lines(
            link::LAST_BYTES,
            |stdout, buffer| child.drain_stdout(stdout, buffer),
            |line| {
                if wired {
                    wire::came(observer, id.upstream, Way::FromServer, &line);
                }
                engine.handle(Input::FromLink { link: id, received: Received::from_line(line, limits) }, now);
            },
        );
        link.stderr.last_lines(
            link::LAST_BYTES,
            |stderr, buffer| child.drain_stderr(stderr, buffer),
            |line| {
                let line = stderr_text(line);
                observer.said(id.upstream, &line);
                engine.handle(Input::Said { link: id, line }, now);
            },
        );
        let how = link.child.bury();
        // What lies unread in a pipe without readers was accepted by the system, but never received by anybody.
        let unread = link.stdin.writer().map_or(0, |stdin| link.child.unread(stdin));
        let written = link.stdin.accepted().saturating_sub(unread);
        self.engine.handle(Input::ChildExited { link: id, how, written }, now);
    }
}

/// Tells the engine what comes over HTTP. Says whether there was more than its turn.
fn hear<D: Dial, O: Observer>(
    http: &mut Http<D>,
    engine: &mut Engine,
    mut observer: Option<&mut O>,
    cx: &mut Context<'_>,
    now: Moment,
) -> bool {
    for _ in 0..INPUTS_PER_TURN {
        match http.poll_input(cx, |exchange| engine.may_read(Port::Exchange(exchange))) {
            Poll::Ready(input) => {
                if let Some(observer) = &mut observer {
                    wire::heard(*observer, &input);
                }
                engine.handle(input, now);
            }
            Poll::Pending => return false,
        }
    }
    true
}

fn stderr_text(line: Line) -> Bytes {
    match line {
        Line::Text(text) => text,
        Line::TooLong { head, .. } => head,
    }
}
