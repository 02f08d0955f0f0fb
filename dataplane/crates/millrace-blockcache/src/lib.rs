//! Catch-up reads from objects. Knows nothing of Kafka.
//!
//! [`BlockCache`] finds a stream's objects in the metadata, keeps their indexes and data blocks in
//! memory within a byte budget, and loads each block once however many readers wait for it.
//!
//! # Readers
//! A *reader* is a sequential position of a stream. A read finds its reader by the position where it
//! continues, or where the last read began (a response was lost, or a second consumer follows the
//! first), and advances it to the end of the read. So many reads share one lookup of metadata and
//! indexes. A reader *watches* the blocks of its window: those of its last read, which may be
//! repeated, its current one, and those prefetched for it. As it advances it releases completed
//! blocks, and an unwatched block is freed immediately. A reader that is unused for a minute is
//! dropped, with its blocks.
//!
//! # Memory
//! A block is charged from before its load begins until the last response with a slice of it has been
//! sent. Each block owns its memory, however many came in one request. The sum never exceeds the
//! budget. Loads beside the budget are counted separately (`bypasses`):
//!
//! * A read waits for room for its *first* block only, and holds no other meanwhile, so that reads
//!   cannot deadlock. It takes further blocks only if there is room immediately; otherwise it ends
//!   early with what it has.
//! * Room comes from eviction (`state::evict` defines the order) and from responses that have been
//!   sent. If it does not come in time, because clients do not take their responses, or if the block
//!   is larger than the whole budget, the read loads this one block beside the budget, copies what it
//!   needs, and drops it. So one block per read is always possible, and the memory beside the budget
//!   is one block for each of a bounded number of reads.
//! * If all readers together want more than the budget, a read ends at the end of a block rather
//!   than start one that it would have to keep, or load twice.
//!
//! # Loads
//! Nearby blocks of one object that wait for a slot at the same time share a request, whichever reads
//! need them; no block is delayed to form one. The number of slots follows the store's distance:
//! requests that it could not serve yet wait here, where they are merged. A load belongs to no read:
//! if one stops waiting, the others keep it. Prefetches use free space, and slots and a network tier
//! of their own. A reader that needs a block in a prefetch waits for it; if the prefetch still waits
//! for bandwidth, it continues in the reader's tier and is not sent twice. Blocks that are no longer
//! wanted are removed from a prefetch that still waits for bandwidth, and release their memory. A
//! prefetch that was sent releases its memory when it arrives, and the next loads count on that memory.
//!
//! # Races
//! If an object is gone (compacted, trimmed), the read starts again on fresh metadata. A block that
//! is corrupt twice is an error and is never skipped.

mod block;
mod block_cache;
mod config;
mod in_flight;
mod load;
mod locate;
mod lru;
mod metrics;
mod queue;
mod read;
mod reader;
mod single_flight;
mod slots;
mod state;
mod window;

pub use self::metrics::BlockCacheMetrics;
pub use block_cache::{BYPASSES_MAX, BlockCache, ReadError};
pub use config::{BlockCacheConfig, Eviction, Sources};
