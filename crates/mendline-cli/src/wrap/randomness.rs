//! Detection of random text, such as keys.
//!
//! A file does not tell which of its texts are secrets. Names of packages, paths, versions and flags are made of words;
//! keys and tokens are not. Both tests err on the side of caution: a URL that is not certainly public counts as a
//! secret, and a text with one part that is not a word counts as random.

use super::tree::Range;

/// Maximum length of a part that always counts as a word: it is too short for a key.
const SHORT: usize = 7;

/// Maximum length of a word of letters.
const LONGEST_WORD: usize = 24;

/// Maximum number of digits of a number that is no identifier.
const LONGEST_NUMBER: usize = 8;

/// Minimum length of a key of letters and digits.
const LONG: usize = 16;

/// Maximum length of a path segment that is certainly public.
const LONGEST_SEGMENT: usize = 15;

/// Characters that package names, paths, versions, flags and ports have between their words.
const ORDINARY: &str = "-_./\\@:=,+~*?[]{}()<>^\"'";

/// Returns whether a text without blanks has a part that is not made of words.
pub(crate) fn is_random(text: &str) -> bool {
    let pieces = || text.split(|sign: char| !sign.is_alphanumeric());
    let has = |kind: fn(char) -> bool| text.contains(kind);
    let is_mixed = has(char::is_numeric) && has(char::is_alphabetic);
    let has_odd_signs = text.contains(|sign: char| !sign.is_alphanumeric() && !ORDINARY.contains(sign));
    // A UUID has short parts, but too many in which a letter follows a digit.
    let odd_pieces = pieces().filter(|piece| kinds(piece) >= 2 && !is_numbered(piece)).count();
    let is_odd = has_odd_signs && is_mixed && text.chars().count() > SHORT;
    !pieces().all(is_word) || odd_pieces >= 3 || is_odd || is_base64(text)
}

/// Returns whether a text may be base64, whose `/` and `+` split it into parts.
fn is_base64(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    text.len() >= LONG && text.bytes().all(is_sign) && has(u8::is_ascii_digit) && rises(text) >= 4
}

/// Returns the random parts of a text without blanks: segments of a path, otherwise all of it.
pub(crate) fn random_parts(text: &str) -> Vec<Range> {
    if !is_random(text) {
        return Vec::new();
    }
    let is_file = ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start)) && !is_base64(text);
    let is_path = text.contains(['/', '\\', '@']) && !text.contains(['+', '=']) && !text.contains("://");
    if !is_path {
        return std::iter::once(0..text.len()).collect();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for segment in text.split_inclusive(['/', '\\', '@', ':']) {
        let end = start + segment.trim_end_matches(['/', '\\', '@', ':']).len();
        // Directories may have short random names.
        if is_random(&text[start..end]) && (!is_file || end - start >= LONG) {
            parts.push(start..end);
        }
        start += segment.len();
    }
    if parts.is_empty() && !is_file { std::iter::once(0..text.len()).collect() } else { parts }
}

fn is_word(piece: &str) -> bool {
    let length = piece.chars().count();
    if length <= SHORT {
        return true;
    }
    match (piece.contains(char::is_numeric), piece.contains(char::is_alphabetic)) {
        (true, true) => is_numbered(piece) || (length < LONG && kinds(piece) <= 2),
        (true, false) => length <= LONGEST_NUMBER,
        (false, _) => length <= LONGEST_WORD && !has_changing_case(piece) && consonants(piece) <= 6,
    }
}

/// Returns whether a part is a word with a number of up to four digits: `sha256`, `fetch2024`.
fn is_numbered(piece: &str) -> bool {
    let letters = piece.trim_end_matches(char::is_numeric);
    !letters.contains(char::is_numeric) && piece.len() - letters.len() <= 4 && letters.chars().count() <= LONG
}

/// Counts the changes between letters and digits.
fn kinds(piece: &str) -> usize {
    let kinds: Vec<bool> = piece.chars().map(char::is_numeric).collect();
    kinds.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Returns whether capitals occur where words do not have them.
fn has_changing_case(piece: &str) -> bool {
    rises(piece) * 4 > piece.chars().count()
}

/// Counts the capitals that follow a lower-case letter.
fn rises(text: &str) -> usize {
    let characters: Vec<char> = text.chars().collect();
    characters.windows(2).filter(|pair| pair[0].is_lowercase() && pair[1].is_uppercase()).count()
}

/// Returns the length of the longest run of consonants.
fn consonants(piece: &str) -> usize {
    let is_vowel = |sign: char| !sign.is_ascii() || "aeiouyAEIOUY".contains(sign);
    piece.split(is_vowel).map(str::len).max().unwrap_or(0)
}

/// Returns whether a URL certainly holds no secret, so that it may appear in a list of processes: a host made of words,
/// and a path of short, lower-case words and versions.
pub(crate) fn is_open_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+');
    is_scheme && is_open_authority(authority) && path.split('/').all(is_open_segment)
}

/// Returns whether a host and its port hold no secret.
pub(crate) fn is_open_authority(authority: &str) -> bool {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, port)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
        return is_address && port.strip_prefix(':').map_or(port.is_empty(), is_port);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_host = host.parse::<std::net::Ipv4Addr>().is_ok() || host.split('.').all(is_open_label);
    !host.is_empty() && is_host && is_port(port)
}

/// Returns whether a label of a host name is made of words, perhaps with a small number (`eu2`, `context7`).
fn is_open_label(label: &str) -> bool {
    let is_open = |piece: &str| {
        let letters = piece.trim_end_matches(|sign: char| sign.is_ascii_digit());
        let is_small = piece.len() - letters.len() <= 2;
        (is_small && is_lower_word(&letters.to_ascii_lowercase())) || piece.len() <= 3
    };
    // Punycode cannot be judged.
    let is_encoded = label.starts_with("xn--");
    !is_encoded
        && label.split('-').all(|piece| piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) && is_open(piece))
        && label.split('-').filter(|piece| kinds(piece) >= 2).count() <= 1
}

fn is_open_segment(segment: &str) -> bool {
    let is_version = |piece: &str| piece.strip_prefix('v').is_some_and(|number| number.len() <= 2 && is_digits(number));
    segment.len() <= LONGEST_SEGMENT && segment.split(['-', '_']).all(|piece| is_version(piece) || is_lower_word(piece))
}

/// Returns whether a text may be in a dictionary: lower-case letters, with vowels among them.
fn is_lower_word(text: &str) -> bool {
    let is_short = text.len() <= 5;
    text.bytes().all(|byte| byte.is_ascii_lowercase())
        && text.len() <= LONGEST_SEGMENT
        && (is_short || consonants(text) <= 4)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s03_keys_look_random_and_names_do_not() {
        for key in [
            "CANARYpathKEY0123456789abcdef",
            "550e8400-e29b-41d4-a716-446655440000",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "0123456789abcdef",
            "Xk92jd83hs",
            "QwErTyUiOpAsDfGhJk",
            "4111111111111111",
            "p4ss!w0rd$x",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "image@sha256:9f86d081884c7d659a2feaa0c55ad015",
        ] {
            assert!(is_random(key), "{key}");
        }
        for name in [
            "@modelcontextprotocol/server-everything@2.0.0",
            "mcp-server-fetch",
            "mcp-remote@0.1.38",
            "n8n-mcp",
            "mcp-server-k8s",
            "oauth2-proxy",
            "ghcr.io/github/github-mcp-server",
            "/usr/lib/x86_64-linux-gnu/libfoo.so.1",
            "C:\\tools\\x.exe",
            "--inspect=127.0.0.1:9229",
            "--call-timeout",
            "2025-11-25",
            "us-east-1",
            "MENDLINE_HEADER_AUTHORIZATION",
            "8080:8080",
            "**/*.ts",
            "größe",
        ] {
            assert!(!is_random(name), "{name}");
        }
    }

    #[test]
    fn s03_only_the_random_segment_of_a_path_is_hidden() {
        let hidden = |text: &str| {
            let mut shown = text.to_owned();
            random_parts(text).into_iter().rev().for_each(|part| shown.replace_range(part, "…"));
            shown
        };
        assert_eq!(hidden("/nix/store/0c7a9b8d6e5f4a3b2c1d/bin/x"), "/nix/store/…/bin/x");
        assert_eq!(hidden("image@sha256:9f86d081884c7d659a2feaa0c55ad015"), "image@sha256:…");
        assert_eq!(hidden("ab/CD12ef34GH56ij78+kl/mn"), "…");
        for shown in ["/usr/bin/node", "/tmp/.tmpA1b2C3/bin/mendline", "../x1y2z3a4/b"] {
            assert_eq!(hidden(shown), shown);
        }
    }

    #[test]
    fn s03_url_of_short_words_is_public() {
        for url in [
            "https://example.com/mcp",
            "https://mcp.example.com/api/v1/sse",
            "http://localhost:3000/sse",
            "http://127.0.0.1:8080",
            "https://[::1]:1/",
            "https://mcp.context7.com/mcp",
            "https://api.eu-west-1.example.com/my-server/mcp/",
            "https://gitlab.example.com/api/v4/mcp",
            "https://n8n.example.com/",
        ] {
            assert!(is_open_url(url), "{url}");
        }
        for url in [
            "https://mcp.zapier.test/api/mcp/s/CANARYpathKEY0123456789abcdef/mcp",
            "https://e.com/s/4f9d1c/mcp",
            "https://e.com/SECRET/mcp",
            "https://e.com/averyveryverylongsegment",
            "https://e.com/xkvbnmtr/mcp",
            "https://e.com/a%62c",
            "https://e.com/mcp;key=1",
            "https://e.com/?key=1",
            "https://e.com?key",
            "https://e.com/mcp#x",
            "https://me@e.com/",
            "https://me:pw@e.com/",
            "https://${HOST}/",
            "https://4f9d1c7a2b.ngrok.test/mcp",
            "https://qzxkvbnmtrpl.example.com/mcp",
            "https://xn--bcher-kva.test/",
            "https://e.com:key/",
            "https:///mcp",
            "--x://e.com/",
            "e.com/mcp",
        ] {
            assert!(!is_open_url(url), "{url}");
        }
    }
}
