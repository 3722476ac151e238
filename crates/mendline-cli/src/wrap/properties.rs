//! Properties of wrapping: unwrapping restores the same bytes, wrapping twice equals wrapping once, and nothing outside
//! of the entries changes.
//!
//! The files are generated: all kinds of entries, in every notation that the two languages allow. The seed is the
//! number of the file, so that a failure names it.

mod json_file;
mod toml_file;

use fastrand::Rng;

use self::json_file::JsonFile;
use self::toml_file::TomlFile;
use super::document::{Document, Section, Syntax};
use super::plan::{Action, Chosen, EntryResult, Plan};
use super::program::Program;
use super::tree::{Member, Node, Value};

/// Number of files of each language.
const FILES: u64 = 10_000;

const BINARY: &str = "/usr/local/bin/mendline";
const WRAP: Action<'static> = Action::Wrap { program: &PROGRAM };
static PROGRAM: Program = Program::at(std::borrow::Cow::Borrowed(BINARY));

/// Counts of the results, to notice a generator that covers too little.
#[derive(Debug, Default)]
struct Counts {
    changed: usize,
    already: usize,
    left: usize,
    replaced: usize,
    urls: usize,
}

/// Checks all properties of one file. In a strict check, no notation is too unusual to be wrapped.
fn check(seed: u64, text: &str, syntax: Syntax, section: &Section, strict: bool, counts: &mut Counts) {
    let sections = std::slice::from_ref(section);
    let make = |text: &str, action: Action<'_>, chosen: &Chosen| {
        Plan::make(text.to_owned(), syntax, sections, action, chosen)
            .unwrap_or_else(|fault| panic!("{seed}: {fault}\n{text}"))
    };
    let wrapped = make(text, WRAP, &Chosen::new());
    let mut chosen = Chosen::new();
    for server in &wrapped.servers {
        match &server.result {
            EntryResult::Changed => {
                counts.changed += 1;
                chosen.insert(server.name.clone());
            }
            EntryResult::Already => counts.already += 1,
            EntryResult::Left(reason) => {
                counts.left += 1;
                let blind = strict && reason.contains("written in a way");
                assert!(!blind, "{seed}: {}: {reason}\n{text}", server.name);
            }
        }
    }
    counts.replaced += wrapped.after.matches("MENDLINE_REPLACED_ARGS").count();
    counts.urls += wrapped.after.matches("://").count();
    let again = make(&wrapped.after, WRAP, &chosen);
    assert_eq!(again.after, wrapped.after, "{seed}: wrapping twice differs from wrapping once\n{text}");
    assert!(
        chosen.is_empty() || again.servers.iter().all(|server| server.result == EntryResult::Already),
        "{seed}\n{text}"
    );
    if chosen.is_empty() {
        assert_eq!(wrapped.after, text, "{seed}: changed without a change");
        return;
    }
    let rest = |text: &str| {
        let document = Document::parse(text, syntax).unwrap();
        rest_of(&document, section, &chosen)
    };
    assert_eq!(rest(&wrapped.after), rest(text), "{seed}: something outside of the entries has changed");
    let back = make(&wrapped.after, Action::Unwrap, &chosen);
    assert_eq!(back.after, text, "{seed}: not restored from\n{}", wrapped.after);
}

/// Returns the content of a file without these servers, and the members of these servers that wrapping ignores.
fn rest_of(document: &Document<'_>, section: &Section, changed: &Chosen) -> String {
    let servers = document.servers(section);
    let ours = |member: &Member| {
        let key = member.key.as_str();
        let is_server = servers.iter().any(|server| std::ptr::eq(server, member) && changed.contains(key));
        let concerns = matches!(key, "command" | "args" | "url" | "type" | "headers" | "http_headers" | "env");
        let bearer = matches!(key, "bearer_token_env_var" | "env_vars");
        let of_one = |server: &Member| {
            let table = server.table().filter(|_| changed.contains(&server.key));
            table.is_some_and(|table| table.members.iter().any(|other| std::ptr::eq(other, member)))
        };
        !is_server && (concerns || bearer) && servers.iter().any(of_one)
    };
    let mut said = String::new();
    document.root.members.iter().for_each(|member| say(document.text, member, &ours, &mut said));
    said
}

fn say(text: &str, member: &Member, left_out: &impl Fn(&Member) -> bool, said: &mut String) {
    if left_out(member) {
        return;
    }
    *said += &format!("{:?} is ", member.key);
    say_value(text, &member.value, left_out, said);
}

fn say_value(text: &str, node: &Node, left_out: &impl Fn(&Member) -> bool, said: &mut String) {
    match &node.value {
        Value::Text(value) => *said += &format!("{value:?}; "),
        Value::List(items) => items.iter().for_each(|item| say_value(text, item, left_out, said)),
        Value::Table(table) | Value::Dotted(table) => {
            table.members.iter().for_each(|member| say(text, member, left_out, said));
        }
        Value::Other => *said += &text[node.range.clone()],
    }
    said.push('\n');
}

#[test]
fn json_files_are_restored_byte_for_byte() {
    let mut counts = Counts::default();
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let section = vec![if rng.bool() { "mcpServers" } else { "servers" }.to_owned()];
        let text = JsonFile::new(rng).written(&section[0]);
        check(seed, &text, Syntax::Json, &section, true, &mut counts);
    }
    assert!(
        counts.changed > 10_000 && counts.replaced > 1_000 && counts.left > 2_000 && counts.already > 200,
        "{counts:?}"
    );
}

#[test]
fn toml_files_are_restored_byte_for_byte() {
    let mut counts = Counts::default();
    for seed in 0..FILES {
        let text = TomlFile::new(Rng::with_seed(seed)).written();
        check(seed, &text, Syntax::Toml, &vec!["mcp_servers".to_owned()], true, &mut counts);
    }
    assert!(counts.changed > 10_000 && counts.replaced > 500 && counts.urls > 2_000, "{counts:?}");
}

/// Damages a file at random.
fn damaged(text: &str, rng: &mut Rng) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..characters.len());
        match rng.u8(..3) {
            0 => drop(characters.remove(at)),
            1 => characters
                .insert(at, ['"', ',', '{', '}', '[', ']', ':', '=', '\n', '\\', 'ü', '#', '.'][rng.usize(..13)]),
            _ => {
                let other = rng.usize(..characters.len());
                characters.swap(at, other);
            }
        }
    }
    characters.into_iter().collect()
}

#[test]
fn damaged_files_are_rejected_or_restored_exactly() {
    let (mut counts, mut refused) = (Counts::default(), 0);
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let json = rng.bool();
        let (text, syntax, section) = if json {
            let writer = JsonFile::new(rng.fork());
            (writer.written("mcpServers"), Syntax::Json, "mcpServers")
        } else {
            (TomlFile::new(rng.fork()).written(), Syntax::Toml, "mcp_servers")
        };
        let text = damaged(&text, &mut rng);
        if Document::parse(&text, syntax).is_err() {
            refused += 1;
            continue;
        }
        check(seed, &text, syntax, &vec![section.to_owned()], false, &mut counts);
    }
    assert!(refused > 2_000 && counts.changed > 2_000, "{refused} refused, {counts:?}");
}
