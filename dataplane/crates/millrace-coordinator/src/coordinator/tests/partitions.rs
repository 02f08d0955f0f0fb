//! Partitions that this broker gains and loses.

use std::ops::Deref;

use super::*;

/// Lets the other tasks run until `done`.
async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if done() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what}: not within a thousand turns of the other tasks");
}

impl World {
    async fn gain(&self, index: usize) {
        self.topic.gain(index);
        self.shows(index, Ok(())).await;
    }

    async fn lose(&self, index: usize) {
        self.topic.lose(index);
        self.shows(index, Err(GroupError::NotCoordinator)).await;
    }

    /// Waits until requests for the groups of a partition are answered so.
    async fn shows(&self, index: usize, expected: Result<(), GroupError>) {
        let group = self.group_on(index);
        let asked = || self.coordinator.all_offsets(&group).map(drop);
        until(&format!("{expected:?}"), || asked() == expected).await;
    }

    /// A group's id that the partition keeps.
    fn group_on(&self, index: usize) -> String {
        let names = (0..).map(|n| format!("g{n}"));
        let partitions = self.topic.logs.len();
        let mut there = names.filter(|name| partition_of(name, partitions) == index);
        there.next().expect("one of many")
    }

    async fn commit(&self, group: &str, offset: i64) -> Result<(), GroupError> {
        let offsets = vec![(partition("t"), at(offset))];
        self.coordinator.commit(group, &nobody(), offsets).await
    }

    fn offset(&self, group: &str) -> Result<Option<i64>, GroupError> {
        let offsets = self.coordinator.offsets(group, &[partition("t")])?;
        Ok(offsets[0].as_ref().map(|committed| committed.offset))
    }

    fn groups(&self) -> usize {
        self.coordinator.0.ground.count.load(Ordering::SeqCst)
    }
}

/// A broker of several, which leads no partition yet.
struct Shared(World);

impl Deref for Shared {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

async fn shared(partitions: usize) -> Shared {
    let topic = MemoryTopic::new(partitions);
    topic.create_elsewhere();
    Shared(open(&topic, GroupConfig::default()).await)
}

#[tokio::test]
async fn a_gained_partition_is_loaded_and_served_and_all_others_are_elsewhere() {
    let world = shared(2).await;
    let (here, elsewhere) = (world.group_on(1), world.group_on(0));
    assert_eq!(world.offset(&here), Err(GroupError::NotCoordinator));
    world.gain(1).await;
    assert_eq!(world.commit(&here, 5).await, Ok(()));
    assert_eq!(world.offset(&here), Ok(Some(5)));

    let refused = Err(GroupError::NotCoordinator);
    assert_eq!(world.commit(&elsewhere, 5).await, refused);
    let joined = world.coordinator.join(join_request(&elsewhere, "")).await;
    assert_eq!(joined.map(drop), refused);
    let described = world.coordinator.describe(&elsewhere);
    assert_eq!(described.map(drop), refused);
    assert_eq!(world.coordinator.delete(&elsewhere).await, refused);
    let left = world.coordinator.leave(&elsewhere, &[]);
    assert_eq!(left.map(drop), refused);
    assert!(world.coordinator.settling(&elsewhere).is_none());
    assert_eq!(world.coordinator.list().len(), 1);
    assert_eq!(world.coordinator.metrics().groups, 1);
}

#[tokio::test]
async fn a_topic_that_another_broker_creates_is_picked_up() {
    let topic = MemoryTopic::new(2);
    let world = Shared(open(&topic, GroupConfig::default()).await);
    let group = world.group_on(0);
    let early = world.offset(&group);
    assert_eq!(early, Err(GroupError::CoordinatorNotAvailable));
    topic.create_elsewhere();
    world.shows(0, Err(GroupError::NotCoordinator)).await;
    world.gain(0).await;
    assert_eq!(world.commit(&group, 1).await, Ok(()));
    world.coordinator.ready().await.expect("it exists");
    assert_eq!(world.offset(&group), Ok(Some(1)));
}

#[tokio::test]
async fn members_that_wait_in_a_rebalance_are_sent_to_the_new_coordinator() {
    let world = shared(1).await;
    world.gain(0).await;
    let coordinator = &world.coordinator;
    let leader = stable_member(coordinator, "joining").await;
    // The rebalance waits for the leader.
    let mut joining = pin!(coordinator.join(join_request("joining", "")));
    assert!(futures_util::poll!(joining.as_mut()).is_pending());

    let stable = stable_member(coordinator, "syncing").await;
    let mut second = pin!(coordinator.join(join_request("syncing", "")));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    let again = coordinator.join(join_request("syncing", &stable.member_id));
    let (second, again) = (second.await.expect("joined"), again.await.expect("joined"));
    let follower = [&second, &again]
        .into_iter()
        .find(|joined| joined.leader != joined.member_id);
    let follower = follower.expect("one leads");
    let request = SyncRequest {
        group_id: "syncing".into(),
        caller: Caller {
            member_id: follower.member_id.clone(),
            instance_id: None,
            generation: follower.generation,
        },
        protocol_type: None,
        protocol: None,
        assignments: Vec::new(),
    };
    let mut syncing = pin!(coordinator.sync(request));
    assert!(futures_util::poll!(syncing.as_mut()).is_pending());

    world.lose(0).await;
    let joined = joining.await.map(drop);
    assert_eq!(joined, Err(GroupError::NotCoordinator));
    let synced = syncing.await.map(drop);
    assert_eq!(synced, Err(GroupError::NotCoordinator));
    let heard = coordinator.heartbeat("joining", &leader);
    assert_eq!(heard, Err(GroupError::NotCoordinator));
}

#[tokio::test]
async fn alarms_of_a_lost_partition_do_nothing_more() {
    let world = shared(1).await;
    world.gain(0).await;
    stable_member(&world.coordinator, "g").await;
    let written = world.topic.logs[0].records();
    assert!(world.timers.pending() > 0);
    world.lose(0).await;
    assert_eq!(world.timers.pending(), 0);
    world.clock.advance(Duration::from_secs(3_600));
    world.timers.fire_due();
    tokio::task::yield_now().await;
    assert_eq!(world.topic.logs[0].records(), written);
}

/// Both make clients look the coordinator up again.
fn is_sent_elsewhere(result: &Result<(), GroupError>) -> bool {
    use GroupError::{CoordinatorNotAvailable, NotCoordinator};
    matches!(result, Err(CoordinatorNotAvailable | NotCoordinator))
}

#[tokio::test]
async fn a_commit_in_flight_is_answered_by_what_becomes_of_it() {
    for is_kept in [true, false] {
        let world = shared(1).await;
        world.gain(0).await;
        world.commit("g", 1).await.expect("durable");
        let log = &world.topic.logs[0];
        let kept = log.records();
        log.durable.send_replace(false);
        let mut commit = pin!(world.commit("g", 2));
        assert!(futures_util::poll!(commit.as_mut()).is_pending());
        until("appended", || log.records() > kept).await;
        // Waits for the writer, and is not appended any more.
        let mut late = pin!(world.commit("g", 3));
        assert!(futures_util::poll!(late.as_mut()).is_pending());
        if is_kept {
            log.durable.send_replace(true);
        } else {
            log.truncate(kept);
        }
        world.lose(0).await;
        let offset = match is_kept {
            true => {
                assert_eq!(commit.await, Ok(()));
                2
            }
            false => {
                assert!(is_sent_elsewhere(&commit.await));
                1
            }
        };
        assert!(is_sent_elsewhere(&late.await));
        log.durable.send_replace(true);
        world.gain(0).await;
        assert_eq!(world.offset("g"), Ok(Some(offset)));
    }
}

#[tokio::test]
async fn what_the_log_refuses_once_the_shard_has_resigned_is_sent_to_the_new_coordinator() {
    let world = shared(1).await;
    world.gain(0).await;
    world.commit("deleted", 1).await.expect("durable");
    let log = &world.topic.logs[0];
    let kept = log.records();
    log.durable.send_replace(false);
    let mut deleted = pin!(world.coordinator.delete("deleted"));
    assert!(futures_util::poll!(deleted.as_mut()).is_pending());
    let mut commit = pin!(world.commit("g", 2));
    assert!(futures_util::poll!(commit.as_mut()).is_pending());
    until("appended", || log.records() > kept).await;
    let lost = world.topic.led.lock().as_mut().expect("created")[0].take();
    world.topic.changed();
    world.shows(0, Err(GroupError::NotCoordinator)).await;
    log.truncate(kept);
    lost.expect("led").lost.send_replace(true);
    assert_eq!(deleted.await, Err(GroupError::NotCoordinator));
    assert_eq!(commit.await, Err(GroupError::NotCoordinator));
    log.durable.send_replace(true);
    world.gain(0).await;
    assert_eq!(world.offset("deleted"), Ok(Some(1)));
    assert_eq!(world.offset("g"), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_load_ends_when_its_partition_is_lost() {
    let world = shared(2).await;
    let group = world.group_on(0);
    world.gain(0).await;
    world.commit(&group, 1).await.expect("durable");
    world.lose(0).await;
    let log = &world.topic.logs[0];
    log.broken.store(true, Ordering::SeqCst);
    world.topic.gain(0);
    world.shows(0, Err(GroupError::CoordinatorLoading)).await;
    assert!(world.coordinator.is_loading());
    let joined = world.coordinator.join(join_request(&group, "")).await;
    assert_eq!(joined.map(drop), Err(GroupError::CoordinatorLoading));
    // Others need not wait for it.
    world.gain(1).await;

    world.lose(0).await;
    assert!(!world.coordinator.is_loading());
    log.broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.offset(&group), Err(GroupError::NotCoordinator));
    assert_eq!(world.coordinator.list(), []);
    world.gain(0).await;
    assert_eq!(world.offset(&group), Ok(Some(1)));
}

#[tokio::test]
async fn what_is_regained_is_what_the_log_has() {
    let world = shared(1).await;
    world.gain(0).await;
    let caller = stable_member(&world.coordinator, "members").await;
    world.commit("g", 1).await.expect("durable");
    world.lose(0).await;
    // Another broker leads the partition meanwhile.
    let other = MemoryTopic::of(world.topic.logs.clone());
    let other = Shared(open(&other, GroupConfig::default()).await);
    other.coordinator.ready().await.expect("created");
    assert_eq!(other.coordinator.heartbeat("members", &caller), Ok(()));
    other.commit("g", 2).await.expect("durable");
    other.lose(0).await;

    // Sessions restart with the load.
    world.clock.advance(Duration::from_secs(3_600));
    world.gain(0).await;
    world.timers.fire_due();
    assert_eq!(world.coordinator.heartbeat("members", &caller), Ok(()));
    assert_eq!(world.offset("g"), Ok(Some(2)));
    assert_eq!(world.groups(), 2);
}

#[tokio::test]
async fn a_partition_that_is_lost_and_gained_before_anybody_looks_is_loaded_again() {
    let world = shared(1).await;
    world.gain(0).await;
    world.commit("g", 1).await.expect("durable");
    let leader = stable_member(&world.coordinator, "members").await;
    let mut joining = pin!(world.coordinator.join(join_request("members", "")));
    assert!(futures_util::poll!(joining.as_mut()).is_pending());
    world.topic.lose_unnoticed(0);
    world.topic.gain(0);
    let joined = joining.await.map(drop);
    assert_eq!(joined, Err(GroupError::NotCoordinator));
    world.shows(0, Ok(())).await;
    assert_eq!(world.offset("g"), Ok(Some(1)));
    assert_eq!(world.coordinator.heartbeat("members", &leader), Ok(()));
    assert_eq!(world.commit("g", 2).await, Ok(()));
    assert_eq!(world.groups(), 2);
}

/// The log may settle a write late; a shard that was loaded before would not know of it.
#[tokio::test]
async fn a_regained_partition_is_loaded_once_the_former_writer_has_ended() {
    let world = shared(1).await;
    world.gain(0).await;
    let log = &world.topic.logs[0];
    log.durable.send_replace(false);
    let mut commit = pin!(world.commit("g", 7));
    assert!(futures_util::poll!(commit.as_mut()).is_pending());
    until("appended", || log.records() > 0).await;
    // The log that was lost has not settled the append yet.
    let lost = world.topic.led.lock().as_mut().expect("created")[0].take();
    world.topic.changed();
    world.shows(0, Err(GroupError::NotCoordinator)).await;
    world.topic.gain(0);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.offset("g"), Err(GroupError::CoordinatorLoading));
    log.durable.send_replace(true);
    assert_eq!(commit.await, Ok(()));
    world.shows(0, Ok(())).await;
    assert_eq!(world.offset("g"), Ok(Some(7)));
    drop(lost);
}

/// A rewrite saw no groups any more, wrote nothing, and trimmed all that the log had.
#[tokio::test]
async fn a_rewrite_that_is_under_way_when_the_partition_is_lost_trims_nothing() {
    let topic = MemoryTopic::new(1);
    topic.create_elsewhere();
    let config = GroupConfig {
        rewrite_after_records: 2,
        ..GroupConfig::default()
    };
    let world = Shared(open(&topic, config).await);
    world.gain(0).await;
    world.commit("g", 1).await.expect("durable");
    let log = &topic.logs[0];
    log.durable.send_replace(false);
    let mut commit = pin!(world.commit("g", 2));
    assert!(futures_util::poll!(commit.as_mut()).is_pending());
    // It waits until nothing is in flight.
    until("appended", || log.records() == 2).await;
    let led = topic.led.lock().as_mut().expect("created")[0].take();
    topic.changed();
    world.shows(0, Err(GroupError::NotCoordinator)).await;
    log.durable.send_replace(true);
    assert_eq!(commit.await, Ok(()));
    world.gain(0).await;
    assert_eq!(world.offset("g"), Ok(Some(2)));
    drop(led);
}

#[tokio::test]
async fn losing_all_gives_everything_back() {
    let world = shared(4).await;
    for index in 0..4 {
        world.gain(index).await;
        let group = world.group_on(index);
        stable_member(&world.coordinator, &group).await;
        let other = format!("{group}-offsets");
        drop(world.commit(&other, 1).await);
    }
    assert!(world.groups() >= 4 && world.coordinator.memory_bytes() > 4_096);
    let mut joining = Vec::new();
    for index in 0..4 {
        let group = world.group_on(index);
        joining.push(world.coordinator.join(join_request(&group, "")));
        world.topic.lose(index);
    }
    for index in 0..4 {
        world.shows(index, Err(GroupError::NotCoordinator)).await;
    }
    for joining in joining {
        assert_eq!(joining.await.map(drop), Err(GroupError::NotCoordinator));
    }
    until("the writers end", || {
        world.coordinator.metrics().writes_bytes == 0
    })
    .await;
    assert_eq!(world.groups(), 0);
    assert_eq!(
        world.coordinator.metrics(),
        GroupMetrics {
            memory_bytes_max: GroupConfig::default().memory_bytes,
            ..GroupMetrics::default()
        }
    );
    assert_eq!(world.coordinator.list(), []);
    world.coordinator.stop_waiting();
    world.coordinator.close().await;
}

#[tokio::test(start_paused = true)]
async fn topics_that_are_deleted_during_a_load_leave_no_offsets() {
    let world = shared(1).await;
    world.gain(0).await;
    let offsets = vec![(partition("t"), at(1)), (partition("u"), at(2))];
    let commit = world.coordinator.commit("g", &nobody(), offsets);
    commit.await.expect("durable");
    world.lose(0).await;
    let log = &world.topic.logs[0];
    log.broken.store(true, Ordering::SeqCst);
    world.topic.gain(0);
    world.shows(0, Err(GroupError::CoordinatorLoading)).await;
    let gone = BTreeSet::from([partition("t").topic]);
    world.coordinator.topics_deleted(&gone).await;
    log.broken.store(false, Ordering::SeqCst);
    while world.coordinator.is_loading() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let left = Ok(vec![(partition("u"), at(2))]);
    assert_eq!(world.coordinator.all_offsets("g"), left);
    world.coordinator.close().await;
    let again = open(&world.topic, GroupConfig::default()).await;
    assert_eq!(again.coordinator.all_offsets("g"), left);
}

#[tokio::test]
async fn a_closed_coordinator_gains_nothing() {
    let world = shared(1).await;
    world.coordinator.close().await;
    world.topic.gain(0);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.offset("g"), Err(GroupError::NotCoordinator));
}
