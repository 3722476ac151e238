//! Generator of JSON files: all kinds of entries, with comments, without line ends, and in every notation that the
//! language allows.

use fastrand::Rng;

/// A value to write; tokens are written verbatim.
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

/// A generator of JSON files.
pub(super) struct JsonFile {
    rng: Rng,
    style: Style,
}

impl JsonFile {
    pub(super) fn new(rng: Rng) -> JsonFile {
        JsonFile { rng, style: Style::default() }
    }

    /// Generates a file with servers in this section.
    pub(super) fn written(mut self, section: &str) -> String {
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

    /// Shuffles members, and adds some that Mendline does not know.
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

    /// A value that is no entry, or an entry that cannot be wrapped.
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

    /// Whitespace and perhaps a comment, up to a new line.
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
