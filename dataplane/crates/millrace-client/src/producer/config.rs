//! The producer's settings.

use std::{fmt, time::Duration};

use millrace_record::Compression;

use super::partitioner::Partitioning;
use crate::config::ClientConfig;

/// Kafka's brokers remember the last five batches of each producer and partition: with more in
/// flight they could not tell a retry from a gap.
const IDEMPOTENT_IN_FLIGHT_MAX: usize = 5;
/// Memory is counted in 32-bit permits.
const BUFFER_MEMORY_MAX: usize = u32::MAX as usize;

/// When a record counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acks {
    /// Once it is written to the connection; offsets are not known.
    None,
    /// Once the leader has it.
    Leader,
    /// Once all in-sync replicas have it.
    #[default]
    All,
}

impl Acks {
    pub(super) fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// The settings of a [`Producer`](crate::Producer). Names and defaults are those of Kafka 4.
///
/// ```
/// use std::time::Duration;
/// use millrace_client::{Compression, ProducerConfig};
///
/// let mut config = ProducerConfig::default();
/// config.linger = Duration::from_millis(20);
/// config.compression = Compression::Zstd;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProducerConfig {
    /// `acks`. All.
    pub acks: Acks,
    /// `enable.idempotence`: a retry never appends twice, and the order holds. Needs
    /// [`Acks::All`]. On.
    pub idempotence: bool,
    /// `compression.type`. None.
    pub compression: Compression,
    /// `batch.size`: a batch is closed at so many bytes, before compression. A larger record is a
    /// batch of its own. 16 KiB.
    pub batch_size: usize,
    /// `linger.ms`: how long a batch waits for more records. 5 ms.
    pub linger: Duration,
    /// `buffer.memory`: the bytes of all batches that are not yet answered. 32 MiB, at most 4 GiB.
    pub buffer_memory: usize,
    /// `max.block.ms`: how long `send` waits for memory or metadata. 60 s.
    pub max_block: Duration,
    /// `max.request.size`: the bytes of batches in one request, and of one record. 1 MiB.
    pub max_request_size: usize,
    /// `max.in.flight.requests.per.connection`: at most 5 with idempotence. 5.
    pub max_in_flight: usize,
    /// `delivery.timeout.ms`: how long after `send` a record fails that could not be stored. 120 s.
    pub delivery_timeout: Duration,
    /// `partitioner.class`: where records go that name no partition. Uniform sticky.
    pub partitioning: Partitioning,
    /// `partitioner.availability.timeout.ms`: a partition whose leader has taken nothing for so
    /// long, while something waited for it, gets no records without a key. 0, which is never.
    pub availability_timeout: Duration,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            idempotence: true,
            compression: Compression::None,
            batch_size: 16 * 1024,
            linger: Duration::from_millis(5),
            buffer_memory: 32 * 1024 * 1024,
            max_block: Duration::from_mins(1),
            max_request_size: 1024 * 1024,
            max_in_flight: IDEMPOTENT_IN_FLIGHT_MAX,
            delivery_timeout: Duration::from_mins(2),
            partitioning: Partitioning::default(),
            availability_timeout: Duration::ZERO,
        }
    }
}

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidProducerConfig {
    /// What is wrong and what to do.
    pub reason: String,
}

impl fmt::Display for InvalidProducerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the producer's configuration is invalid: {}",
            self.reason
        )
    }
}

impl std::error::Error for InvalidProducerConfig {}

impl ProducerConfig {
    pub(super) fn validate(&self, client: &ClientConfig) -> Result<(), InvalidProducerConfig> {
        let rules = [
            (
                !self.idempotence || self.acks == Acks::All,
                "idempotence needs acks All; set acks, or idempotence to false",
            ),
            (
                !self.idempotence || self.max_in_flight <= IDEMPOTENT_IN_FLIGHT_MAX,
                "idempotence needs a max_in_flight of at most 5",
            ),
            (self.max_in_flight > 0, "max_in_flight must be at least 1"),
            (
                self.delivery_timeout >= self.linger + client.request_timeout,
                "delivery_timeout must be at least linger plus the client's request_timeout",
            ),
            (
                self.buffer_memory <= BUFFER_MEMORY_MAX,
                "buffer_memory must be less than 4 GiB",
            ),
            (
                self.batch_size <= self.buffer_memory,
                "batch_size must not exceed buffer_memory",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, reason)) => Err(InvalidProducerConfig {
                reason: (*reason).to_owned(),
            }),
        }
    }
}
