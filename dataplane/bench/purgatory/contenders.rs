//! Who takes part, Apache Kafka's own purgatory aside.

mod delay_queue;
mod heap;
mod millrace;
mod watch_lists;

use millrace_time::SystemClock;

use crate::workload::{Measured, Plan, Scene, drive};

/// A contender of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InProcess {
    Millrace,
    Heap,
    DelayQueue,
}

impl InProcess {
    pub(crate) const ALL: [Self; 3] = [Self::Millrace, Self::Heap, Self::DelayQueue];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Millrace => "millrace",
            Self::Heap => "heap",
            Self::DelayQueue => "delay_queue",
        }
    }

    /// Runs a plan in this process, which should do nothing else before or after.
    ///
    /// # Errors
    /// Where no runtime can be started.
    pub(crate) fn run(self, plan: &Plan) -> std::io::Result<Measured> {
        // One thread for timers, as every contender has.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()?;
        let _in_runtime = runtime.enter();
        let clock = SystemClock::shared();
        let scene = Scene::new(clock.clone());
        Ok(match self {
            Self::Millrace => drive(&millrace::Millrace::new(clock), scene, plan),
            Self::Heap => drive(&heap::Heap::new(clock), scene, plan),
            Self::DelayQueue => {
                let delays = delay_queue::Delays::new(runtime.handle().clone());
                drive(&delays, scene, plan)
            }
        })
    }
}
