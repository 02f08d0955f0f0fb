//! Bytes that are charged.

use crate::budget::{Budget, Line};

/// Bytes that are charged to a budget until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: u64,
    /// Whether it is the one that went over the capacity.
    overdraws: bool,
}

impl Charge {
    pub(crate) fn new(budget: Budget, bytes: u64, overdraws: bool) -> Self {
        Self {
            budget,
            bytes,
            overdraws,
        }
    }

    /// Bytes that are charged.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes more if that is possible at once.
    #[must_use]
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let grown = self.budget.try_add(bytes, self.overdraws);
        self.bytes += if grown { bytes } else { 0 };
        grown
    }

    /// Waits for more, before those who have nothing yet.
    pub async fn grow(&mut self, bytes: u64) {
        let more = self.budget.enqueue(bytes, Line::Growing).await;
        self.absorb(more);
    }

    /// Takes over another charge of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        debug_assert!(self.budget.is(&other.budget), "of one budget");
        self.bytes += std::mem::take(&mut other.bytes);
        self.overdraws |= std::mem::take(&mut other.overdraws);
    }

    /// Charges `bytes` instead, without waiting.
    pub fn set(&mut self, bytes: u64) {
        if bytes != self.bytes || self.overdraws {
            self.budget.replace(self.bytes, bytes, self.overdraws);
            self.bytes = bytes;
            self.overdraws = false;
        }
    }

    /// Is no charge any more; the budget has been told otherwise.
    pub(crate) fn forget(mut self) {
        self.bytes = 0;
        self.overdraws = false;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}
