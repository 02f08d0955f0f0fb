//! Records that are sound one by one in an order that no coordinator has written, and records that are damaged: a log is
//! loaded, or the record is refused, and what is loaded can be used.

use std::{sync::Arc, time::Duration};

use millrace_record::Record;

use super::*;
use crate::{
    group::{Group, GroupGround},
    kept::{Found, Kept, Now},
    topics::memory::MemoryTopics,
};

const GROUPS: [&str; 2] = ["g", "h"];
const NOW: Now = Now {
    at: Duration::from_secs(1_000),
    ms: 1_800_000_000_000,
};
/// Longer than any session or expiry.
const LATER: Now = Now {
    at: Duration::from_secs(100_000_000),
    ms: 1_900_000_000_000,
};

/// The same for one of few groups, so that records meet.
fn of_group(record: GroupRecord, group: &str) -> GroupRecord {
    let group = group.to_owned();
    match record {
        GroupRecord::Offset(Key::Offset { partition, .. }, value) => {
            GroupRecord::Offset(Key::Offset { group, partition }, value)
        }
        GroupRecord::Consumer(Key::Consumer { part, .. }, value) => {
            GroupRecord::Consumer(Key::Consumer { group, part }, value)
        }
        GroupRecord::Group(_, value) => GroupRecord::Group(Key::Group { group }, value),
        other => other,
    }
}

fn record((key, value): (Bytes, Option<Bytes>)) -> Record {
    Record {
        offset: 0,
        timestamp: 0,
        key: Some(key),
        value,
        headers: Vec::new(),
    }
}

/// What a log may say next.
fn found() -> impl Strategy<Value = Found> {
    let producers = (0..3_i64, 0..2_i16);
    let records = || {
        (records(), prop::sample::select(&GROUPS[..]))
            .prop_map(|(one, group)| record(of_group(one, group).encode()))
    };
    prop_oneof![
        4 => records().prop_map(|one| Found::Record(None, one)),
        2 => (producers.clone(), records()).prop_map(|(by, one)| Found::Record(Some(by), one)),
        1 => records().prop_map(Found::Copy),
        1 => (producers, any::<bool>()).prop_map(|(by, committed)| Found::End(by, committed)),
    ]
}

/// Loads what was found and lives through what follows: alarms, writes, the next load of what is durable.
fn live(log: Vec<Found>) {
    let ground = Arc::new(GroupGround {
        config: Arc::default(),
        topics: MemoryTopics::with(&[("t", 3)]),
    });
    let mut loading = <Group as Kept>::Loading::default();
    for one in log {
        let _ = Group::load(&mut loading, one);
    }
    for mut group in Group::loaded(loading, &ground, NOW) {
        let _ = (
            group.memory_bytes(),
            group.wake_at(),
            group.open_transactions(),
        );
        let count: usize = group
            .durable()
            .into_iter()
            .map(|one| one.into_parts().1.len())
            .sum();
        assert_eq!(count, Kept::durable_count(&group));
        let mut again = <Group as Kept>::Loading::default();
        for written in Kept::durable(&group) {
            let (producer, records) = written.into_parts();
            for one in records {
                let found = Found::Record(producer, record(one));
                Group::load(&mut again, found).expect("what a group writes is read");
            }
        }
        let again = Group::loaded(again, &ground, NOW);
        assert_eq!(again.len(), usize::from(count > 0));
        group.expire(NOW);
        group.expire(LATER);
        for (_, outcome) in group.take_writes() {
            group.apply(outcome, Ok(()), LATER);
        }
        group.transaction_ended((0, 1), true);
        group.end_if_nothing(LATER);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn damaged_order_of_a_log_is_lived_with(log in prop::collection::vec(found(), 1..24)) {
        live(log);
    }

    #[test]
    fn damaged_records_are_refused_or_lived_with(
        log in prop::collection::vec((records(), prop::sample::select(&GROUPS[..])), 1..8),
        damages in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>()),
            1..4,
        ),
    ) {
        let encoded = |(one, group): (GroupRecord, &str)| of_group(one, group).encode();
        let mut log: Vec<_> = log.into_iter().map(encoded).collect();
        for (which, at, byte, is_key) in damages {
            let which = which.index(log.len());
            let (key, value) = &mut log[which];
            let damaged = match value {
                Some(value) if !is_key => value,
                _ => key,
            };
            let mut bytes = damaged.to_vec();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            *damaged = bytes.into();
        }
        live(log.into_iter().map(|one| Found::Record(None, record(one))).collect());
    }
}

/// `PROPTEST_CASES` asks for another number.
fn cases() -> u32 {
    const CASES: u32 = 1_000;
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return ProptestConfig::default().cases;
    }
    CASES
}
