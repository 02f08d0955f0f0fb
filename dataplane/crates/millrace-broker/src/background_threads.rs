//! The threads that read from the bucket, compact, and upload.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// How much lower their priority is, in steps of nice(2). At 10 a thread gets a tenth of what one of
/// ordinary priority gets while both want the processor, and all of it while they do not; and whoever
/// wakes up to acknowledge an append does not wait for it.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Two runtimes, so that producers do not wait behind long turns, each with as many threads as the machine has processors:
/// of lower priority for catch-up reads and compaction, of ordinary priority for uploads, which appends may come to wait for.
/// They end at once when this is dropped, wherever that is.
#[derive(Debug)]
pub(crate) struct BackgroundThreads {
    background: Threads,
    uploads: Threads,
}

#[derive(Debug)]
struct Threads {
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
        let mut background = Builder::new_multi_thread();
        background.thread_name("background");
        background.on_thread_start(lower_priority);
        let mut uploads = Builder::new_multi_thread();
        uploads.thread_name("uploads");
        Ok(Self {
            background: Threads::start(&mut background)?,
            uploads: Threads::start(&mut uploads)?,
        })
    }

    /// For catch-up reads and compaction.
    pub(crate) fn handle(&self) -> Handle {
        self.background.handle.clone()
    }

    /// For uploads.
    pub(crate) fn uploads(&self) -> Handle {
        self.uploads.handle.clone()
    }
}

impl Threads {
    fn start(builder: &mut Builder) -> io::Result<Self> {
        let runtime = builder.enable_all().build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
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

impl Drop for Threads {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its blocking work, and panics where waiting is forbidden.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
