//! The back-end that works everywhere: a few threads that block in the system call.

use std::{collections::VecDeque, io, sync::Arc, thread::JoinHandle};

use futures_util::FutureExt;
use millrace_tasks::Task;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{BlockDevice, DeviceConfig, DeviceFuture, file::BlockFile};
use crate::AlignedBuf;

/// A device whose operations block threads of their own.
#[derive(Debug)]
pub(super) struct ThreadPoolDevice {
    file: Arc<BlockFile>,
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

enum Job {
    Write {
        offset: u64,
        data: AlignedBuf,
        reply: oneshot::Sender<io::Result<()>>,
    },
    Read {
        offset: u64,
        len: usize,
        reply: oneshot::Sender<io::Result<AlignedBuf>>,
    },
    Sync {
        reply: oneshot::Sender<io::Result<()>>,
    },
}

/// Jobs that wait for a thread. Its length is bounded by the WAL's own depth.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("jobs", &self.state.lock().jobs.len())
            .finish()
    }
}

impl ThreadPoolDevice {
    /// Starts `config.depth` threads over `file`.
    pub(super) fn new(file: Arc<BlockFile>, config: &DeviceConfig) -> io::Result<Self> {
        let mut device = Self {
            file,
            queue: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..config.depth.max(1) {
            let (file, queue) = (Arc::clone(&device.file), Arc::clone(&device.queue));
            let tasks = config.tasks.clone();
            let work = move || {
                while let Some(job) = queue.next() {
                    tasks.panic_if_injected(Task::WalIo);
                    run(&file, job);
                }
            };
            let thread = config.tasks.spawn_thread(Task::WalIo, work)?;
            device.threads.push(thread);
        }
        Ok(device)
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Job,
    ) -> DeviceFuture<T> {
        let (reply, answer) = oneshot::channel();
        self.queue.state.lock().jobs.push_back(job(reply));
        self.queue.changed.notify_one();
        answer
            .map(|answer| {
                answer.unwrap_or_else(|_| Err(io::Error::other("the I/O threads have stopped")))
            })
            .boxed()
    }
}

impl BlockDevice for ThreadPoolDevice {
    fn capacity(&self) -> u64 {
        self.file.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        self.submit(|reply| Job::Write {
            offset,
            data,
            reply,
        })
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        self.submit(|reply| Job::Read { offset, len, reply })
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.submit(|reply| Job::Sync { reply })
    }
}

impl Drop for ThreadPoolDevice {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already said so; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// The next job; `None` once the device is dropped and every job is done.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// A caller that no longer waits is no reason to complain, so a failed reply is dropped.
fn run(file: &BlockFile, job: Job) {
    match job {
        Job::Write {
            offset,
            data,
            reply,
        } => {
            let result = file.write(offset, &data);
            drop(data);
            let _ = reply.send(result);
        }
        Job::Read { offset, len, reply } => {
            let _ = reply.send(file.read(offset, len));
        }
        Job::Sync { reply } => {
            let _ = reply.send(file.sync());
        }
    }
}
