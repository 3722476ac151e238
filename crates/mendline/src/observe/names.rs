//! The names of upstreams in the log, shared by its outputs.

use std::sync::{Arc, Mutex, PoisonError};

use mendline_core::UpstreamId;

/// The names of upstreams, by their numbers. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    by_number: Arc<Mutex<Vec<Arc<str>>>>,
    /// The only server of this process, if it is not a gateway.
    only: Option<Arc<str>>,
}

impl Names {
    /// Creates the names of a process with one server.
    pub(crate) fn of_server(name: &str) -> Names {
        let name: Arc<str> = Arc::from(name);
        Names { by_number: Arc::new(Mutex::new(vec![Arc::clone(&name)])), only: Some(name) }
    }

    /// Creates the names of the first upstreams of a gateway.
    pub(crate) fn of_gateway(names: Vec<String>) -> Names {
        Names { by_number: Arc::new(Mutex::new(names.into_iter().map(Arc::from).collect())), only: None }
    }

    /// Returns the only server of this process, to which lines about no upstream belong. A gateway has none.
    pub(crate) fn only(&self) -> Option<&Arc<str>> {
        self.only.as_ref()
    }

    /// Sets the name of an upstream.
    pub(crate) fn set(&self, upstream: UpstreamId, name: &str) {
        let mut names = self.by_number.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner).get(usize::from(upstream.0)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_added_upstream_is_known_to_all_outputs() {
        let names = Names::of_gateway(vec!["files".to_owned()]);
        let other = names.clone();
        names.set(UpstreamId(3), "notes");
        assert_eq!(other.get(UpstreamId(3)).as_deref(), Some("notes"));
        assert_eq!((other.get(UpstreamId(0)).as_deref(), other.get(UpstreamId(4))), (Some("files"), None));
    }
}
