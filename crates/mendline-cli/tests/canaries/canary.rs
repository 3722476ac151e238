//! The secrets of the tests, the forms in which they are repeated, and the search for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Values that occur nowhere else, named after the place where they are given.
pub(crate) const VARIABLE: &str = "Zq7Kd0Xw9Lm3Vb5Tn1Rs8Pf2";
pub(crate) const HEADER: &str = "Hk4Wy8Ub2Gx6Jc0Nd3Ze7Qa5";
pub(crate) const COOKIE: &str = "Cm1Ov5Ti9Ar3Ek7Sy2Bw6Lg0";
pub(crate) const PASSWORD: &str = "Pn2Xf6Hj0Dv4Mt8Qc1Wk5Yr9";
pub(crate) const QUERY: &str = "Qu8Jb3Nz7Gs1Fe5Vx9Ip4Ta0";
pub(crate) const PATH: &str = "Xelvorandimquastiborehn";
pub(crate) const USER: &str = "Us3Ld7Kw1Ph5Zo9Ym4Cb8Ge2";
pub(crate) const PROXY: &str = "Rx9Sa4Ju8Vn2Bq6Hf1Td5Wo7";
pub(crate) const SESSION: &str = "Se5Mi0Kz4Xg8Ny3Lj7Cv1Dp6";

/// The number of consecutive characters of a secret that may be visible.
const SEEN: usize = 7;

/// The limits at which Mendline truncates a text.
const LIMITS: [usize; 6] = [200, 300, 4 << 10, 8 << 10, 16 << 10, 64 << 10];

/// Returns the value of `Authorization: Basic` for this password.
pub(crate) fn basic(password: &str) -> String {
    STANDARD.encode(format!("me:{password}"))
}

/// Fails if a secret, or a part of one, is in this text.
pub(crate) fn search(place: &str, text: &[u8]) {
    let given = [VARIABLE, HEADER, COOKIE, PASSWORD, QUERY, PATH, USER, PROXY, SESSION].map(str::to_owned);
    let derived = [basic(PASSWORD), basic(PROXY), PATH.to_ascii_lowercase(), STANDARD.encode(PASSWORD)];
    for secret in given.into_iter().chain(derived) {
        for part in secret.as_bytes().windows(SEEN + 1) {
            if let Some(at) = memchr::memmem::find(text, part) {
                let (start, end) = (at.saturating_sub(200), text.len().min(at + 100));
                panic!("{place} shows {secret}: {}", String::from_utf8_lossy(&text[start..end]));
            }
        }
    }
}

/// Returns the secret in every form that a text may contain.
pub(crate) fn forms(secret: &str) -> Vec<String> {
    let each = |write: &dyn Fn(u8) -> String| secret.bytes().map(write).collect::<String>();
    vec![
        secret.to_owned(),
        format!("({secret})"),
        each(&|byte| format!("\\u{:04x}", u32::from(byte))),
        each(&|byte| format!("%{byte:02x}")),
    ]
}

/// Returns lines that each contain the secret across one of the limits.
pub(crate) fn across_limits(secret: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for limit in LIMITS {
        for before in [4, secret.len() / 2, secret.len() - 3] {
            lines.push(across(limit, before, secret));
        }
    }
    lines
}

/// Returns a line in which `before` characters of the secret stand before the limit.
pub(crate) fn across(limit: usize, before: usize, secret: &str) -> String {
    format!("{} {secret} and more", "x".repeat(limit - before - 1))
}
