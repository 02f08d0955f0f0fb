//! Catch-up reads from objects. Knows nothing of Kafka.
//!
//! [`BlockCache`] finds a stream's objects in the metadata, keeps their indexes and data blocks in
//! memory within a byte budget, and loads each block once however many readers wait for it.

mod block_cache;
mod config;
mod lru;
mod single_flight;
mod stats;

pub use block_cache::{BlockCache, ReadError};
pub use config::{BlockCacheConfig, Eviction, Sources};
pub use stats::BlockCacheStats;
