//! A protected MCP server, its authorization server, and a person with a browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use mendline::transport::http::fetch::{AddressPolicy, Fetcher};
use mendline_faults::{AuthorizationServer, AuthorizationSettings, Server};
use mendline_oauth::ui::LineFuture;
use mendline_oauth::{LoggedIn, LoginOptions, LoginUi, OAuth, OAuthError, Progress, Settings, Store, login};

/// The servers and a state directory.
pub struct Stage {
    pub server: Server,
    pub authorization: AuthorizationServer,
    pub state: tempfile::TempDir,
}

impl Stage {
    pub async fn start(settings: AuthorizationSettings) -> Stage {
        let server = Server::start(mendline_faults::Settings::default()).await.unwrap();
        let authorization = AuthorizationServer::start(settings).await.unwrap();
        server.protect(&authorization);
        Stage { server, authorization, state: tempfile::tempdir().unwrap() }
    }

    pub fn oauth(&self) -> OAuth {
        oauth(self.state.path())
    }

    pub fn settings(&self) -> Settings {
        Settings { name: Some("notes".to_owned()), ..Settings::new(self.server.url()) }
    }

    pub async fn login(&self) -> Result<LoggedIn, OAuthError> {
        login(&self.oauth(), &self.settings(), &LoginOptions::default(), &Browser).await
    }
}

/// The operations of one process: an HTTP client and a store of its own.
pub fn oauth(state: &Path) -> OAuth {
    OAuth::new(Arc::new(Fetcher::new().addresses(AddressPolicy::Any)), Store::new(state))
}

/// Runs a future.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A person whose browser follows all redirects without a question.
pub struct Browser;

impl LoginUi for Browser {
    fn show_url(&self, _url: &str, _opened: bool) {}

    fn open_browser(&self, url: &str) -> bool {
        let url = url.to_owned();
        std::thread::spawn(move || follow(url));
        true
    }

    fn read_line(&self) -> LineFuture<'_> {
        Box::pin(std::future::pending())
    }

    fn progress(&self, _step: &Progress) {}
}

fn follow(mut url: String) {
    for _ in 0..10 {
        let rest = url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let location = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        match location {
            Some(next) => url = next,
            None => return,
        }
    }
}
