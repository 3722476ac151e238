//! A value that must not be seen.
//!
//! Tokens, keys and header values travel in this type, so that no `Debug`, no `Display` and no log line can show them by
//! accident. Looking inside is one method with a long name, easy to search for in a review.

use std::fmt;

/// Text that prints as `‹secret›`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes charge of a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The secret itself, for the one place that must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("‹secret›")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("‹secret›")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        // Best effort: what the optimiser leaves of it. The lint against `unsafe` is worth more here than certainty.
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        std::hint::black_box(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "‹secret› ‹secret› Some(‹secret›)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
