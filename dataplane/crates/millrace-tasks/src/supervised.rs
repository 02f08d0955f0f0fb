//! A future whose panic is caught, and which a test can make panic.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// Resolves when a test wants the task to panic.
pub(crate) type Fault = Pin<Box<dyn Future<Output = ()> + Send>>;

pin_project_lite::pin_project! {
    /// Resolves with the task's output, or with its panic.
    ///
    /// A type of its own, not an `async` block: that would hold the future twice.
    pub(crate) struct Supervised<F> {
        #[pin]
        pub(crate) future: F,
        // `None` outside of tests.
        pub(crate) fault: Option<Fault>,
    }
}

impl<F: Future> Future for Supervised<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(fault) = this.fault
            && fault.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(catch_unwind(|| panic!("a test injected this panic")));
        }
        // A future that panicked is never polled again, so nobody sees its state.
        match catch_unwind(AssertUnwindSafe(|| this.future.poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
