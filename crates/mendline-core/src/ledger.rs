//! The memory budget: the bytes that the engine and the shells hold.
//!
//! Everything that waits (a call for its upstream, a message for a slow client) is charged here by its size and
//! released when it leaves. Each queue has its own limit in number; the ledger is the limit over all of them together.

/// The memory budget.
#[derive(Debug)]
pub struct Ledger {
    held: usize,
    /// The bytes of unfinished messages that shells hold.
    shell_bytes: usize,
    limit: usize,
}

impl Ledger {
    /// A budget with this limit.
    pub fn new(limit: usize) -> Self {
        Ledger { held: 0, shell_bytes: 0, limit }
    }

    /// Charges `bytes` if they fit.
    pub fn try_charge(&mut self, bytes: usize) -> bool {
        let fits = self.held.saturating_add(self.shell_bytes).saturating_add(bytes) <= self.limit;
        if fits {
            self.held += bytes;
        }
        fits
    }

    /// Charges `bytes` without regard to the limit: an answer is never dropped.
    pub fn charge(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Releases charged bytes.
    pub fn release(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held, "released more than was charged");
        self.held = self.held.saturating_sub(bytes);
    }

    /// The bytes held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Sets the bytes that shells hold. They reduce the budget.
    pub fn set_shell_bytes(&mut self, bytes: usize) {
        self.shell_bytes = bytes;
    }

    /// The bytes that shells may hold.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn try_charge_respects_the_limit_and_charge_does_not() {
        let mut ledger = Ledger::new(100);
        assert!(ledger.try_charge(60));
        assert!(!ledger.try_charge(41));
        ledger.charge(60);
        assert_eq!(ledger.held(), 120);
        assert_eq!(ledger.left(), 0);
        ledger.release(120);
        assert!(ledger.try_charge(100));
    }

    #[test]
    fn s05_shell_bytes_reduce_the_budget_of_the_engine() {
        let mut ledger = Ledger::new(100);
        ledger.set_shell_bytes(60);
        assert!(!ledger.try_charge(41));
        assert!(ledger.try_charge(40));
        assert_eq!((ledger.held(), ledger.left()), (40, 60));
        ledger.set_shell_bytes(0);
        assert!(ledger.try_charge(60));
    }
}
