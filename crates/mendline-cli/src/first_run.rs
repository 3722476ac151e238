//! `mendline` without arguments: the state in a few lines, and the next step.

use std::process::ExitCode;
use std::time::Duration;

use mendline::control::Registry;
use mendline::control::words::Severity;
use mendline_config::Endpoint;

use crate::named::{locate, read};
use crate::names::ClientFiles;
use crate::untrusted_text::{counted, one_line};
use crate::wrap;

/// Time limit for the answers of running processes.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// What there is on this machine.
#[derive(Debug, Default, PartialEq)]
struct Overview {
    /// Servers that run.
    running: usize,
    /// Names of those that need attention.
    unhealthy: Vec<String>,
    /// Servers of the own file, and the file.
    own: Option<(usize, String)>,
    /// The own file cannot be read.
    own_error: Option<String>,
    /// Clients with servers: title, all servers, those that go through Mendline.
    clients: Vec<(String, usize, usize)>,
    /// Servers of clients that `mendline wrap` would route through Mendline.
    wrappable: usize,
}

/// Prints the state and the next step.
pub(crate) fn run() -> ExitCode {
    print!("{}", Overview::of_machine().page());
    ExitCode::SUCCESS
}

impl Overview {
    fn of_machine() -> Overview {
        let mut overview = Overview::default();
        for found in Registry::of_user().snapshots_within(QUERY_TIMEOUT) {
            match found.snapshot {
                Ok(snapshot) => {
                    overview.running += snapshot.servers.len();
                    let unhealthy =
                        snapshot.servers.into_iter().filter(|it| it.state.kind.severity() > Severity::Healthy);
                    overview.unhealthy.extend(unhealthy.map(|server| server.name));
                }
                Err(_) => overview.unhealthy.push(found.process.name),
            }
        }
        if let Ok(found) = locate(None) {
            match read(&found) {
                Ok(loaded) => overview.own = Some((loaded.names.len(), wrap::shown(&found.path))),
                Err(why) => overview.own_error = Some(why),
            }
        }
        let files = ClientFiles::of_user();
        for entry in files.entries() {
            let is_wrapped = entry.server.is_some_and(|server| matches!(server.endpoint, Endpoint::Wrapped { .. }));
            let title = entry.file.location.client.title();
            let position = overview.clients.iter().position(|(it, ..)| it == title).unwrap_or_else(|| {
                overview.clients.push((title.to_owned(), 0, 0));
                overview.clients.len() - 1
            });
            overview.clients[position].1 += 1;
            overview.clients[position].2 += usize::from(is_wrapped);
        }
        overview.wrappable = files.files().iter().map(|file| file.wrappable().len()).sum();
        overview
    }

    fn page(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut page = format!("mendline {version}: keeps MCP connections alive.\n\n");
        let mut line = |name: &str, text: String| page.push_str(&format!("  {name:<9}{text}\n"));
        line("Running", self.running_text());
        match (&self.own, &self.own_error) {
            (_, Some(why)) => line("Own file", one_line(why)),
            (Some((count, path)), None) => line("Own file", format!("{} in {path}", counted(*count, "server"))),
            (None, None) => {}
        }
        if self.clients.is_empty() {
            line("Clients", "none with servers was found".to_owned());
        }
        for (at, (title, all, wrapped)) in self.clients.iter().enumerate() {
            let name = if at == 0 { "Clients" } else { "" };
            line(name, format!("{title}: {}, {wrapped} through Mendline", counted(*all, "server")));
        }
        page.push_str("\nNext:\n");
        let steps = self.steps();
        let width = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
        for (step, purpose) in steps {
            page.push_str(&format!("  {step:<width$}   {purpose}\n"));
        }
        page
    }

    fn running_text(&self) -> String {
        match (self.running, self.unhealthy.len()) {
            (0, 0) => "no server".to_owned(),
            (count, 0) => format!("{}, all healthy", counted(count, "server")),
            (count, bad) => {
                let names: Vec<String> = self.unhealthy.iter().take(5).map(|name| one_line(name)).collect();
                format!("{}; {bad} with a problem: {}", counted(count, "server"), names.join(", "))
            }
        }
    }

    /// Returns the commands that help in this state, the most important first.
    fn steps(&self) -> Vec<(String, &'static str)> {
        let mut steps = Vec::new();
        let mut step = |line: &str, purpose| steps.push((format!("mendline {line}"), purpose));
        let (all, wrapped) = self.clients.iter().fold((0, 0), |(all, wrapped), it| (all + it.1, wrapped + it.2));
        let has_own = self.own.as_ref().is_some_and(|(count, _)| *count > 0);
        if self.own_error.is_some() {
            step("check", "shows what is wrong with the own file");
        }
        if let Some(name) = self.unhealthy.first() {
            step(&format!("doctor {}", one_line(name)), "finds out what is wrong, and what to do about it");
        }
        if self.wrappable > 0 {
            step("wrap", "routes the servers of your clients through Mendline, after showing the changes");
        }
        if self.running > 0 || wrapped > 0 {
            step("status", "shows the state of your servers");
        }
        if self.running > 0 {
            step("stats", "shows what was recovered");
        }
        if all == 0 && !has_own {
            step("demo", "shows in twenty seconds what Mendline repairs");
            step("add NAME -- CMD", "adds a server; `--client cursor` gives it to a client");
        }
        if has_own && self.running == 0 {
            step("list", "shows the servers and their files");
        }
        step("--help", "shows all commands");
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_step(overview: &Overview) -> String {
        overview.steps().first().map(|(step, _)| step.clone()).unwrap_or_default()
    }

    #[test]
    fn state_decides_the_next_step() {
        let cursor = |all, wrapped| vec![("Cursor".to_owned(), all, wrapped)];
        let nothing = Overview::default();
        assert_eq!(first_step(&nothing), "mendline demo");
        let unwrapped = Overview { clients: cursor(3, 0), wrappable: 2, ..Overview::default() };
        assert_eq!(first_step(&unwrapped), "mendline wrap");
        let left = Overview { clients: cursor(3, 2), ..Overview::default() };
        assert_eq!(first_step(&left), "mendline status", "wrap would change nothing");
        let wrapped = Overview { clients: cursor(3, 3), ..Overview::default() };
        assert_eq!(first_step(&wrapped), "mendline status");
        let unhealthy = vec!["notes".to_owned()];
        let failing = Overview { running: 3, unhealthy, clients: cursor(3, 3), ..Overview::default() };
        assert_eq!(first_step(&failing), "mendline doctor notes");
        let own = Overview { own: Some((1, "~/c.json".to_owned())), ..Overview::default() };
        assert_eq!(first_step(&own), "mendline list");
        let broken = Overview { own_error: Some("cannot read".to_owned()), ..Overview::default() };
        assert_eq!(first_step(&broken), "mendline check");
    }

    #[test]
    fn page_shows_state_and_steps() {
        let clients = vec![("Cursor".to_owned(), 3, 2), ("Codex".to_owned(), 1, 0)];
        let page = Overview { running: 2, clients, wrappable: 2, ..Overview::default() }.page();
        for part in [
            "2 servers, all healthy",
            "Cursor: 3 servers, 2 through Mendline",
            "Codex: 1 server, 0 through",
            "mendline wrap ",
        ] {
            assert!(page.contains(part), "{page}");
        }
    }
}
