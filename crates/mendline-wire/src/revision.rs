//! The revisions of MCP.
//!
//! A revision is a date, so the order of revisions is that of their texts.

/// The revisions of the legacy era, oldest first.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The first revision of the modern era.
const FIRST_MODERN: &str = "2026-07-28";

/// Returns whether a revision belongs to the modern era.
pub fn is_modern(revision: &str) -> bool {
    revision >= FIRST_MODERN && revision.as_bytes().first().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn era_follows_from_the_date() {
        assert!(is_modern("2026-07-28") && is_modern("2027-01-01"));
        assert!(!LEGACY.into_iter().any(is_modern) && !is_modern("") && !is_modern("x") && !is_modern("1999-01-01"));
    }
}
