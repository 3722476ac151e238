//! What takes effect when the engine says so: the next command of a child, the next address of a server.
//!
//! Whoever reads configurations puts it here, at any time and as often as it likes; a host takes the last of it when it is
//! told to renew. What was put in and never taken is replaced by what comes after it.

use std::sync::{Arc, Mutex, PoisonError};

/// A place for the next one.
pub struct Next<T>(Arc<Mutex<Option<T>>>);

impl<T> Next<T> {
    /// Puts the next one there.
    pub fn put(&self, next: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    /// Takes the next one, if there is one.
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
