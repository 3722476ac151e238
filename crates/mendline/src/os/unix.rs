//! What all Unix systems share.

pub(crate) mod descriptors;
pub(crate) mod errors;
pub mod files;
pub mod output;
pub mod signals;
pub(crate) mod tcp;
pub mod terminal;
