//! Every bound of this crate, with its reason.

use std::{ops::RangeInclusive, time::Duration};

/// Records of one produce request: as many as fit on a few pages of a person's data, so that the
/// answer, which has an entry for each, stays small.
pub(crate) const PRODUCED_RECORDS_MAX: usize = 1_000;
/// Bytes of the body of one produce request: above the largest ordinary batch, with base64's third.
pub const BODY_BYTES_MAX: usize = 8 * MIB;
/// Headers of one record in a produce request: a header of a few bytes takes ten times as many once
/// it is parsed.
pub(crate) const PRODUCED_HEADERS_MAX: usize = 100;

/// Records of one answer, and its default.
pub(crate) const LIMIT: RangeInclusive<usize> = 1..=1_000;
pub(crate) const LIMIT_DEFAULT: usize = 50;
/// Bytes of keys, values and headers in one answer: a record is never split, so one may exceed it.
pub(crate) const PAGE_BYTES: RangeInclusive<usize> = 1..=8 * MIB;
pub(crate) const PAGE_BYTES_DEFAULT: usize = MIB;
/// What a read may have found and not yet answered, as a multiple of the answer. Each partition has
/// an equal part of it, and at least one record.
pub(crate) const FOUND_PAGES_MAX: usize = 2;
/// How long one read may scan: shorter than the time-outs of proxies between.
pub(crate) const WAIT_MS: RangeInclusive<u64> = 1..=10_000;
pub(crate) const WAIT_MS_DEFAULT: u64 = 2_000;
/// A longer key, value or header is cut. The default shows every ordinary record whole.
pub(crate) const SHOWN_BYTES: RangeInclusive<usize> = 0..=8 * MIB;
pub(crate) const SHOWN_BYTES_DEFAULT: usize = 64 * 1024;
/// Headers that are shown of one record: a record of a mebibyte may have half a million.
pub(crate) const SHOWN_HEADERS_MAX: usize = 1_000;
/// What a header counts beside its bytes: its part of the JSON.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of records that one read may look at: what its filters reject costs the broker as much as
/// what they admit.
pub(crate) const SCANNED_BYTES_MAX: u64 = 256 * MIB as u64;
/// Offsets of one step back of a search for the newest records: each step starts with a fetch.
pub(crate) const WINDOW_OFFSETS_MAX: i64 = 1_000_000;
/// Partitions of one request: each takes a place in the cursor, which travels in a URL, and at least
/// one record in memory.
pub(crate) const PARTITIONS_MAX: usize = 256;
/// A filter's text: longer than any id or key that a person looks for.
pub(crate) const FILTER_BYTES_MAX: usize = 4 * 1024;
/// The largest cursor that is read: the partitions above with the longest offsets.
pub(crate) const CURSOR_BYTES_MAX: usize = 64 + PARTITIONS_MAX * 32;

/// Reads and produce requests at once: a few browsers, and scripts with some parallelism.
pub(crate) const REQUESTS_MAX: usize = 64;
/// Streams at once: each is a consumer with connections of its own.
pub(crate) const STREAMS_MAX: usize = 32;
/// What one consumer may have fetched and not yet delivered. Small: a person reads the answer.
pub(crate) const PREFETCH_BYTES: usize = MIB;
/// The batch in hand: `message.max.bytes` of a topic with the defaults. A batch that decompresses to
/// more passes a gate, one at a time for all requests and streams, and takes one of the places that the
/// broker has for inspecting such batches: its memory is counted there.
pub(crate) const BATCH_BYTES: usize = MIB;
/// For how long a stream may have such a batch while its reader takes the records. After that it makes
/// room for others, and decompresses the rest when it is its turn again.
pub(crate) const LARGE_BATCH_HOLD: Duration = Duration::from_secs(2);
/// Memory of all reads and produce requests, which wait for their turn: as much as the broker with the
/// least memory has left.
const REQUESTS_BYTES_MAX: u64 = 32 * MIB as u64;
/// Memory of one stream: what is fetched, the batch in hand, and what the connection has not written.
const STREAM_BYTES: u64 = (PREFETCH_BYTES + BATCH_BYTES) as u64;
/// What this crate may have in memory, in bytes, beside a large batch in one of the broker's places.
pub const MEMORY_BYTES_MAX: u64 = REQUESTS_BYTES_MAX + STREAMS_MAX as u64 * STREAM_BYTES;
/// How long a request waits for memory before it is told to come back.
pub(crate) const ADMISSION_WAIT: Duration = Duration::from_secs(2);
/// When a caller that was refused should come back.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a broker may take to answer one request of the client.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A batch of a produce request waits so long for more of its records, which follow at once.
pub(crate) const PRODUCER_LINGER: Duration = Duration::from_millis(2);
/// The size at which a batch is closed before that.
pub(crate) const PRODUCER_BATCH_BYTES: usize = 64 * 1024;
/// How long a fetch waits at the broker for new records.
pub(crate) const FETCH_WAIT: Duration = Duration::from_millis(500);
/// A stream whose reader has stopped fetches for so long: with [`FETCH_WAIT`], traffic ends within a
/// second.
pub(crate) const IDLE_AFTER: Duration = Duration::from_millis(250);
/// A scan looks so often whether its partitions have passed their ends without a record, over the
/// markers of transactions.
pub(crate) const POSITION_CHECK: Duration = Duration::from_millis(20);
/// A stream reports its progress so often.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// A stream hands over so many bytes at once, and at least one record.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

const MIB: usize = 1024 * 1024;

/// The memory of requests that take turns.
pub(crate) fn requests_bytes() -> u64 {
    REQUESTS_BYTES_MAX
}

/// What a read takes: its consumer, what was found and the answer. While the answer is written, it is
/// in memory twice and nothing else is.
pub(crate) fn read_bytes(page_bytes: usize) -> u64 {
    (PREFETCH_BYTES + BATCH_BYTES + (FOUND_PAGES_MAX + 1) * page_bytes) as u64
}

/// What a produce request takes: its body, what was parsed of it, and the producer's batches.
pub(crate) fn produce_bytes(body_bytes: usize) -> u64 {
    3 * body_bytes as u64
}
