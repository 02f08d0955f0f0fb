//! Millrace's purgatory.

use std::time::Duration;

use millrace_purgatory::{DelayedOperation, Purgatory, PurgatoryConfig, Watched};
use millrace_time::SharedClock;

use crate::workload::{Contender, Request};

impl DelayedOperation for Request {
    fn try_complete(&self) -> bool {
        let ready = self.is_ready();
        if ready {
            self.completed();
        }
        ready
    }

    fn on_expire(&self) {
        self.expired();
    }
}

/// With the product's own settings.
pub(crate) struct Millrace(Purgatory<String, Request>);

impl Millrace {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self(Purgatory::new(clock, PurgatoryConfig::default()))
    }
}

impl Contender for Millrace {
    type Handle = Watched;

    fn watch(&self, request: Request, keys: &[String], timeout: Duration) -> Self::Handle {
        self.0.watch(request, keys, timeout)
    }

    fn complete(&self, handle: Self::Handle) {
        if let Some(request) = self.0.take(handle) {
            request.completed();
        }
    }
}
