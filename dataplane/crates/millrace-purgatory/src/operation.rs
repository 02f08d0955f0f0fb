//! The trait of delayed operations.

use std::sync::Arc;

/// Something that waits until it can be completed, or until its time is up.
pub trait DelayedOperation: Send + 'static {
    /// Completes the operation if it can be completed, and tells whether it did. Called whenever
    /// something happens to a key that it watches, and sometimes when nothing did; never by two
    /// threads at once, never again after it returned true. It must not block. It may use the
    /// purgatory.
    fn try_complete(&self) -> bool;

    /// Completes the operation with what there is, because its time is up or the purgatory closes.
    /// Called at most once, and never where `try_complete` returned true.
    fn on_expire(&self);
}

/// For who keeps a share of the operation, to see what became of it.
impl<O: DelayedOperation + Sync> DelayedOperation for Arc<O> {
    fn try_complete(&self) -> bool {
        (**self).try_complete()
    }

    fn on_expire(&self) {
        (**self).on_expire();
    }
}
