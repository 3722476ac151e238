//! The names of upstreams in the log, shared by its outputs.

use std::sync::{Arc, Mutex, PoisonError};

use mendline_core::UpstreamId;

/// The names of upstreams, by their numbers. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Names(Arc<Mutex<Vec<Arc<str>>>>);

impl Names {
    /// Creates the names of the first upstreams.
    pub(crate) fn new(names: Vec<String>) -> Names {
        Names(Arc::new(Mutex::new(names.into_iter().map(Arc::from).collect())))
    }

    /// Sets the name of an upstream.
    pub(crate) fn set(&self, upstream: UpstreamId, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(upstream.0);
        if at >= names.len() {
            names.resize_with(at + 1, || Arc::from(""));
        }
        if *names[at] != *name {
            names[at] = Arc::from(name);
        }
    }

    /// Returns the name of an upstream.
    pub(crate) fn get(&self, upstream: UpstreamId) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(usize::from(upstream.0)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_added_upstream_is_known_to_all_outputs() {
        let names = Names::new(vec!["files".to_owned()]);
        let other = names.clone();
        names.set(UpstreamId(3), "notes");
        assert_eq!(other.get(UpstreamId(3)).as_deref(), Some("notes"));
        assert_eq!((other.get(UpstreamId(0)).as_deref(), other.get(UpstreamId(4))), (Some("files"), None));
    }
}
