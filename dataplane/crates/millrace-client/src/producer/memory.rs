//! `buffer.memory`: how many bytes all batches may have, and buffers to use again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::error::SendError;

/// The memory of one producer's batches.
///
/// A batch is charged with the capacity of its buffer from its first record until its answer. The
/// waiting callers are served in their order.
#[derive(Debug)]
pub(super) struct Memory {
    /// Free bytes.
    free: Arc<Semaphore>,
    total: usize,
    /// Buffers of `buffer_bytes` each that no batch uses. They are part of the free bytes, but for one
    /// while a caller waits, who gets it next.
    pool: Mutex<Vec<BytesMut>>,
    buffer_bytes: usize,
    waiting: AtomicUsize,
}

/// Bytes that are set aside for a batch.
#[derive(Debug)]
pub(super) struct Reserved {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl Reserved {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Divides the bytes for two halves of a batch.
    pub(super) fn halves(mut self) -> [Self; 2] {
        let half = self.bytes / 2;
        self.bytes -= half;
        let free = Arc::clone(&self.free);
        [self, Self { free, bytes: half }]
    }

    /// Gives back all but so many bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        if bytes < self.bytes {
            self.free.add_permits(self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.free.add_permits(self.bytes);
    }
}

impl Memory {
    pub(super) fn new(total: usize, buffer_bytes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(total)),
            total,
            pool: Mutex::default(),
            buffer_bytes,
            waiting: AtomicUsize::new(0),
        }
    }

    /// What a batch is charged whose first record needs `bytes`: at least a pooled buffer.
    pub(super) fn charge_for(&self, bytes: usize) -> usize {
        bytes.max(self.buffer_bytes)
    }

    /// Sets bytes aside if they are free and nobody waits.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<Reserved> {
        let permits = u32::try_from(bytes).ok()?;
        self.free.try_acquire_many(permits).ok()?.forget();
        Some(self.reserved(bytes))
    }

    /// Sets bytes aside, after waiting for them. `exhausted` is called once it is known that there
    /// is something to wait for.
    pub(super) async fn reserve(
        &self,
        bytes: usize,
        timeout: Duration,
        exhausted: impl FnOnce(),
    ) -> Result<Reserved, SendError> {
        let too_large = SendError::TooLarge {
            bytes,
            max: self.total,
            setting: "buffer_memory",
        };
        if bytes > self.total {
            return Err(too_large);
        }
        let permits = u32::try_from(bytes).map_err(|_| too_large)?;
        let _waiting = Waiting::new(&self.waiting);
        exhausted();
        let acquired = tokio::time::timeout(timeout, self.free.acquire_many(permits)).await;
        match acquired {
            Ok(Ok(permit)) => {
                permit.forget();
                Ok(self.reserved(bytes))
            }
            Ok(Err(_)) => Err(SendError::Closed),
            Err(_) => Err(SendError::NoMemory(timeout)),
        }
    }

    fn reserved(&self, bytes: usize) -> Reserved {
        Reserved {
            free: Arc::clone(&self.free),
            bytes,
        }
    }

    /// A buffer for a batch that was charged so much.
    pub(super) fn buffer(&self, reserved: &Reserved) -> BytesMut {
        let mut pool = self.pool.lock();
        let pooled = (reserved.bytes == self.buffer_bytes)
            .then(|| pool.pop())
            .flatten();
        pool.truncate(self.pooled_max());
        drop(pool);
        pooled.unwrap_or_else(|| BytesMut::with_capacity(reserved.bytes))
    }

    /// The pool is part of the free bytes: it shrinks with them.
    fn pooled_max(&self) -> usize {
        let free = self.free.available_permits() / self.buffer_bytes.max(1);
        free.max(usize::from(self.is_exhausted()))
    }

    /// Takes back the buffer of a batch that nobody needs any more, after its charge was given back:
    /// a buffer that does not fit into the free bytes is dropped.
    pub(super) fn recycle(&self, buffer: BytesMut) {
        if buffer.capacity() == self.buffer_bytes {
            let mut pool = self.pool.lock();
            if pool.len() < self.pooled_max() {
                pool.push(buffer);
            }
        }
    }

    /// As [`Self::recycle`], if nobody else holds the bytes.
    pub(super) fn recycle_sent(&self, batch: Bytes) {
        if let Ok(mut buffer) = batch.try_into_mut() {
            buffer.clear();
            self.recycle(buffer);
        }
    }

    /// Whether a caller waits for memory.
    pub(super) fn is_exhausted(&self) -> bool {
        self.waiting() > 0
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn used(&self) -> usize {
        self.total.saturating_sub(self.free.available_permits())
    }

    /// Lets nobody wait any more.
    pub(super) fn close(&self) {
        self.free.close();
    }
}

/// Counts a waiting caller, however its wait ends.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use millrace_record::{BatchBuilder, Compression};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_what_a_batch_gives_back_and_no_longer_than_it_may() {
        let memory = Memory::new(100, 40);
        let first = memory.try_reserve(memory.charge_for(10)).expect("free");
        let mut second = memory.try_reserve(memory.charge_for(50)).expect("free");
        assert_eq!((first.bytes(), second.bytes(), memory.used()), (40, 50, 90));
        assert!(memory.try_reserve(40).is_none());
        let wait = Duration::from_secs(1);
        let error = memory.reserve(40, wait, || ()).await.expect_err("full");
        assert!(matches!(error, SendError::NoMemory(_)), "{error}");
        assert_eq!(memory.waiting(), 0);
        let mut told = false;
        let third = {
            let waiting = memory.reserve(40, wait, || told = true);
            tokio::pin!(waiting);
            assert!(futures_util::poll!(&mut waiting).is_pending());
            assert!(memory.is_exhausted());
            second.shrink(20);
            waiting.await.expect("room now")
        };
        assert!(told);
        drop((first, second, third));
        assert_eq!(memory.used(), 0);
        let error = memory.reserve(101, wait, || ()).await.expect_err("never");
        assert!(matches!(error, SendError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn buffers_are_used_again_and_never_hold_more_than_is_free() {
        let memory = Memory::new(120, 40);
        let reserved: Vec<_> = (0..3)
            .map(|_| memory.try_reserve(40).expect("free"))
            .collect();
        let buffers: Vec<_> = reserved.iter().map(|one| memory.buffer(one)).collect();
        drop(reserved);
        buffers
            .into_iter()
            .for_each(|buffer| memory.recycle(buffer));
        assert_eq!(memory.pool.lock().len(), 3);
        let large = memory.try_reserve(70).expect("free");
        let _buffer = memory.buffer(&large);
        assert_eq!(memory.pool.lock().len(), 1, "50 bytes are free");
    }

    #[test]
    fn the_pool_and_the_batches_together_have_no_more_than_the_bound() {
        let memory = Memory::new(160, 40);
        let reserved: Vec<_> = (0..4)
            .map(|_| memory.try_reserve(40).expect("free"))
            .collect();
        // What is compressed takes as much as before: these buffers are beside what is charged.
        for one in &reserved {
            memory.recycle(BytesMut::with_capacity(one.bytes()));
        }
        assert_eq!(memory.pool.lock().len(), 0, "nothing is free");
        drop(reserved);
        for _ in 0..4 {
            memory.recycle(BytesMut::with_capacity(40));
        }
        let _three: Vec<_> = (0..3)
            .map(|_| {
                let reserved = memory.try_reserve(40).expect("free");
                let _buffer = memory.buffer(&reserved);
                reserved
            })
            .collect();
        assert_eq!(memory.pool.lock().len(), 1, "40 bytes are free");
    }

    #[test]
    fn the_buffer_of_a_batch_that_was_sent_is_used_again() {
        let memory = Memory::new(1_000, 400);
        let reserved = memory.try_reserve(400).expect("free");
        let mut builder = BatchBuilder::with_buffer(Compression::None, memory.buffer(&reserved));
        while builder
            .push_within(400, 0, None, Some(b"value"), &[])
            .is_some()
        {}
        let batch = builder.build();
        assert_eq!(batch.capacity(), 400, "it never grew");
        let sent = batch.freeze();
        let held = sent.clone();
        memory.recycle_sent(sent.clone());
        assert!(memory.pool.lock().is_empty(), "somebody holds the bytes");
        drop((sent, reserved));
        memory.recycle_sent(held);
        let again = memory.pool.lock().pop().expect("free");
        assert_eq!((again.capacity(), again.len()), (400, 0));
    }
}
