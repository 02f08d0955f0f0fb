//! The partitions of one session: what the client asks for, and what it was told last.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use millrace_wire::{
    FetchedPartition, FetchedTopic, StrBytes,
    error_code::NONE,
    messages::{
        FetchRequest, TopicName as WireTopic,
        fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
    },
};
use uuid::Uuid;

/// What a partition takes in memory, bytes, without its topic's name: two entries of trees, and the tables
/// around them.
const PARTITION_BYTES: usize = 256;

/// No broker to fetch from instead.
const NO_REPLICA: i32 = -1;

/// A topic as requests of the session name it: by name, or, in newer versions, by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionTopic {
    name: StrBytes,
    id: Uuid,
}

/// A partition of the session.
#[derive(Debug, Clone)]
struct SessionPartition {
    topic: Arc<SessionTopic>,
    /// What the client asks for until it asks for something else.
    asked: FetchPartition,
    /// What the client was told last; −1 before.
    high_watermark: i64,
    log_start_offset: i64,
}

/// Where each partition of a topic stands in the order.
type Places = BTreeMap<i32, u64>;

/// All partitions of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Partitions {
    /// In the order in which they are served. One that was served goes to the end, so that none starves.
    order: BTreeMap<u64, SessionPartition>,
    places: HashMap<Arc<SessionTopic>, Places>,
    next_place: u64,
    bytes: usize,
}

impl SessionTopic {
    /// A copy that does not keep the request's bytes in memory.
    fn kept(name: &StrBytes, id: Uuid) -> Self {
        Self {
            name: StrBytes::from_string(name.to_string()),
            id,
        }
    }

    fn bytes_per_partition(&self) -> usize {
        PARTITION_BYTES + self.name.len()
    }
}

impl Partitions {
    /// Those that a request asks for.
    pub(super) fn of(request: &FetchRequest) -> Self {
        let mut partitions = Self::default();
        partitions.update(&request.topics);
        partitions
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// What they take in memory at most.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds what a request asks for, or changes it where it is there.
    pub(super) fn update(&mut self, topics: &[FetchTopic]) {
        for topic in topics {
            let key = SessionTopic {
                name: topic.topic.0.clone(),
                id: topic.topic_id,
            };
            let kept = self.places.get_key_value(&key);
            let kept = kept.map_or_else(
                || Arc::new(SessionTopic::kept(&key.name, key.id)),
                |(kept, _)| Arc::clone(kept),
            );
            for asked in &topic.partitions {
                self.ask(&kept, asked);
            }
        }
    }

    fn ask(&mut self, topic: &Arc<SessionTopic>, asked: &FetchPartition) {
        // The codec keeps unknown tagged fields as slices of the frame.
        let mut asked = asked.clone();
        asked.unknown_tagged_fields.clear();
        let places = self.places.entry(Arc::clone(topic)).or_default();
        if let Some(place) = places.get(&asked.partition) {
            if let Some(partition) = self.order.get_mut(place) {
                partition.asked = asked;
            }
            return;
        }
        places.insert(asked.partition, self.next_place);
        self.bytes += topic.bytes_per_partition();
        let partition = SessionPartition {
            topic: Arc::clone(topic),
            asked,
            high_watermark: -1,
            log_start_offset: -1,
        };
        self.order.insert(self.next_place, partition);
        self.next_place += 1;
    }

    /// Removes what a request no longer wants.
    pub(super) fn forget(&mut self, topics: &[ForgottenTopic]) {
        for topic in topics {
            let key = SessionTopic {
                name: topic.topic.0.clone(),
                id: topic.topic_id,
            };
            let Some(places) = self.places.get_mut(&key) else {
                continue;
            };
            for index in &topic.partitions {
                if let Some(place) = places.remove(index) {
                    self.order.remove(&place);
                    self.bytes -= key.bytes_per_partition();
                }
            }
            if places.is_empty() {
                self.places.remove(&key);
            }
        }
    }

    /// The topics of a whole request for all of them, in order. A topic comes as often as its partitions are apart.
    pub(super) fn topics(&self) -> Vec<FetchTopic> {
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut last: Option<&Arc<SessionTopic>> = None;
        for partition in self.order.values() {
            let topic = &partition.topic;
            if !last.is_some_and(|last| Arc::ptr_eq(last, topic)) {
                let name = WireTopic(topic.name.clone());
                let asked = FetchTopic::default()
                    .with_topic(name)
                    .with_topic_id(topic.id);
                topics.push(asked);
                last = Some(topic);
            }
            if let Some(asked) = topics.last_mut() {
                asked.partitions.push(partition.asked.clone());
            }
        }
        topics
    }

    /// Remembers what a whole answer tells.
    pub(super) fn told(&mut self, topics: &[FetchedTopic]) {
        for topic in topics {
            for fetched in &topic.partitions {
                self.tell(topic, fetched);
            }
        }
    }

    /// Leaves in an answer only what the client does not know: records, errors, another broker to ask, and offsets
    /// that have changed.
    pub(super) fn retain_news(&mut self, topics: &mut Vec<FetchedTopic>) {
        for topic in topics.iter_mut() {
            let mut partitions = std::mem::take(&mut topic.partitions);
            partitions.retain(|fetched| self.tell(topic, fetched));
            topic.partitions = partitions;
        }
        topics.retain(|topic| !topic.partitions.is_empty());
    }

    /// Remembers what the answer tells of a partition, and says whether it is news.
    fn tell(&mut self, topic: &FetchedTopic, fetched: &FetchedPartition) -> bool {
        let key = SessionTopic {
            name: topic.topic.clone(),
            id: topic.topic_id.0,
        };
        let Some(place) = self.places.get_mut(&key).and_then(|places| {
            // Forgotten meanwhile otherwise.
            places.get_mut(&fetched.index)
        }) else {
            return false;
        };
        let Some(partition) = self.order.get_mut(place) else {
            return false;
        };
        let has_error = fetched.error_code != NONE;
        let has_records = !fetched.records.is_empty();
        let has_moved = partition.high_watermark != fetched.high_watermark
            || partition.log_start_offset != fetched.log_start_offset;
        // So that the partition is told once the error is gone.
        partition.high_watermark = match has_error {
            true => -1,
            false => fetched.high_watermark,
        };
        partition.log_start_offset = fetched.log_start_offset;
        if has_records && let Some(served) = self.order.remove(place) {
            *place = self.next_place;
            self.order.insert(self.next_place, served);
            self.next_place += 1;
        }
        has_records || has_error || has_moved || fetched.preferred_read_replica != NO_REPLICA
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_model::TopicId;

    use super::*;

    fn name(name: &str) -> StrBytes {
        StrBytes::from_string(name.to_owned())
    }

    fn asked(topic: &str, partitions: &[(i32, i64)]) -> FetchTopic {
        let partition = |(index, offset): &(i32, i64)| {
            FetchPartition::default()
                .with_partition(*index)
                .with_fetch_offset(*offset)
        };
        FetchTopic::default()
            .with_topic(WireTopic(name(topic)))
            .with_partitions(partitions.iter().map(partition).collect())
    }

    fn fetched(topic: &str, partitions: Vec<FetchedPartition>) -> Vec<FetchedTopic> {
        vec![FetchedTopic {
            topic: name(topic),
            topic_id: TopicId::default(),
            partitions,
        }]
    }

    fn at(index: i32, high_watermark: i64) -> FetchedPartition {
        FetchedPartition {
            index,
            high_watermark,
            log_start_offset: 0,
            ..FetchedPartition::default()
        }
    }

    fn order(partitions: &Partitions) -> Vec<(String, Vec<i32>)> {
        let indexes = |topic: &FetchTopic| topic.partitions.iter().map(|p| p.partition).collect();
        let topics = partitions.topics();
        topics
            .iter()
            .map(|topic| (topic.topic.to_string(), indexes(topic)))
            .collect()
    }

    #[test]
    fn requests_change_what_is_asked_for() {
        let request = FetchRequest::default().with_topics(vec![asked("a", &[(0, 5), (1, 5)])]);
        let mut partitions = Partitions::of(&request);
        partitions.update(&[asked("a", &[(1, 9), (1, 10)]), asked("b", &[(0, 1)])]);
        let topics = partitions.topics();
        assert_eq!(topics[0].partitions[1].fetch_offset, 10);
        assert_eq!(
            order(&partitions),
            [("a".into(), vec![0, 1]), ("b".into(), vec![0])]
        );
        assert_eq!((partitions.len(), partitions.bytes()), (3, 3 * 257));
        let forgotten = |topic: &str, indexes: Vec<i32>| {
            ForgottenTopic::default()
                .with_topic(WireTopic(name(topic)))
                .with_partitions(indexes)
        };
        partitions.forget(&[forgotten("a", vec![0, 7]), forgotten("none", vec![0])]);
        assert_eq!(order(&partitions)[0], ("a".into(), vec![1]));
        partitions.forget(&[forgotten("a", vec![1]), forgotten("b", vec![0])]);
        assert!(partitions.is_empty() && partitions.bytes() == 0);
        assert!(partitions.places.is_empty());
    }

    #[test]
    fn only_news_are_told() {
        let topics = vec![asked("a", &[(0, 0), (1, 0), (2, 0), (3, 0)])];
        let mut partitions = Partitions::of(&FetchRequest::default().with_topics(topics));
        let first: Vec<_> = (0..4).map(|index| at(index, 7)).collect();
        partitions.told(&fetched("a", first.clone()));
        let mut told = fetched("a", first.clone());
        partitions.retain_news(&mut told);
        assert!(told.is_empty());

        let mut news = first.clone();
        news[0].high_watermark = 8;
        news[1].error_code = 6;
        news[1].high_watermark = -1;
        news[2].preferred_read_replica = 4;
        let mut told = fetched("a", news);
        partitions.retain_news(&mut told);
        let indexes: Vec<_> = told[0].partitions.iter().map(|p| p.index).collect();
        assert_eq!(indexes, [0, 1, 2]);

        // The error is gone, at the offset of before.
        let mut told = fetched("a", vec![at(0, 8), at(1, 7), at(9, 7)]);
        partitions.retain_news(&mut told);
        let indexes: Vec<_> = told[0].partitions.iter().map(|p| p.index).collect();
        assert_eq!(indexes, [1]);
    }

    #[test]
    fn who_was_served_waits_for_the_others() {
        let topics = vec![asked("a", &[(0, 0), (1, 0), (2, 0)])];
        let mut partitions = Partitions::of(&FetchRequest::default().with_topics(topics));
        let mut told = fetched("a", vec![at(0, 7), at(1, 7)]);
        told[0].partitions[0].records = vec![Bytes::from_static(b"x")];
        partitions.retain_news(&mut told);
        assert_eq!(order(&partitions), [("a".into(), vec![1, 2, 0])]);
        partitions.update(&[asked("b", &[(5, 0)]), asked("a", &[(0, 1)])]);
        let mut told = fetched("a", vec![at(2, 7)]);
        told[0].partitions[0].records = vec![Bytes::from_static(b"x")];
        partitions.retain_news(&mut told);
        assert_eq!(
            order(&partitions),
            [
                ("a".into(), vec![1, 0]),
                ("b".into(), vec![5]),
                ("a".into(), vec![2])
            ]
        );
    }
}
