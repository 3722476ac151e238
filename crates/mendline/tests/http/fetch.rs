//! Single requests over loopback sockets.

use std::time::Duration;

use mendline::transport::http::fetch::{AddressPolicy, FetchError, FetchRefusal, FetchRequest, Fetcher};
use mendline::transport::http::{ProxyRules, TlsOptions};
use mendline_core::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::stage::{Server, json};
use super::tls::{Authority, VALID};

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    (listener, place)
}

async fn accept(listener: &TcpListener) -> Server<TcpStream> {
    Server(listener.accept().await.unwrap().0)
}

fn local() -> Fetcher {
    Fetcher::new().addresses(AddressPolicy::Any)
}

fn form(url: &str) -> FetchRequest {
    let body = Secret::new("grant_type=refresh_token&refresh_token=hunter2");
    FetchRequest::post(url, "application/x-www-form-urlencoded", body)
}

fn get(url: &str) -> FetchRequest {
    FetchRequest::get(url)
}

/// Serves one connection with this response.
async fn fetch_once(
    fetcher: &Fetcher,
    request: impl Fn(&str) -> FetchRequest,
    response: impl AsRef<[u8]>,
) -> (Result<mendline::transport::http::fetch::FetchResponse, FetchError>, String) {
    let (listener, place) = listener().await;
    let request = request(&format!("http://{place}/token"));
    let serve = async {
        let mut server = accept(&listener).await;
        let request = server.request().await;
        // The client may close before it has read everything.
        let _ = server.0.write_all(response.as_ref()).await;
        let _ = server.0.shutdown().await;
        request
    };
    tokio::join!(fetcher.fetch(&request), serve)
}

#[tokio::test]
async fn form_is_posted_and_response_returned() {
    let request = |url: &str| form(url).header("Authorization", Secret::new("Basic aGk="));
    let (response, sent) = fetch_once(&local(), request, json("{\"a\":1}")).await;
    let response = response.unwrap();
    assert_eq!((response.status, response.body()), (200, &b"{\"a\":1}"[..]));
    assert_eq!(response.content_type().as_deref(), Some("application/json"));
    assert_eq!(response.header("Content-Length"), Some("7"));
    assert_eq!(format!("{response:?}"), "FetchResponse(200, 7 bytes)");
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /token HTTP/1.1\r\nhost: 127.0.0.1:"), "{head}");
    for line in [
        "accept: application/json",
        "authorization: Basic aGk=",
        "content-type: application/x-www-form-urlencoded",
        "content-length: 46",
    ] {
        assert!(head.lines().any(|sent| sent == line), "{line}: {head}");
    }
    assert_eq!(body, "grant_type=refresh_token&refresh_token=hunter2");
}

#[tokio::test]
async fn request_over_tls_needs_trusted_certificate() {
    let authority = Authority::new("ours");
    let acceptor = authority.server("127.0.0.1", VALID, &["http/1.1"]);
    let (listener, place) = listener().await;
    let url = format!("https://{place}/x");
    let serve = async {
        for trusted in [true, false] {
            let stream = acceptor.accept(listener.accept().await.unwrap().0).await;
            if trusted {
                Server(stream.unwrap()).answer(json("{}")).await;
            } else {
                assert!(stream.is_err());
            }
        }
    };
    let fetch = async {
        let trust = |pem: &str| {
            let mut options = TlsOptions::default();
            options.trust(pem.as_bytes()).unwrap();
            local().tls(options)
        };
        assert_eq!(trust(&authority.pem).fetch(&FetchRequest::get(&url)).await.unwrap().body(), b"{}");
        let other = trust(&Authority::new("theirs").pem).fetch(&form(&url)).await.unwrap_err();
        assert!(matches!(other, FetchError::NotSent(_)), "{other:?}");
        assert!(!other.is_sent());
        assert!(other.to_string().contains("is not trusted"), "{other}");
    };
    tokio::join!(serve, fetch);
}

#[tokio::test]
async fn lost_connection_tells_whether_request_was_sent() {
    let kept = TcpSocket::new_v4().unwrap();
    kept.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}/", kept.local_addr().unwrap());
    let error = local().fetch(&form(&url)).await.unwrap_err();
    assert!(matches!(error, FetchError::NotSent(_)) && !error.is_sent(), "{error:?}");
    assert!(error.to_string().contains("connection refused"), "{error}");
    for response in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"acc", "hello\r\n\r\n"] {
        let (error, _) = fetch_once(&local(), form, response).await;
        let error = error.unwrap_err();
        assert!(matches!(error, FetchError::NoAnswer(_)) && error.is_sent(), "{response:?}: {error:?}");
    }
}

#[tokio::test]
async fn time_limit_tells_whether_request_was_sent() {
    let limit = Duration::from_millis(50);
    let (listener, place) = listener().await;
    // The peer never answers.
    let request = form(&format!("http://{place}/"));
    let silent = async { accept(&listener).await };
    let fetcher = local().timeout(limit);
    let (error, mut server) = tokio::join!(fetcher.fetch(&request), silent);
    assert_eq!(error.unwrap_err(), FetchError::TimedOut { after: limit, sent: true });
    assert!(server.request().await.ends_with("hunter2"));
    // The peer does not begin its TLS handshake.
    let request = form(&format!("https://{place}/"));
    let silent = async { accept(&listener).await };
    let (error, _) = tokio::join!(fetcher.fetch(&request), silent);
    let error = error.unwrap_err();
    assert_eq!(error, FetchError::TimedOut { after: limit, sent: false });
    assert_eq!(error.to_string(), "no whole response within 50ms");
}

#[tokio::test]
async fn response_above_limit_is_not_read() {
    let body = "x".repeat((1 << 20) + 1);
    let (error, _) = fetch_once(&local(), form, json(&body)).await;
    assert_eq!(error.unwrap_err(), FetchError::TooLarge { limit: 1 << 20 });
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    let (error, _) = fetch_once(&local(), get, endless).await;
    assert_eq!(error.unwrap_err(), FetchError::TooLarge { limit: 1 << 20 });
}

fn redirect(status: u16, to: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn get_is_redirected_within_its_origin_three_times() {
    for (redirects, works) in [(3, true), (4, false)] {
        let (listener, place) = listener().await;
        let serve = async {
            for status in [301, 302, 307, 308].into_iter().take(redirects) {
                accept(&listener).await.answer(redirect(status, "/next")).await;
            }
            if works {
                let request = accept(&listener).await.answer(json("{}")).await;
                assert!(request.starts_with("GET /next "), "{request}");
            }
        };
        let request = FetchRequest::get(format!("http://{place}/first"));
        let fetcher = local();
        let (response, ()) = tokio::join!(fetcher.fetch(&request), serve);
        assert_eq!(response.is_ok(), works, "{response:?}");
    }
}

#[tokio::test]
async fn redirect_elsewhere_or_of_post_is_refused() {
    let (error, _) = fetch_once(&local(), get, redirect(302, "http://127.0.0.1:1/steal?x=y")).await;
    let error = error.unwrap_err();
    assert!(error.to_string().ends_with("redirects (302) to http://127.0.0.1:1, where nothing may be sent"), "{error}");
    assert!(!error.is_sent());
    let (error, _) = fetch_once(&local(), form, redirect(307, "/again")).await;
    let error = error.unwrap_err();
    assert!(matches!(&error, FetchError::Refused(FetchRefusal::Redirect { status: 307, .. })), "{error:?}");
    assert!(error.is_sent());
}

#[tokio::test]
async fn forbidden_urls_are_refused_before_any_byte() {
    let (listener, place) = listener().await;
    let port = place.rsplit(':').next().unwrap();
    let refused = async |fetcher: Fetcher, url: &str| match fetcher.fetch(&form(url)).await.unwrap_err() {
        FetchError::Refused(refusal) => refusal.to_string(),
        other => panic!("{url}: {other:?}"),
    };
    for url in [&format!("http://{place}/"), &format!("http://localhost:{port}/"), &format!("https://[::1]:{port}/")] {
        let why = refused(Fetcher::new(), url).await;
        assert!(why.contains("which is private; nothing is sent there"), "{url}: {why}");
    }
    for url in ["http://169.254.169.254/latest/meta-data", "https://[fe80::1]/", "https://[::ffff:169.254.169.254]/"] {
        let why = refused(local().allow_http(true), url).await;
        assert!(why.contains("a link-local address; nothing is sent there"), "{url}: {why}");
    }
    let why = refused(local(), "http://idp.test/token?secret").await;
    assert_eq!(why, "http://idp.test is not encrypted; nothing is sent there, use https");
    assert!(refused(local(), "ftp://idp.test/").await.contains("scheme must be http or https"));
    assert_eq!(refused(local(), "file:///etc/passwd").await, "this is not a URL");
    assert!(refused(local(), "https://me:pw@idp.test/").await.contains("user name or password"));
    let request = form(&format!("http://{place}/")).header("X", Secret::new("a\r\nb: hunter2"));
    let error = local().fetch(&request).await.unwrap_err();
    assert_eq!(error.to_string(), "the header X holds what HTTP does not allow");
    assert!(!format!("{error:?} {request:?}").contains("hunter2"));
    let accepted = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(accepted.is_err(), "a connection was made");
}

#[tokio::test]
async fn proxy_makes_tunnel_and_addresses_in_url_are_checked() {
    let authority = Authority::new("ours");
    let acceptor = authority.server("idp.test", VALID, &["http/1.1"]);
    let (listener, place) = listener().await;
    let rules = ProxyRules::from_variables([("HTTPS_PROXY", format!("http://{place}"))]).unwrap();
    let mut options = TlsOptions::default();
    options.trust(authority.pem.as_bytes()).unwrap();
    let fetcher = Fetcher::new().tls(options).proxies(rules);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"CONNECT idp.test:443 "));
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        Server(acceptor.accept(stream).await.unwrap()).answer(json("{}")).await
    };
    let request = form("https://idp.test/token");
    let (response, sent) = tokio::join!(fetcher.fetch(&request), serve);
    assert_eq!(response.unwrap().status, 200);
    assert!(sent.starts_with("POST /token HTTP/1.1"), "{sent}");
    let error = fetcher.fetch(&form("https://10.0.0.7/token")).await.unwrap_err();
    assert!(matches!(&error, FetchError::Refused(FetchRefusal::Address { .. })), "{error:?}");
}
