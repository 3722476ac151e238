//! The fuzz targets of the transport shell on a seeded, mutated corpus: a short version of `cargo fuzz`.
//!
//! The inputs are the same in every run, so a failure is reproducible. A finding of the real fuzzer becomes a seed
//! below. `MENDLINE_FUZZ_ROUNDS` sets the number of inputs.

#[path = "../../../fuzz/src/shell.rs"]
mod targets;

const SEEDS: [&[u8]; 18] = [
    b"https://server.test:8443/a/b/c?d=e\n../f/./g?h#i",
    b"http://[::1]:80/sse\n/messages/?session=1",
    b"http://server.test\n//other.test:1/x",
    b"https://server.test/\nhttp:path:with/colons",
    b"http://server.test/a?b\n?c",
    b"https://SERVER.test:443\nhttps://me@server.test/",
    b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\ntunnel",
    b"HTTP/1.0 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n",
    b"HTTP/1.1 502 \x1b[2J\r\n\r\n",
    b"HTTP/1.1 403\r\n\r\n",
    // Responses; the first byte chooses the split, the limit of the head, and whether the connection ends.
    b"\x60HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"\x42HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\nA: b\r\n\r\n",
    b"\x81HTTP/1.0 503 Busy\r\nRetry-After: 7\r\n\r\nuntil the end",
    b"\x20HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    b"Bearer-s3cret/w\"ord\nAuthorization: Bearer abcdefgh, x-api-key: Bearer-s3cret/w\"ord token='x",
    b"hunter22hunter22\ngot hunter22hunter22hunter22 --token abc https://a:b@c/?key=hunter22hunter22",
    b"eyJhbGciOi\nsk-abcdefghijklmnopqrstuv eyJhbGciOi.eyJz ghp_0123456789abcdefABCDEF0123456789abcd cookie: a=b; c=d",
    b"abababab\nababababababab {\\\"apiKey\\\":\\\"ababababab\\\"} Basic dXNlcjpwYXNzd29yZA==",
];

/// Bytes with a meaning in one of the grammars.
const CRITICAL: &[u8] = b"/?#:@[].%\\ \r\n\0\x1b\x30\x31\x06\x82\x84\x80\xff=\"'\\-_;,&HT12047";

/// Returns a DER element.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let length = match u8::try_from(value.len()) {
        Ok(length @ 0..=0x7f) => vec![length],
        Ok(length) => vec![0x81, length],
        Err(_) => [&[0x82_u8][..], &(value.len() as u16).to_be_bytes()].concat(),
    };
    [&[tag][..], &length, &value].concat()
}

/// Returns a certificate with every field that is read.
fn certificate() -> Vec<u8> {
    let name = |oid: u8, text: &[u8]| {
        element(0x31, &[&element(0x30, &[&element(0x06, &[&[0x55, 0x04, oid]]), &element(0x0c, &[text])])])
    };
    let subject = element(0x30, &[&name(0x0a, b"Example"), &name(0x03, b"server.test")]);
    let issuer = element(0x30, &[&name(0x03, b"An authority")]);
    let validity = element(0x30, &[&element(0x17, &[b"200101000000Z"]), &element(0x18, &[b"22001231235959Z"])]);
    let names = element(
        0x30,
        &[&element(0x82, &[b"server.test"]), &element(0x87, &[&[127, 0, 0, 1]]), &element(0x87, &[&[0; 16]])],
    );
    let extension =
        element(0x30, &[&element(0x06, &[&[0x55, 0x1d, 0x11]]), &element(0x01, &[&[0xff]]), &element(0x04, &[&names])]);
    let extensions = element(0xa3, &[&element(0x30, &[&extension])]);
    let version = element(0xa0, &[&element(0x02, &[&[2]])]);
    let (serial, algorithm, key) = (element(0x02, &[&[1]]), element(0x30, &[]), element(0x30, &[]));
    let parts = [&version, &serial, &algorithm, &issuer, &validity, &subject, &key, &extensions];
    element(0x30, &[&element(0x30, &parts.map(Vec::as_slice)), &algorithm])
}

#[test]
fn s11_shell_fuzz_targets_pass_on_seeded_corpus() {
    let read = mendline::transport::http::fuzzing::certificate(&certificate()).expect("a certificate");
    assert_eq!(read.names, ["server.test", "127.0.0.1", "::"], "the seed is read in full");
    let mut seeds: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.to_vec()).collect();
    seeds.extend([certificate(), certificate(), certificate()]);
    // Marsaglia's xorshift suffices as a random number generator here.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = move |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % sides
    };
    let rounds = std::env::var("MENDLINE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20_000);
    for seed in &seeds {
        targets::ALL.iter().for_each(|target| target(seed));
    }
    for _ in 0..rounds {
        let mut input = seeds[roll(seeds.len())].clone();
        for _ in 0..=roll(5) {
            mutate(&mut input, &seeds, &mut roll);
        }
        targets::ALL.iter().for_each(|target| target(&input));
    }
}

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], roll: &mut impl FnMut(usize) -> usize) {
    let at = roll(input.len() + 1);
    match roll(7) {
        0 if at < input.len() => input[at] = CRITICAL[roll(CRITICAL.len())],
        1 if at < input.len() => input[at] ^= 1 << roll(8),
        2 => input.insert(at, CRITICAL[roll(CRITICAL.len())]),
        3 => drop(input.splice(at.., [])),
        4 => {
            let length = roll(input.len() - at + 1);
            let part = input[at..at + length].to_vec();
            input.splice(at..at, part);
        }
        5 => {
            let length = roll(input.len() - at + 1).min(12);
            input.splice(at..at + length, []);
        }
        _ => {
            let other = &seeds[roll(seeds.len())];
            input.splice(at.., other[roll(other.len())..].iter().copied());
        }
    }
    input.truncate(2_000);
}
