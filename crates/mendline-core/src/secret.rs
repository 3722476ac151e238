//! A secret value.
//!
//! Tokens, keys and header values have this type, so that no `Debug`, no `Display` and no log line can print them by
//! accident. Only one method with a searchable name reads the value.

use std::fmt;

/// Text that prints as `‹secret›`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The secret itself, for the code that sends it.
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
        // Best effort: the optimiser may keep copies. Certainty would need `unsafe`, which the lints forbid.
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
