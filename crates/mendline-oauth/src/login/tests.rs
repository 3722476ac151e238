//! Tests of logins with a browser, pasted texts, and other processes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::settings::Redirect;
use crate::testing::server::{ISSUER, MCP, Server, logged_in, settings, stored};
use crate::testing::{Person, block_on};

/// Runs a future on real time, for real sockets.
fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Opens an address of the callback as a browser does. Returns the head and the page.
async fn visit(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

/// A person whose browser confirms at once, and follows redirects. The pages go to the channel.
fn browser(server: &Server) -> (Person, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (sender, pages) = tokio::sync::mpsc::unbounded_channel();
    let server = server.clone();
    let person = Person::browsing(move |url| {
        let (server, sender, mut url) = (server.clone(), sender.clone(), url.to_owned());
        tokio::spawn(async move {
            loop {
                let page = visit(&server.authorize(&url)).await;
                let Some((_, rest)) = page.split_once("Location: ") else {
                    let _ = sender.send(page);
                    return;
                };
                url = rest.lines().next().unwrap().to_owned();
            }
        });
    });
    (person, pages)
}

fn pasting(server: &Server) -> Person {
    let server = server.clone();
    Person::pasting(move |url| server.authorize(url))
}

fn paste() -> LoginOptions {
    LoginOptions { way: Way::Paste, ..LoginOptions::default() }
}

#[test]
fn browser_comes_back_and_the_page_says_that_it_worked() {
    run(async {
        let server = Server::new();
        let (person, mut pages) = browser(&server);
        let result = login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        assert!(!result.by_other_process && result.ends_at().is_none());
        assert_eq!((result.info.issuer.as_str(), result.info.scopes.as_slice()), (ISSUER, &["read".to_owned()][..]));
        assert!(pages.recv().await.unwrap().contains("logged in to <b>notes</b>"));
        let login = stored(&server);
        assert_eq!((login.resource.as_deref(), login.client.id.as_str()), (Some(MCP), "client-1"));
    });
}

#[test]
fn ceiling_of_fruitless_requests_does_not_stop_a_person() {
    block_on(async {
        let server = Server::new();
        for _ in 0..crate::store::counters::MAX_FRUITLESS {
            server.oauth().store().count_fruitless(ISSUER, 1, (server.oauth().clock)()).await;
        }
        login(&server.oauth(), &settings(), &paste(), &pasting(&server)).await.unwrap();
        assert_eq!(server.oauth().store().fruitless_today(ISSUER), 0, "the login succeeded");
    });
}

#[test]
fn pasted_address_wins_without_a_browser() {
    block_on(async {
        let server = Server::new();
        let person = pasting(&server);
        login(&server.oauth(), &settings(), &paste(), &person).await.unwrap();
        assert_eq!((person.urls().len(), server.state().logins), (1, 1));
    });
}

#[test]
fn wrong_texts_and_pages_are_ignored_until_the_right_one() {
    run(async {
        let server = Server::new();
        let (right, _pages) = browser(&server);
        let person = Person::browsing(move |url| {
            let (right, url) = (right.clone(), url.to_owned());
            let query = url.split_once('?').unwrap().1.to_owned();
            let redirect =
                crate::url::parameters(&query).into_iter().find(|(name, _)| name == "redirect_uri").unwrap().1;
            tokio::spawn(async move {
                for wrong in ["?code=evil&state=wrong", "?code=evil", "?error=access_denied&state=x", ""] {
                    assert!(visit(&format!("{redirect}{wrong}")).await.contains("belongs to no login"));
                }
                crate::LoginUi::open_browser(&right, &url);
            });
        });
        assert!(login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.is_ok());
        let ignored = person.steps().iter().filter(|step| matches!(step, Progress::Ignored { .. })).count();
        assert_eq!((ignored, server.state().logins), (4, 1));
    });
}

#[test]
fn registration_and_its_port_are_used_again() {
    run(async {
        let server = Server::new();
        for _ in 0..3 {
            let (person, _pages) = browser(&server);
            login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        }
        assert_eq!(server.read(|it| (it.registrations, it.logins)), (1, 3));
        // The port is taken by another program: a new registration with another port.
        let port = stored(&server).client.redirect_port().unwrap();
        let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (person, _pages) = browser(&server);
        login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        assert_eq!(server.state().registrations, 2);
        let fixed = LoginOptions { port: Some(port), ..LoginOptions::default() };
        let error = login(&server.oauth(), &settings(), &fixed, &person).await.unwrap_err();
        assert!(matches!(error, OAuthError::Listener { .. }));
    });
}

#[test]
fn forgotten_registration_is_replaced_in_the_same_page() {
    run(async {
        let server = Server::new();
        logged_in(&server).await;
        server.state().clients.clear();
        let (person, mut pages) = browser(&server);
        login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        assert_eq!(server.read(|it| (it.registrations, it.logins)), (2, 2));
        assert!(pages.recv().await.unwrap().contains("logged in"));
        assert_eq!(person.urls().len(), 1, "one page only");
    });
}

#[test]
fn refused_resource_leads_to_one_more_round_and_is_remembered() {
    run(async {
        let server = Server::new();
        server.state().refuses_resource = true;
        let (person, _pages) = browser(&server);
        login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        assert!(person.steps().contains(&Progress::WithoutResource));
        assert_eq!(stored(&server).resource, None);
        let (person, _pages) = browser(&server);
        login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
        assert!(!person.steps().contains(&Progress::WithoutResource));
    });
}

#[test]
fn wrong_issuer_in_the_response_is_refused_and_nothing_is_stored() {
    run(async {
        let server = Server::new();
        server.state().names_issuer = Some("https://evil.example".to_owned());
        let (person, mut pages) = browser(&server);
        let error = login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap_err();
        assert!(matches!(error, OAuthError::WrongIssuer { .. }));
        assert!(pages.recv().await.unwrap().contains("The login failed"));
        assert!(!server.state().requests.iter().any(|url| url.ends_with("/token")));
        assert!(server.oauth().store().logins().unwrap().is_empty());
    });
}

#[test]
fn missing_callback_drops_a_registration_that_may_be_forgotten() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let before = stored(&server);
        let error = login(&server.oauth(), &settings(), &paste(), &Person::default()).await.unwrap_err();
        assert!(error.to_string().contains("registers a new one"), "{error}");
        assert_eq!(stored(&server), before, "the earlier login stays");
        login(&server.oauth(), &settings(), &paste(), &pasting(&server)).await.unwrap();
        assert_eq!(server.state().registrations, 2);
    });
}

#[test]
fn other_processes_wait_for_the_login_that_is_under_way() {
    run(async {
        let server = Server::new();
        let key = Store::key(MCP, None);
        let lock = server.oauth().store().try_flow_lock(&key).unwrap().unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (server, person) = (server.clone(), Person::default());
                tokio::spawn(async move {
                    let result = login(&server.oauth(), &settings(), &LoginOptions::default(), &person).await.unwrap();
                    (result.by_other_process, person.urls().len(), person.steps())
                })
            })
            .collect();
        // The process with the lock completes its login.
        let other = Server::new();
        logged_in(&other).await;
        server.oauth().store().save(&key, &stored(&other)).await.unwrap();
        drop(lock);
        for task in waiting {
            assert_eq!(task.await.unwrap(), (true, 0, vec![Progress::WaitingForOtherLogin]));
        }
    });
}

#[test]
fn login_as_another_account_is_revoked_and_not_stored() {
    block_on(async {
        let server = Server::new();
        server.state().email = Some("you@work.example".to_owned());
        let settings = Settings { account: Some("me@work.example".to_owned()), ..settings() };
        let error = login(&server.oauth(), &settings, &paste(), &pasting(&server)).await.unwrap_err();
        assert!(matches!(error, OAuthError::WrongAccount { .. }), "{error}");
        assert_eq!(server.state().revocations, 1);
        assert!(server.oauth().store().logins().unwrap().is_empty());
        server.state().email = Some("me@work.example".to_owned());
        let result = login(&server.oauth(), &settings, &paste(), &pasting(&server)).await.unwrap();
        assert_eq!(result.info.identity.unwrap().shown(), Some("me@work.example"));
        assert!(login_of(server.oauth().store(), &settings).unwrap().is_some());
    });
}

#[test]
fn login_without_refresh_token_says_when_it_ends() {
    block_on(async {
        let server = Server::new();
        server.state().gives_refresh = false;
        let result = login(&server.oauth(), &settings(), &paste(), &pasting(&server)).await.unwrap();
        assert_eq!(result.ends_at(), result.info.expires_at);
        assert!(result.ends_at().is_some());
    });
}

#[test]
fn server_without_registration_names_the_redirect_url() {
    block_on(async {
        let server = Server::new();
        server.state().registers = false;
        let redirect = Redirect { port: Some(0), path: Some("/cb".to_owned()), ..Redirect::default() };
        let mut settings = Settings { redirect, ..settings() };
        let error = login(&server.oauth(), &settings, &paste(), &pasting(&server)).await.unwrap_err();
        assert!(error.to_string().contains("/cb and set auth.clientId"), "{error}");
        server.state().clients.insert("mine".to_owned());
        settings.client_id = Some("mine".to_owned());
        assert!(login(&server.oauth(), &settings, &paste(), &pasting(&server)).await.is_ok());
    });
}

#[test]
fn failing_token_endpoint_is_asked_again_with_the_same_code() {
    use crate::testing::server::Fault;
    block_on(async {
        let server = Server::new();
        server.state().faults.extend([Fault::Status(503), Fault::Html]);
        assert!(login(&server.oauth(), &settings(), &paste(), &pasting(&server)).await.is_ok());
        server.state().faults.extend([Fault::Status(503); 3]);
        let error = login(&server.oauth(), &settings(), &paste(), &pasting(&server)).await.unwrap_err();
        assert!(error.can_pass() && !stored(&server).ended);
    });
}

#[test]
fn logout_revokes_and_deletes_this_login_only() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let work = Settings { account: Some("work".to_owned()), ..settings() };
        login(&server.oauth(), &work, &paste(), &pasting(&server)).await.unwrap();
        assert_eq!(logout(&server.oauth(), &settings()).await, Ok(LoggedOut::Revoked));
        assert_eq!(server.state().revocations, 1);
        let left = server.oauth().store().logins().unwrap();
        assert_eq!((left.len(), left[0].account.as_deref()), (1, Some("work")));
        assert_eq!(logout(&server.oauth(), &settings()).await, Ok(LoggedOut::NoLogin));
    });
}

#[test]
fn token_is_fresh_or_renewed() {
    block_on(async {
        let server = Server::new();
        let error = token(&server.oauth(), &settings()).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no login for notes; run: mendline login notes");
        let first = logged_in(&server).await;
        let header = |credential: Credential| credential.headers[0].1.expose().to_owned();
        assert_eq!(header(token(&server.oauth(), &settings()).await.unwrap()), format!("Bearer {}", first.expose()));
        sleep(Duration::from_secs(3600 - 30)).await;
        let renewed = header(token(&server.oauth(), &settings()).await.unwrap());
        assert_ne!(renewed, format!("Bearer {}", first.expose()));
        assert_eq!(server.state().refreshes, 1);
        // The authorization server is down while the token still lives.
        sleep(Duration::from_secs(3600 - 30)).await;
        server.state().faults.push_back(crate::testing::server::Fault::Status(503));
        assert_eq!(header(token(&server.oauth(), &settings()).await.unwrap()), renewed);
    });
}

#[test]
fn secrets_of_a_login_are_redacted_and_never_shown() {
    block_on(async {
        let server = Server::new();
        let redactor = mendline::observe::redact::Redactor::default();
        let person = pasting(&server);
        let oauth = server.oauth().redactor(redactor.clone());
        let result = login(&oauth, &settings(), &paste(), &person).await.unwrap();
        let login = stored(&server);
        let refresh = login.refresh_token.clone().unwrap();
        let shown = format!("{result:?} {login:?} {:?} {}", person.steps(), person.urls().join(" "));
        for secret in [&login.access_token, &refresh] {
            assert!(!shown.contains(secret.expose()));
            let text = format!("x {} y", secret.expose());
            let redacted = redactor.redact(text.as_bytes()).into_owned();
            assert!(!String::from_utf8(redacted).unwrap().contains(secret.expose()));
        }
    });
}
