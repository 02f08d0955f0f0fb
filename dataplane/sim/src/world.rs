//! Everything that clients, faults and checks reach.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use millrace_coordinator::partition_of;
use millrace_log::CONSUMER_OFFSETS_TOPIC;
use millrace_model::{NodeEpoch, NodeId, TopicName, TopicPartition};

use crate::{
    database::Database,
    history::History,
    machine::{Machine, Machines},
    seams::Seams,
};

/// The topic of producers and consumers.
pub(crate) const TOPIC: &str = "t";

/// Partitions of the topic that keeps groups.
pub(crate) const OFFSETS_PARTITIONS: u32 = 2;

/// How long after a fault a broker's lease may still run out because of it.
const AFTERMATH: Duration = Duration::from_secs(8);

/// The world of one simulation.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seams: Seams,
    pub(crate) database: Arc<Database>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) history: History,
    pub(crate) partitions: u32,
    /// No further fault happens.
    calm: AtomicBool,
}

impl World {
    pub(crate) fn new(
        seams: Seams,
        database: Arc<Database>,
        machines: Arc<Machines>,
        partitions: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            seams,
            database,
            machines,
            history: History::default(),
            partitions,
            calm: AtomicBool::new(false),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.seams.clock.now()
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        self.seams.trace.note(line);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn partition(&self, partition: u32) -> TopicPartition {
        let topic = TopicName::new(TOPIC).expect("a legal name");
        TopicPartition { topic, partition }
    }

    /// The partition that keeps a group.
    pub(crate) fn partition_of_group(&self, group: &str) -> TopicPartition {
        let index = partition_of(group, OFFSETS_PARTITIONS as usize);
        TopicPartition {
            topic: TopicName::new(CONSUMER_OFFSETS_TOPIC).expect("a legal name"),
            partition: u32::try_from(index).unwrap_or(0),
        }
    }

    /// Whether a start may no longer acknowledge what is appended from now on: its log was taken over, or the partition's
    /// records do not belong into it.
    pub(crate) fn is_replaced(
        &self,
        machine: &Machine,
        epoch: NodeEpoch,
        id: &TopicPartition,
    ) -> bool {
        let owner = self.database.look(|tables| tables.owner_of(id));
        machine.fence_epoch() > epoch || owner != Some(machine.node)
    }

    /// Brokers that were fenced although nothing had happened to them.
    pub(crate) fn check_fencings(&self) {
        for (node, at) in self.database.fencings() {
            let machine = self.machines.of(node);
            if machine.is_some_and(|machine| !machine.was_hurt(at, AFTERMATH)) {
                self.history.violated(format!(
                    "node {node} was fenced at {:.3} although nothing had happened to it",
                    at.as_secs_f64()
                ));
            }
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.machines.all.iter().map(|machine| machine.node)
    }
}
