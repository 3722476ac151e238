//! The callback: a listener on this machine for the browser's last step.
//!
//! It is bound before a browser opens. Any web page can send requests to it, so it answers only its own path and host,
//! reads little, and leaves the judgement about a query to the login. The page that it shows says what really happened:
//! it is sent after the tokens are stored, or the login failed. It quotes no text of a server without escaping it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::OAuthError;
use crate::settings::RedirectHost;

/// The largest head of a request in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// The limit for reading a head and for writing a page.
const IO_LIMIT: Duration = Duration::from_secs(5);

/// The most connections at the same time. Browsers open some in advance.
const MAX_CONNECTIONS: usize = 32;

/// The most queries that wait for the login.
const MAX_WAITING: usize = 8;

/// A listener for the callback of one login. Dropping it closes the port.
pub(crate) struct Callback {
    redirect: String,
    #[cfg(test)]
    port: u16,
    queries: mpsc::Receiver<Query>,
    tasks: Vec<JoinHandle<()>>,
}

/// The query of a callback, and the browser that waits for a page.
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) browser: Browser,
}

/// A browser that waits for a page.
pub(crate) struct Browser(TcpStream);

/// What the page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page<'a> {
    /// The login is stored.
    Worked {
        /// The name of the server.
        name: &'a str,
    },
    /// The login failed.
    Failed {
        /// The reason.
        why: &'a str,
    },
    /// The response belongs to no login that is under way.
    Ignored,
}

impl Callback {
    /// Binds the port; 0 chooses a free one.
    pub(crate) async fn bind(host: RedirectHost, port: u16, path: &str) -> Result<Callback, OAuthError> {
        let failed = |error: io::Error| OAuthError::Listener {
            address: format!("{}:{port}", host.as_str()),
            why: if error.kind() == io::ErrorKind::AddrInUse {
                "the port is in use".to_owned()
            } else {
                error.to_string()
            },
        };
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = first.local_addr().map_err(failed)?.port();
        let mut listeners = vec![first];
        if host == RedirectHost::Localhost {
            // A browser may take the name for the other family. Machines without it have no such address.
            let second = TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await;
            listeners.extend(second.ok());
        }
        let (sender, queries) = mpsc::channel(MAX_WAITING);
        let rules = Arc::new(Rules { port, path: path.to_owned(), slots: Semaphore::new(MAX_CONNECTIONS) });
        let tasks = listeners.into_iter().map(|listener| tokio::spawn(accept(listener, rules.clone(), sender.clone())));
        let redirect = format!("http://{}:{port}{path}", host.as_str());
        Ok(Callback {
            redirect,
            #[cfg(test)]
            port,
            queries,
            tasks: tasks.collect(),
        })
    }

    /// The redirect URL.
    pub(crate) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// The port.
    #[cfg(test)]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next query. May be cancelled without a loss.
    pub(crate) async fn next(&mut self) -> Option<Query> {
        self.queries.recv().await
    }

    /// Answers the queries that nothing waits for, and closes the port.
    pub(crate) async fn close(mut self) {
        self.queries.close();
        while let Some(query) = self.next().await {
            query.browser.show(Page::Ignored).await;
        }
        for task in &mut self.tasks {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Browser {
    /// Sends the page.
    pub(crate) async fn show(mut self, page: Page<'_>) {
        let _ = timeout(IO_LIMIT, respond(&mut self.0, page.status(), "", &page.html())).await;
    }

    /// Sends the browser on to an authorization server.
    pub(crate) async fn redirect(mut self, url: &str) {
        let location = format!("Location: {url}\r\n");
        let _ = timeout(IO_LIMIT, respond(&mut self.0, "302 Found", &location, "")).await;
    }
}

struct Rules {
    port: u16,
    path: String,
    slots: Semaphore,
}

async fn accept(listener: TcpListener, rules: Arc<Rules>, queries: mpsc::Sender<Query>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (rules, queries) = (rules.clone(), queries.clone());
                tokio::spawn(async move { serve(stream, &rules, &queries).await });
            }
            // Out of descriptors, for example.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Reads one request and passes its query on, or answers it.
async fn serve(mut stream: TcpStream, rules: &Rules, queries: &mpsc::Sender<Query>) {
    let Ok(_slot) = rules.slots.try_acquire() else { return };
    let head = match timeout(IO_LIMIT, read_head(&mut stream)).await {
        Ok(Ok(Some(head))) => head,
        _ => return,
    };
    match rules.query_of(&head) {
        Ok(query) => {
            let query = Query { text: query.to_owned(), browser: Browser(stream) };
            if let Err(error) = queries.try_send(query) {
                error.into_inner().browser.show(Page::Ignored).await;
            }
        }
        Err(status) => {
            let _ = timeout(IO_LIMIT, respond(&mut stream, status, "", "")).await;
        }
    }
}

impl Rules {
    /// Returns the query of a request for the callback, or the status of the refusal.
    fn query_of<'a>(&self, head: &'a str) -> Result<&'a str, &'static str> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        });
        // A page whose name leads to this machine sends that name.
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", self.port));
        if !host.is_some_and(|host| hosts.iter().any(|it| it.eq_ignore_ascii_case(host))) {
            return Err("421 Misdirected Request");
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match () {
            () if path != self.path => Err("404 Not Found"),
            () if method != "GET" => Err("405 Method Not Allowed"),
            () => Ok(query),
        }
    }
}

/// Reads the head of a request. `None` if it is too large or ends early.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        bytes.extend_from_slice(&buffer[..count]);
        if count == 0 || bytes.len() > MAX_HEAD {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(bytes).ok())
}

async fn respond(stream: &mut TcpStream, status: &str, location: &str, body: &str) -> io::Result<()> {
    let response = format!(
        "HTTP/1.1 {status}\r\n{location}Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

impl Page<'_> {
    fn status(self) -> &'static str {
        match self {
            Page::Worked { .. } => "200 OK",
            Page::Failed { .. } | Page::Ignored => "400 Bad Request",
        }
    }

    fn html(self) -> String {
        let (title, mark, text) = match self {
            Page::Worked { name } => (
                "Logged in",
                "worked",
                format!("Mendline is logged in to <b>{}</b>. You can close this page.", escaped(name)),
            ),
            Page::Failed { why } => (
                "The login failed",
                "failed",
                format!("{}<br>Nothing was changed. See the terminal, or run the login again.", escaped(why)),
            ),
            Page::Ignored => (
                "Nothing to do",
                "failed",
                "This answer belongs to no login that is under way. You can close this page.".to_owned(),
            ),
        };
        include_str!("callback/page.html").replace("{title}", title).replace("{mark}", mark).replace("{text}", &text)
    }
}

/// Returns a text without characters that mean something in HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '{' => escaped.push_str("&#123;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
