use bytes::Bytes;
use millrace_model::{TopicId, TopicName, TopicPartition};
use proptest::prelude::*;

use super::*;
use crate::messages::{Protocol, TopicPartitions};

mod damaged;

fn texts() -> impl Strategy<Value = String> {
    "[a-zé_-]{0,20}"
}

fn payloads() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..50).prop_map(Bytes::from)
}

fn members() -> impl Strategy<Value = StoredMember> {
    (
        texts(),
        prop::option::of(texts()),
        texts(),
        any::<[i32; 2]>(),
        payloads(),
        payloads(),
    )
        .prop_map(
            |(member_id, instance_id, client_id, timeouts, subscription, assignment)| {
                StoredMember {
                    client_host: format!("/{member_id}"),
                    member_id,
                    instance_id,
                    client_id,
                    rebalance_timeout_ms: timeouts[0],
                    session_timeout_ms: timeouts[1],
                    subscription,
                    assignment,
                }
            },
        )
}

fn groups() -> impl Strategy<Value = GroupMetadata> {
    let names = (
        texts(),
        prop::option::of(texts()),
        prop::option::of(texts()),
    );
    (
        names,
        any::<i32>(),
        any::<i64>(),
        prop::collection::vec(members(), 0..4),
    )
        .prop_map(
            |((protocol_type, protocol, leader), generation, state_ms, members)| GroupMetadata {
                protocol_type,
                generation,
                protocol,
                leader,
                state_ms,
                members,
            },
        )
}

fn offsets() -> impl Strategy<Value = CommittedOffset> {
    let numbers = (any::<i64>(), any::<i32>(), any::<i64>());
    (numbers, texts(), prop::option::of(0..i64::MAX)).prop_map(
        |((offset, leader_epoch, commit_ms), metadata, expire_ms)| CommittedOffset {
            offset,
            // The format that has an expiry has no leader epoch.
            leader_epoch: if expire_ms.is_some() {
                -1
            } else {
                leader_epoch
            },
            metadata,
            commit_ms,
            expire_ms,
        },
    )
}

fn records() -> impl Strategy<Value = GroupRecord> {
    let key = (texts(), "[a-zA-Z0-9_-]{1,30}", 0..=i32::MAX.unsigned_abs()).prop_map(
        |(group, topic, partition)| Key::Offset {
            group,
            partition: TopicPartition {
                topic: TopicName::new(topic).expect("legal"),
                partition,
            },
        },
    );
    prop_oneof![
        (key, prop::option::of(offsets())).prop_map(|(k, v)| GroupRecord::Offset(k, v)),
        (texts(), prop::option::of(groups()))
            .prop_map(|(group, v)| GroupRecord::Group(Key::Group { group }, v)),
        (texts(), any::<bool>(), consumer_parts()).prop_map(|(group, deleted, (part, value))| {
            let value = Some(value).filter(|_| !deleted);
            GroupRecord::Consumer(Key::Consumer { group, part }, value)
        }),
        (texts(), any::<bool>(), share_parts()).prop_map(|(group, deleted, (part, value))| {
            let value = Some(value).filter(|_| !deleted);
            GroupRecord::Share(Key::Share { group, part }, value)
        }),
    ]
}

fn partitions() -> impl Strategy<Value = TopicPartitions> {
    let numbers = prop::collection::btree_set(0..=i32::MAX.unsigned_abs(), 1..4);
    let topic = any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)));
    prop::collection::btree_map(topic, numbers, 0..4)
}

fn protocols() -> impl Strategy<Value = Vec<Protocol>> {
    let protocol = (texts(), payloads()).prop_map(|(name, metadata)| Protocol { name, metadata });
    prop::collection::vec(protocol, 0..3)
}

fn consumers() -> impl Strategy<Value = StoredConsumer> {
    let optional = [(); 4].map(|()| prop::option::of(texts()));
    let classic = (any::<i32>(), protocols());
    (
        optional,
        texts(),
        prop::collection::vec(texts(), 0..4),
        any::<i32>(),
        prop::option::of(classic),
    )
        .prop_map(
            |(optional, client_id, names, rebalance_timeout_ms, classic)| {
                let [instance_id, rack_id, pattern, assignor] = optional;
                StoredConsumer {
                    instance_id,
                    rack_id,
                    client_host: format!("/{client_id}"),
                    client_id,
                    names,
                    pattern,
                    rebalance_timeout_ms,
                    assignor,
                    classic: classic.map(|(session_timeout_ms, protocols)| StoredClassic {
                        session_timeout_ms,
                        protocols,
                    }),
                }
            },
        )
}

fn currents() -> impl Strategy<Value = StoredCurrent> {
    let states = prop::sample::select(vec![
        MemberState::Stable,
        MemberState::UnrevokedPartitions,
        MemberState::UnreleasedPartitions,
        MemberState::Unknown,
    ]);
    (any::<[i32; 2]>(), states, partitions(), partitions()).prop_map(
        |([epoch, previous_epoch], state, assigned, revoking)| StoredCurrent {
            epoch,
            previous_epoch,
            state,
            assigned,
            revoking,
        },
    )
}

fn consumer_parts() -> impl Strategy<Value = (ConsumerPart, ConsumerValue)> {
    let patterns = (prop::collection::vec(texts(), 0..4), any::<[i64; 2]>());
    prop_oneof![
        (any::<i32>(), any::<i64>()).prop_map(|(epoch, metadata_hash)| {
            let value = ConsumerValue::Group {
                epoch,
                metadata_hash,
            };
            (ConsumerPart::Group, value)
        }),
        (texts(), consumers())
            .prop_map(|(id, v)| (ConsumerPart::Member(id), ConsumerValue::Member(v))),
        any::<i32>().prop_map(|epoch| (ConsumerPart::Target, ConsumerValue::Target { epoch })),
        (texts(), partitions()).prop_map(|(id, v)| (
            ConsumerPart::TargetMember(id),
            ConsumerValue::TargetMember(v)
        )),
        (texts(), currents())
            .prop_map(|(id, v)| (ConsumerPart::Current(id), ConsumerValue::Current(v))),
        (texts(), patterns).prop_map(|(pattern, (topics, [version, timestamp_ms]))| {
            let value = StoredPattern {
                topics,
                version,
                timestamp_ms,
            };
            (
                ConsumerPart::Pattern(pattern),
                ConsumerValue::Pattern(value),
            )
        }),
    ]
}

fn named_partitions() -> impl Strategy<Value = StoredPartitions> {
    let numbers = prop::collection::btree_set(0..=i32::MAX.unsigned_abs(), 1..4);
    let topic = any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)));
    prop::collection::btree_map(topic, (texts(), numbers), 0..4)
}

fn states() -> impl Strategy<Value = StoredStates> {
    let topic = any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)));
    let deleting = prop::collection::btree_map(topic, texts(), 0..4);
    (named_partitions(), named_partitions(), deleting).prop_map(
        |(initializing, initialized, deleting)| StoredStates {
            initializing,
            initialized,
            deleting,
        },
    )
}

fn share_members() -> impl Strategy<Value = StoredShareMember> {
    let names = prop::collection::vec(texts(), 0..4);
    (prop::option::of(texts()), texts(), names).prop_map(|(rack_id, client_id, names)| {
        StoredShareMember {
            rack_id,
            client_host: format!("/{client_id}"),
            client_id,
            names,
        }
    })
}

fn share_parts() -> impl Strategy<Value = (SharePart, ShareValue)> {
    let current = |(id, [epoch, previous_epoch], assigned): (String, [i32; 2], _)| {
        let value = StoredShareCurrent {
            epoch,
            previous_epoch,
            assigned,
        };
        (SharePart::Current(id), ShareValue::Current(value))
    };
    prop_oneof![
        (texts(), share_members())
            .prop_map(|(id, v)| (SharePart::Member(id), ShareValue::Member(v))),
        (any::<i32>(), any::<i64>()).prop_map(|(epoch, metadata_hash)| {
            let value = ShareValue::Group {
                epoch,
                metadata_hash,
            };
            (SharePart::Group, value)
        }),
        any::<i32>().prop_map(|epoch| (SharePart::Target, ShareValue::Target { epoch })),
        (texts(), partitions())
            .prop_map(|(id, v)| (SharePart::TargetMember(id), ShareValue::TargetMember(v))),
        (texts(), any::<[i32; 2]>(), partitions()).prop_map(current),
        states().prop_map(|v| (SharePart::States, ShareValue::States(v))),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(record in records()) {
        let (key, value) = record.encode();
        prop_assert_eq!(GroupRecord::decode(&key, value.as_deref()), Ok(Some(record)));
    }

    #[test]
    fn no_bytes_make_it_panic(
        key in prop::collection::vec(any::<u8>(), 0..40),
        kind in 0_u8..18,
        value in prop::collection::vec(any::<u8>(), 0..200),
        version in 0_u8..6,
    ) {
        let _ = GroupRecord::decode(&key, Some(&value));
        let key = [&[0, kind], key.as_slice()].concat();
        let value = [&[0, version], value.as_slice()].concat();
        let _ = GroupRecord::decode(&key, Some(&value));
    }

    #[test]
    fn every_truncation_is_an_error(record in records()) {
        let (key, value) = record.encode();
        for cut in 0..key.len() {
            prop_assert!(GroupRecord::decode(&key[..cut], value.as_deref()).is_err());
        }
        let Some(value) = value else { return Ok(()) };
        for cut in 0..value.len() {
            prop_assert!(GroupRecord::decode(&key, Some(&value[..cut])).is_err());
        }
    }
}

/// The bytes that Kafka's own formatter shows for these fields.
#[test]
fn the_layout_is_kafkas() {
    let partition = TopicPartition {
        topic: TopicName::new("t").expect("legal"),
        partition: 3,
    };
    let key = Key::Offset {
        group: "g".into(),
        partition,
    };
    let committed = CommittedOffset {
        offset: 7,
        leader_epoch: 0,
        metadata: "m".into(),
        commit_ms: 9,
        expire_ms: None,
    };
    let (key, value) = GroupRecord::Offset(key, Some(committed)).encode();
    assert_eq!(key[..], [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
    let expected = [
        0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, b'm', 0, 0, 0, 0, 0, 0, 0, 9,
    ];
    assert_eq!(value.expect("a value")[..], expected);
}

#[test]
fn old_and_new_versions_of_an_offset_are_read() {
    let key = [0, 0, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3];
    let read = |value: &[u8]| match GroupRecord::decode(&key, Some(value)) {
        Ok(Some(GroupRecord::Offset(_, Some(committed)))) => committed,
        other => panic!("{other:?}"),
    };
    let time = [0, 0, 0, 0, 0, 0, 0, 9];
    let v1 = [
        &[0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0][..],
        &time,
        &[0, 0, 0, 0, 0, 0, 0, 11],
    ]
    .concat();
    assert_eq!((read(&v1).offset, read(&v1).expire_ms), (7, Some(11)));
    // Version 4 carries the topic's id in tagged field 0.
    let id = [&[1, 0, 16][..], &[0xab; 16]].concat();
    let v4 = [
        &[0, 4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 2, b'm'][..],
        &time,
        &id,
    ]
    .concat();
    assert_eq!(
        (read(&v4).leader_epoch, read(&v4).metadata.as_str()),
        (5, "m")
    );
}

#[test]
fn unknown_kinds_are_skipped() {
    assert_eq!(GroupRecord::decode(&[0, 4, 0, 1, b'g'], None), Ok(None));
    assert_eq!(GroupRecord::decode(&[0, 99, 0, 1, b'g'], None), Ok(None));
}

#[test]
fn the_layout_of_consumer_groups_is_kafkas() {
    let key = |part| Key::Consumer {
        group: "g".into(),
        part,
    };
    let group = ConsumerValue::Group {
        epoch: 5,
        metadata_hash: 0,
    };
    let (bytes, value) = GroupRecord::Consumer(key(ConsumerPart::Group), Some(group)).encode();
    assert_eq!(bytes[..], [0, 3, 0, 1, b'g']);
    assert_eq!(value.expect("a value")[..], [0, 0, 0, 0, 0, 5, 0]);
    let current = StoredCurrent {
        epoch: 2,
        previous_epoch: 1,
        state: MemberState::UnrevokedPartitions,
        assigned: TopicPartitions::from([(TopicId(uuid::Uuid::nil()), [7].into())]),
        revoking: TopicPartitions::new(),
    };
    let part = ConsumerPart::Current("m".into());
    let record = GroupRecord::Consumer(key(part), Some(ConsumerValue::Current(current)));
    let (bytes, value) = record.encode();
    assert_eq!(bytes[..], [0, 8, 0, 1, b'g', 0, 1, b'm']);
    let numbers = [0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1];
    let assigned = [&[2][..], &[0; 16], &[2, 0, 0, 0, 7, 0]].concat();
    let expected = [&numbers[..], &assigned, &[1, 0]].concat();
    assert_eq!(value.expect("a value")[..], expected[..]);
}

#[test]
fn the_layout_of_share_groups_is_kafkas() {
    let encoded = |part, value| {
        let key = Key::Share {
            group: "g".into(),
            part,
        };
        let (key, value) = GroupRecord::Share(key, Some(value)).encode();
        (key.to_vec(), value.expect("a value").to_vec())
    };
    let of = |kind: u8, member: &[u8]| [&[0, kind, 0, 1, b'g'], member].concat();
    let topic = TopicId(uuid::Uuid::nil());

    let member = StoredShareMember {
        rack_id: None,
        client_id: "c".into(),
        client_host: "h".into(),
        names: vec!["t".into()],
    };
    let (key, value) = encoded(SharePart::Member("m".into()), ShareValue::Member(member));
    assert_eq!(key, of(10, &[0, 1, b'm']));
    assert_eq!(value, [0, 0, 0, 2, b'c', 2, b'h', 2, 2, b't', 0]);

    let group = ShareValue::Group {
        epoch: 5,
        metadata_hash: 0,
    };
    let (key, value) = encoded(SharePart::Group, group);
    assert_eq!(key, of(11, &[]));
    assert_eq!(value, [0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

    let (key, value) = encoded(SharePart::Target, ShareValue::Target { epoch: 5 });
    assert_eq!((key, value), (of(12, &[]), vec![0, 0, 0, 0, 0, 5, 0]));

    let all = TopicPartitions::from([(topic, [7].into())]);
    let assigned = [&[2][..], &[0; 16], &[2, 0, 0, 0, 7, 0]].concat();
    let target = ShareValue::TargetMember(all.clone());
    let (key, value) = encoded(SharePart::TargetMember("m".into()), target);
    assert_eq!(key, of(13, &[0, 1, b'm']));
    assert_eq!(value, [&[0, 0][..], &assigned, &[0]].concat());

    let current = ShareValue::Current(StoredShareCurrent {
        epoch: 2,
        previous_epoch: 1,
        assigned: all,
    });
    let (key, value) = encoded(SharePart::Current("m".into()), current);
    assert_eq!(key, of(14, &[0, 1, b'm']));
    let numbers = [0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0];
    assert_eq!(value, [&numbers[..], &assigned, &[0]].concat());

    let states = ShareValue::States(StoredStates {
        initializing: StoredPartitions::new(),
        initialized: StoredPartitions::from([(topic, ("t".into(), [7].into()))]),
        deleting: [(topic, "u".into())].into(),
    });
    let (key, value) = encoded(SharePart::States, states);
    assert_eq!(key, of(15, &[]));
    let initialized = [&[2][..], &[0; 16], &[2, b't', 2, 0, 0, 0, 7, 0]].concat();
    let deleting = [&[2][..], &[0; 16], &[2, b'u', 0]].concat();
    let expected = [&[0, 0, 1][..], &initialized, &deleting, &[0]].concat();
    assert_eq!(value, expected);
}

/// Kafka 4.2 writes the epochs at which partitions were assigned.
#[test]
fn fields_of_newer_brokers_are_skipped() {
    let key = [0, 8, 0, 1, b'g', 0, 1, b'm'];
    let numbers = [0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0];
    let epochs = [1, 0, 5, 2, 0, 0, 0, 2];
    let assigned = [&[2][..], &[0; 16], &[2, 0, 0, 0, 7], &epochs].concat();
    let value = [&numbers[..], &assigned, &[1, 0]].concat();
    let read = GroupRecord::decode(&key, Some(&value));
    let Ok(Some(GroupRecord::Consumer(_, Some(ConsumerValue::Current(current))))) = read else {
        panic!("{read:?}");
    };
    let expected = TopicPartitions::from([(TopicId(uuid::Uuid::nil()), [7].into())]);
    assert_eq!(current.assigned, expected);
}
