//! The io_uring back-end. Whoever has an operation hands it to the kernel itself; the ring's
//! descriptor is watched by the Tokio runtime, whose task collects what has completed. So a write
//! costs its caller one system call and the acknowledgement one wake-up, and no thread in between:
//! on a virtual machine each hand-over between threads costs more than the write itself.
//!
//! The kernel completes an operation on behalf of the thread that submitted it; if that thread ends,
//! the kernel cancels what it can. A cancelled operation is submitted again, a bounded number of
//! times: a device that is always busy has failed, and its callers must get an error.
//!
//! The `unsafe` of this file, one of two that contain any, is sound because a submitted
//! operation points into an [`AlignedBuf`] that [`Ring::table`] owns until the kernel has
//! answered; the heap block behind a buffer does not move when the buffer does; and if the ring
//! fails, the buffers that the kernel may still use are leaked instead of freed.
#![allow(unsafe_code)]

use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use futures_util::FutureExt;
use io_uring::{IoUring, opcode, squeue, types};
use millrace_tasks::Task;
use parking_lot::Mutex;
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Handle,
    sync::oneshot,
};
use tokio_util::task::AbortOnDropHandle;

use super::{BlockDevice, DeviceConfig, DeviceFuture, check_range, file::BlockFile};
use crate::AlignedBuf;

/// One system call moves at most this many bytes; the kernel's own bound is a little below 2 GiB.
const CALL_BYTES_MAX: usize = 1 << 30;

/// Places in the table beyond the log's own depth: recovery's reads, the header's writes.
const PLACES_SPARE: usize = 16;

/// `ECANCELED` of Linux, whose meaning here is that the submitting thread has ended.
const CANCELLED: i32 = 125;

/// How often one operation is submitted again because the kernel asks for another try. Threads end
/// and memory is short for a moment; what does not pass in so many tries is the device's answer.
const TRIES_AGAIN_MAX: u16 = 1_000;

/// A device behind an io_uring.
pub(super) struct UringDevice {
    file: Arc<BlockFile>,
    ring: Arc<Mutex<Ring>>,
    _collector: AbortOnDropHandle<()>,
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
    /// Sets up a ring for `depth` operations at once. Fails where the kernel refuses io_uring, and
    /// outside of a Tokio runtime, which must watch descriptors.
    ///
    /// # Panics
    /// Where the runtime was built without `enable_io`: Tokio does not tell before it panics.
    pub(super) fn new(file: Arc<BlockFile>, config: &DeviceConfig) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let ring = Ring::new(Arc::clone(&file), config.depth)?;
        let watched = ring.watched()?;
        let ring = Arc::new(Mutex::new(ring));
        let _entered = runtime.enter();
        // SAFETY: the collector owns the descriptor, keeps it open and gives it to nobody.
        let watched = unsafe { AsyncFd::register_with_interest(watched, Interest::READABLE) }?;
        let collecting = collect(watched, Arc::clone(&ring));
        let collector = config.tasks.spawn(Task::WalCompletions, collecting);
        Ok(Self {
            file,
            ring,
            _collector: AbortOnDropHandle::new(collector),
        })
    }

    fn submit<T: Send + 'static>(
        &self,
        operation: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Operation,
    ) -> DeviceFuture<T> {
        let (reply, answer) = oneshot::channel();
        let answered = {
            let mut ring = self.ring.lock();
            ring.waiting.push_back(operation(reply));
            ring.advance()
        };
        answered.deliver();
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
                let data = self.file.read_buffer(len);
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
    /// Waits for what is under way: a write that was started must not end after the log was opened
    /// again.
    fn drop(&mut self) {
        let mut ring = self.ring.lock();
        let answered = ring.drain();
        // The collector's task may hold the ring a moment longer; the file is closed now.
        ring.broken = true;
        ring.file = None;
        drop(ring);
        answered.deliver();
    }
}

fn broken() -> io::Error {
    io::Error::other("the WAL's io_uring failed")
}

/// Collects completions whenever there are some. Ends when the device is dropped.
async fn collect(watched: AsyncFd<OwnedFd>, ring: Arc<Mutex<Ring>>) {
    loop {
        match watched.readable().await {
            // Cleared first: what completes after the look that follows makes it readable again.
            Ok(mut ready) => ready.clear_ready(),
            Err(error) => {
                let answered = ring.lock().give_up(&error);
                answered.deliver();
                return;
            }
        }
        let answered = ring.lock().advance();
        answered.deliver();
    }
}

/// Operations with their outcomes, to be answered once the lock is free.
#[derive(Default)]
struct Answered(Vec<(Operation, io::Result<()>)>);

impl Answered {
    fn deliver(self) {
        for (operation, outcome) in self.0 {
            operation.answer(outcome);
        }
    }
}

/// The ring and what is in it.
struct Ring {
    uring: IoUring,
    /// `None` once the device was dropped.
    file: Option<Arc<BlockFile>>,
    /// Operations without a place yet, in order. The log's own depth bounds them.
    waiting: VecDeque<Operation>,
    /// What is in the kernel; an operation's index is its completion's user data.
    table: Vec<Option<Operation>>,
    /// By place: how often its operation was submitted again at the kernel's request.
    tried_again: Vec<u16>,
    free: Vec<usize>,
    /// The ring has broken: nothing is accepted any more.
    broken: bool,
}

impl Ring {
    fn new(file: Arc<BlockFile>, depth: u32) -> io::Result<Self> {
        let places = depth.max(1) as usize + PLACES_SPARE;
        let entries = u32::try_from(places)
            .map_err(io::Error::other)?
            .next_power_of_two();
        let uring = IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            // Kernels before 5.19 do not know this flag, which only saves interruptions.
            .or_else(|_| IoUring::new(entries))?;
        Ok(Self {
            uring,
            file: Some(file),
            waiting: VecDeque::new(),
            table: (0..places).map(|_| None).collect(),
            tried_again: vec![0; places],
            free: (0..places).collect(),
            broken: false,
        })
    }

    /// The ring's descriptor for the runtime to watch: a duplicate, which may outlive the ring.
    fn watched(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring is open for as long as `self` is borrowed, and its descriptor with it.
        let ring = unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) };
        ring.try_clone_to_owned()
    }

    /// Collects what has completed and starts what waits, as far as places are free.
    fn advance(&mut self) -> Answered {
        let mut answered = Answered::default();
        if self.broken {
            return self.refuse_waiting(answered);
        }
        self.collect(&mut answered);
        self.start_waiting();
        loop {
            if self.uring.submission().is_empty() {
                return answered;
            }
            match self.uring.submit() {
                Ok(_) => {}
                Err(error) if is_transient(&error) => self.collect(&mut answered),
                Err(error) => {
                    answered.0.extend(self.give_up(&error).0);
                    return answered;
                }
            }
        }
    }

    /// Gives what waits its place, as far as places are free.
    fn start_waiting(&mut self) {
        while let Some(place) = self.free.pop() {
            let Some(operation) = self.waiting.pop_front() else {
                self.free.push(place);
                break;
            };
            self.table[place] = Some(operation);
            self.tried_again[place] = 0;
            self.push(place);
        }
    }

    /// Blocks until nothing is under way any more.
    fn drain(&mut self) -> Answered {
        let mut answered = self.advance();
        while !self.broken && self.free.len() < self.table.len() {
            match self.uring.submit_and_wait(1) {
                Ok(_) => answered.0.extend(self.advance().0),
                Err(error) if is_transient(&error) => {}
                Err(error) => answered.0.extend(self.give_up(&error).0),
            }
        }
        answered
    }

    /// Queues what is left of the operation at `place`.
    fn push(&mut self, place: usize) {
        let (Some(file), Some(operation)) = (&self.file, &mut self.table[place]) else {
            return;
        };
        let fd = types::Fd(file.file().as_raw_fd());
        let entry: squeue::Entry = operation.entry(fd).user_data(place as u64);
        // SAFETY: the entry's descriptor is the file's, which is closed only when nothing is in the
        // kernel; its memory is a buffer that the table owns until the completion was collected
        // (`give_up` leaks it), and nobody touches a buffer in the table meanwhile.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.expect("the queue has an entry for every place");
    }

    /// Takes every completion that is there.
    fn collect(&mut self, answered: &mut Answered) {
        loop {
            let Some(completed) = self.uring.completion().next() else {
                return;
            };
            let result = match u32::try_from(completed.result()) {
                Ok(bytes) => Ok(bytes as usize),
                Err(_) => Err(io::Error::from_raw_os_error(-completed.result())),
            };
            self.complete(completed.user_data() as usize, result, answered);
        }
    }

    /// Goes on with a short transfer, or takes the operation out with its outcome.
    fn complete(&mut self, place: usize, result: io::Result<usize>, answered: &mut Answered) {
        let Some(operation) = self.table.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        let outcome = match result {
            Ok(bytes) => match operation.advance(bytes) {
                Progress::Done => Ok(()),
                Progress::More => return self.push(place),
                Progress::Stuck => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Err(error) if is_transient(&error) && self.tried_again[place] < TRIES_AGAIN_MAX => {
                self.tried_again[place] += 1;
                return self.push(place);
            }
            Err(error) => Err(error),
        };
        if let Some(operation) = self.table[place].take() {
            self.free.push(place);
            answered.0.push((operation, outcome));
        }
    }

    /// The ring does not answer any more: fails everything, now and later.
    fn give_up(&mut self, error: &io::Error) -> Answered {
        tracing::error!(%error, "the WAL's io_uring failed");
        self.broken = true;
        for operation in self.table.drain(..).flatten() {
            operation.abandon();
        }
        self.free.clear();
        self.refuse_waiting(Answered::default())
    }

    fn refuse_waiting(&mut self, mut answered: Answered) -> Answered {
        let refused = self.waiting.drain(..);
        let refused = refused.map(|operation| (operation, Err(broken())));
        answered.0.extend(refused);
        answered
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
        || error.raw_os_error() == Some(CANCELLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BLOCK_BYTES;

    /// Takes what the kernel has answered to the only operation, and tells the ring instead that
    /// the device was busy.
    fn answer_busy(ring: &mut Ring, place: usize) -> Answered {
        ring.uring.submit_and_wait(1).expect("submits");
        let completed = ring.uring.completion().next().expect("one completion");
        assert_eq!(completed.user_data() as usize, place);
        let mut answered = Answered::default();
        let busy = io::Error::from_raw_os_error(16);
        assert!(is_transient(&busy), "{busy}");
        ring.complete(place, Err(busy), &mut answered);
        answered
    }

    #[test]
    fn a_device_that_is_always_busy_fails_the_operation() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = DeviceConfig::new(1 << 20);
        let file = BlockFile::open(&folder.path().join("wal"), &config).expect("opens");
        let mut ring = match Ring::new(Arc::new(file), 1) {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: no io_uring here: {error}"),
        };
        // The second one has all its tries again, whatever the first one used up in its place.
        for _ in 0..2 {
            let (reply, mut answer) = oneshot::channel();
            let place = *ring.free.last().expect("places are free");
            ring.waiting.push_back(Operation::Read {
                offset: 0,
                data: AlignedBuf::zeroed(BLOCK_BYTES as usize),
                done: 0,
                reply,
            });
            // Started by hand: `advance` would collect what the kernel answers.
            ring.start_waiting();
            for again in 0..TRIES_AGAIN_MAX {
                let answered = answer_busy(&mut ring, place);
                assert!(answered.0.is_empty(), "gave up after {again} tries");
            }
            answer_busy(&mut ring, place).deliver();
            let answer = answer.try_recv().expect("an answer");
            let error = answer.expect_err("the device is busy");
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
            assert_eq!(ring.free.len(), ring.table.len());
        }
    }
}
