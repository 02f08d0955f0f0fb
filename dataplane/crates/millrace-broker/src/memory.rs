//! The broker's memory: one bound for all of it, and the share of each part.
//!
//! The bound is `memory.max.bytes`, by default [`MEMORY_PERCENT`] of the machine's or control group's
//! memory. The rest is for uncounted memory: the program, its tasks and connections, allocator
//! fragmentation, and the system. Each part has a budget or a limit of its own. The broker does not
//! start if their sum exceeds the bound.

use std::fmt;

use millrace_api::{
    COLD_READ_BYTES_MAX, FETCH_SESSIONS_BYTES_MAX, INSPECTION_BYTES_MAX, SHARE_PARTITIONS_BYTES_MAX,
};
use millrace_blockcache::BYPASSES_MAX;
use millrace_coordinator::{
    SHARE_STATE_WRITES_BYTES_MAX, TRANSACTION_WRITES_BYTES_MAX, config::GROUP_WRITES_BYTES_MAX,
};
use millrace_log::{PARTITION_BYTES, PRODUCER_BYTES};
use millrace_stream::COMPACTION_BYTES_MAX;

use crate::{
    config::{BrokerConfig, Setting, keys},
    machine::Machine,
};

/// The share of the machine's memory for what is counted.
const MEMORY_PERCENT: u64 = 80;

/// Shares of the bound, as one part in so many, that follow from it where nobody sets them. They leave
/// three quarters to the caches and to the work.
const NETWORK_PART: u64 = 10;
const GROUP_PART: u64 = 32;
/// Transactions.
const TRANSACTION_PART: u64 = 64;
const TRANSACTION_BYTES_MAX: u64 = 128 << 20;
/// The state of share partitions.
const SHARE_STATE_PART: u64 = 256;
const SHARE_STATE_BYTES_MAX: u64 = 128 << 20;
const PRODUCER_PART: u64 = 128;
const PARTITION_PART: u64 = 20;
const CLEANER_PART: u64 = 256;

/// More of these serves nobody: two hundred of the largest ordinary requests in flight for each
/// processor of a large machine,
const NETWORK_BYTES_MAX: u64 = 512 << 20;
/// as many groups as one broker holds, with 40 KiB each,
const GROUP_BYTES_MAX: u64 = 4 << 30;
/// a million producers,
const PRODUCER_IDS_MAX: u64 = 1_000_000;
/// and as many partitions as Kafka's documents allow a broker and its peers together.
const PARTITIONS_MAX: u64 = 200_000;
/// Kafka's default, which has room for five million keys.
const CLEANER_BYTES_MAX: u64 = 128 << 20;
/// Room for fifty thousand keys.
const CLEANER_BYTES_MIN: u64 = 1 << 20;

/// A write of the log, while it is filled: what the device takes at once.
const WAL_WRITE_BYTES: u64 = 1 << 20;

/// One part of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    LogCache,
    BlockCache,
    Network,
    Groups,
    Producers,
    Partitions,
    Work,
}

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::LogCache,
        Self::BlockCache,
        Self::Network,
        Self::Groups,
        Self::Producers,
        Self::Partitions,
        Self::Work,
    ];

    /// Its name in the status, in metrics and in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LogCache => "log_cache",
            Self::BlockCache => "block_cache",
            Self::Network => "network",
            Self::Groups => "groups",
            Self::Producers => "producers",
            Self::Partitions => "partitions",
            Self::Work => "work",
        }
    }

    /// The setting that bounds it. What is at work, bounded by the program, has none: compaction,
    /// catch-up reads, the inspection of compressed batches, writes to the group log and to the
    /// device, records over HTTP.
    pub(crate) const fn setting(self) -> Option<&'static str> {
        match self {
            Self::LogCache => Some(keys::LOG_CACHE),
            Self::BlockCache => Some(keys::BLOCK_CACHE),
            Self::Network => Some(keys::NETWORK),
            Self::Groups => Some(keys::GROUPS),
            Self::Producers => Some(keys::PRODUCERS),
            Self::Partitions => Some(keys::PARTITIONS),
            Self::Work => None,
        }
    }
}

/// Who has how much of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudgets {
    /// What the machine, or this process's part of it, has, in bytes; `u64::MAX` where that cannot be
    /// told.
    pub(crate) machine_bytes: u64,
    /// What the whole broker may have, in bytes.
    pub(crate) bound_bytes: u64,
    parts: [u64; Part::ALL.len()],
}

/// The settings ask for more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct MemoryError(MemoryBudgets);

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(budgets) = self;
        write!(
            f,
            "the settings ask for {} bytes of memory, and the broker may have {} ({}, {MEMORY_PERCENT} \
             % of the machine's {} bytes unless it is set):",
            budgets.sum(),
            budgets.bound_bytes,
            keys::MEMORY_MAX,
            budgets.machine_bytes,
        )?;
        for part in Part::ALL {
            let setting = part.setting().unwrap_or("not a setting");
            write!(f, " {} {} ({setting}),", part.name(), budgets.bytes(part))?;
        }
        write!(
            f,
            " in bytes; lower s3.wal.cache.size or s3.block.cache.size first, or give the broker a \
             machine with more memory"
        )
    }
}

impl BrokerConfig {
    /// Fills in what follows from the machine's memory, as a start does.
    ///
    /// # Errors
    /// The settings ask for more than there is.
    pub fn fit(&mut self, machine: &dyn Machine) -> Result<(), MemoryError> {
        MemoryBudgets::divide(self, machine).map(|_| ())
    }
}

impl MemoryBudgets {
    /// Divides the memory of the machine, and writes what follows from it into the configuration.
    ///
    /// # Errors
    /// The settings ask for more than there is.
    pub(crate) fn divide(
        config: &mut BrokerConfig,
        machine: &dyn Machine,
    ) -> Result<Self, MemoryError> {
        let machine_bytes = machine.memory_bytes();
        let derived = machine_bytes / 100 * MEMORY_PERCENT;
        let bound = config.memory.max_bytes.unwrap_or(derived);
        let wanted = config.memory;
        let network = wanted.network_bytes;
        let network = network.unwrap_or((bound / NETWORK_PART).min(NETWORK_BYTES_MAX));
        let groups = wanted.group_bytes;
        let groups = groups.unwrap_or((bound / GROUP_PART).min(GROUP_BYTES_MAX));
        let producer_ids = wanted.producer_ids.unwrap_or_else(|| {
            let ids = bound / PRODUCER_PART / PRODUCER_BYTES;
            ids.clamp(1, PRODUCER_IDS_MAX)
        });
        let partitions = wanted.partitions.unwrap_or_else(|| {
            let partitions = bound / PARTITION_PART / PARTITION_BYTES;
            partitions.clamp(1, PARTITIONS_MAX)
        });
        let cleaner = wanted.cleaner_bytes.unwrap_or_else(|| {
            let bytes = bound / CLEANER_PART;
            bytes.clamp(CLEANER_BYTES_MIN, CLEANER_BYTES_MAX)
        });
        config.net.broker_bytes_max = usize::try_from(network).unwrap_or(usize::MAX);
        config.group.memory_bytes = groups;
        config.transactions.memory_bytes = (bound / TRANSACTION_PART).min(TRANSACTION_BYTES_MAX);
        config.share_states.memory_bytes = (bound / SHARE_STATE_PART).min(SHARE_STATE_BYTES_MAX);
        config.log.producer_ids_max = producer_ids;
        config.log.partitions_max = partitions;
        config.log.cleaner_dedupe_bytes = cleaner;
        for (key, value) in [
            (keys::MEMORY_MAX, bound),
            (keys::NETWORK, network),
            (keys::GROUPS, groups),
            (keys::PRODUCERS, producer_ids),
            (keys::PARTITIONS, partitions),
            (keys::CLEANER, cleaner),
        ] {
            tell(&mut config.settings, key, value);
        }
        let parts = Part::ALL.map(|part| match part {
            Part::LogCache => config.storage.wal_cache_bytes as u64,
            Part::BlockCache => config.storage.block_cache_bytes as u64,
            Part::Network => network,
            Part::Groups => groups,
            Part::Producers => producer_ids.saturating_mul(PRODUCER_BYTES),
            Part::Partitions => partitions.saturating_mul(PARTITION_BYTES),
            Part::Work => work_bytes(config),
        });
        let budgets = Self {
            machine_bytes,
            bound_bytes: bound,
            parts,
        };
        if budgets.sum() > bound {
            return Err(MemoryError(budgets));
        }
        Ok(budgets)
    }

    /// What a part may have, in bytes.
    pub(crate) fn bytes(&self, part: Part) -> u64 {
        self.parts[part as usize]
    }

    /// What all parts but the two caches may have, in bytes.
    pub(crate) fn beside_caches(&self) -> u64 {
        let caches = [Part::LogCache, Part::BlockCache].map(|cache| self.bytes(cache));
        self.sum() - caches.iter().sum::<u64>()
    }

    fn sum(&self) -> u64 {
        self.parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Says at the start who has how much.
    pub(crate) fn report(&self) {
        let bytes = |part| self.bytes(part);
        tracing::info!(
            machine_bytes = self.machine_bytes,
            bound_bytes = self.bound_bytes,
            log_cache = bytes(Part::LogCache),
            block_cache = bytes(Part::BlockCache),
            network = bytes(Part::Network),
            groups = bytes(Part::Groups),
            producers = bytes(Part::Producers),
            partitions = bytes(Part::Partitions),
            work = bytes(Part::Work),
            "memory"
        );
    }
}

/// What is at work at its most, in bytes.
fn work_bytes(config: &BrokerConfig) -> u64 {
    let storage = &config.storage;
    let bypasses = BYPASSES_MAX as u64 * storage.object_block_bytes as u64;
    let wal =
        u64::from(storage.wal.io_depth) * WAL_WRITE_BYTES + config.log.message_max_bytes as u64;
    COMPACTION_BYTES_MAX
        + config.log.cleaner_dedupe_bytes
        + COLD_READ_BYTES_MAX
        + FETCH_SESSIONS_BYTES_MAX
        + INSPECTION_BYTES_MAX
        + SHARE_PARTITIONS_BYTES_MAX
        + GROUP_WRITES_BYTES_MAX
        + config.transactions.memory_bytes
        + TRANSACTION_WRITES_BYTES_MAX
        + config.share_states.memory_bytes
        + SHARE_STATE_WRITES_BYTES_MAX
        + millrace_records::MEMORY_BYTES_MAX
        + bypasses
        + wal
}

/// Shows what a setting that nobody set has come to.
fn tell(settings: &mut [Setting], key: &str, value: u64) {
    let derived = Some("-1");
    let setting = settings.iter_mut().find(|setting| setting.key == key);
    if let Some(setting) = setting.filter(|setting| setting.value.as_deref() == derived) {
        setting.value = Some(value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Properties;

    const MIB: u64 = 1 << 20;

    #[derive(Debug)]
    struct Memory(u64);

    impl Machine for Memory {
        fn memory_bytes(&self) -> u64 {
            self.0
        }
    }

    fn budgets(file: &str, machine: u64) -> (BrokerConfig, Result<MemoryBudgets, MemoryError>) {
        let properties = Properties::parse(file).expect("legal");
        let mut config = BrokerConfig::new(&properties).expect("legal");
        let budgets = MemoryBudgets::divide(&mut config, &Memory(machine));
        (config, budgets)
    }

    #[test]
    fn the_defaults_fit_every_machine_from_two_gibibytes_on() {
        for gib in [2, 4, 16, 64, 1_024] {
            let (config, budgets) = budgets("", gib << 30);
            let budgets = budgets.expect("fits");
            assert!(budgets.sum() <= budgets.bound_bytes && budgets.bound_bytes < gib << 30);
            let shown = |key: &str| {
                let setting = config.settings.iter().find(|setting| setting.key == key);
                setting.and_then(|setting| setting.value.clone())
            };
            assert_eq!(
                shown("memory.max.bytes"),
                Some(budgets.bound_bytes.to_string())
            );
            assert_eq!(
                shown("queued.max.request.bytes"),
                Some(config.net.broker_bytes_max.to_string())
            );
            assert_eq!(
                shown("partitions.max"),
                Some(config.log.partitions_max.to_string())
            );
        }
        let (config, budgets) = budgets("", u64::MAX);
        assert!(
            budgets.is_ok(),
            "a machine that tells nothing bounds nothing"
        );
        assert_eq!(config.log.partitions_max, PARTITIONS_MAX);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_every_part_and_a_remedy() {
        let (_, budgets) = budgets(
            "s3.wal.cache.size=1GiB\nqueued.max.request.bytes=1GiB",
            2 << 30,
        );
        let text = budgets.expect_err("too much").to_string();
        for expected in [
            "memory.max.bytes",
            "log_cache 1073741824 (s3.wal.cache.size)",
            "network 1073741824 (queued.max.request.bytes)",
            "2147483648 bytes",
            "lower s3.wal.cache.size",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn what_is_set_holds_and_the_rest_follows_from_the_bound() {
        let file = "memory.max.bytes=3GiB\ngroup.memory.max.bytes=64MiB\nproducer.ids.max=10\n\
                    partitions.max=7";
        let (config, budgets) = budgets(file, 64 << 30);
        let budgets = budgets.expect("fits");
        assert_eq!(budgets.bound_bytes, 3_072 * MIB);
        assert_eq!(budgets.bytes(Part::Network), 3_072 * MIB / 10);
        assert_eq!(budgets.bytes(Part::Groups), 64 * MIB);
        assert_eq!(budgets.bytes(Part::Producers), 10 * PRODUCER_BYTES);
        assert_eq!(
            (config.log.partitions_max, config.log.producer_ids_max),
            (7, 10)
        );
        let caches = budgets.bytes(Part::LogCache) + budgets.bytes(Part::BlockCache);
        assert_eq!(budgets.beside_caches(), budgets.sum() - caches);
    }
}
