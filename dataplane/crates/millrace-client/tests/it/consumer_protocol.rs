//! Members of a group whose coordinator assigns (KIP-848).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_client::{
    BoxFuture, Client, Compression, Consumer, ConsumerConfig, ConsumerError, TopicPartition,
    consumer::{AutoCommit, GroupProtocol, OffsetReset, RebalanceListener},
};
use millrace_time::SeededRandom;
use millrace_wire::error_code::ErrorCode;
use tokio::sync::mpsc;

use crate::{group::GroupFault, logs::Logs};

const PARTITIONS: i32 = 6;
const RECORDS: usize = 20;
/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a listener is told: assigned or revoked, and which partitions.
type Events = mpsc::UnboundedReceiver<(bool, Vec<i32>)>;

struct Listener {
    told: mpsc::UnboundedSender<(bool, Vec<i32>)>,
    /// How long it takes.
    assigning: Duration,
    revoking: Duration,
}

impl RebalanceListener for Listener {
    fn on_assigned<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        self.tell(true, partitions)
    }

    fn on_revoked<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        self.tell(false, partitions)
    }
}

impl Listener {
    fn tell<'a>(
        &'a self,
        is_assigned: bool,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()> {
        let mut numbers: Vec<_> = partitions.iter().map(|name| name.partition).collect();
        numbers.sort_unstable();
        drop(self.told.send((is_assigned, numbers)));
        let takes = if is_assigned {
            self.assigning
        } else {
            self.revoking
        };
        Box::pin(tokio::time::sleep(takes))
    }
}

fn logs() -> Arc<Logs> {
    let logs = Logs::new(1, PARTITIONS);
    logs.offer_consumer_protocol();
    for partition in 0..PARTITIONS {
        append(&logs, partition, 0);
    }
    logs
}

/// Appends records to a partition: their numbers from `from` on, each in a batch of its own.
fn append(logs: &Logs, partition: i32, from: usize) {
    for number in from..from + RECORDS {
        let value = format!("{partition} {number}");
        logs.append(partition, &[&value], Compression::None);
    }
}

fn member(logs: &Arc<Logs>, change: impl FnOnce(&mut ConsumerConfig)) -> (Consumer, Events) {
    slow_member(logs, [Duration::ZERO; 2], change)
}

/// A member whose listener takes so long to be assigned partitions, and to give them up.
fn slow_member(
    logs: &Arc<Logs>,
    [assigning, revoking]: [Duration; 2],
    change: impl FnOnce(&mut ConsumerConfig),
) -> (Consumer, Events) {
    let mut config = ConsumerConfig::in_group("g");
    config.group_protocol = GroupProtocol::Consumer;
    config.auto_offset_reset = OffsetReset::Earliest;
    config.auto_commit = AutoCommit::WhenProcessed;
    change(&mut config);
    let mut client = logs.config();
    // Each member draws an id of its own.
    client.random = SeededRandom::shared(logs.group().heartbeats.len() as u64);
    let consumer = Consumer::new(&Client::new(client), config);
    let (told, events) = mpsc::unbounded_channel();
    consumer
        .subscribe_with(
            &["t"],
            Listener {
                told,
                assigning,
                revoking,
            },
        )
        .expect("a group");
    (consumer, events)
}

async fn settled(members: &[(&Consumer, usize)]) {
    let settled = async {
        while !members
            .iter()
            .all(|(one, count)| one.assignment().len() == *count)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled)
        .await
        .expect("in time");
}

/// Reads until nothing comes any more, and counts what was read.
async fn drain(consumer: &Consumer, seen: &mut BTreeMap<String, usize>) {
    let idle = Duration::from_secs(3);
    while let Ok(record) = tokio::time::timeout(idle, consumer.next()).await {
        let record = record.expect("a record");
        let text = std::str::from_utf8(record.value.as_deref().expect("a value")).expect("text");
        *seen.entry(text.to_owned()).or_default() += 1;
        consumer.processed(&record);
    }
}

#[tokio::test(start_paused = true)]
async fn the_coordinator_moves_partitions_between_members_and_nothing_is_lost_or_repeated() {
    let logs = logs();
    let mut seen = BTreeMap::new();
    let (first, mut events) = member(&logs, |_| {});
    settled(&[(&first, 6)]).await;
    assert_eq!(events.recv().await, Some((true, (0..PARTITIONS).collect())));
    drain(&first, &mut seen).await;
    let (second, mut others) = member(&logs, |_| {});
    settled(&[(&first, 3), (&second, 3)]).await;
    // Only what moves is given up, and what was read of it is committed before.
    let (is_assigned, moved) = events.recv().await.expect("told");
    assert!(!is_assigned && moved.len() == 3, "{moved:?}");
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let (is_assigned, partitions) = others.recv().await.expect("told");
        assert!(is_assigned);
        taken.extend(partitions);
    }
    taken.sort_unstable();
    assert_eq!(taken, moved);
    (0..PARTITIONS).for_each(|partition| append(&logs, partition, RECORDS));
    drain(&first, &mut seen).await;
    drain(&second, &mut seen).await;
    second.close().await.expect("committed");
    settled(&[(&first, 6)]).await;
    (0..PARTITIONS).for_each(|partition| append(&logs, partition, 2 * RECORDS));
    drain(&first, &mut seen).await;
    first.close().await.expect("committed");
    assert_eq!(seen.len(), 3 * RECORDS * 6);
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert_eq!(logs.group().committed(), [60; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_fenced_or_forgotten_loses_its_partitions_and_joins_again() {
    let logs = logs();
    let (consumer, mut events) = member(&logs, |_| {});
    settled(&[(&consumer, 6)]).await;
    let mut seen = BTreeMap::new();
    drain(&consumer, &mut seen).await;
    consumer.commit().await.expect("a member");
    let id = logs.group().heartbeats[0].member_id.clone();
    logs.group().script([GroupFault::Forget]);
    for expected in [true, false, true] {
        let (is_assigned, partitions) = events.recv().await.expect("told");
        assert_eq!((is_assigned, partitions.len()), (expected, 6));
    }
    let is_same = |heartbeats: &[millrace_wire::messages::ConsumerGroupHeartbeatRequest]| {
        heartbeats.iter().all(|one| one.member_id == id)
    };
    assert!(is_same(&logs.group().heartbeats), "the id stays the same");
    drain(&consumer, &mut seen).await;
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_name_what_changed_and_everything_after_one_without_an_answer() {
    let logs = logs();
    let (consumer, _events) = member(&logs, |config| {
        config.group_remote_assignor = Some("uniform".to_owned());
    });
    settled(&[(&consumer, 6)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let names_all = |at: usize| {
        let group = logs.group();
        let one = &group.heartbeats[at];
        let parts = [
            one.subscribed_topic_names.is_some(),
            one.topic_partitions.is_some(),
            one.server_assignor.is_some(),
            one.rebalance_timeout_ms > 0,
        ];
        assert!(parts[2] == parts[3] && parts[0] == parts[3], "{one:?}");
        (parts[0], parts[1])
    };
    let count = || logs.group().heartbeats.len();
    assert_eq!(names_all(0), (true, true), "joins");
    assert_eq!(names_all(1), (false, true), "has taken over its partitions");
    assert!(count() > 5, "at the coordinator's interval");
    assert_eq!(names_all(count() - 1), (false, false));
    let before = count();
    logs.group().script([GroupFault::Cut]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(names_all(before), (false, false), "has no answer");
    assert_eq!(names_all(before + 1), (true, true));
    assert_eq!(names_all(count() - 1), (false, false));
    assert_eq!(consumer.assignment().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_an_old_epoch_or_before_the_end_of_a_rebalance_is_tried_again() {
    let logs = logs();
    let (consumer, _events) = member(&logs, |config| {
        // Nobody else commits.
        config.auto_commit_interval = Duration::from_hours(1);
    });
    settled(&[(&consumer, 6)]).await;
    drain(&consumer, &mut BTreeMap::new()).await;
    let codes = [
        ErrorCode::StaleMemberEpoch,
        ErrorCode::RebalanceInProgress,
        ErrorCode::StaleMemberEpoch,
        ErrorCode::RebalanceInProgress,
    ];
    logs.group().refused_commits.extend(codes);
    consumer.commit().await.expect("the last one");
    assert_eq!(logs.group().committed(), [20; 6]);
    // A rebalance may take long, while this member keeps its partitions.
    append(&logs, 0, RECORDS);
    drain(&consumer, &mut BTreeMap::new()).await;
    let codes = [ErrorCode::RebalanceInProgress; 15];
    logs.group().refused_commits.extend(codes);
    consumer.commit().await.expect("after the rebalance");
    assert_eq!(logs.group().committed()[0], 40);
    // But a rebalance that does not end is told.
    append(&logs, 0, RECORDS);
    drain(&consumer, &mut BTreeMap::new()).await;
    let codes = [ErrorCode::RebalanceInProgress; 100];
    logs.group().refused_commits.extend(codes);
    let refused = consumer.commit().await;
    assert!(
        matches!(refused, Err(ConsumerError::Rebalanced(_))),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_static_member_leaves_for_a_while() {
    let logs = logs();
    let (consumer, _events) = member(&logs, |config| {
        config.group_instance_id = Some("one".to_owned());
    });
    settled(&[(&consumer, 6)]).await;
    consumer.close().await.expect("committed");
    let last = logs.group().heartbeats.last().cloned().expect("heartbeats");
    assert_eq!(last.member_epoch, -2);
    assert_eq!(last.instance_id.as_deref(), Some("one"));
}

async fn uses_the_classic_protocol(logs: &Arc<Logs>) {
    let (_consumer, _events) = member(logs, |_| {});
    let joined = async {
        while logs.joins() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let joined = tokio::time::timeout(PATIENCE, joined).await;
    joined.expect("a JoinGroup");
}

#[tokio::test(start_paused = true)]
async fn where_the_coordinator_does_not_offer_the_protocol_the_classic_one_is_used() {
    let logs = Logs::new(1, PARTITIONS);
    uses_the_classic_protocol(&logs).await;
    assert!(logs.group().heartbeats.is_empty());
}

/// As Kafka 3.7 does by default.
#[tokio::test(start_paused = true)]
async fn where_the_coordinator_names_the_protocol_and_refuses_it_the_classic_one_is_used() {
    let logs = logs();
    logs.group().script([GroupFault::Refuse]);
    uses_the_classic_protocol(&logs).await;
    assert_eq!(logs.group().heartbeats.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_partition_before_the_member_that_gives_it_up_is_done_with_it() {
    let takes = Duration::from_secs(5);
    let logs = logs();
    let (first, mut events) = slow_member(&logs, [Duration::ZERO, takes], |_| {});
    settled(&[(&first, 6)]).await;
    let (second, mut others) = member(&logs, |_| {});
    while events.recv().await.expect("told").0 {}
    #[expect(clippy::disallowed_methods, reason = "a test's clock")]
    let begun = tokio::time::Instant::now();
    while others.recv().await.expect("told").1.is_empty() {}
    assert!(begun.elapsed() >= takes, "after {:?}", begun.elapsed());
    settled(&[(&first, 3), (&second, 3)]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_member_was_told_to_take_does_not_count_once_it_is_fenced() {
    let logs = logs();
    let (first, _events) = slow_member(&logs, [Duration::from_secs(5), Duration::ZERO], |_| {});
    settled(&[(&first, 6)]).await;
    // While it takes over everything, it is told to give up a half, and then that it is no member.
    let (second, _others) = member(&logs, |_| {});
    tokio::time::sleep(Duration::from_secs(1)).await;
    logs.group().script([GroupFault::Forget; 6]);
    settled(&[(&first, 3), (&second, 3)]).await;
    let group = logs.group();
    let joins = group.heartbeats.iter().filter(|one| one.member_epoch == 0);
    let owned = joins.filter_map(|one| one.topic_partitions.as_deref());
    assert!(owned.clone().count() > 2);
    assert!(owned.clone().all(<[_]>::is_empty));
}

#[tokio::test(start_paused = true)]
async fn an_assignment_survives_a_metadata_request_that_fails() {
    let logs = logs();
    logs.refuse_metadata(1);
    let (consumer, _events) = member(&logs, |_| {});
    settled(&[(&consumer, 6)]).await;
}
