//! How many bytes the engine holds for others.
//!
//! Everything that waits (a call for its upstream, a message for a slow client) is charged here by its size and paid back
//! when it leaves. Each queue has its own limit in number; the ledger is the limit over all of them together, so that many
//! queues, each within its rights, cannot fill the memory between them.

/// The account.
#[derive(Debug)]
pub struct Ledger {
    held: usize,
    /// What shells hold of what has not come to its end.
    shell_bytes: usize,
    limit: usize,
}

impl Ledger {
    /// An account with this limit.
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

    /// Charges `bytes` that must be kept whatever the limit says: an answer is never dropped.
    pub fn charge(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Pays back.
    pub fn release(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held, "paid back more than was charged");
        self.held = self.held.saturating_sub(bytes);
    }

    /// What is held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes down what shells hold: it leaves less for what waits here.
    pub fn set_shell_bytes(&mut self, bytes: usize) {
        self.shell_bytes = bytes;
    }

    /// How much shells may hold: all that is not held here.
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
