//! The fuzz targets on a seeded, mutated corpus: a few seconds of what `cargo fuzz` does for hours.
//!
//! The inputs are the same in every run. What a long run of the fuzzer finds becomes a seed below.
//! `MENDLINE_FUZZ_ROUNDS` sets the number of inputs.

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

const SEEDS: [&[u8]; 17] = [
    br#"{"method":{"a":[{"b":"\\"}],"c":
"x"}"#,
    br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,2.5e-3,null]},"_meta":{"progressToken":"t"}}}"#,
    br#"{"result":{"content":[{"type":"text","text":"a\n\u00e9\ud83d\ude00\"\\"}],"_meta":{}},"jsonrpc":"2.0","id":"x"}"#,
    br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"},"id":null}"#,
    br#"[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}},{"id":1}]"#,
    br#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///x","a":{"b":null}}}"#,
    br#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    br#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},"o":{"properties":{"n":{"type":["integer","null"],"x-mcp-header":"N-1"}}}},"a":"us","o":{"n":7.0}}"#,
    br#"{"properties":{"a":{"type":"boolean","x-mcp\u002dheader":"A b"},"$defs":{"x-mcp-header":"B"}},"allOf":[{"x-mcp-header":"a"}],"a":true}"#,
    b"Aid: 1\r\nevent: message\rdata: {\"a\":1}\ndata: more\n\r\n: comment\n\nretry: 500\n\n",
    b"\x10\xef\xbb\xbfdata: x\n\ndata: a very long line that goes beyond the limit of this event\n\nid: 5\n\n",
    b"\x05one\r\ntwo\n\n  \nthree is too long\r\nfour",
    b"\x00\xef\xbb\xbf\n\r\n",
    b"\xef\xbb\xbf\r\n{\n\t\"jsonrpc\": \"2.0\",\r\"id\":1,\n\"result\": {\r\n}\n}\n",
    b"data: [{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\ndata: {}},\ndata:{\"jsonrpc\":\"2.0\",\"method\":\"x\"\ndata:}]\n\n",
    "=?base64?SGVsbG8sIOS4lueVjA==?=".as_bytes(),
    " Grüße\t, 世界 ".as_bytes(),
];

/// Bytes that matter to a grammar.
const CRITICAL: &[u8] = b"\"\\{}[]:,0-.eE \t\r\n\0\x1f\x7f\x80\xc3\xed\xff=?dnu";

#[test]
fn every_target_passes_on_a_seeded_corpus() {
    // The random numbers come from a xorshift generator.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % sides
    };
    for seed in SEEDS {
        for target in targets::ALL {
            target(seed);
        }
    }
    #[allow(clippy::disallowed_methods, reason = "how long a test takes is chosen outside")]
    let rounds = std::env::var("MENDLINE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40_000);
    for _ in 0..rounds {
        let mut input = SEEDS[random(SEEDS.len())].to_vec();
        for _ in 0..=random(6) {
            mutate(&mut input, &mut random);
        }
        for target in targets::ALL {
            target(&input);
        }
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut impl FnMut(usize) -> usize) {
    let at = random(input.len() + 1);
    match random(7) {
        0 if at < input.len() => input[at] = CRITICAL[random(CRITICAL.len())],
        1 if at < input.len() => input[at] ^= 1 << random(8),
        2 => input.insert(at, CRITICAL[random(CRITICAL.len())]),
        3 => drop(input.splice(at.., [])),
        4 => {
            let length = random(input.len() - at + 1);
            let part = input[at..at + length].to_vec();
            input.splice(at..at, part);
        }
        5 => {
            let length = random(input.len() - at + 1).min(12);
            input.splice(at..at + length, []);
        }
        _ => {
            let other = SEEDS[random(SEEDS.len())];
            input.splice(at.., other[random(other.len())..].iter().copied());
        }
    }
    input.truncate(2_000);
}
