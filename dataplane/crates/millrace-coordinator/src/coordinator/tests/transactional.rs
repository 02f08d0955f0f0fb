//! Offsets that are committed in transactions.

use std::collections::BTreeMap;

use millrace_record::header_of;
use proptest::{prelude::*, test_runner::TestCaseError};

use super::*;
use crate::messages::TransactionalCommit;

const PRODUCER: (i64, i16) = (7, 3);

fn commit_of(producer: (i64, i16), topic: &str, offset: i64) -> TransactionalCommit {
    TransactionalCommit {
        producer,
        caller: nobody(),
        offsets: vec![(partition(topic), at(offset))],
    }
}

fn marker(producer: (i64, i16), committed: bool) -> TransactionMarker {
    TransactionMarker {
        producer_id: producer.0,
        producer_epoch: producer.1,
        coordinator_epoch: 1,
        committed,
        transaction_version: 1,
    }
}

impl World {
    fn begin(&self, group: &str, topic: &str, offset: i64) -> Waiting<()> {
        let token = self.coordinator.transactional_token(group).expect("served");
        let commit = commit_of(PRODUCER, topic, offset);
        self.coordinator.commit_transactional(group, token, commit)
    }

    async fn end(&self, committed: bool) {
        let marker = marker(PRODUCER, committed);
        let written = self.coordinator.write_marker(0, marker).await;
        written.expect("durable");
    }

    async fn plain(&self, topic: &str, offset: i64) {
        let offsets = vec![(partition(topic), at(offset))];
        let committed = self.coordinator.commit("g", &nobody(), offsets).await;
        committed.expect("durable");
    }

    fn committed(&self, topic: &str) -> Option<i64> {
        let offsets = self.coordinator.offsets("g", &[partition(topic)]);
        let committed = offsets.expect("served").remove(0);
        committed.map(|committed| committed.offset)
    }

    fn is_pending(&self, topic: &str) -> bool {
        let stable = self.coordinator.stable_offset("g", &partition(topic));
        let pending = stable.map(|stable| stable == StableOffset::Unstable);
        pending.expect("served")
    }

    async fn reloaded(self) -> Self {
        self.coordinator.close().await;
        open(&self.topic, GroupConfig::default()).await
    }
}

#[tokio::test]
async fn an_offset_in_a_transaction_counts_once_it_is_committed() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        world.plain("t", 1).await;
        world.begin("g", "t", 5).await.expect("durable");
        if is_reloaded {
            world = world.reloaded().await;
        }
        assert_eq!(world.committed("t"), Some(1));
        assert!(world.is_pending("t") && !world.is_pending("u"));
        world.end(true).await;
        assert_eq!(world.committed("t"), Some(5));
        assert!(!world.is_pending("t"));
        assert_eq!(world.reloaded().await.committed("t"), Some(5));
    }
}

#[tokio::test]
async fn an_offset_in_an_aborted_transaction_never_counts_and_costs_nothing_more() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        world.plain("t", 1).await;
        let before = world.coordinator.memory_bytes();
        world.begin("g", "t", 5).await.expect("durable");
        world.begin("g", "u", 5).await.expect("durable");
        assert!(world.coordinator.memory_bytes() > before);
        if is_reloaded {
            world = world.reloaded().await;
        }
        world.end(false).await;
        assert!(!world.is_pending("t"));
        assert_eq!(world.coordinator.memory_bytes(), before);
        let again = world.reloaded().await;
        assert_eq!(again.committed("t"), Some(1));
        assert_eq!(again.committed("u"), None);
    }
}

#[tokio::test]
async fn commits_are_transactional_batches_of_their_producer() {
    let world = ready(1, GroupConfig::default()).await;
    world.begin("g", "t", 5).await.expect("durable");
    world.plain("t", 6).await;
    let batches = world.topic.logs[0].batches();
    let first = header_of(&batches[0]).expect("sound");
    assert!(first.is_transactional() && !first.is_control());
    let producer = (first.producer_id, first.producer_epoch);
    assert_eq!((producer, first.base_sequence), (PRODUCER, -1));
    let second = header_of(&batches[1]).expect("sound");
    assert!(!second.is_transactional() && second.producer_id == -1);
}

#[tokio::test]
async fn the_later_commit_of_two_wins_by_their_order_in_the_log() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        world.begin("g", "t", 5).await.expect("durable");
        world.plain("t", 6).await;
        world.plain("u", 6).await;
        world.begin("g", "u", 5).await.expect("durable");
        if is_reloaded {
            world = world.reloaded().await;
        }
        world.end(true).await;
        assert_eq!(
            (world.committed("t"), world.committed("u")),
            (Some(6), Some(5))
        );
    }
}

/// A marker ends what is before it in the log, also where that is not durable yet.
#[tokio::test]
async fn a_marker_ends_the_commits_that_were_taken_before_it() {
    let world = ready(1, GroupConfig::default()).await;
    world.topic.logs[0].durable.send_replace(false);
    let commit = world.begin("g", "t", 5);
    let ended = world.coordinator.write_marker(0, marker(PRODUCER, true));
    let next = world.begin("g", "t", 8);
    world.topic.logs[0].durable.send_replace(true);
    assert_eq!(
        (commit.await, ended.await, next.await),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(world.committed("t"), Some(5));
    assert!(world.is_pending("t"));
    world.end(false).await;
    assert_eq!(world.committed("t"), Some(5));
}

#[tokio::test]
async fn a_commit_whose_transaction_ended_since_its_token_is_refused() {
    let world = ready(1, GroupConfig::default()).await;
    let token = world.coordinator.transactional_token("g").expect("served");
    let commit = |producer| {
        let commit = commit_of(producer, "t", 5);
        world.coordinator.commit_transactional("g", token, commit)
    };
    world.end(true).await;
    let refused = commit(PRODUCER).await;
    assert_eq!(refused, Err(GroupError::InvalidTransaction));
    assert_eq!(world.coordinator.list(), []);
    // Other producers' ends are no obstacle.
    assert_eq!(commit((8, 0)).await, Ok(()));
    // More ends than are remembered might have been anybody's.
    for other in 100..1_200 {
        let ended = world.coordinator.write_marker(0, marker((other, 0), true));
        ended.await.expect("durable");
    }
    let refused = commit((9, 0)).await;
    assert_eq!(refused, Err(GroupError::InvalidTransaction));
}

/// The shard that gave out the token saw a marker that the next one does not know of.
#[tokio::test]
async fn a_token_does_not_outlive_its_shard() {
    let topic = MemoryTopic::new(1);
    topic.create_elsewhere();
    let world = open(&topic, GroupConfig::default()).await;
    let served = async || {
        topic.gain(0);
        while world.coordinator.transactional_token("g").is_err() {
            tokio::task::yield_now().await;
        }
    };
    served().await;
    let token = world.coordinator.transactional_token("g").expect("served");
    world.end(true).await;
    topic.lose(0);
    while world.coordinator.transactional_token("g").is_ok() {
        tokio::task::yield_now().await;
    }
    served().await;
    let commit = commit_of(PRODUCER, "t", 5);
    let refused = world.coordinator.commit_transactional("g", token, commit);
    assert_eq!(refused.await, Err(GroupError::InvalidTransaction));
}

#[tokio::test]
async fn a_rewritten_log_holds_open_transactions() {
    let config = GroupConfig {
        rewrite_after_records: 20,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    world.begin("g", "t", 5).await.expect("durable");
    for offset in 0..100 {
        world.plain("u", offset).await;
    }
    let log = &world.topic.logs[0];
    assert!(log.records() < 50, "{} records", log.records());
    let world = world.reloaded().await;
    assert_eq!(world.committed("t"), None);
    assert!(world.is_pending("t"));
    world.end(true).await;
    assert_eq!(
        (world.committed("t"), world.committed("u")),
        (Some(5), Some(99))
    );
}

/// The copy of the offset before superseded the one in the transaction, whose own copy was lost.
#[tokio::test]
async fn a_rewrite_that_was_cut_short_takes_nothing_back() {
    let config = GroupConfig {
        rewrite_after_records: 20,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    world.plain("t", 1).await;
    world.begin("g", "t", 5).await.expect("durable");
    world.topic.logs[0].keep_all.store(true, Ordering::SeqCst);
    for offset in 0..30 {
        world.plain("u", offset).await;
    }
    world.coordinator.close().await;
    let log = &world.topic.logs[0];
    let batches = log.batches();
    let mut headers = { batches.iter().rev() }.map(|batch| header_of(batch).expect("sound"));
    let pending = headers.find(|header| header.is_transactional());
    let pending = pending.expect("copied").base_offset;
    assert!(pending > 20, "it was not rewritten");
    log.truncate(u64::try_from(pending).expect("an offset"));
    let world = open(&world.topic, GroupConfig::default()).await;
    assert!(world.is_pending("t"));
    assert_eq!(world.committed("t"), Some(1));
    world.end(true).await;
    assert_eq!(world.committed("t"), Some(5));
}

/// The partition remembers aborted transactions until they are trimmed, and takes a bounded number.
#[tokio::test]
async fn a_log_is_rewritten_after_many_aborts() {
    let mut world = ready(1, GroupConfig::default()).await;
    for aborts in 1..=crate::writer::ABORTS_MAX {
        world.end(false).await;
        if aborts == 10 {
            world = world.reloaded().await;
        }
    }
    world.plain("t", 1).await;
    let records = world.topic.logs[0].records();
    assert!(records < 10, "{records} records");
}

/// Offsets that came back with a later commit of the transaction would tell the consumers of a new topic with the same
/// name to begin in the middle.
#[tokio::test]
async fn offsets_in_deleted_topics_are_not_committed_later() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        world.begin("g", "t", 5).await.expect("durable");
        world.begin("g", "u", 5).await.expect("durable");
        let gone = BTreeSet::from([partition("t").topic]);
        world.coordinator.topics_deleted(&gone).await;
        assert!(!world.is_pending("t") && world.is_pending("u"));
        if is_reloaded {
            world = world.reloaded().await;
        }
        world.end(true).await;
        assert_eq!(
            (world.committed("t"), world.committed("u")),
            (None, Some(5))
        );
    }
}

#[tokio::test]
async fn deleted_offsets_are_not_committed_later() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        world.plain("u", 1).await;
        world.begin("g", "t", 5).await.expect("durable");
        let deleted = [partition("t"), partition("u")];
        let (subscribed, deleted) =
            { world.coordinator.delete_offsets("g", &deleted) }.expect("a group");
        assert!(subscribed.is_empty());
        deleted.await.expect("durable");
        if is_reloaded {
            world = world.reloaded().await;
        }
        world.end(true).await;
        assert_eq!((world.committed("t"), world.committed("u")), (None, None));
    }
}

#[tokio::test]
async fn a_deleted_group_takes_its_offsets_in_open_transactions_with_it() {
    for is_reloaded in [false, true] {
        let mut world = ready(1, GroupConfig::default()).await;
        let empty = world.coordinator.memory_bytes();
        world.begin("g", "t", 5).await.expect("durable");
        world.coordinator.delete("g").await.expect("no members");
        if is_reloaded {
            world = world.reloaded().await;
        }
        world.end(true).await;
        assert_eq!(world.coordinator.list(), []);
        assert_eq!(world.committed("t"), None);
        assert_eq!(world.coordinator.memory_bytes(), empty);
    }
}

#[tokio::test]
async fn neither_an_offset_nor_its_group_expires_before_its_transaction_ends() {
    let world = ready(1, GroupConfig::default()).await;
    world.plain("t", 1).await;
    world.plain("u", 1).await;
    world.begin("g", "t", 5).await.expect("durable");
    world
        .clock
        .advance(2 * GroupConfig::default().offsets_retention);
    let sweep = async |barrier: &str| {
        let shard = world.coordinator.0.partitions.serving().remove(0);
        shard
            .cells()
            .iter()
            .for_each(|cell| super::super::sweep(&shard, cell));
        let barrier = world.coordinator.commit(barrier, &nobody(), Vec::new());
        barrier.await.expect("an empty commit is finished in order");
    };
    sweep("first").await;
    sweep("second").await;
    assert_eq!(
        (world.committed("t"), world.committed("u")),
        (Some(1), None)
    );
    world.end(false).await;
    sweep("third").await;
    sweep("fourth").await;
    let described = world.coordinator.describe("g").map(drop);
    assert_eq!(described, Err(GroupError::GroupIdNotFound));
}

/// Producers did not tell which member commits before KIP-447.
#[tokio::test]
async fn members_are_checked_where_the_producer_tells_them() {
    let world = ready(1, GroupConfig::default()).await;
    let member = stable_member(&world.coordinator, "g").await;
    let commit = |caller: Caller| {
        let token = world.coordinator.transactional_token("g").expect("served");
        let commit = TransactionalCommit {
            caller,
            ..commit_of(PRODUCER, "t", 5)
        };
        world.coordinator.commit_transactional("g", token, commit)
    };
    assert_eq!(commit(nobody()).await, Ok(()));
    assert_eq!(commit(member.clone()).await, Ok(()));
    let zombie = Caller {
        generation: member.generation - 1,
        ..member.clone()
    };
    assert_eq!(commit(zombie).await, Err(GroupError::IllegalGeneration));
    let stranger = Caller {
        member_id: "x".into(),
        ..member.clone()
    };
    assert_eq!(commit(stranger).await, Err(GroupError::UnknownMemberId));
    // Between the join and the leader's assignment.
    let joined = world.coordinator.join(join_request("g", &member.member_id));
    let generation = joined.await.expect("alone").generation;
    let state = world.coordinator.describe("g").expect("a group").state;
    assert_eq!(state, GroupState::CompletingRebalance);
    let current = Caller {
        generation,
        ..member.clone()
    };
    assert_eq!(commit(current).await, Ok(()));
    assert_eq!(commit(member).await, Err(GroupError::IllegalGeneration));
}

/// What happens to the offsets of one group in three topics.
#[derive(Debug, Clone)]
enum Event {
    Plain(usize, i64),
    Begin(i64, usize, i64),
    End(i64, bool),
    TopicDeleted(usize),
    Reload,
}

const TOPICS: [&str; 3] = ["a", "b", "c"];

fn event() -> impl Strategy<Value = Event> {
    let (producer, topic, offset) = (0_i64..3, 0_usize..TOPICS.len(), 0_i64..1_000);
    prop_oneof![
        2 => (topic.clone(), offset.clone()).prop_map(|(t, o)| Event::Plain(t, o)),
        4 => (producer.clone(), topic.clone(), offset).prop_map(|(p, t, o)| Event::Begin(p, t, o)),
        3 => (producer, any::<bool>()).prop_map(|(p, committed)| Event::End(p, committed)),
        1 => topic.prop_map(Event::TopicDeleted),
        1 => Just(Event::Reload),
    ]
}

/// The offsets of a group, as the order of the log makes them.
#[derive(Debug, Default)]
struct Model {
    committed: BTreeMap<usize, i64>,
    pending: BTreeMap<i64, BTreeMap<usize, i64>>,
}

impl Model {
    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Plain(topic, offset) => {
                self.forget(topic);
                self.committed.insert(topic, offset);
            }
            Event::Begin(producer, topic, offset) => {
                let pending = self.pending.entry(producer).or_default();
                pending.insert(topic, offset);
            }
            Event::End(producer, committed) => {
                let pending = self.pending.remove(&producer).unwrap_or_default();
                if committed {
                    self.committed.extend(pending);
                }
            }
            Event::TopicDeleted(topic) => self.forget(topic),
            Event::Reload => {}
        }
    }

    fn forget(&mut self, topic: usize) {
        self.committed.remove(&topic);
        for pending in self.pending.values_mut() {
            pending.remove(&topic);
        }
    }
}

async fn follow_model(events: Vec<Event>) -> Result<(), TestCaseError> {
    let config = GroupConfig {
        rewrite_after_records: 5,
        ..GroupConfig::default()
    };
    let mut world = ready(1, config.clone()).await;
    let mut model = Model::default();
    for event in events {
        match event.clone() {
            Event::Plain(topic, offset) => world.plain(TOPICS[topic], offset).await,
            Event::Begin(producer, topic, offset) => {
                let token = world.coordinator.transactional_token("g").expect("served");
                let commit = commit_of((producer, 0), TOPICS[topic], offset);
                let committed = world.coordinator.commit_transactional("g", token, commit);
                committed.await.expect("durable");
            }
            Event::End(producer, committed) => {
                let marker = marker((producer, 0), committed);
                let ended = world.coordinator.write_marker(0, marker).await;
                ended.expect("durable");
            }
            Event::TopicDeleted(topic) => {
                let gone = BTreeSet::from([partition(TOPICS[topic]).topic]);
                world.coordinator.topics_deleted(&gone).await;
            }
            Event::Reload => {
                world.coordinator.close().await;
                world = open(&world.topic, config.clone()).await;
            }
        }
        model.apply(&event);
        for (topic, name) in TOPICS.iter().enumerate() {
            let committed = world.committed(name);
            prop_assert_eq!(committed, model.committed.get(&topic).copied());
            let mut pending = model.pending.values();
            let is_pending = pending.any(|offsets| offsets.contains_key(&topic));
            prop_assert_eq!(world.is_pending(name), is_pending);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn offsets_are_what_the_order_of_the_log_makes_them(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(follow_model(events))?;
    }
}
