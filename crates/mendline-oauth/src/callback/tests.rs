//! Tests of the callback with real sockets.

use super::*;

/// Runs a future on real time: sockets do not wait for paused clocks.
fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn send(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

async fn get(port: u16, target: &str) -> String {
    send(port, &format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")).await
}

async fn bind() -> Callback {
    Callback::bind(RedirectHost::Address, 0, "/callback").await.unwrap()
}

#[test]
fn query_of_the_callback_gets_the_page_of_the_login() {
    run(async {
        let mut callback = bind().await;
        assert_eq!(callback.redirect(), format!("http://127.0.0.1:{}/callback", callback.port()));
        let browser = tokio::spawn(get_owned(callback.port(), "/callback?code=x&state=y"));
        let query = callback.next().await.unwrap();
        assert_eq!(query.text, "code=x&state=y");
        query.browser.show(Page::Worked { name: "notes" }).await;
        let answer = browser.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("logged in to <b>notes</b>"), "{answer}");
        assert!(answer.contains("Content-Security-Policy: default-src 'none'"));
    });
}

async fn get_owned(port: u16, target: &'static str) -> String {
    get(port, target).await
}

#[test]
fn other_requests_are_refused_and_the_login_goes_on() {
    run(async {
        let mut callback = bind().await;
        let port = callback.port();
        assert!(get(port, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
        assert!(get(port, "/callback/x?code=1").await.starts_with("HTTP/1.1 404"));
        let post = format!("POST /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
        assert!(send(port, &post).await.starts_with("HTTP/1.1 405"));
        let rebound = format!("GET /callback?code=1 HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n");
        assert!(send(port, &rebound).await.starts_with("HTTP/1.1 421"));
        assert!(send(port, "GET /callback?code=1 HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 421"));
        assert_eq!(send(port, &format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * MAX_HEAD))).await, "");
        let browser = tokio::spawn(get_owned(port, "/callback?code=2"));
        let query = callback.next().await.unwrap();
        assert_eq!(query.text, "code=2");
        query.browser.show(Page::Ignored).await;
        assert!(browser.await.unwrap().contains("belongs to no login"));
    });
}

#[test]
fn second_callback_gets_a_page_of_its_own() {
    run(async {
        let mut callback = bind().await;
        let port = callback.port();
        let _first = tokio::spawn(get_owned(port, "/callback?code=1"));
        let _query = callback.next().await.unwrap();
        let second = tokio::spawn(get_owned(port, "/callback?code=1"));
        while callback.queries.is_empty() {
            tokio::task::yield_now().await;
        }
        callback.close().await;
        assert!(second.await.unwrap().contains("belongs to no login"));
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err(), "the port is free");
    });
}

#[test]
fn idle_connections_do_not_block_the_callback() {
    run(async {
        let mut callback = bind().await;
        let port = callback.port();
        let _idle: Vec<TcpStream> = {
            let mut idle = Vec::new();
            for _ in 0..8 {
                idle.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
            }
            idle
        };
        let _browser = tokio::spawn(get_owned(port, "/callback?code=1"));
        assert_eq!(callback.next().await.unwrap().text, "code=1");
    });
}

#[test]
fn port_in_use_is_named() {
    run(async {
        let first = bind().await;
        let error = Callback::bind(RedirectHost::Address, first.port(), "/").await.err().unwrap();
        assert!(error.to_string().contains("the port is in use; choose another port with --port"), "{error}");
    });
}

#[test]
fn dropped_callback_frees_its_port() {
    run(async {
        let first = bind().await;
        let port = first.port();
        drop(first);
        tokio::task::yield_now().await;
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
    });
}

#[test]
fn page_escapes_foreign_text() {
    let html = Page::Failed { why: "<script>alert('x')</script> {title} & \"" }.html();
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;") && html.contains("&#123;title}"), "{html}");
}
