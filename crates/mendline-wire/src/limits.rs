//! Limits for input from a peer.
//!
//! The limits bound time and memory for a hostile or broken peer. They are configurable.

/// Limits for input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a message. 16 MiB is enough for large results (images, files), and 16 such messages fit into the
    /// memory budget.
    pub message_bytes: usize,
    /// Maximum nesting of objects and arrays. JSON Schemas in `tools/list` reach about 20 levels; 512 is safe for
    /// recursive parsers of peers.
    pub depth: u16,
    /// Maximum size of an id. UUIDs have 38 bytes; an id is kept as long as its request.
    pub id_bytes: usize,
    /// Maximum number of messages in a legacy batch.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { message_bytes: 16 << 20, depth: 512, id_bytes: 4096, batch: 1000 }
    }
}
