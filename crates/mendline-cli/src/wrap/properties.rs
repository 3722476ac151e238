//! What holds for every file: wrapping and unwrapping gives the same bytes back, wrapping twice is wrapping once, and
//! nothing outside the entries is touched.
//!
//! The files are generated: all kinds of entries, in every manner of writing that the two languages allow. The seed is the
//! number of the file, so that a failure names the file that shows it.

use fastrand::Rng;

use super::document::{Document, Section, Syntax};
use super::plan::{Chosen, Fate, Plan, Way};
use super::tree::{Member, Node, Value};

/// How many files of each language.
const FILES: u64 = 10_000;

const BINARY: &str = "/usr/local/bin/mendline";
const WRAP: Way<'static> = Way::Wrap { binary: BINARY };

/// What was seen on the way, so that a generator that has gone blind is noticed.
#[derive(Debug, Default)]
struct Tally {
    changed: usize,
    already: usize,
    left: usize,
    replaced: usize,
    urls: usize,
}

/// Checks all of it on one file. A strict check knows that nothing in it is written too oddly to be wrapped.
fn check(seed: u64, text: &str, syntax: Syntax, section: &Section, strict: bool, tally: &mut Tally) {
    let sections = std::slice::from_ref(section);
    let make = |text: &str, way: Way<'_>, chosen: &Chosen| {
        Plan::make(text.to_owned(), syntax, sections, way, chosen)
            .unwrap_or_else(|fault| panic!("{seed}: {fault}\n{text}"))
    };
    let wrapped = make(text, WRAP, &Chosen::new());
    let mut chosen = Chosen::new();
    for server in &wrapped.servers {
        match &server.fate {
            Fate::Changed => {
                tally.changed += 1;
                chosen.insert(server.name.clone());
            }
            Fate::Already => tally.already += 1,
            Fate::Left(reason) => {
                tally.left += 1;
                let blind = strict && reason.contains("written in a way");
                assert!(!blind, "{seed}: {}: {reason}\n{text}", server.name);
            }
        }
    }
    tally.replaced += wrapped.after.matches("MENDLINE_REPLACED_ARGS").count();
    tally.urls += wrapped.after.matches("://").count();
    let again = make(&wrapped.after, WRAP, &chosen);
    assert_eq!(again.after, wrapped.after, "{seed}: wrapping twice is not wrapping once\n{text}");
    assert!(chosen.is_empty() || again.servers.iter().all(|server| server.fate == Fate::Already), "{seed}\n{text}");
    if chosen.is_empty() {
        assert_eq!(wrapped.after, text, "{seed}: changed without a change");
        return;
    }
    let rest = |text: &str| {
        let document = Document::parse(text, syntax).unwrap();
        rest_of(&document, section, &chosen)
    };
    assert_eq!(rest(&wrapped.after), rest(text), "{seed}: something beside the entries means something else");
    let back = make(&wrapped.after, Way::Unwrap, &chosen);
    assert_eq!(back.after, text, "{seed}: not brought back from\n{}", wrapped.after);
}

/// What a file says beside these servers, and what these say that is none of wrapping's business.
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
        Value::Table(table) => table.members.iter().for_each(|member| say(text, member, left_out, said)),
        Value::Other => *said += &text[node.range.clone()],
    }
    said.push('\n');
}

#[test]
fn ten_thousand_json_files_come_back_byte_for_byte() {
    let mut tally = Tally::default();
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let section = vec![if rng.bool() { "mcpServers" } else { "servers" }.to_owned()];
        let text = Json { rng, style: Style::default() }.file(&section[0]);
        check(seed, &text, Syntax::Json, &section, true, &mut tally);
    }
    assert!(tally.changed > 10_000 && tally.replaced > 1_000 && tally.left > 2_000 && tally.already > 200, "{tally:?}");
}

#[test]
fn ten_thousand_toml_files_come_back_byte_for_byte() {
    let mut tally = Tally::default();
    for seed in 0..FILES {
        let text = Toml { rng: Rng::with_seed(seed) }.file();
        check(seed, &text, Syntax::Toml, &vec!["mcp_servers".to_owned()], true, &mut tally);
    }
    assert!(tally.changed > 10_000 && tally.replaced > 500 && tally.urls > 2_000, "{tally:?}");
}

/// A file that somebody's cat walked over.
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
fn damaged_files_are_refused_or_come_back_all_the_same() {
    let (mut tally, mut refused) = (Tally::default(), 0);
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let json = rng.bool();
        let (text, syntax, section) = if json {
            let writer = Json { rng: rng.fork(), style: Style::default() };
            (writer.file("mcpServers"), Syntax::Json, "mcpServers")
        } else {
            (Toml { rng: rng.fork() }.file(), Syntax::Toml, "mcp_servers")
        };
        let text = damaged(&text, &mut rng);
        if Document::parse(&text, syntax).is_err() {
            refused += 1;
            continue;
        }
        check(seed, &text, syntax, &vec![section.to_owned()], false, &mut tally);
    }
    assert!(refused > 2_000 && tally.changed > 2_000, "{refused} refused, {tally:?}");
}

/// What is to be written: tokens are as they will stand.
enum Piece {
    Token(String),
    List(Vec<Piece>),
    Table(Vec<(String, Piece)>),
}

#[derive(Default)]
struct Style {
    newline: &'static str,
    compact: bool,
    comments: bool,
    trailing_commas: bool,
}

/// Writes JSON in some manner.
struct Json {
    rng: Rng,
    style: Style,
}

impl Json {
    fn file(mut self, section: &str) -> String {
        self.style = Style {
            newline: if self.rng.u8(..4) == 0 { "\r\n" } else { "\n" },
            compact: self.rng.u8(..5) == 0,
            comments: self.rng.bool(),
            trailing_commas: self.rng.u8(..3) == 0,
        };
        let servers = (0..self.rng.usize(1..4)).map(|number| self.server(number)).collect();
        let mut members = vec![(self.quoted(section), Piece::Table(servers))];
        for other in ["numStartups", "größe", "projects"] {
            if self.rng.u8(..3) == 0 {
                let at = self.rng.usize(..=members.len());
                let piece = self.other(2);
                members.insert(at, (self.quoted(other), piece));
            }
        }
        let mut text = String::new();
        if self.rng.u8(..6) == 0 {
            text.push('\u{feff}');
        }
        text += &self.gap(0);
        self.write(&Piece::Table(members), 0, &mut text);
        text += &self.gap(0);
        text
    }

    fn server(&mut self, number: usize) -> (String, Piece) {
        let name = ["git", "a b", "ünï__code", "x/y", "\\u0041pi", "notes"][self.rng.usize(..6)];
        let name = format!("\"{name}-{number}\"");
        let entry = match self.rng.u8(..14) {
            0..=4 => self.command(),
            5..=7 => self.url(),
            8..=9 => self.mcp_remote(),
            10 => self.supergateway(),
            11 => self.wrapped(),
            _ => return (name, self.odd()),
        };
        (name, Piece::Table(self.among_others(entry)))
    }

    /// Members in some order, among others that Mendline does not know.
    fn among_others(&mut self, mut entry: Vec<(String, Piece)>) -> Vec<(String, Piece)> {
        for other in ["disabled", "autoApprove", "timeout", "cwd", "envFile", "\\u0078-unknown"] {
            if self.rng.u8(..6) == 0 {
                let piece = self.other(1);
                entry.push((format!("\"{other}\""), piece));
            }
        }
        if self.rng.u8(..3) == 0 {
            self.rng.shuffle(&mut entry);
        }
        entry
    }

    fn command(&mut self) -> Vec<(String, Piece)> {
        let mut entry = Vec::new();
        if self.rng.u8(..4) == 0 {
            entry.push(("\"type\"".to_owned(), self.token("stdio")));
        }
        let program = ["npx", "C:\\\\tools\\\\x.exe", "\\u006eode", "/opt/ü/bin", "${HOME}/x", "docker"];
        let program = program[self.rng.usize(..program.len())];
        entry.push(("\"command\"".to_owned(), Piece::Token(format!("\"{program}\""))));
        if self.rng.u8(..4) > 0 {
            let words = (0..self.rng.usize(..4)).map(|_| self.word()).collect();
            entry.push(("\"args\"".to_owned(), Piece::List(words)));
        }
        self.maybe_env(&mut entry);
        entry
    }

    fn maybe_env(&mut self, entry: &mut Vec<(String, Piece)>) {
        if self.rng.bool() {
            let names = ["TOKEN", "PATH", "EMPTY"];
            let variables =
                names[..self.rng.usize(..=3)].iter().map(|name| (format!("\"{name}\""), self.word())).collect();
            entry.push(("\"env\"".to_owned(), Piece::Table(variables)));
        }
    }

    fn url(&mut self) -> Vec<(String, Piece)> {
        let mut entry = Vec::new();
        if self.rng.u8(..4) > 0 {
            let kind = ["http", "sse", "streamable-http", "streamableHttp"][self.rng.usize(..4)];
            entry.push(("\"type\"".to_owned(), self.token(kind)));
        }
        let url = self.address();
        entry.push(("\"url\"".to_owned(), Piece::Token(url)));
        if self.rng.u8(..4) > 0 {
            let names = ["Authorization", "X-Api-Key", "X_Api-Key", "x-region"];
            let headers =
                names[..self.rng.usize(..=4)].iter().map(|name| (format!("\"{name}\""), self.word())).collect();
            entry.push(("\"headers\"".to_owned(), Piece::Table(headers)));
        } else if self.rng.u8(..4) == 0 {
            self.maybe_env(&mut entry);
            if let Some((_, Piece::Table(variables))) = entry.last_mut()
                && variables.is_empty()
            {
                entry.pop();
            }
        }
        entry
    }

    fn address(&mut self) -> String {
        let urls = [
            "https://mcp.example.com/mcp",
            "http:\\/\\/localhost:3000\\/sse",
            "https://mcp.example.com/mcp?api_key=s3cret",
            "https://${HOST}/mcp",
            "http://127.0.0.1:8080/m\\u0063p",
            "http://localhost/?token=${input:key}",
        ];
        format!("\"{}\"", urls[self.rng.usize(..urls.len())])
    }

    fn mcp_remote(&mut self) -> Vec<(String, Piece)> {
        let mut words = vec![self.token("-y"), self.token("mcp-remote@0.1.38"), Piece::Token(self.address())];
        for header in ["Authorization: Bearer s3cret", "X-Key:${KEY}", "X-Region: eu"] {
            if self.rng.bool() {
                words.extend([self.token("--header"), self.token(header)]);
            }
        }
        for flag in ["--debug", "--allow-http", "--ignore-tool"] {
            if self.rng.u8(..5) == 0 {
                words.push(self.token(flag));
            }
        }
        let mut entry =
            vec![("\"command\"".to_owned(), self.token("npx")), ("\"args\"".to_owned(), Piece::List(words))];
        self.maybe_env(&mut entry);
        entry
    }

    fn supergateway(&mut self) -> Vec<(String, Piece)> {
        let how = if self.rng.bool() { "--sse" } else { "--streamableHttp" };
        let words = vec![self.token("supergateway"), self.token(how), Piece::Token(self.address())];
        let mut entry =
            vec![("\"args\"".to_owned(), Piece::List(words)), ("\"command\"".to_owned(), self.token("npx"))];
        self.maybe_env(&mut entry);
        entry
    }

    fn wrapped(&mut self) -> Vec<(String, Piece)> {
        let words = ["run", "--call-timeout", "2m", "--", "npx", "x"].map(|word| self.token(word));
        vec![
            ("\"command\"".to_owned(), self.token("/opt/mendline")),
            ("\"args\"".to_owned(), Piece::List(words.into())),
        ]
    }

    /// What is no entry, or none that can be wrapped.
    fn odd(&mut self) -> Piece {
        let odd = [
            r#""npx""#,
            "null",
            "{}",
            r#"{"type": "sdk", "name": "x"}"#,
            r#"{"command": 1}"#,
            r#"{"command": "x", "args": "y"}"#,
            r#"{"command": "x", "args": ["y", 1]}"#,
            r#"{"command": "x", "url": "http://localhost"}"#,
            r#"{"url": "http://localhost", "headers": {"A": 1}}"#,
            r#"{"url": "http://localhost", "headers": {"Transfer-Encoding": "chunked"}}"#,
            r#"{"url": "http://localhost", "headers": {"\u0041": "1"}, "type": "http"}"#,
            r#"{"url": "ftp://localhost"}"#,
            r#"{"url": "https://a.example", "oauth": {}}"#,
        ];
        Piece::Token(odd[self.rng.usize(..odd.len())].to_owned())
    }

    fn word(&mut self) -> Piece {
        let words = [
            "-y",
            "",
            "Bearer ${TOKEN}",
            "ü → \\u00e9\\n\\\"",
            "a\\/b",
            "--",
            "run",
            "${env:X}",
            "// no comment",
            "😀",
        ];
        Piece::Token(format!("\"{}\"", words[self.rng.usize(..words.len())]))
    }

    fn other(&mut self, depth: u8) -> Piece {
        match self.rng.u8(..if depth == 0 { 4 } else { 6 }) {
            0 => Piece::Token("-1.5e3".to_owned()),
            1 => Piece::Token("true".to_owned()),
            2 => Piece::Token("null".to_owned()),
            3 => self.word(),
            4 => Piece::List((0..self.rng.u8(..3)).map(|_| self.other(depth - 1)).collect()),
            _ => Piece::Table(
                (0..self.rng.u8(..3)).map(|number| (format!("\"k{number}\""), self.other(depth - 1))).collect(),
            ),
        }
    }

    fn token(&self, text: &str) -> Piece {
        Piece::Token(self.quoted(text))
    }

    fn quoted(&self, text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    fn write(&mut self, piece: &Piece, depth: usize, text: &mut String) {
        let (open, close, count) = match piece {
            Piece::Token(token) => return text.push_str(token),
            Piece::List(items) => ('[', ']', items.len()),
            Piece::Table(members) => ('{', '}', members.len()),
        };
        text.push(open);
        let flat = self.style.compact || self.rng.u8(..4) == 0;
        for at in 0..count {
            *text += &if flat { self.flat_gap() } else { self.gap(depth + 1) };
            match piece {
                Piece::Table(members) => {
                    let (key, value) = &members[at];
                    text.push_str(key);
                    *text += [":", ": ", " : ", ":\t"][self.rng.usize(..4)];
                    self.write(value, depth + 1, text);
                }
                Piece::List(items) => self.write(&items[at], depth + 1, text),
                Piece::Token(_) => unreachable!("a token has no items"),
            }
            if self.rng.u8(..10) == 0 {
                *text += &self.flat_gap();
            }
            if at + 1 < count || self.style.trailing_commas {
                text.push(',');
            }
        }
        *text += &if flat { self.flat_gap() } else { self.gap(depth) };
        text.push(close);
    }

    /// Whitespace and perhaps a comment, ending on a new line.
    fn gap(&mut self, depth: usize) -> String {
        if self.style.compact {
            return String::new();
        }
        let mut gap = String::new();
        if self.style.comments && self.rng.u8(..6) == 0 {
            gap += [" // \"url\": {größe}", " /* a, b\n */", "\t//"][self.rng.usize(..3)];
        }
        for _ in 0..self.rng.u8(1..3) {
            gap += self.style.newline;
        }
        gap + &"  ".repeat(depth)
    }

    fn flat_gap(&mut self) -> String {
        let comment = self.style.comments && self.rng.u8(..12) == 0;
        if comment { "/* } */".to_owned() } else { ["", " ", "  "][self.rng.usize(..3)].to_owned() }
    }
}

/// Writes TOML in some manner.
struct Toml {
    rng: Rng,
}

impl Toml {
    fn file(mut self) -> String {
        let newline = if self.rng.u8(..4) == 0 { "\r\n" } else { "\n" };
        let mut text = String::new();
        if self.rng.bool() {
            text += "# größe\nmodel = \"o\" # why\n\n";
        }
        if self.rng.u8(..4) == 0 {
            text += "[mcp_servers]\n";
            let inline = self.inline();
            text += &format!("inline = {inline}\n\n");
        }
        for number in 0..self.rng.usize(1..4) {
            text += &self.server(number);
        }
        if self.rng.bool() {
            text += "[projects.\"/home/ü\"]\ntrust_level = \"trusted\"";
        }
        text.replace('\n', newline)
    }

    fn server(&mut self, number: usize) -> String {
        let name = ["git", "\"a b\"", "'x.y'", "no-tes"][self.rng.usize(..4)];
        let name = if name.starts_with(['"', '\'']) {
            name.replacen(['"', '\''], &format!("{}{number}", &name[..1]), 1)
        } else {
            format!("{name}{number}")
        };
        let mut lines = Vec::new();
        let mut tables = String::new();
        match self.rng.u8(..6) {
            0..=2 => self.command(&name, &mut lines, &mut tables),
            3..=4 => self.url(&name, &mut lines, &mut tables),
            _ => self.mcp_remote(&name, &mut lines, &mut tables),
        }
        for other in ["enabled = true", "startup_timeout_sec = 2.5", "enabled_tools = [\n  \"a\", # b\n]"] {
            if self.rng.u8(..4) == 0 {
                let at = self.rng.usize(..=lines.len());
                lines.insert(at, other.to_owned());
            }
        }
        let indent = if self.rng.u8(..5) == 0 { "  " } else { "" };
        let mut text = format!("[mcp_servers.{name}]{}\n", self.comment());
        for line in lines {
            if self.rng.u8(..8) == 0 {
                text += "# a = b\n\n";
            }
            text += &format!("{indent}{line}{}\n", self.comment());
        }
        text + &tables + ["", "\n"][self.rng.usize(..2)]
    }

    fn comment(&mut self) -> &'static str {
        ["", "", "", " # it's [x]", "   "][self.rng.usize(..5)]
    }

    fn command(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        let program = ["\"npx\"", "'C:\\x.exe'", "\"\"\"\nnode\"\"\"", "\"\\u006eode\""][self.rng.usize(..4)];
        lines.push(format!("command={program}"));
        if self.rng.u8(..4) > 0 {
            let args = ["[]", "[ ]", "[\n  # none\n]", "[\"-y\", 'x',]", "[\n  \"-y\", # yes\n  \"ü\"\n]"]
                [self.rng.usize(..5)];
            lines.push(format!("args = {args}"));
        }
        self.maybe_env(name, lines, tables);
    }

    fn maybe_env(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        match self.rng.u8(..6) {
            0 => lines.push("env = { \"A\" = \"b\", C = 'd' }".to_owned()),
            1 => lines.push("env = {}".to_owned()),
            2 => lines.push("env.A = \"b\"".to_owned()),
            3 => *tables += &format!("[mcp_servers.{name}.env]\nA = \"b\" # c\n\nC = 'd'\n"),
            4 => *tables += &format!("[mcp_servers.{name}.env]\n"),
            _ => {}
        }
    }

    fn url(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        let urls = ["\"https://mcp.example.com/mcp\"", "'http://localhost/mcp'", "\"http://localhost/?key=s3cret\""];
        lines.push(format!("url = {}", urls[self.rng.usize(..3)]));
        if self.rng.bool() {
            lines.push(
                ["bearer_token_env_var = \"TOKEN\"", "bearer_token_env_var='TOKEN'"][self.rng.usize(..2)].to_owned(),
            );
        }
        match self.rng.u8(..5) {
            0 => lines.push("http_headers = { \"X-Key\" = \"s3cret\", 'X_Key' = 'b', Region = \"c\" }".to_owned()),
            1 => lines.push("http_headers = {}".to_owned()),
            2 => {
                *tables +=
                    &format!("[mcp_servers.{name}.http_headers]\n\"Authorization\" = \"Bearer x\"\nRegion = 'eu'\n");
            }
            3 => lines.push("http_headers.Region = 'eu'".to_owned()),
            _ => {}
        }
    }

    fn mcp_remote(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        lines.push("command = \"npx\"".to_owned());
        lines.push(
            "args = [\"mcp-remote\", \"https://mcp.example.com/sse\", '--header', 'Authorization: Bearer s3cret']"
                .to_owned(),
        );
        self.maybe_env(name, lines, tables);
    }

    fn inline(&mut self) -> String {
        [
            "{ command = \"npx\", args = [\"-y\"] }",
            "{command=\"npx\"}",
            "{ url = \"http://localhost/x\", http_headers = { A = \"b\" } }",
            "{ args = [], command = 'x', env = { A = \"b\" } }",
        ][self.rng.usize(..4)]
        .to_owned()
    }
}
