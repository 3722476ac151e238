//! The screen as it is drawn, and the sample that all its tests use.

mod input;

use mendline::control::snapshot::{
    Breaker, BreakerState, Calls, ClientInfo, Connection, Facts, LastError, Latency, Limit, Lists, Outcomes,
    ParentInfo, ProcessInfo, Rate, Server, State, StateKind, ToolBreaker, TransportKind, VERSION,
};
use mendline::control::{Command, EventRecord, Level, QueryError, Snapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};

use super::keyboard::Key;
use super::model::{Action, CommandRequest, Mode, Model, Update};
use super::paint::Paint;
use super::row::{self, Poll, PolledProcess};
use super::view;
use crate::target::ServerSelector;

/// The time of the tests.
const NOW: u64 = 1_800_000_000_000;

const PLAIN: Paint = Paint { is_coloured: false };

/// A healthy server.
fn server(name: &str) -> Server {
    Server {
        name: name.to_owned(),
        transport: TransportKind::Child,
        target: "npx".to_owned(),
        state: State {
            kind: StateKind::Ready,
            for_ms: 7_200_000,
            why: None,
            reason: None,
            attempt: None,
            attempts: None,
            next_in_ms: None,
        },
        breaker: Breaker { state: BreakerState::Closed, tries_in_ms: None, why: None, tools: Vec::new() },
        limit: Limit::default(),
        in_flight: 0,
        waiting: 0,
        silent_calls: 0,
        silent_for_ms: None,
        silent_call: None,
        lists: Lists::default(),
        calls: Calls { tools: Outcomes { ok: 120, ..Outcomes::default() }, ..Calls::default() },
        latency: Latency { count: 120, p50_us: Some(1_250), p95_us: Some(8_400), p99_us: Some(43_000) },
        connection: Connection { dials: 1, took_ms: Some(80), child: None, ..Connection::default() },
        last_error: None,
        credential: None,
        sessions: 0,
        facts: Facts::default(),
    }
}

fn process(pid: u32, server: Server) -> PolledProcess {
    let process = ProcessInfo {
        pid,
        mendline: "0.1.0".to_owned(),
        started_at: NOW - 7_300_000,
        configuration: Some("/home/ada/.config/mendline/config.json".to_owned()),
        client: Some(ClientInfo { name: "claude-code".to_owned(), version: "2.1".to_owned() }),
        parent: Some(ParentInfo { pid: 4600, name: "claude".to_owned() }),
        gateway: None,
    };
    let name = server.name.clone();
    let servers = vec![server];
    PolledProcess { pid, name, answer: Ok(Snapshot { version: VERSION, taken_at: NOW, process, servers }) }
}

/// Six processes in different states.
fn sample_poll() -> Poll {
    let mut notes = server("notes");
    notes.connection.child = Some(4712);
    notes.calls = Calls {
        tools: Outcomes { ok: 1190, tool_errors: 2, errors: 1, failed: 1, unknown: 1, rejected: 5 },
        other: Outcomes { ok: 14, ..Outcomes::default() },
        retried: 3,
        retries_refused: 1,
        resumed: 2,
        cancelled: 4,
        answered_early: 6,
    };
    notes.limit = Limit { rate: Some(Rate { burst: 10, per_second: 2.5 }), paused_ms: Some(3_000), slowed: 12 };
    notes.breaker.tools = vec![ToolBreaker {
        tool: "create_note".to_owned(),
        state: BreakerState::Open,
        tries_in_ms: Some(12_000),
        why: Some("5 failures in a row".to_owned()),
    }];
    notes.in_flight = 2;
    notes.waiting = 7;
    notes.last_error = Some(LastError { what: "the server ended with signal 9".to_owned(), ago_ms: 240_000 });

    let mut jira = server("atlassian");
    jira.transport = TransportKind::Sse;
    jira.target = "mcp.atlassian.com".to_owned();
    jira.state = State {
        kind: StateKind::Reconnecting,
        for_ms: 9_000,
        why: Some("connection reset".to_owned()),
        reason: Some("connection_reset".to_owned()),
        attempt: Some(3),
        attempts: Some(10),
        next_in_ms: Some(4_200),
    };
    jira.last_error = Some(LastError { what: "connection reset".to_owned(), ago_ms: 300 });

    let mut search = server("search-with-a-very-long-name-indeed");
    search.transport = TransportKind::Http;
    search.target = "127.0.0.1:9".to_owned();
    search.state = State {
        kind: StateKind::Parked,
        why: Some("nothing listens on 127.0.0.1:9 (connection refused)".to_owned()),
        reason: Some("connection_refused".to_owned()),
        ..jira.state
    };
    search.calls = Calls { tools: Outcomes { failed: 12, ..Outcomes::default() }, ..Calls::default() };
    search.latency = Latency::default();
    let hangs = PolledProcess { pid: 99, name: "frozen".to_owned(), answer: Err(QueryError::TimedOut) };
    Poll {
        at: NOW,
        processes: vec![
            process(11, notes),
            process(12, jira),
            process(13, search),
            process(14, server("twin")),
            process(15, server("twin")),
            hangs,
        ],
        memory: [(4712, 50_000_000)].into(),
        distrusted: Vec::new(),
    }
}

fn told(pid: u32, name: &str, level: Level, is_stderr: bool, ago_ms: u64, text: &str) -> Update {
    let (name, server, text) = (name.to_owned(), Some(name.to_owned()), text.to_owned());
    Update::Event { pid, name, told: EventRecord { at: NOW - ago_ms, level, server, is_stderr, text } }
}

/// The sample on a screen of this size, after some events.
fn watched(width: u16, height: u16) -> Model {
    let mut model = Model::new(Size { width, height }, None);
    model.take(Update::Polled(sample_poll()));
    model.take(told(11, "notes", Level::Warn, false, 240_000, "Up → Waiting: ended by signal 9"));
    model.take(told(11, "notes", Level::Info, true, 239_000, "listening on stdio"));
    model.take(told(15, "twin", Level::Info, false, 61_000, "ready after 80 ms"));
    model.take(told(12, "atlassian", Level::Error, false, 500, "could not be reached"));
    model
}

fn drawn(model: &Model) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(model.size.width, model.size.height)).unwrap();
    terminal.draw(|frame| view::draw(model, PLAIN, frame.buffer_mut())).unwrap();
    terminal
}

fn picture(model: &Model) -> String {
    let text = drawn(model).backend().to_string();
    // Each line is in quotes.
    let line = |line: &str| line[1..line.len() - 1].trim_end().to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

impl Model {
    fn take(&mut self, update: Update) {
        self.take_all([update]);
    }
}

fn press(model: &mut Model, keys: &str) -> Option<Action> {
    keys.chars().map(|key| model.press(Key::Char(key))).last().flatten()
}

#[test]
fn large_screen_shows_servers_details_and_events() {
    let mut model = watched(120, 30);
    press(&mut model, "jj");
    insta::assert_snapshot!("large", picture(&model));
}

#[test]
fn default_screen_shows_servers_and_events() {
    insta::assert_snapshot!("usual", picture(&watched(80, 24)));
}

#[test]
fn small_screen_shows_the_most_important_columns() {
    insta::assert_snapshot!("small", picture(&watched(60, 15)));
}

#[test]
fn details_fill_a_small_screen() {
    let mut model = watched(60, 15);
    press(&mut model, "jj");
    model.press(Key::Enter);
    insta::assert_snapshot!("small_details", picture(&model));
    model.press(Key::Enter);
    assert!(picture(&model).contains("SERVER"));
}

#[test]
fn wide_screen_shows_every_column() {
    insta::assert_snapshot!("wide", picture(&watched(230, 14)));
}

#[test]
fn too_small_screen_shows_the_needed_size() {
    insta::assert_snapshot!("too_small", picture(&watched(20, 5)));
}

#[test]
fn empty_screen_shows_the_next_step() {
    let mut model = Model::new(Size { width: 80, height: 24 }, None);
    assert!(picture(&model).contains("Looking"), "before the first poll");
    let distrusted = vec!["/tmp/mendline-1000: it belongs to another user (0)".to_owned()];
    model.take(Update::Polled(Poll { at: NOW, distrusted, ..Poll::default() }));
    insta::assert_snapshot!("empty", picture(&model));
}

#[test]
fn help_lists_every_key() {
    let mut model = watched(80, 24);
    press(&mut model, "?");
    insta::assert_snapshot!("help", picture(&model));
    press(&mut model, "q");
    assert_eq!(model.mode, Mode::Table, "any key goes back, and does nothing else");
}

#[test]
fn docs_show_the_real_screen() {
    let mut poll = sample_poll();
    poll.processes.truncate(3);
    let Ok(snapshot) = &mut poll.processes[0].answer else { unreachable!() };
    snapshot.servers[0].breaker.tools.clear();
    snapshot.servers[0].calls.tools.unknown = 0;
    let Ok(snapshot) = &mut poll.processes[2].answer else { unreachable!() };
    snapshot.servers[0].name = "search".to_owned();
    let mut model = Model::new(Size { width: 110, height: 12 }, None);
    model.take(Update::Polled(poll));
    model.take(told(11, "notes", Level::Warn, false, 240_000, "Up → Waiting: ended by signal 9"));
    model.take(told(11, "notes", Level::Info, false, 239_000, "ready after 80 ms"));
    model.take(told(12, "atlassian", Level::Warn, false, 9_000, "Up → Waiting: connection reset"));
    model.take(told(13, "search", Level::Error, false, 3_000, "Dialing → Parked: nothing listens on 127.0.0.1:9"));
    model.press(Key::Down);
    let page = include_str!("../../../../docs/status.md");
    let picture = picture(&model);
    assert!(page.contains(&picture), "docs/status.md does not show this:\n{picture}");
}

#[test]
fn servers_are_counted_by_state() {
    let first = picture(&watched(120, 30)).lines().next().unwrap().to_owned();
    assert_eq!(first, "mendline  6 servers: 3 ready, 1 reconnecting, 1 parked, 1 unresponsive");
}

#[test]
fn no_colours_without_colour_setting() {
    let terminal = drawn(&watched(120, 30));
    let cells = &terminal.backend().buffer().content;
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)), "what is bad still stands out");
}
