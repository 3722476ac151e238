//! How much of anything a peer may send.
//!
//! The numbers bound time and memory against a hostile or broken peer; a well-behaved one never meets them. They are an
//! argument, not a constant, because an operator may have a reason to move one.

/// Limits on what is taken from the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message. Large results (images, files) are real; 16 MiB holds them and still lets 16 of them fit
    /// into the budget of all buffers.
    pub message_bytes: usize,
    /// How deep objects and arrays may nest. JSON Schemas in `tools/list` reach 20 or so; 512 bounds what the peer's
    /// own recursive parser has to survive.
    pub depth: u16,
    /// The longest id. UUIDs have 38 bytes; an id is copied and kept for as long as its request lives.
    pub id_bytes: usize,
    /// How many messages one legacy batch may hold.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { message_bytes: 16 << 20, depth: 512, id_bytes: 4096, batch: 1000 }
    }
}
