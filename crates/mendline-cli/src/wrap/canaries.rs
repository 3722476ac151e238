//! No secret of a file is shown, and none becomes an argument.
//!
//! Files are generated with a canary in a few places each. Some canaries look like keys and must be hidden everywhere;
//! the others look like words and must be hidden where the place indicates a secret.

use fastrand::Rng;

use super::arguments::WrapArguments;
use super::diff::{DiffStyle, render};
use super::document::{Document, Syntax};
use super::plan::{Action, Chosen, Plan};
use super::program::Program;
use super::result_lines;

const FILES: u64 = 4_000;

const WRAP: Action<'static> = Action::Wrap { program: &PROGRAM };
static PROGRAM: Program = Program::at(std::borrow::Cow::Borrowed("/usr/local/bin/mendline"));

/// Canaries that look like keys.
const KEYS: [&str; 8] = [
    "CANARYpathKEY0123456789abcdef",
    "ghp_CANARY0123456789abcdefABCDEF0123",
    "sk-canary1234567890abcdefghij",
    "550e8400-e29b-41d4-a716-446655440000",
    "Xk92jd83hsQ1",
    "wJalrXUtnFEMI+K7MDENG=bPxRfiCYCANARY",
    "QcAnArYwErTyUiOpAsDf",
    "0123456789abcdef0123456789abcdef",
];

/// Canaries that look like words.
const WORDS: [&str; 3] = ["open-sesame-canary", "swordfish-canary", "hunter2-canary"];

/// Flags without a known meaning, and flags that carry credentials.
const FLAGS: [&str; 10] = ["-y", "-p", "-x", "--foo", "--port", "--config", "-t", "--", "-m", "--directory"];
const CARRIERS: [&str; 12] = [
    "-k",
    "-K",
    "--pat",
    "--token",
    "--api-key",
    "--db-pass",
    "--password",
    "-token",
    "--jwt",
    "--dsn",
    "--header",
    "-H",
];

/// Quotes a text in a random notation.
fn quoted(text: &str, rng: &mut Rng) -> String {
    match rng.u8(..6) {
        // The first character is escaped, as both languages allow.
        0 if text.is_ascii() && !text.is_empty() => format!("\"\\u{:04x}{}\"", text.as_bytes()[0], &text[1..]),
        _ => format!("\"{text}\""),
    }
}

/// Keys and values, as both languages write them.
type Members = Vec<(String, String)>;

fn command(program: &str, words: &[&str], rng: &mut Rng) -> Members {
    let words: Vec<String> = words.iter().map(|word| quoted(word, rng)).collect();
    vec![("command".to_owned(), format!("\"{program}\"")), ("args".to_owned(), format!("[{}]", words.join(", ")))]
}

fn url(url: &str, rng: &mut Rng) -> Members {
    vec![("url".to_owned(), quoted(url, rng))]
}

/// An entry with a canary in a place that indicates a secret.
fn telling_entry(canary: &str, rng: &mut Rng) -> Members {
    let carrier = CARRIERS[rng.usize(..CARRIERS.len())];
    let assigned = format!("{carrier}={canary}");
    let remote =
        |header: &str, rng: &mut Rng| command("npx", &["mcp-remote", "https://e.com/mcp", "--header", header], rng);
    match rng.u8(..11) {
        0 => command("npx", &["-y", "notes-server", carrier, canary], rng),
        1 => command("npx", &["notes-server", &assigned], rng),
        2 => command("docker", &["run", "-e", &format!("SOME={canary}"), "mcp/notes"], rng),
        3 => command("x", &[&format!("--conn=Server=db;User=sa;Password={canary}")], rng),
        4 => url(&format!("https://mcp.example.com/mcp?key={canary}"), rng),
        5 => url(&format!("https://me:{canary}@mcp.example.com/mcp"), rng),
        6 => command("x", &[&format!("postgres://me:{canary}@db.example.com/x")], rng),
        7 => remote(&format!("X-Key: {canary}"), rng),
        8 => remote(&format!("Authorization: Bearer {canary}${{X}}"), rng),
        9 => command("mendline", &["run", carrier, canary, "--", "npx", "-y", "x"], rng),
        _ => command("npx", &["mcp-remote", "https://e.com/mcp", &assigned], rng),
    }
}

/// An entry with a canary in a place that does not indicate a secret.
fn silent_entry(canary: &str, rng: &mut Rng) -> Members {
    let flag = FLAGS[rng.usize(..FLAGS.len())];
    match rng.u8(..13) {
        0 => command("npx", &["-y", "notes-server", flag, canary], rng),
        1 => command("npx", &["notes-server", &format!("--foo={canary}")], rng),
        2 => command("npx", &[canary, "notes-server"], rng),
        3 => command("sh", &["-c", &format!("exec notes {flag} {canary} | tee log")], rng),
        4 => url(&format!("https://mcp.example.com/api/s/{canary}/mcp"), rng),
        5 => url(&format!("https://localhost/{canary}"), rng),
        6 => url(&format!("https://{canary}.example.com/mcp"), rng),
        7 => url(&format!("https://e.com/mcp#{canary}"), rng),
        8 => command("npx", &["mcp-remote", &format!("https://e.com/{canary}/sse"), "--header", "X-Key: a"], rng),
        9 => command("npx", &["mcp-remote", "http://localhost/sse", canary], rng),
        10 => command("npx", &["mcp-remote", "http://localhost/sse", "--transport", canary], rng),
        11 => vec![("type".to_owned(), quoted(canary, rng)), ("command".to_owned(), "\"x\"".to_owned())],
        _ => command("mendline", &["run", "--foo", canary, "--", "npx", "-y", "x"], rng),
    }
}

fn entry(canary: &str, is_key: bool, rng: &mut Rng) -> Members {
    if is_key && rng.bool() { silent_entry(canary, rng) } else { telling_entry(canary, rng) }
}

/// A JSON file with a canary.
fn json_file(canary: &str, is_key: bool, rng: &mut Rng) -> String {
    let mut members = entry(canary, is_key, rng);
    let mut comment = String::new();
    let mut other = String::from("{}");
    match rng.u8(..12) {
        0 if is_key => comment = format!(" // the old one: {canary} (gone)"),
        1 if is_key => comment = format!(" /* \"args\": [\"--foo\", \"{canary}\"] */"),
        2 => comment = format!(" // \"headers\": {{\"Authorization\": \"Bearer {canary}\"}}"),
        3 => comment = format!(" // [\"--pat\", \"{canary}\"]"),
        4 if is_key => other = format!("{{\"a\": [{{\"b\": {}}}]}}", quoted(canary, rng)),
        5 => other = format!("{{\"apiKey\": [{{\"b\": {}}}]}}", quoted(canary, rng)),
        6 if is_key => other = format!("{{\"{canary}\": true}}"),
        _ => {}
    }
    let holder = if members[0].0 == "url" { "headers" } else { "env" };
    if rng.bool() {
        members.push((holder.to_owned(), format!("{{\"X-Some\": {}}}", quoted(canary, rng))));
    }
    let members: Vec<String> = members.iter().map(|(key, value)| format!("      \"{key}\": {value}")).collect();
    let members = members.join(",\n");
    let last = "\"b\": {\"command\": \"npx\"}";
    format!(
        "{{\n  \"other\": {other},\n  \"mcpServers\": {{\n    \"a\": {{{comment}\n{members}\n    }},{comment}\n    {last}\n  }}\n}}\n"
    )
}

/// A TOML file with a canary.
fn toml_file(canary: &str, is_key: bool, rng: &mut Rng) -> String {
    let members = entry(canary, is_key, rng);
    let is_url = members[0].0 == "url";
    let mut text = String::new();
    match rng.u8(..8) {
        0 if is_key => text += &format!("# the old one: {canary}\n"),
        1 => text += &format!("# token = \"{canary}\"\n"),
        2 => text += &format!("# FOO = \"{canary}\"\n"),
        3 if is_key => text += &format!("note = '''\nseveral lines\n{canary}\n'''\n"),
        4 => text += &format!("auth = {{ some = \"{canary}\" }}\n"),
        _ => {}
    }
    text += "[mcp_servers.a]\n";
    members.iter().for_each(|(key, value)| text += &format!("{key} = {value}\n"));
    let holder = if is_url { "http_headers" } else { "env" };
    match rng.u8(..5) {
        0 => text += &format!("{holder}.Some = {}\n", quoted(canary, rng)),
        1 => text += &format!("{holder} = {{ Some = '{canary}' }}\n"),
        2 => text += &format!("[mcp_servers.a.{holder}]\nSome = '{canary}'\n"),
        3 if is_key => text += &format!("[[profiles]]\nname = \"x\"\nvalue = \"{canary}\"\n"),
        _ => {}
    }
    text + "[mcp_servers.b]\ncommand = \"npx\"\n"
}

/// Returns everything that a command shows of a plan.
fn shown(plan: &Plan, action: Action<'_>) -> String {
    result_lines(plan, action) + &render("f", &plan.before, &plan.edits, plan.syntax, DiffStyle { colour: false })
}

/// Returns whether a text contains eight characters of a canary in a row.
fn betrays(text: &str, canary: &str) -> bool {
    let mut parts = canary.as_bytes().windows(8).filter_map(|window| std::str::from_utf8(window).ok());
    parts.any(|part| text.contains(part))
}

/// Returns all arguments except those behind `--`, which come from the file.
fn arguments_that_mendline_made(text: &str, syntax: Syntax) -> Vec<String> {
    let document = Document::parse(text, syntax).unwrap();
    let mut arguments = Vec::new();
    for section in document.sections() {
        for words in document.servers(&section).iter().filter_map(|server| server.table()?.get("args")?.texts()) {
            let made = WrapArguments::read(&words).map_or(0, |read| read.command.unwrap_or(words.len()));
            arguments.extend(words[..made].iter().map(|word| (*word).to_owned()));
        }
    }
    arguments
}

/// Checks a file, and returns whether wrapping changes it.
fn check(seed: u64, text: &str, syntax: Syntax, canary: &str) -> Result<bool, String> {
    let chosen: Chosen = ["a", "b"].map(str::to_owned).into();
    let make = |text: &str, action: Action<'_>| Plan::make(text.to_owned(), syntax, &[], action, &chosen).unwrap();
    let check_shown = |told: &str| match betrays(told, canary) {
        true => Err(format!("{seed}: {canary} is shown\n{told}\n--- of\n{text}")),
        false => Ok(()),
    };
    // Arguments of `mendline run` that the owner wrote are removed first.
    let first = make(text, Action::Unwrap);
    check_shown(&shown(&first, Action::Unwrap))?;
    let wrapped = make(&first.after, WRAP);
    check_shown(&shown(&wrapped, WRAP))?;
    let arguments = arguments_that_mendline_made(&wrapped.after, syntax);
    if betrays(&arguments.join(" "), canary) {
        return Err(format!("{seed}: {canary} is among {arguments:?}\n{text}"));
    }
    check_shown(&shown(&make(&wrapped.after, Action::Unwrap), Action::Unwrap))?;
    Ok(wrapped.changes())
}

#[test]
fn s03_no_secret_in_a_file_is_shown_or_made_argument() {
    let (mut changed, mut wrong) = (0, Vec::new());
    for seed in 0..FILES {
        let mut rng = Rng::with_seed(seed);
        let is_key = rng.u8(..4) > 0;
        let canary = if is_key { KEYS[rng.usize(..KEYS.len())] } else { WORDS[rng.usize(..WORDS.len())] };
        let files =
            [(json_file(canary, is_key, &mut rng), Syntax::Json), (toml_file(canary, is_key, &mut rng), Syntax::Toml)];
        for (text, syntax) in files {
            match check(seed, &text, syntax, canary) {
                Ok(is_changed) => changed += usize::from(is_changed),
                Err(reason) => wrong.push(reason),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), 2 * FILES, wrong[..wrong.len().min(8)].join("\n"));
    assert!(changed > 7_000, "only {changed} of {} files were changed", 2 * FILES);
}

#[test]
fn s03_a_diff_still_shows_packages_paths_and_flags() {
    let text = r#"{"mcpServers": {"a": {
        // the good one, see https://example.com/docs
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-filesystem@2025.11.25", "--root", "/home/me/garden", "--port", "8080",
            "--log-level=debug", "mcp-server-k8s", "--pat", "s3cret", "-p", "3000:3000"],
        "cwd": "/opt/notes", "env": {"A": "${B}"}, "password": 47114711
    }}}"#;
    let plan = Plan::make(text.to_owned(), Syntax::Json, &[], WRAP, &Chosen::new()).unwrap();
    let shown = shown(&plan, WRAP);
    for part in [
        "the good one, see https://example.com/docs",
        r#""npx", "-y", "@modelcontextprotocol/server-filesystem@2025.11.25", "--root", "/home/me/garden", "--port", "8080""#,
        r#""--log-level=debug", "mcp-server-k8s", "--pat", "…", "-p", "3000:3000""#,
        r#""/opt/notes""#,
        r#"{"A": "${B}"}, "password": …"#,
    ] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
}
