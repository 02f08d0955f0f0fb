//! A topic as the broker sees it.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use millrace_meta::{Leader, PartitionStreams};
use millrace_model::{TopicId, TopicName};

use crate::{committed::CommittedLog, config::TopicConfig, partition::PartitionLog};

/// A topic as it is now. A snapshot: look it up again to see later changes.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// What the topic itself sets.
    pub overrides: BTreeMap<String, String>,
    /// What it lives by.
    pub config: Arc<TopicConfig>,
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
}

/// A partition, which this broker or another one leads.
#[derive(Debug, Clone)]
pub struct Partition {
    pub(crate) streams: PartitionStreams,
    /// Who leads it; `None` where the broker is alone and leads all.
    pub(crate) leader: Option<Leader>,
    /// `None` where another broker leads it, and as long as it is not open here.
    pub(crate) log: Option<Arc<PartitionLog>>,
    /// What of it is in objects, whoever leads it; `None` where the broker is alone.
    pub(crate) committed: Option<Arc<CommittedLog>>,
    /// A planned move brings it here.
    pub(crate) arrival: Option<Arc<Arrival>>,
}

/// A planned move of a partition to this broker. It usually takes a fraction of a second. If the former leader dies meanwhile, it lasts until
/// its log is taken over.
#[derive(Debug, Default)]
pub struct Arrival {
    awaited_since: OnceLock<Duration>,
}

impl Arrival {
    /// When somebody first waited for it: `now`, unless somebody has before.
    pub fn awaited_since(&self, now: Duration) -> Duration {
        *self.awaited_since.get_or_init(|| now)
    }
}

impl Topic {
    /// Whether the broker keeps its own state in it.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        crate::is_internal(self.name.as_str())
    }

    /// The log of a partition; `None` where this broker does not serve it.
    #[must_use]
    pub fn log(&self, index: usize) -> Option<&Arc<PartitionLog>> {
        self.partitions.get(index)?.log()
    }

    /// The logs of the partitions that this broker serves, in the order of their indexes.
    pub fn logs(&self) -> impl Iterator<Item = &Arc<PartitionLog>> {
        self.partitions.iter().filter_map(Partition::log)
    }
}

impl Partition {
    /// A partition of a broker that is alone.
    pub(crate) fn alone(streams: PartitionStreams, log: Arc<PartitionLog>) -> Self {
        Self {
            streams,
            leader: None,
            log: Some(log),
            committed: None,
            arrival: None,
        }
    }

    /// Its log; `None` where this broker does not serve it.
    #[must_use]
    pub fn log(&self) -> Option<&Arc<PartitionLog>> {
        self.log.as_ref()
    }

    /// What of it is in objects, which this broker can read whoever leads it; `None` where the broker is alone.
    #[must_use]
    pub fn committed(&self) -> Option<&Arc<CommittedLog>> {
        self.committed.as_ref()
    }

    /// The planned move that brings it here; `None` where there is none, or once it is open.
    #[must_use]
    pub fn arrival(&self) -> Option<&Arrival> {
        let arrival = self.arrival.as_deref();
        arrival.filter(|_| self.log.is_none())
    }

    /// Who leads it; `None` where the broker is alone and leads all.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.leader
    }
}
