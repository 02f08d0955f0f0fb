//! The seam to the topics of the cluster, as consumer groups see them.

use std::{collections::BTreeSet, fmt, sync::Arc};

use millrace_log::LogManager;
use millrace_model::{TopicId, TopicName};

/// The topics of the cluster, whoever leads their partitions.
pub trait Topics: fmt::Debug + Send + Sync + 'static {
    /// Changes whenever a topic is created, deleted or gets more partitions.
    fn revision(&self) -> u64;
    /// A topic's id and how many partitions it has.
    fn find(&self, name: &str) -> Option<(TopicId, u32)>;
    /// A topic's name.
    fn name_of(&self, id: TopicId) -> Option<TopicName>;
    /// All names.
    fn names(&self) -> Vec<TopicName>;
}

/// As groups keep it.
pub(crate) type SharedTopics = Arc<dyn Topics>;

impl Topics for LogManager {
    fn revision(&self) -> u64 {
        *self.changes().borrow()
    }

    fn find(&self, name: &str) -> Option<(TopicId, u32)> {
        let topic = self.topic(&TopicName::new(name).ok()?)?;
        let partitions = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        Some((topic.id, partitions))
    }

    fn name_of(&self, id: TopicId) -> Option<TopicName> {
        self.topic_by_id(id).map(|topic| topic.name.clone())
    }

    fn names(&self) -> Vec<TopicName> {
        let topics = Self::topics(self);
        topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

/// A number that is another one whenever one of these topics is created, deleted or gets partitions; 0 where there are none.
pub(crate) fn hash_of(topics: &dyn Topics, names: &BTreeSet<&String>) -> i64 {
    let mut hash = Fnv::new();
    let mut any = false;
    for name in names {
        if let Some((id, partitions)) = topics.find(name) {
            any = true;
            hash.add(id.0.as_bytes());
            hash.add(&partitions.to_be_bytes());
        }
    }
    if any { hash.0.cast_signed() } else { 0 }
}

/// The 64-bit FNV-1a hash: the same on every broker and in every version.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
pub(crate) mod memory {
    //! Topics of tests.

    use std::{
        collections::BTreeMap,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    use parking_lot::Mutex;
    use uuid::Uuid;

    use super::{TopicId, TopicName, Topics};

    #[derive(Debug, Default)]
    pub(crate) struct MemoryTopics {
        topics: Mutex<BTreeMap<String, (TopicId, u32)>>,
        revision: AtomicU64,
    }

    impl MemoryTopics {
        pub(crate) fn with(topics: &[(&str, u32)]) -> Arc<Self> {
            let all = Self::default();
            for (name, partitions) in topics {
                all.set(name, *partitions);
            }
            Arc::new(all)
        }

        /// Creates a topic or changes how many partitions it has; 0 deletes it.
        pub(crate) fn set(&self, name: &str, partitions: u32) {
            let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
            let mut topics = self.topics.lock();
            if partitions == 0 {
                topics.remove(name);
                return;
            }
            let id = TopicId(Uuid::from_u128(u128::from(revision)));
            topics.entry(name.to_owned()).or_insert((id, 0)).1 = partitions;
        }

        pub(crate) fn id(&self, name: &str) -> TopicId {
            self.find(name).expect("a topic").0
        }
    }

    impl Topics for MemoryTopics {
        fn revision(&self) -> u64 {
            self.revision.load(Ordering::Relaxed)
        }

        fn find(&self, name: &str) -> Option<(TopicId, u32)> {
            self.topics.lock().get(name).copied()
        }

        fn name_of(&self, id: TopicId) -> Option<TopicName> {
            let topics = self.topics.lock();
            let (name, _) = topics.iter().find(|(_, (other, _))| *other == id)?;
            TopicName::new(name).ok()
        }

        fn names(&self) -> Vec<TopicName> {
            let topics = self.topics.lock();
            topics.keys().flat_map(TopicName::new).collect()
        }
    }
}
