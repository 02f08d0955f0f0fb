//! Stops the tasks of one process.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use millrace_tasks::Gate;
use parking_lot::Mutex;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    #[default]
    Running,
    /// As after SIGSTOP.
    Paused,
    /// As after SIGKILL: what its tasks hold is dropped with the simulation.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// Tasks that would have run meanwhile, in their order.
    waiting: Vec<Waker>,
}

/// The gate of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessGate {
    state: Mutex<State>,
}

impl ProcessGate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn pause(&self) {
        let mut state = self.state.lock();
        if state.mode == Mode::Running {
            state.mode = Mode::Paused;
        }
    }

    pub(crate) fn resume(&self) {
        let waiting = {
            let mut state = self.state.lock();
            if state.mode != Mode::Paused {
                return;
            }
            state.mode = Mode::Running;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.mode = Mode::Ended;
        state.waiting.clear();
    }
}

impl Gate for ProcessGate {
    fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        match state.mode {
            Mode::Running => Poll::Ready(()),
            Mode::Paused => {
                state.waiting.push(context.waker().clone());
                Poll::Pending
            }
            Mode::Ended => Poll::Pending,
        }
    }
}
