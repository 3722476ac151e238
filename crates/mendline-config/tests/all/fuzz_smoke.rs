//! Runs the fuzz target of the configuration on a seeded, mutated corpus for a few seconds.
//!
//! The inputs are the same in every run. What a long run of the fuzzer finds becomes a seed below. The first byte of
//! each selects the file: 0 is JSON of another program, 1 its TOML, 2 Mendline's own file.

#[path = "../../../../fuzz/src/config.rs"]
mod target;

/// Files of clients and of Mendline, and values at the limits of their ranges.
const SEEDS: [&str; 13] = [
    concat!("\0", include_str!("../files/example.jsonc")),
    concat!("\x02", include_str!("../files/example.jsonc")),
    concat!("\0", include_str!("../files/ten-mistakes.json")),
    "\0{ \"mcpServers\": { \"a\": { \"command\": \"npx\", \"args\": [\"-y\", \"x\"], \"env\": { \"K\": \"${API_KEY}\" }, \"envFile\": \".env\" } } }",
    "\0{ \"servers\": { \"b\": { \"type\": \"http\", \"url\": \"https://u:p@x.test/mcp?k=v#f\", \"headers\": { \"A\": \"Bearer ${env:T:-d}\" } } }, \"inputs\": [] }",
    "\x02{ \"mcpServers\": { \"c\": { \"url\": \"http://[::1]:9/\", \"timeouts\": { \"call\": \"1h30m\", \"total\": 30000000 }, \"retry\": { \"maxAttempts\": 10, \"initialDelay\": 1, \"codes\": { \"-32603\": \"never\" } } } } }",
    "\x02{ \"mcpServers\": { \"d\": { \"command\": \"x\", \"limits\": { \"inFlight\": 32767, \"waiting\": 1, \"messageBytes\": 1024 }, \"rateLimit\": { \"perSecond\": 0.001, \"burst\": 1000000 } } } }",
    "\x02{ \"mendline\": { \"defaults\": { \"keepAlive\": { \"interval\": \"1s\" } }, \"logs\": { \"level\": \"off\" } }, \"mcpServers\": { \"e\": { \"command\": \"mendline\", \"args\": [\"run\", \"--\", \"x\"] } } }",
    "\x02{ /* a */ \"mcpServers\": { // b\n \"f\": { \"command\": \"x\", \"autoReconnect\": { \"maxRetries\": -1, \"backoffMultiplier\": 1000 }, \"tools\": { \"t\": { \"effect\": \"read\", \"timeout\": 1 } }, }, } }",
    "\x01[mcp_servers.g]\ncommand = \"npx\"\nargs = [\"-y\"]\nstartup_timeout_sec = 20.5\n[mcp_servers.g.env]\nA = '''1'''\n",
    "\x01[mcp_servers.h]\nurl = \"https://x.test\"\nbearer_token_env_var = \"API_KEY\"\nhttp_headers = { X = \"y\" }\ntool_timeout_sec = 1e308\n",
    "\x01[mcp_servers.i]\nurl = \"ht${X_KEY}ps://x.test\"\n",
    "\0\u{feff}{ \"mcpServers\": { \"ü\u{1f600}\": { \"command\": \"\\ud83d\\ude00\\u0000\", \"cwd\": \"${workspaceFolder}\" }, \"ü\": null } }",
];

/// Tokens that matter to a grammar or to a value.
const CRITICAL: [&str; 32] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "/",
    "*",
    "//",
    "/*",
    "*/",
    "\n",
    "\r",
    "=",
    "'",
    "#",
    "0",
    "-",
    "1e9",
    "9223372036854775807",
    "0.0001",
    "null",
    "true",
    "${",
    "${X_KEY}",
    "\\u0000",
    "\u{feff}",
    "ü",
    "\u{1f600}",
    "\u{2028}",
];

#[test]
fn every_input_is_accepted_or_refused() {
    // The random numbers come from a xorshift generator.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % sides
    };
    for seed in SEEDS {
        target::config(seed.as_bytes());
    }
    for _ in 0..6_000 {
        let mut input = SEEDS[random(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=random(4) {
            mutate(&mut input, &mut random);
        }
        target::config(&input);
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut impl FnMut(usize) -> usize) {
    let at = random(input.len() + 1);
    let length = random(input.len() - at + 1).min(24);
    match random(6) {
        0 => drop(input.splice(at..at + length.min(1), CRITICAL[random(CRITICAL.len())].bytes())),
        1 => drop(input.splice(at..at, CRITICAL[random(CRITICAL.len())].bytes())),
        2 => drop(input.splice(at..at + length, [])),
        3 => {
            let part = input[at..at + length].to_vec();
            input.splice(at..at, part);
        }
        4 => {
            // Replaces a value by another one: most wrong files are nearly correct.
            let other = SEEDS[random(SEEDS.len())].as_bytes();
            let from = random(other.len());
            let to = (from + random(24)).min(other.len());
            input.splice(at..at + length, other[from..to].iter().copied());
        }
        _ if at < input.len() => input[at] ^= 1 << random(8),
        _ => {}
    }
    input.truncate(3_000);
}
