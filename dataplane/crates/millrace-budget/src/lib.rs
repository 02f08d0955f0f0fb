//! Byte budgets: what may be in memory, and who waits for room. Knows nothing of what is in it.
//!
//! A [`Budget`] counts bytes against a capacity. A charge that does not fit waits in line, first come,
//! first served; nobody overtakes. A [`Charge`] is counted until it is dropped.
//!
//! Three rules keep waiting free of deadlock:
//!
//! - A charge that has to grow goes before those that have not started. When growing charges hold all
//!   of the capacity, **one** of them may go over it and so reach its end.
//! - Into an empty budget everything fits, however small its capacity.
//! - What fitted when it began to wait, and never will because the capacity has become smaller, is
//!   let in at its turn.

mod budget;
mod charge;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Place};
pub use charge::Charge;
