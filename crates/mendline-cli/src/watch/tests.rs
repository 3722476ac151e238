//! The screen, driven by polls, events and keys.

use mendline::control::snapshot::{
    Breaker, BreakerState, Calls, ClientInfo, Connection, LastError, Latency, Limit, Lists, Outcomes, ParentInfo,
    ProcessInfo, Rate, Server, State, StateKind, ToolBreaker, TransportKind, VERSION,
};
use mendline::control::{Command, EventRecord, Level, QueryError, Snapshot};
use proptest::prelude::*;
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

#[test]
fn selection_stays_with_its_server() {
    let mut model = watched(80, 24);
    press(&mut model, "jj");
    assert_eq!(model.selected().unwrap().id, "notes");
    let mut more = sample_poll();
    more.processes.push(process(16, server("aardvark")));
    model.take(Update::Polled(more));
    assert_eq!(model.selected().unwrap().id, "notes", "a new row is above it");
    press(&mut model, "s");
    assert_eq!(model.selected().unwrap().id, "notes", "the order changed");
    model.take(Update::Polled(Poll { processes: vec![process(12, server("atlassian"))], ..sample_poll() }));
    assert_eq!(model.selected().unwrap().id, "atlassian", "it has gone, and the next is selected");
    model.take(Update::Polled(Poll { at: NOW, ..Poll::default() }));
    assert!(model.selected().is_none());
}

#[test]
fn started_and_ended_servers_are_reported() {
    let mut model = watched(80, 24);
    let mut poll = sample_poll();
    poll.processes.remove(0);
    poll.processes.push(process(16, server("garden")));
    model.take(Update::Polled(poll));
    let picture = picture(&model);
    assert!(picture.contains("has started (process 16)"), "{picture}");
    assert!(picture.contains("has ended (process 11)"), "{picture}");
}

#[test]
fn process_that_stops_answering_keeps_its_row() {
    let mut model = watched(120, 30);
    let mut poll = sample_poll();
    poll.processes[0].answer = Err(QueryError::TimedOut);
    model.take(Update::Polled(poll));
    press(&mut model, "jj");
    let row = model.selected().unwrap();
    assert_eq!((row.id.as_str(), row.state().as_str(), row.word()), ("notes", "does not answer", "unresponsive"));
    assert_eq!(row.server().unwrap().calls.all().ok, 1204, "what was last known");
}

#[test]
fn servers_are_sorted_by_name_by_state_and_by_latency() {
    let mut model = watched(80, 24);
    let ids = |model: &Model| model.rows().iter().map(|row| row.id.chars().next().unwrap()).collect::<String>();
    assert_eq!(ids(&model), "afnstt");
    press(&mut model, "s");
    assert_eq!(ids(&model), "fsantt", "the silent and the parked first");
    press(&mut model, "s");
    assert!(
        ids(&model).starts_with('a') && ids(&model).ends_with("fs"),
        "rows without figures are last: {}",
        ids(&model)
    );
    press(&mut model, "s");
    assert_eq!(ids(&model), "afnstt");
}

#[test]
fn filter_selects_servers_and_events() {
    let mut model = watched(80, 24);
    press(&mut model, "/twIN");
    assert_eq!((model.rows().len(), model.shown_events().len()), (2, 1));
    model.press(Key::Enter);
    assert!(picture(&model).contains("2 of 6 with \"twIN\""), "{}", picture(&model));
    assert_eq!(model.press(Key::Escape), None, "the first goes back to all of them");
    assert_eq!(model.rows().len(), 6);
    press(&mut model, "/refused");
    assert_eq!(model.rows().len(), 1, "errors and states are looked at too");
    model.press(Key::Escape);
    assert_eq!(model.rows().len(), 6);
    press(&mut model, "/claude-c");
    assert_eq!(model.rows().len(), 5, "clients are looked at too");
}

#[test]
fn u08_escape_goes_back_and_never_quits() {
    let mut model = watched(60, 15);
    assert_eq!(model.press(Key::Escape), None);
    assert!(picture(&model).contains("q quits"), "{}", picture(&model));
    model.press(Key::Enter);
    assert!(!picture(&model).contains("SERVER"), "details fill the screen");
    assert_eq!(model.press(Key::Escape), None);
    assert!(picture(&model).contains("SERVER"), "{}", picture(&model));
    assert_eq!(model.press(Key::Control('c')), Some(Action::Quit));
    assert_eq!(press(&mut model, "q"), Some(Action::Quit));
}

/// Returns a poll of many servers with the same name.
fn crowd(count: u32) -> Poll {
    let processes = (0..count).map(|at| process(22_100 + at, server("everything-with-a-long-name"))).collect();
    Poll { at: NOW, processes, ..Poll::default() }
}

#[test]
fn u08_hidden_rows_are_counted_below_the_table() {
    let mut model = Model::new(Size { width: 60, height: 15 }, None);
    model.take(Update::Polled(crowd(9)));
    let lines = |model: &Model| picture(model).lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(lines(&model)[1].contains("SERVER") && !lines(&model)[1].contains("more"), "{}", picture(&model));
    assert_eq!(lines(&model)[9], "  2 more below", "{}", picture(&model));
    model.press(Key::End);
    assert_eq!(lines(&model)[9], "  2 more above", "{}", picture(&model));
    assert!(lines(&model)[8].starts_with('▸'), "the selected row is visible: {}", picture(&model));
    model.take(Update::Polled(crowd(8)));
    assert!(!picture(&model).contains("more"), "all fit: {}", picture(&model));
}

#[test]
fn u08_names_are_not_cut_before_other_columns() {
    for (width, height) in [(60, 15), (80, 24), (120, 40)] {
        let mut model = Model::new(Size { width, height }, None);
        model.take(Update::Polled(crowd(2)));
        assert!(picture(&model).contains("everything-with-a-long-name#22101  "), "{}", picture(&model));
    }
    let mut model = Model::new(Size { width: 40, height: 10 }, None);
    model.take(Update::Polled(crowd(2)));
    assert!(picture(&model).contains("…#22100") && picture(&model).contains("…#22101"), "{}", picture(&model));
}

#[test]
fn only_selected_servers_are_watched() {
    let mut model = Model::new(Size { width: 80, height: 24 }, Some(ServerSelector::parse("twin#15")));
    model.take(Update::Polled(sample_poll()));
    model.take(told(11, "notes", Level::Info, false, 0, "not of interest"));
    model.take(told(15, "twin", Level::Info, false, 0, "of interest"));
    assert_eq!((model.rows().len(), model.shown_events().len()), (1, 1));
    model.take(Update::Polled(Poll { at: NOW, ..Poll::default() }));
    assert!(picture(&model).contains("No server \"twin#15\" is running."), "{}", picture(&model));
}

#[test]
fn reconnect_runs_at_once_and_isolate_asks_first() {
    let mut model = watched(80, 24);
    press(&mut model, "jj");
    let key = row::Key { name: "notes".to_owned(), pid: 11 };
    let command = |what| CommandRequest { key: key.clone(), id: "notes".to_owned(), what };
    assert_eq!(press(&mut model, "r"), Some(Action::Command(command(Command::Reconnect))));
    assert_eq!(press(&mut model, "i"), None);
    assert!(picture(&model).contains("Isolate notes? y/n"), "{}", picture(&model));
    assert_eq!(model.press(Key::Pasted('y')), None, "pasted text is no answer");
    assert_eq!(press(&mut model, "n"), None);
    assert_eq!(press(&mut model, "iy"), Some(Action::Command(command(Command::Isolate))));
    model.take(Update::CommandDone {
        command: command(Command::Isolate),
        outcome: Err("it does not answer".to_owned()),
    });
    assert!(picture(&model).contains("notes: it does not answer"));
    model.tick(NOW + 60_000);
    assert!(picture(&model).contains("q quit"), "an old answer disappears");

    let mut poll = sample_poll();
    let Ok(snapshot) = &mut poll.processes[0].answer else { unreachable!() };
    snapshot.servers[0].state.kind = StateKind::Isolated;
    model.take(Update::Polled(poll));
    assert!(picture(&model).contains("i resume"), "{}", picture(&model));
    assert_eq!(press(&mut model, "r"), None);
    assert!(picture(&model).contains("notes is isolated; press i to resume it first"), "{}", picture(&model));
    assert_eq!(press(&mut model, "i"), Some(Action::Command(command(Command::Resume))), "that needs no question");
    assert_eq!(press(&mut model, "l"), Some(Action::Log("notes".to_owned())));
    model.press(Key::End);
    assert_eq!(press(&mut model, "l"), Some(Action::Log("twin#15".to_owned())), "the log of this process");
}

#[test]
fn paused_display_is_static_and_catches_up() {
    let mut model = watched(80, 24);
    press(&mut model, "p");
    let before = picture(&model);
    model.take(told(11, "notes", Level::Info, false, 0, "something new"));
    model.take(Update::Polled(Poll { at: NOW + 5_000, ..Poll::default() }));
    model.tick(NOW + 5_000);
    let lines = |text: &str| text.lines().filter(|line| !line.starts_with("──")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&picture(&model))[1..12], lines(&before)[1..12]);
    press(&mut model, "p");
    assert_eq!(model.total(), 0, "what was found meanwhile");
}

/// An input of the screen.
#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Size(u16, u16),
    Poll(Vec<usize>),
    Event(u32, String),
}

fn step() -> impl Strategy<Value = Step> {
    let letters = "qjkgGseprilyn/?h ".chars().collect::<Vec<_>>();
    let letter = (0..letters.len()).prop_map(move |at| Key::Char(letters[at]));
    let named = prop_oneof![
        Just(Key::Up),
        Just(Key::Down),
        Just(Key::Home),
        Just(Key::End),
        Just(Key::PageUp),
        Just(Key::PageDown),
        Just(Key::Enter),
        Just(Key::Escape),
        Just(Key::Backspace),
        Just(Key::Other),
        Just(Key::Control('u')),
        any::<char>().prop_map(Key::Char),
        any::<char>().prop_map(Key::Pasted),
    ];
    prop_oneof![
        4 => letter.prop_map(Step::Key),
        3 => named.prop_map(Step::Key),
        2 => (1..150u16, 1..60u16).prop_map(|(width, height)| Step::Size(width, height)),
        1 => proptest::collection::vec(0..6usize, 0..6).prop_map(Step::Poll),
        2 => (0..20u32, "\\PC{0,80}").prop_map(|(pid, text)| Step::Event(pid, text)),
    ]
}

proptest! {
    #[test]
    fn selected_row_stays_visible_after_any_input(steps in proptest::collection::vec(step(), 0..60)) {
        let mut model = watched(80, 24);
        for step in steps {
            match step {
                Step::Key(key) => {
                    model.press(key);
                }
                Step::Size(width, height) => model.resize(Size { width, height }),
                Step::Poll(which) => {
                    let all = sample_poll().processes;
                    let mut poll = sample_poll();
                    // Duplicates occur, too: two servers with one name in one process.
                    poll.processes = which.into_iter().map(|at| all[at].clone()).collect();
                    model.take(Update::Polled(poll));
                }
                Step::Event(pid, text) => model.take(told(pid, "notes", Level::Warn, pid % 2 == 0, 0, &text)),
            }
            picture(&model);
            let rows = model.rows();
            let place = rows.iter().position(|row| model.is_selected(row));
            prop_assert_eq!(place.is_some(), !rows.is_empty(), "a row is selected if there is one");
            if let Some((place, _)) = place.zip(model.layout()).filter(|(_, layout)| layout.table.height > 0) {
                let seen = model.top..model.top + model.height_of_table();
                prop_assert!(seen.contains(&place), "{place} is not in {seen:?}");
            }
        }
    }
}
