//! The io_uring back-end: one thread owns the ring, hands operations to the kernel in batches and
//! collects their completions, both with the same system call.
//!
//! Callers put operations into [`Inbox`] and ring a doorbell, which is a pipe that the ring polls,
//! only where the thread sleeps; a busy ring takes new operations when it collects old ones.
//!
//! This is the only file of the project that holds `unsafe`. What keeps it sound: a submitted
//! operation points into an [`AlignedBuf`] that [`Worker::table`] owns until the kernel has
//! answered; the heap block behind a buffer does not move when the buffer does; and where the ring
//! breaks, the buffers that the kernel may still use are leaked instead of freed.
#![allow(unsafe_code)]

use std::{
    collections::VecDeque,
    fmt,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::AsRawFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use futures_util::FutureExt;
use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{BlockDevice, DeviceFuture, check_range, file::BlockFile};
use crate::AlignedBuf;

/// Marks the completion of the doorbell's poll.
const DOORBELL: u64 = u64::MAX;

/// `POLLIN` of poll(2): there is something to read.
const POLLIN: u32 = 0x001;

/// One system call moves at most this many bytes; the kernel's own bound is a little below 2 GiB.
const CALL_BYTES_MAX: usize = 1 << 30;

/// Places in the table beyond the log's own depth: recovery's reads, the header's writes.
const PLACES_SPARE: usize = 16;

/// A device behind an io_uring.
pub(super) struct UringDevice {
    file: Arc<BlockFile>,
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

/// What callers leave for the ring's thread.
struct Inbox {
    state: Mutex<InboxState>,
    doorbell: PipeWriter,
}

#[derive(Default)]
struct InboxState {
    operations: VecDeque<Operation>,
    /// The thread is (about to be) in the kernel and needs the doorbell.
    asleep: bool,
    /// The device was dropped: end once everything is answered.
    closing: bool,
    /// The ring has broken: nothing is accepted any more.
    broken: bool,
}

/// One operation; `done` bytes of its buffer are behind it.
enum Operation {
    Write {
        offset: u64,
        data: AlignedBuf,
        done: usize,
        reply: oneshot::Sender<io::Result<()>>,
    },
    Read {
        offset: u64,
        data: AlignedBuf,
        done: usize,
        reply: oneshot::Sender<io::Result<AlignedBuf>>,
    },
    Sync {
        reply: oneshot::Sender<io::Result<()>>,
    },
}

impl fmt::Debug for UringDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDevice")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl UringDevice {
    /// Sets up a ring for `depth` operations at once. Fails where the kernel refuses io_uring.
    pub(super) fn new(file: Arc<BlockFile>, depth: u32) -> io::Result<Self> {
        let (bell, doorbell) = io::pipe()?;
        let inbox = Arc::new(Inbox {
            state: Mutex::default(),
            doorbell,
        });
        let (started, start) = mpsc::sync_channel(1);
        let thread = {
            let (file, inbox) = (Arc::clone(&file), Arc::clone(&inbox));
            let run = move || match Worker::new(file, inbox, bell, depth) {
                Ok(worker) => {
                    let _ = started.send(Ok(()));
                    worker.run();
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            };
            thread::Builder::new()
                .name("wal-uring".to_owned())
                .spawn(run)?
        };
        start.recv().map_err(io::Error::other)??;
        Ok(Self {
            file,
            inbox,
            thread: Some(thread),
        })
    }

    fn submit<T: Send + 'static>(
        &self,
        operation: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Operation,
    ) -> DeviceFuture<T> {
        let (reply, answer) = oneshot::channel();
        self.inbox.put(operation(reply));
        answer
            .map(|answer| answer.unwrap_or_else(|_| Err(broken())))
            .boxed()
    }
}

impl BlockDevice for UringDevice {
    fn capacity(&self) -> u64 {
        self.file.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        match check_range(self.capacity(), offset, data.len()) {
            Ok(()) => self.submit(|reply| Operation::Write {
                offset,
                data,
                done: 0,
                reply,
            }),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        match check_range(self.capacity(), offset, len) {
            Ok(()) => {
                let data = AlignedBuf::zeroed(len);
                self.submit(|reply| Operation::Read {
                    offset,
                    data,
                    done: 0,
                    reply,
                })
            }
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.submit(|reply| Operation::Sync { reply })
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        self.inbox.state.lock().closing = true;
        self.inbox.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already said so; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn broken() -> io::Error {
    io::Error::other("the WAL's io_uring has broken")
}

impl Inbox {
    fn put(&self, operation: Operation) {
        let mut state = self.state.lock();
        if state.broken {
            drop(state);
            return operation.answer(Err(broken()));
        }
        state.operations.push_back(operation);
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.ring();
        }
    }

    fn ring(&self) {
        // The pipe holds 64 KiB and the thread empties it, so a byte always fits.
        if let Err(error) = (&self.doorbell).write_all(&[1]) {
            tracing::error!(%error, "the ring's doorbell failed");
        }
    }
}

/// The state of the ring's thread.
struct Worker {
    uring: IoUring,
    file: Arc<BlockFile>,
    inbox: Arc<Inbox>,
    bell: PipeReader,
    bell_armed: bool,
    /// What is in the kernel; an operation's index is its completion's user data.
    table: Vec<Option<Operation>>,
    free: Vec<usize>,
}

impl Worker {
    fn new(
        file: Arc<BlockFile>,
        inbox: Arc<Inbox>,
        bell: PipeReader,
        depth: u32,
    ) -> io::Result<Self> {
        let places = depth.max(1) as usize + PLACES_SPARE;
        // One entry more for the doorbell.
        let entries = u32::try_from(places + 1)
            .map_err(io::Error::other)?
            .next_power_of_two();
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            // Kernels before 6.1 do not know these flags, which only save interruptions.
            .or_else(|_| IoUring::new(entries))?;
        Ok(Self {
            uring,
            file,
            inbox,
            bell,
            bell_armed: false,
            table: (0..places).map(|_| None).collect(),
            free: (0..places).collect(),
        })
    }

    fn run(mut self) {
        loop {
            let ended = self.take_operations();
            if ended {
                return;
            }
            self.arm_bell();
            match self.uring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                Err(error) => return self.give_up(&error),
            }
            self.collect();
        }
    }

    /// Starts what waits in the inbox, as far as places are free; true when it is time to end.
    fn take_operations(&mut self) -> bool {
        let inbox = Arc::clone(&self.inbox);
        let mut state = inbox.state.lock();
        while let Some(place) = self.free.pop() {
            let Some(operation) = state.operations.pop_front() else {
                self.free.push(place);
                break;
            };
            self.table[place] = Some(operation);
            self.push(place);
        }
        state.asleep = state.operations.is_empty();
        state.closing && state.operations.is_empty() && self.free.len() == self.table.len()
    }

    /// Queues what is left of the operation at `place`.
    fn push(&mut self, place: usize) {
        let fd = types::Fd(self.file.file().as_raw_fd());
        let Some(operation) = &mut self.table[place] else {
            return;
        };
        let entry = operation.entry(fd).user_data(place as u64);
        self.push_entry(&entry);
    }

    fn arm_bell(&mut self) {
        if !self.bell_armed {
            let fd = types::Fd(self.bell.as_raw_fd());
            self.push_entry(&opcode::PollAdd::new(fd, POLLIN).build().user_data(DOORBELL));
            self.bell_armed = true;
        }
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry's descriptors are the file and the bell, which live as long as
        // `self`; its memory is a buffer that the table owns until the completion was collected
        // (`give_up` leaks it), and nobody touches a buffer in the table meanwhile.
        let pushed = unsafe { self.uring.submission().push(entry) };
        pushed.expect("the queue has an entry for every place and the bell");
    }

    /// Takes every completion that is there.
    fn collect(&mut self) {
        let completed: Vec<_> = self
            .uring
            .completion()
            .map(|c| (c.user_data(), c.result()))
            .collect();
        for (user_data, result) in completed {
            if user_data == DOORBELL {
                self.bell_armed = false;
                // The poll said that this does not block.
                let _ = self.bell.read(&mut [0; 64]);
                continue;
            }
            let result = match u32::try_from(result) {
                Ok(bytes) => Ok(bytes as usize),
                Err(_) => Err(io::Error::from_raw_os_error(-result)),
            };
            self.complete(user_data as usize, result);
        }
    }

    /// Goes on with a short transfer, or answers.
    fn complete(&mut self, place: usize, result: io::Result<usize>) {
        let Some(operation) = self.table.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        let outcome = match result {
            Ok(bytes) => match operation.advance(bytes) {
                Progress::Done => Ok(()),
                Progress::More => return self.push(place),
                Progress::Stuck => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Err(error) if is_transient(&error) => return self.push(place),
            Err(error) => Err(error),
        };
        if let Some(operation) = self.table[place].take() {
            self.free.push(place);
            operation.answer(outcome);
        }
    }

    /// The ring does not answer any more: fails everything, now and later.
    fn give_up(mut self, error: &io::Error) {
        tracing::error!(%error, "the WAL's io_uring has broken");
        let waiting = {
            let mut state = self.inbox.state.lock();
            state.broken = true;
            std::mem::take(&mut state.operations)
        };
        for operation in waiting {
            operation.answer(Err(broken()));
        }
        for operation in self.table.drain(..).flatten() {
            operation.abandon();
        }
    }
}

enum Progress {
    Done,
    More,
    Stuck,
}

impl Operation {
    /// The kernel's description of what is left to do.
    fn entry(&mut self, fd: types::Fd) -> squeue::Entry {
        match self {
            Self::Write {
                offset, data, done, ..
            } => {
                let rest = &data[*done..];
                let len = rest.len().min(CALL_BYTES_MAX) as u32;
                opcode::Write::new(fd, rest.as_ptr(), len)
                    .offset(*offset + *done as u64)
                    .build()
            }
            Self::Read {
                offset, data, done, ..
            } => {
                let rest = &mut data[*done..];
                let len = rest.len().min(CALL_BYTES_MAX) as u32;
                let at = *offset + *done as u64;
                opcode::Read::new(fd, rest.as_mut_ptr(), len)
                    .offset(at)
                    .build()
            }
            Self::Sync { .. } => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
        }
    }

    fn advance(&mut self, bytes: usize) -> Progress {
        let (data, done) = match self {
            Self::Write { data, done, .. } | Self::Read { data, done, .. } => (data, done),
            Self::Sync { .. } => return Progress::Done,
        };
        *done += bytes;
        match (bytes, data.len().saturating_sub(*done)) {
            (_, 0) => Progress::Done,
            (0, _) => Progress::Stuck,
            _ => Progress::More,
        }
    }

    /// A caller that no longer waits is no reason to complain, so a failed reply is dropped.
    fn answer(self, result: io::Result<()>) {
        match self {
            Self::Write { reply, data, .. } => {
                drop(data);
                let _ = reply.send(result);
            }
            Self::Read { reply, data, .. } => {
                let _ = reply.send(result.map(|()| data));
            }
            Self::Sync { reply } => {
                let _ = reply.send(result);
            }
        }
    }

    /// Answers with an error and leaks the buffer, which the kernel may still be using.
    fn abandon(self) {
        match self {
            Self::Write { reply, data, .. } => {
                std::mem::forget(data);
                let _ = reply.send(Err(broken()));
            }
            Self::Read { reply, data, .. } => {
                std::mem::forget(data);
                let _ = reply.send(Err(broken()));
            }
            Self::Sync { reply } => {
                let _ = reply.send(Err(broken()));
            }
        }
    }
}

/// Answers that ask for another try of the same call.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | ResourceBusy)
}
