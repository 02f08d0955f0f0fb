//! The threads that read from the bucket and compact.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// How much lower their priority is, in steps of nice(2). At 10 a thread gets a tenth of what one of
/// ordinary priority gets while both want the processor, and all of it while they do not; and whoever
/// wakes up to acknowledge an append does not wait for it.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// A runtime for catch-up reads and compaction, so that producers do not wait behind their turns; as many threads as
/// the machine has processors, of lower priority. Ends at once when it is dropped, wherever that is.
#[derive(Debug)]
pub(crate) struct BackgroundThreads {
    handle: Handle,
    /// Taken by drop only.
    runtime: Option<Runtime>,
}

impl BackgroundThreads {
    /// Starts them.
    ///
    /// # Errors
    /// The system refuses more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("background")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// Of the calling thread; elsewhere than on Linux the call is about the whole process.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    // The threads that one of them starts begin with its priority: it is set, not lowered once more.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "catch-up reads and compaction have the same priority as appends");
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its blocking work, and panics where waiting is forbidden.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
