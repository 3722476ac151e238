//! The members of a new entry, as each client writes them.

use mendline_config::NewValue;

use super::clients::Client;
use super::document::Section;

/// A name and a value.
type Member = (String, NewValue);

/// Returns an entry that runs this command line.
pub(crate) fn members(
    client: Client,
    section: &Section,
    name: &str,
    program: &str,
    arguments: &[String],
) -> Vec<Member> {
    let member = |key: &str, value: NewValue| (key.to_owned(), value);
    let texts = |words: &[String]| NewValue::List(words.iter().map(NewValue::text).collect());
    let command = |key: &str| member(key, NewValue::text(program));
    let stdio = || member("type", NewValue::text("stdio"));
    let empty = || NewValue::Table(Vec::new());
    let args = || member("args", texts(arguments));
    match client {
        Client::VsCode => vec![stdio(), command("command"), args()],
        Client::ClaudeCode => vec![stdio(), command("command"), args(), member("env", empty())],
        Client::OpenCode => {
            let line: Vec<String> = std::iter::once(program.to_owned()).chain(arguments.iter().cloned()).collect();
            let mut members = vec![member("type", NewValue::text("local")), member("command", texts(&line))];
            // The later form, with its table of servers, has no such member.
            members.extend((section.len() == 1).then(|| member("enabled", NewValue::Flag(true))));
            members
        }
        Client::Zed => {
            vec![member("source", NewValue::text("custom")), command("command"), args(), member("env", empty())]
        }
        Client::Goose => vec![
            member("enabled", NewValue::Flag(true)),
            stdio(),
            member("name", NewValue::text(name)),
            member("description", NewValue::text("")),
            command("cmd"),
            args(),
            member("envs", empty()),
            member("env_keys", NewValue::List(Vec::new())),
            member("timeout", NewValue::Number("300".to_owned())),
        ],
        _ => vec![command("command"), args()],
    }
}
