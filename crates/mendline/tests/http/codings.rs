//! Compressed bodies, although the request accepts only `identity`.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::Limits;
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
use miniz_oxide::{MZFlush, MZStatus};
use tokio::io::AsyncWriteExt as _;

use super::stage::{PING, PONG, Stage, get, line, memory_dialer, post, target};

const GZIP_HEAD: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";

/// Computes the CRC-32 of gzip bit by bit.
fn check_sum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let trailer = [check_sum(text).to_le_bytes(), (text.len() as u32).to_le_bytes()].concat();
    [GZIP_HEAD, &compress_to_vec(text, 9), &trailer].concat()
}

fn response(kind: &str, coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn answered(answer: Vec<u8>) -> Vec<String> {
    let (dial, mut servers) = memory_dialer();
    let limits = Limits { message_bytes: 100_000, ..Limits::default() };
    let mut stage = Stage::new(target("http://x.test/").limits(limits), dial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.request().await;
        // The client may stop reading.
        let _ = tokio::time::timeout(Duration::from_secs(5), server.0.write_all(&answer)).await;
        server
    };
    let (facts, _server) = tokio::join!(stage.facts(1), serve);
    facts[2..].to_vec()
}

#[tokio::test(start_paused = true)]
async fn r23_compressed_body_is_read() {
    let whole = [format!("body {PONG}"), "end Complete Whole".to_owned()];
    for coding in ["gzip", "x-gzip", "GZIP, identity"] {
        assert_eq!(answered(response("application/json", coding, &gzip(PONG.as_bytes()))).await, whole);
    }
    let zlib = compress_to_vec_zlib(PONG.as_bytes(), 6);
    assert_eq!(answered(response("application/json", "deflate", &zlib)).await, whole);
    let events = gzip(format!("data: {PONG}\n\n").as_bytes());
    let seen = [format!("event data={PONG}"), "end Complete Whole".to_owned()];
    assert_eq!(answered(response("text/event-stream", "gzip", &events)).await, seen);
}

#[tokio::test(start_paused = true)]
async fn r23_decompression_bomb_is_too_large() {
    // Two hundred times the limit, compressed to a fifth of it.
    let bomb = gzip(&vec![b' '; 20_000_000]);
    assert!(bomb.len() < 25_000, "{}", bomb.len());
    for kind in ["application/json", "text/html"] {
        assert_eq!(answered(response(kind, "gzip", &bomb)).await, ["end TooLarge Whole"]);
    }
    let event = gzip(&[b"data: ", &vec![b'x'; 5_000_000][..], b"\n\n"].concat());
    assert_eq!(answered(response("text/event-stream", "gzip", &event)).await, ["end TooLarge Whole"]);
}

#[tokio::test(start_paused = true)]
async fn r23_unknown_coding_error_names_it() {
    for kind in ["application/json", "text/event-stream"] {
        let facts = answered(response(kind, "br", b"\x0b\x02\x80{}\x03")).await;
        assert_eq!(facts.len(), 1, "{facts:?}");
        assert!(facts[0].starts_with("end Cut(") && facts[0].contains("br"), "{facts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r23_damaged_or_cut_body_is_an_error() {
    let mut damaged = gzip(PONG.as_bytes());
    damaged[14] ^= 0x55;
    let facts = answered(response("application/json", "gzip", &damaged)).await;
    assert!(facts.len() == 1 && facts[0].contains("compressed answer"), "{facts:?}");
    let cut = &gzip(PONG.as_bytes())[..30];
    let facts = answered(response("application/json", "gzip", cut)).await;
    assert!(facts.len() == 1 && facts[0].contains("breaks off"), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn r23_compressed_event_is_read_at_once() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(get());
    let mut server = stage.next_server(&mut servers).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n";
    server.answer([head.as_bytes(), GZIP_HEAD].concat()).await;
    assert_eq!(line(&stage.next().await), "head 200 Events");
    assert_eq!(line(&stage.next().await), "bytes", "the header of the compression");
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(6, -15, 0));
    for number in 0..3 {
        let event = Bytes::from(format!("data: {number}\n\n"));
        let mut out = [0; 1000];
        let done = deflate(&mut compressor, &event, &mut out, MZFlush::Sync);
        assert_eq!(done.status, Ok(MZStatus::Ok));
        server.write(&out[..done.bytes_written]).await;
        assert_eq!(line(&stage.next().await), format!("event data={number}"));
    }
}
