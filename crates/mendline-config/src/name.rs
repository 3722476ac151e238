//! The name of a server.
//!
//! A name appears in logs, in errors that models read, and later as a prefix of tool names. It has at most 64 letters,
//! digits, `-` and `_`, and no `__`, which separates a server name from a tool name. Without a configured name it is
//! derived from the command: not from the launcher (`npx`, `python`) but from the program that it launches. The derived
//! name of a server on this machine or at an address is that address with its port, as in the URL.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The reason why a text is not a server name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidName {
    /// It is empty.
    Empty,
    /// This character is not allowed.
    Character(char),
    /// It contains `__`.
    Separator,
    /// It has this many characters.
    TooLong(usize),
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidName::Empty => f.write_str("a name needs at least one letter"),
            InvalidName::Character(odd) => {
                write!(f, "a name is made of letters, digits, `-` and `_`; {odd:?} is none of them")
            }
            InvalidName::Separator => {
                f.write_str("a name may not contain `__`, which separates a server's name from its tools'")
            }
            InvalidName::TooLong(length) => {
                write!(f, "a name has at most {LONGEST} characters; this one has {length}")
            }
        }
    }
}

impl std::error::Error for InvalidName {}

/// A valid server name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

const LONGEST: usize = 64;

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Name, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if let Some(odd) = text.chars().find(|character| !is_plain(*character)) {
            return Err(InvalidName::Character(odd));
        }
        if text.contains("__") {
            return Err(InvalidName::Separator);
        }
        if text.len() > LONGEST {
            return Err(InvalidName::TooLong(text.len()));
        }
        Ok(Name(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// Derives a name from a command.
    pub fn of_command(program: &OsString, arguments: &[OsString]) -> Name {
        let program = stem(&program.to_string_lossy());
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let launched = match launcher(&program) {
            Some(Launcher::Package) => package(&words),
            Some(Launcher::Script) => script(&words),
            None => None,
        };
        Name::sanitized(&launched.unwrap_or(program))
    }

    /// Derives a name from the origin of a URL: from the name of its host, or from its address and port, because several
    /// servers run on one machine.
    pub fn of_origin(origin: &str) -> Name {
        let address = origin.split_once("://").map_or(origin, |(_, address)| address);
        let host = match address.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => address.split(':').next().unwrap_or_default(),
        };
        let is_local = host == "localhost" || (host.ends_with(".localhost") && host.len() < LONGEST / 2);
        if is_local || host.parse::<std::net::IpAddr>().is_ok() {
            return Name(address.to_owned());
        }
        Name::of_host(host)
    }

    /// Derives a name from a host, without the prefixes `www.` and `mcp.`.
    fn of_host(host: &str) -> Name {
        let host = host.strip_prefix("www.").or(host.strip_prefix("mcp.")).unwrap_or(host);
        Name::sanitized(host)
    }

    /// Converts any text to a valid name.
    pub fn sanitized(text: &str) -> Name {
        let mut name = String::new();
        for character in text.chars() {
            let plain = if is_plain(character) { character } else { '-' };
            if !(matches!(plain, '-' | '_') && name.ends_with(plain)) && name.len() < LONGEST {
                name.push(plain);
            }
        }
        let name = name.trim_matches('-');
        Name(if name.is_empty() { "server".to_owned() } else { name.to_owned() })
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

enum Launcher {
    /// Fetches a package and runs it.
    Package,
    /// Runs a file or a module.
    Script,
}

fn launcher(program: &str) -> Option<Launcher> {
    let base = program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    match base {
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" => Some(Launcher::Package),
        "node" | "python" | "deno" | "bun" | "tsx" | "ruby" | "php" | "uv" => Some(Launcher::Script),
        _ => None,
    }
}

/// Returns the name of a package: `-y @scope/server-notes@1.2` is `server-notes`; `--from git+https://… notes` is
/// `notes`.
fn package(words: &[String]) -> Option<String> {
    let word = first_word(words, &["-p", "--package", "--from", "--with", "--python", "-c", "--call"])?;
    let unscoped = word.strip_prefix('@').and_then(|rest| rest.split_once('/')).map_or(word, |(_, name)| name);
    let end = unscoped.find(['@', '=', '[', '<', '>', '~', '!']).unwrap_or(unscoped.len());
    Some(unscoped[..end].to_owned()).filter(|name| !name.is_empty())
}

/// Returns the name of a module or script: `-m notes.server` is the module; `dist/index.js` is its directory, because
/// the file name is too general.
fn script(words: &[String]) -> Option<String> {
    if let Some(at) = words.iter().position(|word| word == "-m") {
        return words.get(at + 1).cloned();
    }
    let word = first_word(words, &["-r", "--require", "--import", "--loader", "-W", "-X", "--directory", "--with"])?;
    let own = stem(word);
    if !is_anonymous(&own) {
        return Some(own);
    }
    let folders = Path::new(word).ancestors().skip(1).filter_map(Path::file_name);
    folders.map(|folder| folder.to_string_lossy().into_owned()).find(|folder| !is_anonymous(folder)).or(Some(own))
}

fn is_anonymous(word: &str) -> bool {
    matches!(
        word,
        "index" | "main" | "__main__" | "server" | "cli" | "dist" | "build" | "src" | "lib" | "bin" | "." | ".."
    )
}

fn first_word<'a>(words: &'a [String], with_value: &[&str]) -> Option<&'a str> {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if with_value.contains(&word) {
            words.next();
        } else if !word.starts_with('-') && !matches!(word, "run" | "dlx" | "exec" | "x") {
            return Some(word);
        }
    }
    None
}

fn stem(path: &str) -> String {
    let path = Path::new(path);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    for extension in [".exe", ".cmd", ".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".php", ".sh"] {
        if let Some(stem) = name.strip_suffix(extension).filter(|stem| !stem.is_empty()) {
            return stem.to_owned();
        }
    }
    name.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(command: &str) -> String {
        let mut words = command.split_whitespace().map(OsString::from);
        let program = words.next().unwrap();
        Name::of_command(&program, &words.collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn name_is_derived_from_command() {
        assert_eq!(name("/usr/local/bin/notes-server --db x"), "notes-server");
        assert_eq!(name("./weird name.bin"), "weird");
        assert_eq!(name("a__b"), "a_b");
        assert_eq!(name("…"), "server");
    }

    #[test]
    fn launcher_yields_name_of_launched_program() {
        assert_eq!(name("npx -y @modelcontextprotocol/server-everything"), "server-everything");
        assert_eq!(name("npx -y mcp-remote@latest https://example.com"), "mcp-remote");
        assert_eq!(name("npx --package @a/b@2 tool"), "tool");
        assert_eq!(name("uvx --from git+https://example.com/x notes[all]==1.2"), "notes");
        assert_eq!(name("pipx run notes"), "notes");
        assert_eq!(name("python3.12 -m notes.server"), "notes-server");
        assert_eq!(name("python -u /srv/weather.py"), "weather");
        assert_eq!(name("node /opt/notes/dist/index.js stdio"), "notes");
        assert_eq!(name("node index.js"), "index");
        assert_eq!(name("node"), "node");
        assert_eq!(name("uv run --directory /srv/x notes.py"), "notes");
    }

    #[test]
    fn u08_name_of_a_local_url_is_its_address() {
        let name = |origin| Name::of_origin(origin).to_string();
        assert_eq!(name("http://127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(name("http://localhost:3000"), "localhost:3000");
        assert_eq!(name("https://[::1]:8443"), "[::1]:8443");
        assert_eq!(name("http://10.0.0.7"), "10.0.0.7");
        assert_eq!(name("https://mcp.example.com"), "example-com");
        assert_eq!(name("https://www.example.com:8443"), "example-com");
    }

    #[test]
    fn invalid_name_is_refused_with_reason() {
        assert_eq!("a__b".parse::<Name>().unwrap_err(), InvalidName::Separator);
        assert_eq!("a b".parse::<Name>().unwrap_err(), InvalidName::Character(' '));
        assert!("".parse::<Name>().is_err());
        assert_eq!("x".repeat(65).parse::<Name>().unwrap_err(), InvalidName::TooLong(65));
        assert_eq!("every-thing_2".parse::<Name>().unwrap().to_string(), "every-thing_2");
    }

    #[test]
    fn derived_name_is_always_valid() {
        for command in ["npx ___", "node ../../dist/index.js", "--- x", "npx @/", "ünïcode", "uvx ==1"] {
            let name = name(command);
            assert!(name.parse::<Name>().is_ok(), "{command} gave {name}");
        }
    }
}
