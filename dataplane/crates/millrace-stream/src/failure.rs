//! The one way in which a store dies: the device failed, or another broker owns what it wrote.

use millrace_model::{Cause, Classified};
use tokio::sync::watch;

use crate::error::AppendError;

/// Remembers the first failure and wakes all that wait for one.
#[derive(Debug)]
pub(crate) struct Failure {
    reason: watch::Sender<Option<Cause>>,
}

impl Failure {
    pub(crate) fn new() -> Self {
        Self {
            reason: watch::Sender::new(None),
        }
    }

    /// Declares the store dead. Later calls change nothing.
    pub(crate) fn declare(&self, reason: impl Classified + Send + Sync + 'static) {
        let reason = Cause::new(reason);
        let first = self.reason.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert_with(|| reason.clone());
            first
        });
        if first {
            tracing::error!(
                %reason,
                class = %reason.class(),
                "the store failed; nothing more will be acknowledged"
            );
        }
    }

    pub(crate) fn reason(&self) -> Option<Cause> {
        self.reason.borrow().clone()
    }

    /// The store's failure as an append sees it.
    pub(crate) fn check(&self) -> Result<(), AppendError> {
        self.reason()
            .map_or(Ok(()), |reason| Err(AppendError::Failed(reason)))
    }

    /// Resolves with the reason once the store has failed.
    pub(crate) async fn wait(&self) -> Cause {
        let mut receiver = self.reason.subscribe();
        loop {
            if let Some(reason) = receiver.borrow_and_update().clone() {
                return reason;
            }
            // The sender lives in `self`, so the channel cannot be closed meanwhile.
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
