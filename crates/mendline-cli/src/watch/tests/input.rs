//! The reaction of the screen to polls, events and keys.

use proptest::prelude::*;

use super::*;

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
