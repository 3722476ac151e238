//! A slot for a setting that the engine applies later: the next command of a child, the next target of a server.
//!
//! The code that reloads the configuration stores a value at any time. A host takes the latest value when the engine
//! renews the upstream. A new value replaces one that was not taken.

use std::sync::{Arc, Mutex, PoisonError};

/// A slot for the next value, shared by its clones.
pub struct Next<T>(Arc<Mutex<Option<T>>>);

impl<T> Next<T> {
    /// Stores the next value.
    pub fn put(&self, next: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    /// Takes the next value, if there is one.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Default for Next<T> {
    fn default() -> Next<T> {
        Next(Arc::default())
    }
}

impl<T> Clone for Next<T> {
    fn clone(&self) -> Next<T> {
        Next(Arc::clone(&self.0))
    }
}
