//! Decides when tasks run.

use std::{
    fmt::Debug,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// The seam at the process: a simulation stops all tasks of one broker, as SIGSTOP would, and lets them go on, or never.
pub trait Gate: Debug + Send + Sync {
    /// Ready where tasks may run. Otherwise the task is woken once they may.
    fn poll_open(&self, context: &mut Context<'_>) -> Poll<()>;
}

pin_project_lite::pin_project! {
    /// A future that is polled only while its gate is open.
    #[derive(Debug)]
    pub struct Gated<F> {
        #[pin]
        future: F,
        // `None` outside of simulations.
        gate: Option<Arc<dyn Gate>>,
    }
}

impl<F> Gated<F> {
    pub(crate) fn new(future: F, gate: Option<Arc<dyn Gate>>) -> Self {
        Self { future, gate }
    }
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(gate) = this.gate {
            ready!(gate.poll_open(context));
        }
        this.future.poll(context)
    }
}
