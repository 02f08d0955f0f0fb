//! Catch-up reads from objects. Knows nothing of Kafka.
//!
//! [`BlockCache`] finds a stream's objects in the metadata, keeps their indexes and data blocks in
//! memory within a byte budget, and loads each block once however many readers wait for it.
//!
//! # Readers
//! A *reader* is a sequential position of a stream. A read finds it by where it goes on, or by where
//! its last read began (an answer got lost, or a second consumer follows the first), and hands it on
//! to where the read ended. So metadata and indexes are asked once for many reads. A reader *watches*
//! the blocks of its window: those of its last read, which may be repeated, the one that it is in the
//! middle of, and those that are prefetched for it. When it goes on it lets go of what it has read
//! through, and a block that nobody watches any more is freed at once. A reader that is not used for a
//! minute goes, with what it watches.
//!
//! # Memory
//! A block is charged with what it costs, from before its load begins until the last answer that holds
//! a slice of it has left; each block owns its memory, however many came by one request. The sum never
//! exceeds the budget. What cannot be refused is counted apart (`bypasses`):
//!
//! * A read waits for room for its *first* block only, and holds no other meanwhile, so that reads
//!   cannot wait for each other in a circle. Further blocks it takes only where there is room at once,
//!   else it ends early: it has something.
//! * Room comes from what others can give up (`state::evict` says in which order) and from answers
//!   that leave. Where it does not come in time, because clients do not take their answers, or where
//!   the block is larger than the whole budget, the read loads this one block beside the budget, takes
//!   a copy of what it needs, and drops it. So one block per read is always possible; beside the
//!   budget is one block of each of a bounded number of reads.
//! * Where all readers together wish for more than the budget, a read ends at the end of a block rather
//!   than begin one that it would have to keep, or load twice.
//!
//! # Loads
//! Blocks of one object that wait for a slot at the same time, and lie near to each other, go by one
//! request, whoever asked for them; nobody waits for company. There are as many slots as the store is
//! far away: what it could not serve at once anyway waits here, where it is merged. A load belongs to
//! nobody: who gives up waiting leaves it to the others. Prefetches use free space, slots and the
//! network's tier of their own. A reader that meets a prefetch waits for it; if that has not got its
//! share of the network yet, it asks for it in the reader's tier from then on, and is not sent twice.
//! What nobody wants any more is taken out of a prefetch that still waits for its share, with its place
//! in memory; what has been sent frees its place when it comes, and is counted on before.
//!
//! # Races
//! An object that is gone (compacted, trimmed) makes a read begin again on fresh metadata. A block that
//! is corrupt twice is an error and is never passed over.

mod block;
mod block_cache;
mod config;
mod in_flight;
mod load;
mod lru;
mod meters;
mod plan;
mod queue;
mod read;
mod reader;
mod single_flight;
mod slots;
mod state;
mod stats;
mod window;

pub use block_cache::{BlockCache, ReadError};
pub use config::{BlockCacheConfig, Eviction, Sources};
pub use stats::BlockCacheStats;
