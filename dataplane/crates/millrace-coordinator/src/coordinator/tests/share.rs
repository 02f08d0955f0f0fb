//! Share groups (KIP-932).

use std::collections::BTreeMap;

use millrace_model::{Offset, TopicId};
use tokio::sync::watch;

use super::*;
use crate::{
    SharePartition, ShareState, ShareStateError,
    config::SHARE_STATES_RETRY,
    log::BoxFuture,
    messages::{ConsumerHeartbeat, GroupKind, LEAVE_EPOCH, ShareHeartbeat},
};

/// A share coordinator in memory, which tests can make unavailable.
#[derive(Debug, Default)]
pub(super) struct MemoryShareStates {
    states: Mutex<BTreeMap<SharePartition, ShareState>>,
    is_away: std::sync::atomic::AtomicBool,
    /// Whether initializations wait.
    is_held: watch::Sender<bool>,
}

impl MemoryShareStates {
    fn leave(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<SharePartition, ShareState>) -> Result<T, ShareStateError>,
    ) -> BoxFuture<'_, Result<T, ShareStateError>> {
        let result = match self.is_away.load(Ordering::Relaxed) {
            true => Err(ShareStateError::NotAvailable),
            false => change(&mut self.states.lock()),
        };
        Box::pin(std::future::ready(result))
    }

    /// The epoch and start offset of every partition, by number.
    fn known(&self) -> Vec<(i32, i32, Option<Offset>)> {
        let states = self.states.lock();
        let known = states.iter();
        known
            .map(|(of, state)| (of.partition, state.state_epoch, state.start_offset))
            .collect()
    }
}

impl ShareStates for MemoryShareStates {
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        let initialize = move |states: &mut BTreeMap<SharePartition, ShareState>| {
            let state = states.entry(partition).or_default();
            if state.state_epoch > state_epoch {
                return Err(ShareStateError::FencedStateEpoch);
            }
            *state = ShareState {
                state_epoch,
                start_offset,
                ..ShareState::default()
            };
            Ok(())
        };
        let mut held = self.is_held.subscribe();
        Box::pin(async move {
            held.wait_for(|is_held| !is_held).await.expect("open");
            self.change(initialize).await
        })
    }

    fn read(
        &self,
        partition: SharePartition,
        _: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.read_summary(partition)
    }

    fn write(
        &self,
        _: SharePartition,
        _: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.change(|_| Ok(()))
    }

    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.change(|states| {
            let state = states.get(&partition).cloned();
            state.ok_or(ShareStateError::Unknown)
        })
    }

    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.change(|states| {
            let known = states.remove(&partition);
            known.map(|_| ()).ok_or(ShareStateError::Unknown)
        })
    }
}

fn joining(group_id: &str, member_id: &str) -> ShareHeartbeat {
    ShareHeartbeat {
        group_id: group_id.into(),
        member_id: member_id.into(),
        member_epoch: JOIN_EPOCH,
        names: Some(vec!["t".into()]),
        client_id: "c".into(),
        client_host: "/h".into(),
        ..ShareHeartbeat::default()
    }
}

fn going_on(member_id: &str, member_epoch: i32) -> ShareHeartbeat {
    ShareHeartbeat {
        names: None,
        member_epoch,
        ..joining("g", member_id)
    }
}

async fn beat(
    world: &World,
    request: ShareHeartbeat,
) -> Result<ConsumerHeartbeatAnswer, GroupError> {
    world.coordinator.share_heartbeat(request).await
}

/// Waits until something is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    waited.expect("it never was");
}

fn has_state(world: &World) -> usize {
    let known = world.coordinator.share_partitions("g");
    let known = known.unwrap_or_default();
    known.values().map(|(_, numbers)| numbers.len()).sum()
}

/// A member joins and learns what it has. Gives its epoch.
async fn member(world: &World, id: &str) -> i32 {
    let joined = beat(world, joining("g", id)).await.expect("joined");
    until(|| has_state(world) == 4).await;
    let heard = beat(world, going_on(id, joined.member_epoch)).await;
    heard.expect("heard").member_epoch
}

fn member_count(world: &World) -> usize {
    world
        .coordinator
        .describe_share("g")
        .map_or(0, |group| group.members.len())
}

/// What the members have, each with the number of its member.
fn assigned(world: &World) -> Vec<(u32, usize)> {
    let group = world.coordinator.describe_share("g").expect("a group");
    let members = group.members.iter().enumerate();
    let of = members.flat_map(|(number, member)| {
        let assigned = member.assignment.iter();
        let numbers = assigned.flat_map(|(_, _, numbers)| numbers);
        numbers.map(move |partition| (*partition, number))
    });
    let mut assigned: Vec<_> = of.collect();
    assigned.sort_unstable();
    assigned
}

async fn restart(world: World) -> World {
    world.coordinator.close().await;
    open_with(&world.topic, GroupConfig::default(), world.states).await
}

#[tokio::test]
async fn a_member_has_all_partitions_and_its_group_survives_a_restart() {
    let world = ready(2, GroupConfig::default()).await;
    let epoch = member(&world, "a").await;
    assert_eq!(assigned(&world), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    let started = [0, 1, 2, 3].map(|number| (number, 1, None));
    assert_eq!(world.states.known(), started);
    let listed = world.coordinator.list();
    assert_eq!(
        (listed[0].kind, listed[0].state, &*listed[0].protocol_type),
        (GroupKind::Share, GroupState::Stable, "share")
    );
    let described = world.coordinator.describe_share("g");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_share("g"), described);
    let heard = beat(&world, going_on("a", epoch)).await.expect("heard");
    assert_eq!((heard.member_epoch, heard.assignment), (epoch, None));
    // Nothing is initialized again.
    assert_eq!(world.states.known(), started);
}

#[tokio::test]
async fn members_come_and_go() {
    let world = ready(1, GroupConfig::default()).await;
    let epoch = member(&world, "a").await;
    member(&world, "b").await;
    let heard = beat(&world, going_on("a", epoch)).await.expect("heard");
    assert_eq!(heard.assignment.expect("moved").len(), 1);
    let counts = assigned(&world);
    let of = |member| counts.iter().filter(|(_, other)| *other == member).count();
    assert_eq!((of(0), of(1)), (2, 2));
    let left = beat(&world, going_on("b", LEAVE_EPOCH))
        .await
        .expect("left");
    assert_eq!(left.member_epoch, LEAVE_EPOCH);
    // The other one falls silent.
    world.clock.advance(Duration::from_secs(46));
    world.timers.fire_due();
    until(|| member_count(&world) == 0).await;
    assert_eq!(world.coordinator.list()[0].state, GroupState::Empty);
    let world = restart(world).await;
    assert_eq!((member_count(&world), has_state(&world)), (0, 4));
}

#[tokio::test]
async fn nothing_is_assigned_while_the_share_coordinator_is_away() {
    let world = ready(1, GroupConfig::default()).await;
    world.states.leave(true);
    let joined = beat(&world, joining("g", "a")).await.expect("joined");
    let world = restart(world).await;
    world.states.leave(false);
    assert_eq!(assigned(&world), []);
    let epoch = joined.member_epoch;
    beat(&world, going_on("a", epoch)).await.expect("heard");
    until(|| has_state(&world) == 4).await;
    let heard = beat(&world, going_on("a", epoch)).await.expect("heard");
    assert_eq!(heard.assignment.expect("all")[&topic_id()].len(), 4);
}

/// The id of `t`.
fn topic_id() -> TopicId {
    use crate::topics::Topics as _;
    MemoryTopics::with(&[("t", 4)])
        .find("t")
        .expect("a topic")
        .0
}

#[tokio::test]
async fn a_share_group_is_no_other_group() {
    let world = ready(1, GroupConfig::default()).await;
    let epoch = member(&world, "a").await;
    let coordinator = &world.coordinator;
    let joined = coordinator.join(join_request("g", "")).await;
    assert_eq!(joined, Err(GroupError::InconsistentGroupProtocol));
    let consumer = ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: "c".into(),
        names: Some(vec!["t".into()]),
        ..ConsumerHeartbeat::default()
    };
    let heard = coordinator.consumer_heartbeat(consumer, &|_| true).await;
    assert_eq!(heard, Err(GroupError::GroupIdNotFound));
    let committed = coordinator.commit("g", &nobody(), vec![(partition("t"), at(1))]);
    assert_eq!(committed.await, Err(GroupError::GroupIdNotFound));
    let described = coordinator.describe_consumer("g");
    assert_eq!(described, Err(GroupError::GroupIdNotFound));
    let deleted = coordinator.delete_offsets("g", &[partition("t")]);
    assert!(matches!(deleted, Err(GroupError::GroupIdNotFound)));
    let described = coordinator.describe("g").expect("a group");
    assert_eq!(described.kind, GroupKind::Share);
    assert_eq!(described.members[0].assigned(100).len(), 4);
    assert_eq!(coordinator.assigned("g", 100), Ok(Vec::new()));
    // Nor do groups of other kinds become share groups.
    coordinator
        .commit("classic", &nobody(), vec![(partition("t"), at(1))])
        .await
        .expect("committed");
    let joined = beat(&world, joining("classic", "a")).await;
    assert_eq!(joined, Err(GroupError::GroupIdNotFound));
    assert_eq!(beat(&world, going_on("a", epoch)).await.map(|_| ()), Ok(()));
}

#[tokio::test]
async fn heartbeats_without_a_group_leave_none_behind() {
    let world = ready(1, GroupConfig::default()).await;
    let unknown = beat(&world, going_on("a", 3)).await;
    assert_eq!(unknown, Err(GroupError::GroupIdNotFound));
    let nameless = beat(&world, joining("", "a")).await;
    assert_eq!(nameless, Err(GroupError::InvalidGroupId));
    let mut config = GroupConfig::default();
    config.share.group_size_max = 0;
    let world = ready(1, config).await;
    let full = beat(&world, joining("g", "a")).await;
    assert_eq!(full, Err(GroupError::GroupMaxSizeReached));
    assert_eq!(world.coordinator.list(), []);
    assert_eq!(world.coordinator.memory_bytes(), 0);
}

#[tokio::test]
async fn a_group_without_members_is_deleted_with_its_states() {
    let world = ready(1, GroupConfig::default()).await;
    member(&world, "a").await;
    let refused = world.coordinator.delete("g").await;
    assert_eq!(refused, Err(GroupError::NonEmptyGroup));
    beat(&world, going_on("a", LEAVE_EPOCH))
        .await
        .expect("left");
    world.states.leave(true);
    let failed = world.coordinator.delete("g").await;
    assert_eq!(failed, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(world.states.known().len(), 4);
    // The states may be half deleted: they are to be deleted, or initialized again.
    let world = restart(world).await;
    assert_eq!(has_state(&world), 0);
    world.states.leave(false);
    assert_eq!(world.coordinator.delete("g").await, Ok(()));
    assert_eq!(
        (world.states.known(), world.coordinator.list()),
        (vec![], vec![])
    );
    let gone = world.coordinator.delete("g").await;
    assert_eq!(gone, Err(GroupError::GroupIdNotFound));
    let world = restart(world).await;
    assert_eq!(world.coordinator.list(), []);
    assert_eq!(world.coordinator.memory_bytes(), 0);
}

#[tokio::test]
async fn a_group_that_lost_its_states_gets_new_ones() {
    let world = ready(1, GroupConfig::default()).await;
    member(&world, "a").await;
    beat(&world, going_on("a", LEAVE_EPOCH))
        .await
        .expect("left");
    world.states.leave(true);
    let failed = world.coordinator.delete("g").await;
    assert_eq!(failed, Err(GroupError::CoordinatorNotAvailable));
    world.states.leave(false);
    member(&world, "a").await;
    assert_eq!(assigned(&world).len(), 4);
    assert!(world.states.known().iter().all(|(_, epoch, _)| *epoch > 1));
}

#[tokio::test]
async fn offsets_are_altered_described_and_deleted() {
    let world = ready(1, GroupConfig::default()).await;
    let topic = topic_id();
    let offsets = vec![((topic, 1), 42)];
    let altered = world
        .coordinator
        .alter_share_offsets("g", offsets.clone())
        .await;
    assert_eq!(altered, Err(GroupError::GroupIdNotFound));
    member(&world, "a").await;
    let altered = world
        .coordinator
        .alter_share_offsets("g", offsets.clone())
        .await;
    assert_eq!(altered, Err(GroupError::NonEmptyGroup));
    beat(&world, going_on("a", LEAVE_EPOCH))
        .await
        .expect("left");
    let altered = world.coordinator.alter_share_offsets("g", offsets).await;
    assert_eq!(altered, Ok([((topic, 1), Ok(()))].into()));
    let asked = vec![(topic, 0), (topic, 1), (topic, 9)];
    let described = world.coordinator.share_summaries("g", asked).await;
    let starts: Vec<_> = { described.into_values() }
        .map(|state| state.map(|state| state.start_offset))
        .collect();
    let unknown = Err(ShareStateError::Unknown);
    assert_eq!(starts, [Ok(None), Ok(Some(42)), unknown]);
    let other = TopicId(uuid::Uuid::from_u128(99));
    let deleted = world
        .coordinator
        .delete_share_offsets("g", &[other].into())
        .await;
    assert_eq!(deleted, Ok(BTreeMap::new()));
    let deleted = world
        .coordinator
        .delete_share_offsets("g", &[topic].into())
        .await;
    let all = [0, 1, 2, 3].map(|number| ((topic, number), Ok(())));
    assert_eq!(deleted, Ok(all.into()));
    assert_eq!((has_state(&world), world.states.known()), (0, vec![]));
    // Those who come later begin anew.
    member(&world, "a").await;
    assert_eq!(has_state(&world), 4);
}

#[tokio::test]
async fn states_of_deleted_topics_are_forgotten() {
    let world = ready(1, GroupConfig::default()).await;
    member(&world, "a").await;
    let name = TopicName::new("t").expect("legal");
    world.topics.set("t", 0);
    world.coordinator.topics_deleted(&[name].into()).await;
    assert_eq!(has_state(&world), 0);
}

/// Such as one of a former group, whose initialization came later than the deletion.
#[tokio::test]
async fn a_state_that_is_newer_than_the_group_is_replaced() {
    let world = ready(1, GroupConfig::default()).await;
    let left = SharePartition {
        group_id: "g".into(),
        topic_id: topic_id(),
        partition: 2,
    };
    let initialized = world.states.initialize(left, 9, Some(5)).await;
    assert_eq!(initialized, Ok(()));
    let joined = beat(&world, joining("g", "a")).await.expect("joined");
    until(|| has_state(&world) == 3).await;
    world.clock.advance(SHARE_STATES_RETRY);
    let epoch = joined.member_epoch;
    beat(&world, going_on("a", epoch)).await.expect("heard");
    until(|| has_state(&world) == 4).await;
    let known = world.states.known();
    let (_, epoch, start) = known[2];
    assert_eq!((epoch > 9, start), (true, None));
}

#[tokio::test]
async fn a_group_that_moves_while_states_are_initialized_goes_on_elsewhere() {
    let topic = MemoryTopic::new(1);
    topic.create_elsewhere();
    let world = open(&topic, GroupConfig::default()).await;
    let described = || world.coordinator.describe_share("g").map(drop);
    topic.gain(0);
    until(|| described() == Err(GroupError::GroupIdNotFound)).await;
    world.states.is_held.send_replace(true);
    let joined = beat(&world, joining("g", "a")).await.expect("joined");
    topic.lose(0);
    until(|| described() == Err(GroupError::NotCoordinator)).await;
    let refused = beat(&world, going_on("a", joined.member_epoch)).await;
    assert_eq!(refused, Err(GroupError::NotCoordinator));
    topic.gain(0);
    until(|| described().is_ok()).await;
    world.states.is_held.send_replace(false);
    // What the former coordinator asked for is in nobody's way.
    let epoch = member(&world, "a").await;
    assert!(epoch > joined.member_epoch);
    assert_eq!(assigned(&world).len(), 4);
}

#[tokio::test]
async fn a_heartbeat_that_cannot_be_written_initializes_nothing() {
    let world = ready(1, GroupConfig::default()).await;
    world.topic.logs[0].broken.store(true, Ordering::Relaxed);
    let failed = beat(&world, joining("g", "a")).await;
    assert!(failed.is_err(), "{failed:?}");
    world.topic.logs[0].broken.store(false, Ordering::Relaxed);
    assert_eq!(world.states.known(), []);
    // The member does not know that it is one, and joins again.
    let joined = beat(&world, joining("g", "a")).await.expect("joined");
    assert_eq!(has_state(&world), 0, "not asked again at once");
    world.clock.advance(SHARE_STATES_RETRY);
    let epoch = joined.member_epoch;
    beat(&world, going_on("a", epoch)).await.expect("heard");
    until(|| has_state(&world) == 4).await;
    let described = world.coordinator.describe_share("g");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_share("g"), described);
}

#[tokio::test]
async fn a_member_needs_memory_for_what_it_subscribes_to() {
    let config = GroupConfig {
        memory_bytes: 1 << 20,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    let epoch = member(&world, "a").await;
    let used = world.coordinator.memory_bytes();
    let mut request = going_on("a", epoch);
    request.names = Some((0..2_000).map(|n| format!("{n:0200}")).collect());
    let refused = beat(&world, request.clone()).await;
    assert_eq!(refused, Err(GroupError::MemoryFull));
    assert_eq!(world.coordinator.memory_bytes(), used);
    request.member_epoch = JOIN_EPOCH;
    request.group_id = "other".into();
    let refused = beat(&world, request).await;
    assert_eq!(refused, Err(GroupError::MemoryFull));
    assert_eq!(world.coordinator.list().len(), 1);
    beat(&world, going_on("a", epoch)).await.expect("heard");
}

#[tokio::test]
async fn a_log_that_is_rewritten_keeps_its_share_groups() {
    let config = GroupConfig {
        rewrite_after_records: 20,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    member(&world, "a").await;
    for _ in 0..40 {
        let joined = beat(&world, joining("g", "b")).await.expect("joined");
        assert!(joined.member_epoch > 0);
        beat(&world, going_on("b", LEAVE_EPOCH))
            .await
            .expect("left");
    }
    until(|| world.topic.logs[0].records() < 60).await;
    let described = world.coordinator.describe_share("g");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_share("g"), described);
    assert_eq!(has_state(&world), 4);
}
