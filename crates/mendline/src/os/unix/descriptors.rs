//! The limit of open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to `wanted`, as far as the system allows it. Returns the limit that holds then.
pub(crate) fn raise_limit(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = wanted as u64;
    let possible = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = Rlimit { current: Some(possible), maximum };
    let holds = match current {
        Some(current) if current < possible && setrlimit(Resource::Nofile, raised).is_ok() => possible,
        Some(current) => current,
        None => u64::MAX,
    };
    usize::try_from(holds).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_and_never_lowered() {
        let before = raise_limit(0);
        assert!(raise_limit(before.saturating_add(1)) >= before);
        assert!(raise_limit(1) >= before);
    }
}
