//! Valid responses are read as hyper reads them.

use http_body::Body as _;
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use std::future::poll_fn;
use std::pin::pin;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::transport::http::fuzzing::{ResponseEnd, response};

/// The status, the headers and the body.
type Seen = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

async fn seen_by_hyper(bytes: Vec<u8>) -> Seen {
    let (client, mut server) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let serve = async {
        server.read_u8().await.unwrap();
        server.write_all(&bytes).await.unwrap();
        drop(server);
    };
    let exchange = async {
        let request = Request::get("/").body(String::new()).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let mut body = pin!(body);
        let mut data = Vec::new();
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            data.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        (parts.status.as_u16(), headers.collect(), data)
    };
    let (seen, (), _) = tokio::join!(exchange, serve, connection);
    seen
}

fn seen_by_us(bytes: &[u8]) -> Seen {
    let facts = response(&[bytes], true, 1 << 16);
    assert_eq!(facts.end, ResponseEnd::Complete, "{:?}", String::from_utf8_lossy(bytes));
    (facts.status.unwrap(), facts.headers, facts.body)
}

#[derive(Clone, Debug)]
enum Form {
    Length,
    /// Chunks of this size, each with this extension.
    Chunked(usize, String, bool),
    UntilClose,
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        Just(Form::Length),
        (1_usize..40, "(;[a-z]{1,4}(=[a-z0-9]{1,4})?){0,2}", any::<bool>())
            .prop_map(|(size, extension, trailer)| Form::Chunked(size, extension, trailer)),
        Just(Form::UntilClose),
    ]
}

fn encoded(status: u16, headers: &[(String, String)], body: &[u8], form: &Form, interim: usize) -> Vec<u8> {
    let mut text = "HTTP/1.1 100 Continue\r\n\r\n".repeat(interim).into_bytes();
    text.extend(format!("HTTP/1.1 {status} Some Reason\r\n").bytes());
    for (name, value) in headers {
        text.extend(format!("X-{name}: {value}\r\n").bytes());
    }
    match form {
        Form::UntilClose => text.extend(b"\r\n"),
        Form::Length => text.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes()),
        Form::Chunked(..) => text.extend(b"transfer-encoding: Chunked\r\n\r\n"),
    }
    if matches!(status, 204 | 304) {
        return text;
    }
    let Form::Chunked(size, extension, has_trailer) = form else {
        text.extend(body);
        return text;
    };
    for chunk in body.chunks(*size) {
        text.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
        text.extend(chunk);
        text.extend(b"\r\n");
    }
    text.extend(format!("0{extension}\r\n{}\r\n", if *has_trailer { "Checksum: 1\r\n" } else { "" }).bytes());
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn valid_response_is_read_as_hyper_reads_it(
        status in prop_oneof![Just(200), Just(202), Just(204), Just(304), Just(401), Just(503), 200_u16..600],
        headers in proptest::collection::vec(("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}", "[!-~]([ -~\t]{0,20}[!-~])?"), 0..8),
        body in proptest::collection::vec(any::<u8>(), 0..200),
        form in form(),
        interim in 0_usize..3,
    ) {
        let bytes = encoded(status, &headers, &body, &form, interim);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let theirs = runtime.block_on(seen_by_hyper(bytes.clone()));
        prop_assert_eq!(seen_by_us(&bytes), theirs);
    }
}
