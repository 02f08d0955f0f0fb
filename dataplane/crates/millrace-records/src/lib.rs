//! Records of topics as JSON: reads with filters and cursors, streams, and produce requests, on the
//! client library. The broker's admin HTTP is made of it; nothing here knows of HTTP, or which
//! brokers a cluster has.
//!
//! | module | what it holds |
//! |---|---|
//! | `limits` | every bound, with its reason |
//! | `query` | the parameters of reads and streams |
//! | `lane` | topics, partitions and where each starts |
//! | `scan` | batches within bounds of time and bytes |
//! | `page` | the answer to a read: forward, or the newest |
//! | `tail` | a stream that goes on with what is produced |
//! | `in_hand` | the batch that a stream is writing |
//! | `produce` | records of a request to the topic |
//! | `record`, `encoding` | records and bytes as JSON |
//! | `filter`, `cursor` | which records, and where to go on |
//! | `admission` | how many requests run, and how much memory they have |
//! | `service` | all of it together |

mod admission;
mod cursor;
mod encoding;
mod error;
mod filter;
mod in_hand;
mod lane;
mod limits;
mod page;
mod produce;
mod query;
mod record;
mod scan;
mod service;
mod tail;

pub use admission::Permit;
pub use error::{ErrorKind, RecordsError};
pub use limits::{BODY_BYTES_MAX, MEMORY_BYTES_MAX, RETRY_AFTER};
pub use page::Page;
pub use produce::Produced;
pub use query::{ReadQuery, StreamQuery};
pub use service::{CLIENT_ID, Records};
pub use tail::{ErrorBody, RecordsStream, StreamFormat};
