//! Page-aligned buffers for direct I/O, and a bounded pool that reuses them.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::BLOCK_BYTES;

/// The smallest size class of the pool, in bytes: below it a write is so short that a fresh
/// allocation would be cheap too, so finer classes would only fragment the pool.
const CLASS_BYTES_MIN: usize = 64 * 1024;

/// Bytes whose address is a multiple of [`BLOCK_BYTES`], as O_DIRECT demands.
///
/// A buffer that came from a [`BufferPool`] goes back to it when it is dropped.
pub struct AlignedBuf {
    storage: Vec<u8>,
    start: usize,
    len: usize,
    home: Weak<Shelves>,
}

impl AlignedBuf {
    /// A buffer of `len` zero bytes that belongs to no pool.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::over(vec![0; len + BLOCK_BYTES as usize], len, Weak::new())
    }

    /// A buffer that belongs to no pool and holds a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    fn over(storage: Vec<u8>, len: usize, home: Weak<Shelves>) -> Self {
        let start = storage.as_ptr().align_offset(BLOCK_BYTES as usize);
        assert!(
            start + len <= storage.len(),
            "storage holds a block more than it promises"
        );
        Self {
            storage,
            start,
            len,
            home,
        }
    }

    /// Cuts the buffer to its first `len` bytes; does nothing where it is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.put_back(std::mem::take(&mut self.storage));
        }
    }
}

/// Keeps buffers between writes, so that a busy log allocates nothing. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BufferPool(Arc<Shelves>);

/// The pool's idle buffers, largest bound first come first kept.
struct Shelves {
    idle: Mutex<Idle>,
    bytes_max: usize,
}

#[derive(Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl fmt::Debug for Shelves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelves")
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

impl BufferPool {
    /// A pool that keeps at most `bytes_max` bytes of idle buffers.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Shelves {
            idle: Mutex::default(),
            bytes_max,
        }))
    }

    /// A buffer of `len` bytes with **arbitrary** content.
    #[must_use]
    pub fn take(&self, len: usize) -> AlignedBuf {
        let class = len.next_power_of_two().max(CLASS_BYTES_MIN) + BLOCK_BYTES as usize;
        let storage = self.0.take(class).unwrap_or_else(|| vec![0; class]);
        AlignedBuf::over(storage, len, Arc::downgrade(&self.0))
    }
}

impl Shelves {
    fn take(&self, class: usize) -> Option<Vec<u8>> {
        let mut idle = self.idle.lock();
        let at = idle.buffers.iter().rposition(|b| b.len() == class)?;
        let storage = idle.buffers.swap_remove(at);
        idle.bytes -= storage.len();
        Some(storage)
    }

    fn put_back(&self, storage: Vec<u8>) {
        let mut idle = self.idle.lock();
        if idle.bytes + storage.len() <= self.bytes_max {
            idle.bytes += storage.len();
            idle.buffers.push(storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buf: &AlignedBuf) -> bool {
        (buf.as_ptr() as usize).is_multiple_of(BLOCK_BYTES as usize)
    }

    #[test]
    fn every_buffer_is_aligned() {
        let pool = BufferPool::new(1 << 20);
        for len in [1, 512, 4096, 4097, 1 << 20] {
            assert!(is_aligned(&AlignedBuf::zeroed(len)));
            let buf = pool.take(len);
            assert!(is_aligned(&buf));
            assert_eq!(buf.len(), len);
        }
    }

    #[test]
    fn the_pool_reuses_and_stays_in_its_bound() {
        let pool = BufferPool::new(3 * (CLASS_BYTES_MIN + BLOCK_BYTES as usize));
        let first = pool.take(100);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(200).as_ptr(), address);
        let many: Vec<_> = (0..10).map(|_| pool.take(100)).collect();
        drop(many);
        assert_eq!(pool.0.idle.lock().buffers.len(), 3);
    }
}
