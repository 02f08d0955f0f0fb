//! What members tell each other through the coordinator, which does not look into it: what they
//! read and own, and what the leader assigns.
//!
//! ```text
//! subscription, assignment:  version i16 | ConsumerProtocolSubscription or …Assignment
//! user data of sticky:       topics [ topic string | partitions [ i32 ] ] | generation i32
//! user data of cooperative:  generation i32
//! ```

use std::{collections::BTreeMap, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millrace_wire::{
    Encodable, StrBytes,
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, consumer_protocol_assignment,
        consumer_protocol_subscription,
    },
};

use super::assignor::{Assignor, Member};
use crate::topic_partition::{TopicPartition, by_topic, topic_name};

/// The newest version of both; Java's, too.
const NEWEST: i16 = 3;
/// The first version of a subscription that names what is owned.
const OWNED_FROM: i16 = 1;
/// The first version of a subscription with a generation.
const GENERATION_FROM: i16 = 2;
/// No generation.
const NO_GENERATION: i32 = -1;

/// What a member sends when it joins, for one assignor.
pub(super) fn subscription(
    assignor: Assignor,
    topics: &[Arc<str>],
    owned: &[TopicPartition],
    last: &[TopicPartition],
    generation: i32,
) -> Bytes {
    let user_data = match assignor {
        Assignor::Range => None,
        Assignor::Sticky if last.is_empty() => None,
        Assignor::Sticky => Some(sticky_data(last, generation)),
        Assignor::CooperativeSticky => Some(Bytes::copy_from_slice(&generation.to_be_bytes())),
    };
    let owned = indexes(owned).into_iter().map(|(topic, partitions)| {
        consumer_protocol_subscription::TopicPartition::default()
            .with_topic(topic_name(topic))
            .with_partitions(partitions)
    });
    let mut topics: Vec<_> = topics
        .iter()
        .map(|topic| StrBytes::from_string(topic.to_string()))
        .collect();
    topics.sort();
    let message = ConsumerProtocolSubscription::default()
        .with_topics(topics)
        .with_user_data(user_data)
        .with_owned_partitions(owned.collect())
        .with_generation_id(generation);
    versioned(&message)
}

fn versioned(message: &impl Encodable) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(NEWEST);
    let encoded = message.encode(&mut out, NEWEST);
    encoded.expect("all fields exist in the newest version, and names are shorter than 32 KiB");
    out.freeze()
}

/// Reads what a member sent.
pub(super) fn member(
    assignor: Assignor,
    id: &str,
    instance_id: Option<&str>,
    mut metadata: Bytes,
) -> Option<Member> {
    let version = metadata.try_get_i16().ok()?.max(0);
    let mut topics = Vec::new();
    for _ in 0..metadata.try_get_i32().ok()? {
        topics.push(read_text(&mut metadata)?);
    }
    let user_data = read_bytes(&mut metadata)?;
    let mut member = Member {
        id: id.to_owned(),
        instance_id: instance_id.map(ToOwned::to_owned),
        topics,
        owned: Vec::new(),
        generation: None,
    };
    if version >= OWNED_FROM {
        member.owned = read_partitions(&mut metadata)?;
    }
    let mut told = None;
    if version >= GENERATION_FROM {
        told = Some(metadata.try_get_i32().ok()?);
    }
    match assignor {
        Assignor::Range => {}
        Assignor::Sticky => {
            if let Some((owned, generation)) = read_sticky_data(user_data) {
                member.owned = owned;
                member.generation = generation;
            }
        }
        Assignor::CooperativeSticky => {
            let fallback = user_data
                .first_chunk()
                .map(|bytes| i32::from_be_bytes(*bytes));
            member.generation = told.filter(|told| *told != NO_GENERATION).or(fallback);
        }
    }
    member.generation = member.generation.filter(|one| *one != NO_GENERATION);
    Some(member)
}

fn sticky_data(owned: &[TopicPartition], generation: i32) -> Bytes {
    let mut out = BytesMut::new();
    let topics = indexes(owned);
    out.put_i32(i32::try_from(topics.len()).unwrap_or(i32::MAX));
    for (topic, partitions) in topics {
        out.put_i16(i16::try_from(topic.len()).unwrap_or(i16::MAX));
        out.put_slice(topic.as_bytes());
        out.put_i32(i32::try_from(partitions.len()).unwrap_or(i32::MAX));
        partitions.into_iter().for_each(|index| out.put_i32(index));
    }
    out.put_i32(generation);
    out.freeze()
}

/// What a sticky member owned and since when; the oldest version has no generation.
fn read_sticky_data(mut data: Bytes) -> Option<(Vec<TopicPartition>, Option<i32>)> {
    let owned = read_partitions(&mut data)?;
    Some((owned, data.try_get_i32().ok()))
}

// The members' bytes are read here and not by the codec, which would believe any count.

fn read_partitions(data: &mut Bytes) -> Option<Vec<TopicPartition>> {
    let mut partitions = Vec::new();
    for _ in 0..data.try_get_i32().ok()? {
        let topic = read_text(data)?;
        for _ in 0..data.try_get_i32().ok()? {
            let index = data.try_get_i32().ok()?;
            partitions.push(TopicPartition::of(Arc::clone(&topic), index));
        }
    }
    Some(partitions)
}

fn read_text(data: &mut Bytes) -> Option<Arc<str>> {
    let length = usize::try_from(data.try_get_i16().ok()?).ok()?;
    if data.remaining() < length {
        return None;
    }
    Some(std::str::from_utf8(&data.split_to(length)).ok()?.into())
}

/// Null is empty.
fn read_bytes(data: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(data.try_get_i32().ok()?).unwrap_or(0);
    (data.remaining() >= length).then(|| data.split_to(length))
}

/// What the leader assigns to one member.
pub(super) fn assignment(partitions: &[TopicPartition]) -> Bytes {
    let assigned = indexes(partitions).into_iter().map(|(topic, partitions)| {
        consumer_protocol_assignment::TopicPartition::default()
            .with_topic(topic_name(topic))
            .with_partitions(partitions)
    });
    let message =
        ConsumerProtocolAssignment::default().with_assigned_partitions(assigned.collect());
    versioned(&message)
}

/// Reads what the leader assigned; no bytes are no partitions.
pub(crate) fn assigned(mut bytes: Bytes) -> Option<Vec<TopicPartition>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let _version = bytes.try_get_i16().ok()?;
    read_partitions(&mut bytes)
}

fn indexes(partitions: &[TopicPartition]) -> BTreeMap<&str, Vec<i32>> {
    by_topic(partitions.iter().map(|name| (name, name.partition)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[(&str, i32)]) -> Vec<TopicPartition> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn members_read_each_others_subscriptions() {
        let owned = names(&[("a", 0), ("a", 2), ("b", 1)]);
        let topics = [Arc::from("b"), Arc::from("a")];
        for assignor in [Assignor::Range, Assignor::CooperativeSticky] {
            let bytes = subscription(assignor, &topics, &owned, &[], 7);
            let read = member(assignor, "m", Some("i"), bytes).expect("readable");
            assert_eq!(read.topics, [Arc::from("a"), Arc::from("b")]);
            assert_eq!((read.owned, read.id), (owned.clone(), "m".to_owned()));
            let generation = assignor.is_cooperative().then_some(7);
            assert_eq!(read.generation, generation);
        }
        // Eager members own nothing when they join; sticky ones tell what they had.
        let bytes = subscription(Assignor::Sticky, &topics, &[], &owned, 7);
        let read = member(Assignor::Sticky, "m", None, bytes).expect("readable");
        assert_eq!((read.owned, read.generation), (owned.clone(), Some(7)));
        assert_eq!(assigned(assignment(&owned)), Some(owned));
        assert_eq!(assigned(Bytes::new()), Some(Vec::new()));
    }

    /// Bytes as Kafka's `ConsumerProtocol` writes them.
    #[test]
    fn bytes_are_those_of_kafkas_java_client() {
        let bytes = subscription(Assignor::Range, &[Arc::from("t")], &[], &[], -1);
        let expected = b"\x00\x03\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff";
        assert_eq!(&bytes[..], expected);
        let bytes = assignment(&names(&[("t", 0), ("t", 1)]));
        let expected = b"\x00\x03\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff";
        assert_eq!(&bytes[..], expected);
        let data = sticky_data(&names(&[("t", 5)]), 9);
        let expected = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x09";
        assert_eq!(&data[..], expected);
    }

    #[test]
    fn broken_bytes_are_no_member() {
        assert!(member(Assignor::Range, "m", None, Bytes::from_static(&[0])).is_none());
        assert!(read_sticky_data(Bytes::from_static(&[0, 0, 0, 9])).is_none());
        assert!(assigned(Bytes::from_static(&[0, 3, 0, 0])).is_none());
        // A count that no bytes follow allocates nothing.
        let many = b"\x00\x03\x7f\xff\xff\xff";
        assert!(member(Assignor::Range, "m", None, Bytes::from_static(many)).is_none());
        assert!(assigned(Bytes::from_static(many)).is_none());
    }
}
