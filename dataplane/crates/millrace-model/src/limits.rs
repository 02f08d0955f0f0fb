//! Bounds that more than one crate obeys, each with its reason.

/// The longest topic name, in bytes: Kafka's own bound, which keeps partition folder names legal.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// The longest cluster id (`cluster.id`), in bytes: it stands in the header of every write-ahead log.
pub const CLUSTER_ID_BYTES_MAX: usize = 255;

/// The largest request frame by default (`socket.request.max.bytes`), in bytes: Kafka's default.
pub const REQUEST_BYTES_MAX: usize = 100 * 1024 * 1024;

/// The largest record batch by default (`message.max.bytes`), in bytes: Kafka's default.
pub const BATCH_BYTES_MAX: usize = 1_048_588;

/// Requests in flight on one connection: Kafka's pipelined brokers stop reading at this many.
pub const CONNECTION_IN_FLIGHT_MAX: usize = 64;

/// Partitions that one topic may have: keeps the answer to one Metadata request below 10 MiB.
pub const TOPIC_PARTITIONS_MAX: u32 = 10_000;

/// Entries in one fetch answer for one partition; bounds the vector that is built for it.
pub const FETCH_ENTRIES_MAX: usize = 4_096;

/// The largest payload of one stream entry, in bytes. Above [`REQUEST_BYTES_MAX`], so that whatever
/// a client may send in one request can be stored as one entry; bounds what a reader of a WAL or an
/// object allocates on the word of a length field.
pub const ENTRY_BYTES_MAX: usize = 128 * 1024 * 1024;
