//! The topics that a producer sends to.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::{partition::PartitionQueue, partitioner::Keyless};
use crate::client::{Interest, TopicMetadata};

/// One topic's partitions.
pub(super) struct TopicQueue {
    name: Arc<str>,
    partitions: RwLock<Vec<Arc<PartitionQueue>>>,
    /// Where records without a key go.
    pub(super) keyless: Mutex<Keyless>,
    /// Keeps the metadata fresh.
    _interest: Interest,
}

impl TopicQueue {
    /// A topic without partitions, until [`Self::update`].
    pub(super) fn new(name: Arc<str>, interest: Interest) -> Self {
        Self {
            name,
            partitions: RwLock::default(),
            keyless: Mutex::default(),
            _interest: interest,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn partitions(&self) -> RwLockReadGuard<'_, Vec<Arc<PartitionQueue>>> {
        self.partitions.read()
    }

    /// Takes in what the cluster says: new partitions (Kafka never removes any), and which of them
    /// have a leader.
    pub(super) fn update(&self, told: &TopicMetadata) {
        if self.partitions.read().len() < told.partitions.len() {
            let mut partitions = self.partitions.write();
            for index in partitions.len()..told.partitions.len() {
                let queue = PartitionQueue::new(Arc::clone(&self.name), index);
                partitions.push(Arc::new(queue));
            }
        }
        for (queue, partition) in self.partitions.read().iter().zip(&told.partitions) {
            queue.set_available(partition.leader.is_some());
        }
    }
}
