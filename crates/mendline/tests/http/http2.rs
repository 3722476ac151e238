//! HTTP/2 with explicit frames, so that the server can refuse, reset and close at an exact point.

use std::time::Duration;

use mendline::transport::http::Protocol;
use mendline_core::port::Reuse;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::stage::{CAPACITY, MemoryDialer, PING, PONG, Server, Servers, Stage, get, memory_dialer, post, target};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING_FRAME: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

const REFUSED_STREAM: u32 = 7;
const INTERNAL_ERROR: u32 = 2;

/// Returns `:status: 200` and a content type, encoded with the static table of HPACK and literals.
fn head(content_type: &str) -> Vec<u8> {
    let mut block = vec![0x88, 0x0f, 0x10, u8::try_from(content_type.len()).unwrap()];
    block.extend(content_type.as_bytes());
    block
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Server {
    async fn frame(&mut self) -> Frame {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.unwrap();
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        Frame { kind: head[3], flags: head[4], stream, payload }
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.unwrap();
    }

    /// Exchanges the connection prefaces, with these settings of the server.
    async fn exchange_settings(&mut self, settings: &[(u16, u32)]) {
        let mut preface = [0; 24];
        self.0.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload).await;
    }

    /// Reads one complete request and returns its stream.
    async fn stream(&mut self) -> u32 {
        loop {
            let frame = self.frame().await;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]).await,
                HEADERS | DATA if frame.flags & END_STREAM != 0 => return frame.stream,
                _ => {}
            }
        }
    }

    async fn respond(&mut self, stream: u32, body: &str) {
        self.send(HEADERS, END_HEADERS, stream, &head("application/json")).await;
        self.send(DATA, END_STREAM, stream, body.as_bytes()).await;
    }

    async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    async fn go_away(&mut self, last: u32, code: u32) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend(code.to_be_bytes());
        self.send(GOAWAY, 0, 0, &payload).await;
    }
}

fn stage() -> (Stage<MemoryDialer>, Servers) {
    let (dial, servers) = memory_dialer();
    (Stage::new(target("http://x.test/mcp").protocol(Protocol::Http2), dial), servers)
}

fn complete(id: &str, body: &str) -> [String; 4] {
    ["reached".to_owned(), "head 200 Json".to_owned(), format!("body {body}"), "end Complete Whole".to_owned()]
        .map(|line| format!("{id}{line}"))
}

#[tokio::test(start_paused = true)]
async fn exchanges_share_one_connection_in_any_order() {
    let (mut stage, mut servers) = stage();
    stage.begin(post(PING));
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let (first, second) = (server.stream().await, server.stream().await);
        server.respond(second, PONG).await;
        server.respond(first, PONG).await;
        server
    };
    let (facts, _server) = tokio::join!(stage.facts(2), serve);
    let (second, first): (Vec<_>, Vec<_>) = facts.into_iter().partition(|fact| fact.starts_with("2: "));
    assert_eq!(first, complete("", PONG));
    assert_eq!(second, complete("2: ", PONG));
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn events_arrive_at_once_and_abort_resets_stream() {
    let (mut stage, mut servers) = stage();
    let id = stage.begin(get());
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let stream = server.stream().await;
        server.send(HEADERS, END_HEADERS, stream, &head("text/event-stream")).await;
        server.send(DATA, 0, stream, b"data: 1\n\nda").await;
        server.send(DATA, 0, stream, b"ta: 2\n\n").await;
        server
    };
    let read = async {
        let mut lines = Vec::new();
        while lines.len() < 4 {
            lines.push(super::stage::line(&stage.next().await));
        }
        lines
    };
    let (facts, mut server) = tokio::join!(read, serve);
    assert_eq!(facts, ["reached", "head 200 Events", "event data=1", "event data=2"]);
    stage.http.abort(id);
    assert_eq!(stage.facts(1).await, ["end Aborted Whole"]);
    let reset = async {
        loop {
            let frame = server.frame().await;
            if frame.kind == RST_STREAM {
                return frame.payload;
            }
        }
    };
    assert_eq!(stage.during(reset).await, 8_u32.to_be_bytes(), "CANCEL");
    let serve = async {
        let stream = server.stream().await;
        server.respond(stream, PONG).await;
    };
    stage.begin(post(PING));
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("2: ", PONG), "the connection goes on");
}

/// Makes one request on a new connection, with this behaviour of the server.
async fn met_with(act: impl AsyncFnOnce(&mut Server, u32)) -> Vec<String> {
    let (mut stage, mut servers) = stage();
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let stream = server.stream().await;
        act(&mut server, stream).await;
        sleep(Duration::from_millis(1)).await;
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(servers.unseen(), 0, "it was sent again");
    facts
}

#[tokio::test(start_paused = true)]
async fn refused_stream_and_lower_goaway_prove_unprocessed() {
    let refused = ["reached", "end Refused Whole"];
    assert_eq!(met_with(async |server, stream| server.reset(stream, REFUSED_STREAM).await).await, refused);
    assert_eq!(met_with(async |server, _| server.go_away(0, 0).await).await, refused);
    assert_eq!(met_with(async |server, _| server.go_away(0, INTERNAL_ERROR).await).await, refused);
}

#[tokio::test(start_paused = true)]
async fn other_resets_leave_outcome_unknown() {
    let facts = met_with(async |server, stream| server.reset(stream, INTERNAL_ERROR).await).await;
    assert!(
        facts[1].starts_with("end Cut(\"the server reset the stream (") && facts[1].ends_with(" Whole"),
        "{facts:?}"
    );
    let facts = met_with(async |server, stream| server.go_away(stream, 0).await).await;
    assert!(facts[1].starts_with("end Cut(") && facts[1].ends_with(" Whole"), "a goaway that spares it: {facts:?}");
    let facts = met_with(async |_, _| ()).await;
    assert!(facts[1].starts_with("end Cut(") && facts[1].ends_with(" Whole"), "an end: {facts:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_after_response_start_proves_nothing() {
    let facts = met_with(async |server, stream| {
        server.send(HEADERS, END_HEADERS, stream, &head("application/json")).await;
        server.reset(stream, REFUSED_STREAM).await;
    })
    .await;
    assert_eq!(facts[..2], ["reached", "head 200 Json"]);
    assert!(facts[2].starts_with("end Cut(") && facts[2].ends_with(" Whole"), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn body_blocked_by_window_is_partly_written() {
    let (mut stage, mut servers) = stage();
    stage.begin(post(format!("\"{}\"", "x".repeat(100_000))));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let mut seen = 0;
        while seen < 65_535 {
            let frame = server.frame().await;
            seen += if frame.kind == DATA { frame.payload.len() } else { 0 };
        }
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert!(facts[1].starts_with("end Cut(") && facts[1].ends_with(" Partial"), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn body_within_window_but_unsent_is_partly_written() {
    for length in [2 * CAPACITY, 3 * CAPACITY, 65_000] {
        let (mut stage, mut servers) = stage();
        stage.begin(post(format!("\"{}\"", "x".repeat(length - 2))));
        let serve = async {
            let mut server = servers.next().await;
            server.exchange_settings(&[]).await;
            while server.frame().await.kind != HEADERS {}
            // Lets all bytes arrive.
            sleep(Duration::from_millis(1)).await;
        };
        let (facts, ()) = tokio::join!(stage.facts(1), serve);
        assert!(facts[1].starts_with("end Cut(") && facts[1].ends_with(" Partial"), "{length}: {facts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn body_with_last_byte_sent_is_fully_written() {
    let (mut stage, mut servers) = stage();
    stage.begin(post(format!("\"{}\"", "x".repeat(CAPACITY / 2))));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        while server.frame().await.kind != HEADERS {}
        sleep(Duration::from_millis(1)).await;
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert!(facts[1].starts_with("end Cut(") && facts[1].ends_with(" Whole"), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn long_body_respects_flow_control_window() {
    let (mut stage, mut servers) = stage();
    let body = format!("\"{}\"", "x".repeat(300_000));
    stage.begin(post(body.clone()));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let mut seen: Vec<u8> = Vec::new();
        loop {
            let frame = server.frame().await;
            if frame.kind != DATA {
                continue;
            }
            seen.extend(&frame.payload);
            if frame.flags & END_STREAM != 0 {
                server.respond(frame.stream, PONG).await;
                return (server, seen);
            }
            let grown = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
            server.send(WINDOW_UPDATE, 0, 0, &grown).await;
            server.send(WINDOW_UPDATE, 0, frame.stream, &grown).await;
        }
    };
    let (facts, (_server, seen)) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("", PONG));
    assert_eq!(seen, body.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn stream_limit_of_peer_opens_another_connection() {
    let (mut stage, mut servers) = stage();
    let max_concurrent_streams = (3, 1);
    let mut first = warm(&mut stage, &mut servers, &[max_concurrent_streams]).await;
    stage.begin(get());
    stage.next().await;
    stage.during(first.stream()).await;
    stage.begin(post(PING));
    let serve = async {
        let mut second = servers.next().await;
        second.exchange_settings(&[]).await;
        let stream = second.stream().await;
        second.respond(stream, PONG).await;
        second
    };
    let (facts, _second) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("3: ", PONG));
}

/// Creates a connection that has carried one exchange.
async fn warm(stage: &mut Stage<MemoryDialer>, servers: &mut Servers, settings: &[(u16, u32)]) -> Server {
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(settings).await;
        let stream = server.stream().await;
        server.respond(stream, PONG).await;
        server
    };
    let (facts, server) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("", PONG));
    server
}

#[tokio::test(start_paused = true)]
async fn connection_is_closed_with_goaway() {
    let (mut stage, mut servers) = stage();
    let mut server = warm(&mut stage, &mut servers, &[]).await;
    stage.http.close();
    loop {
        let frame = server.frame().await;
        if frame.kind == GOAWAY {
            assert_eq!(frame.payload[4..8], [0; 4], "for no bad reason");
            break;
        }
    }
    assert!(server.is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn new_exchange_after_goaway_takes_new_connection() {
    let (mut stage, mut servers) = stage();
    let mut first = warm(&mut stage, &mut servers, &[]).await;
    first.go_away(1, 0).await;
    stage.begin(post(PING));
    let serve = async {
        let mut second = servers.next().await;
        second.exchange_settings(&[]).await;
        let stream = second.stream().await;
        second.respond(stream, PONG).await;
        second
    };
    let (facts, _second) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("2: ", PONG));
}

#[tokio::test(start_paused = true)]
async fn unsafe_call_reuses_only_recently_active_connection() {
    let (mut stage, mut servers) = stage();
    let mut first = warm(&mut stage, &mut servers, &[]).await;
    stage.during(sleep(Duration::from_millis(900))).await;
    stage.begin_with(post(PING), Reuse::Fresh);
    let serve = async {
        let stream = first.stream().await;
        first.respond(stream, PONG).await;
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("2: ", PONG));

    stage.during(sleep(Duration::from_millis(1100))).await;
    stage.begin_with(post(PING), Reuse::Fresh);
    let serve = async {
        let mut second = servers.next().await;
        second.exchange_settings(&[]).await;
        let stream = second.stream().await;
        second.respond(stream, PONG).await;
        second
    };
    let (facts, _second) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, complete("3: ", PONG));
}

#[tokio::test(start_paused = true)]
async fn silent_peer_is_pinged_at_30s_and_dropped_at_40s() {
    let (mut stage, mut servers) = stage();
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        server.stream().await;
        // The server answers the first PING and not the second.
        loop {
            let frame = server.frame().await;
            if frame.kind == PING_FRAME {
                server.send(PING_FRAME, ACK, 0, &frame.payload).await;
                return (server, Instant::now());
            }
        }
    };
    let start = Instant::now();
    let (facts, (_server, asked)) = tokio::join!(stage.facts(1), serve);
    assert_eq!(asked - start, Duration::from_secs(30));
    assert_eq!(facts, ["reached", "end Cut(\"the server did not answer a ping within 10 seconds\") Whole"]);
    assert_eq!(start.elapsed(), Duration::from_secs(70));
}

#[tokio::test(start_paused = true)]
async fn overlong_header_list_is_too_large_not_refused() {
    let (dial, mut servers) = memory_dialer();
    let target = target("http://x.test/").protocol(Protocol::Http2).head_bytes(1000);
    let mut stage = Stage::new(target, dial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        let stream = server.stream().await;
        let mut block = head("application/json");
        for _ in 0..12 {
            block.extend([0x0f, 0x10, 100]);
            block.extend([b'x'; 100]);
        }
        server.send(HEADERS, END_HEADERS | END_STREAM, stream, &block).await;
        server
    };
    let (facts, _server) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "end TooLarge Whole"]);
}

#[tokio::test(start_paused = true)]
async fn early_answer_does_not_wait_for_request_body() {
    let (mut stage, mut servers) = stage();
    stage.begin(post(format!("\"{}\"", "x".repeat(100_000))));
    let serve = async {
        let mut server = servers.next().await;
        server.exchange_settings(&[]).await;
        loop {
            let frame = server.frame().await;
            if frame.kind == HEADERS {
                server.respond(frame.stream, PONG).await;
            }
        }
    };
    let facts = tokio::select! {
        facts = stage.facts(1) => facts,
        () = serve => unreachable!("the server does not end"),
    };
    let [reached, head, body, _] = complete("", PONG);
    assert_eq!(facts, [reached, head, body, "end Complete Partial".to_owned()]);
}
