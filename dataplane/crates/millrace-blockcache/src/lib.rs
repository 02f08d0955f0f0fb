//! Catch-up reads from objects. Knows nothing of Kafka.
//!
//! [`BlockCache`] finds a stream's objects in the metadata, keeps their indexes and data blocks in
//! memory within a byte budget, and loads each block once however many readers wait for it.

mod block;
mod block_cache;
mod budget;
mod config;
mod load;
mod lru;
mod meters;
mod plan;
mod queue;
mod read;
mod reader;
mod single_flight;
mod state;
mod stats;
mod window;

pub use block_cache::{BlockCache, ReadError};
pub use config::{BlockCacheConfig, Eviction, Sources};
pub use stats::BlockCacheStats;
