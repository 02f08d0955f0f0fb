//! Memory settings. Values that are not set derive from the machine ([`crate::memory`]).

use super::{BYTES_MAX, keys, reader::Reader};

/// A broker with less could not hold the largest request beside its caches.
const MEMORY_BYTES_MIN: i64 = 256 << 20;
/// The group coordinator needs room for one record of its log and some groups.
const GROUP_BYTES_MIN: i64 = 1 << 20;
/// An upper bound for counts that only has to catch slips.
const COUNT_MAX: i64 = 100_000_000;
/// With less, log compaction would take a pass over the log for every few thousand keys.
const CLEANER_BYTES_MIN: i64 = 64 << 10;
/// Stands for "follows from the machine", as it stands for "no bound" in Kafka's settings.
const DERIVED: i64 = -1;

/// What was set; `None` where it follows from the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryConfig {
    /// `memory.max.bytes`: the bound of the whole broker.
    pub max_bytes: Option<u64>,
    /// `queued.max.request.bytes`: requests and responses in flight. Kafka's default of -1 means "no
    /// bound"; a broker without one dies of its clients.
    pub network_bytes: Option<u64>,
    /// `group.memory.max.bytes`: consumer groups.
    pub group_bytes: Option<u64>,
    /// `producer.ids.max`: idempotent producers that are remembered.
    pub producer_ids: Option<u64>,
    /// `partitions.max`: partitions of all topics.
    pub partitions: Option<u64>,
    /// `log.cleaner.dedupe.buffer.size`: keys of the log that is being compacted.
    pub cleaner_bytes: Option<u64>,
}

pub(super) fn read_memory(r: &mut Reader<'_>) -> MemoryConfig {
    MemoryConfig {
        max_bytes: read(r, keys::MEMORY_MAX, MEMORY_BYTES_MIN..=BYTES_MAX),
        network_bytes: read(r, keys::NETWORK, 1..=BYTES_MAX),
        group_bytes: read(r, keys::GROUPS, GROUP_BYTES_MIN..=BYTES_MAX),
        producer_ids: read(r, keys::PRODUCERS, 1..=COUNT_MAX),
        partitions: read(r, keys::PARTITIONS, 1..=COUNT_MAX),
        cleaner_bytes: read(r, keys::CLEANER, CLEANER_BYTES_MIN..=BYTES_MAX),
    }
}

fn read(
    r: &mut Reader<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<i64>,
) -> Option<u64> {
    let number = r.bytes_or(key, DERIVED, range);
    u64::try_from(number).ok()
}
