//! Consumer groups (KIP-848), and groups that change their protocol.

use super::*;
use crate::{
    config::MigrationPolicy,
    messages::{ConsumerHeartbeat, GroupKind, LEAVE_EPOCH, TopicPartitions},
    subscription,
};

fn joining(group_id: &str, member_id: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group_id: group_id.into(),
        member_id: member_id.into(),
        rebalance_timeout_ms: Some(10_000),
        names: Some(vec!["t".into()]),
        owned: Some(TopicPartitions::new()),
        client_id: "c".into(),
        client_host: "/h".into(),
        ..ConsumerHeartbeat::default()
    }
}

fn going_on(group_id: &str, member_id: &str, member_epoch: i32) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        names: None,
        owned: None,
        rebalance_timeout_ms: None,
        member_epoch,
        ..joining(group_id, member_id)
    }
}

async fn beat(
    world: &World,
    request: ConsumerHeartbeat,
) -> Result<ConsumerHeartbeatAnswer, GroupError> {
    world
        .coordinator
        .consumer_heartbeat(request, &|_| true)
        .await
}

fn count(partitions: &Option<TopicPartitions>) -> usize {
    let numbers = partitions
        .iter()
        .flatten()
        .map(|(_, numbers)| numbers.len());
    numbers.sum()
}

fn caller(member_id: &str, generation: i32) -> Caller {
    Caller {
        member_id: member_id.into(),
        instance_id: None,
        generation,
    }
}

fn state(world: &World, group_id: &str) -> (GroupKind, GroupState) {
    let list = world.coordinator.list();
    let listed = list.iter().find(|listed| listed.group_id == group_id);
    let listed = listed.expect("listed");
    (listed.kind, listed.state)
}

/// The subscription of a consumer with the classic protocol, version 1: `t`, and what it has of it.
fn subscription(owned: &[u32]) -> Bytes {
    let mut bytes = b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff".to_vec();
    let numbers = u32::try_from(owned.len()).expect("few");
    bytes.extend(1_u32.to_be_bytes());
    bytes.extend(b"\0\x01t");
    bytes.extend(numbers.to_be_bytes());
    bytes.extend(owned.iter().flat_map(|number| number.to_be_bytes()));
    bytes.into()
}

fn classic_join(member_id: &str, owned: &[u32]) -> JoinRequest {
    let mut request = join_request("g", member_id);
    request.protocols[0].metadata = subscription(owned);
    request
}

/// A member with the classic protocol that has all four partitions.
async fn classic_member(world: &World) -> Caller {
    let joined = world
        .coordinator
        .join(classic_join("", &[]))
        .await
        .expect("alone");
    let caller = caller(&joined.member_id, joined.generation);
    let all = subscription::encode_assignment(1, &[("t".into(), vec![0, 1, 2, 3])]);
    let synced = sync(world, &caller, vec![(joined.member_id, all)]).await;
    assert_eq!(partitions_in(&synced.expect("leader")), [0, 1, 2, 3]);
    caller
}

async fn sync(
    world: &World,
    caller: &Caller,
    assignments: Vec<(String, Bytes)>,
) -> Result<Synced, GroupError> {
    let request = SyncRequest {
        group_id: "g".into(),
        caller: caller.clone(),
        protocol_type: Some("consumer".into()),
        protocol: Some("range".into()),
        assignments,
    };
    world.coordinator.sync(request).await
}

fn partitions_in(synced: &Synced) -> Vec<u32> {
    let assigned = subscription::assigned(&synced.assignment, 100).into_iter();
    assigned.map(|partition| partition.partition).collect()
}

async fn restart(world: World) -> World {
    world.coordinator.close().await;
    open(&world.topic, GroupConfig::default()).await
}

#[tokio::test]
async fn a_consumer_group_survives_a_restart() {
    let world = ready(2, GroupConfig::default()).await;
    let a = beat(&world, joining("g", "a")).await.expect("joined");
    assert_eq!((a.member_epoch, count(&a.assignment)), (1, 4));
    let committed = vec![(partition("t"), at(5))];
    let commit = |epoch| {
        world
            .coordinator
            .commit("g", &caller("a", epoch), committed.clone())
    };
    assert_eq!(commit(2).await, Err(GroupError::StaleMemberEpoch));
    assert_eq!(commit(1).await, Ok(()));
    let before = world.coordinator.describe_consumer("g");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_consumer("g"), before);
    assert_eq!(
        state(&world, "g"),
        (GroupKind::Consumer, GroupState::Stable)
    );
    let a = beat(&world, going_on("g", "a", 1)).await.expect("goes on");
    assert_eq!((a.member_epoch, a.assignment), (1, None));
    let offsets = world.coordinator.offsets("g", &[partition("t")]);
    assert_eq!(
        offsets.expect("here")[0].as_ref().map(|o| o.offset),
        Some(5)
    );
    assert_eq!(
        world.coordinator.check_fetch("g", "a", 0),
        Err(GroupError::StaleMemberEpoch)
    );
    // Its last member leaves, and an administrator deletes it.
    assert_eq!(
        world.coordinator.delete("g").await,
        Err(GroupError::NonEmptyGroup)
    );
    beat(&world, going_on("g", "a", LEAVE_EPOCH))
        .await
        .expect("left");
    assert_eq!(state(&world, "g"), (GroupKind::Consumer, GroupState::Empty));
    assert_eq!(world.coordinator.delete("g").await, Ok(()));
    let world = restart(world).await;
    assert_eq!(world.coordinator.list(), []);
}

#[tokio::test]
async fn what_could_not_be_written_is_written_with_the_next_heartbeat() {
    let world = ready(1, GroupConfig::default()).await;
    beat(&world, joining("g", "a")).await.expect("joined");
    world.topic.logs[0].broken.store(true, Ordering::SeqCst);
    let lost = beat(&world, joining("g", "b")).await;
    assert_eq!(lost, Err(GroupError::CoordinatorNotAvailable));
    world.topic.logs[0].broken.store(false, Ordering::SeqCst);
    let b = beat(&world, joining("g", "b")).await.expect("joins again");
    assert_eq!(b.member_epoch, 2);
    let before = world.coordinator.describe_consumer("g");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_consumer("g"), before);
}

#[tokio::test]
async fn a_rewritten_log_holds_consumer_groups() {
    let config = GroupConfig {
        rewrite_after_records: 10,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    for round in 0..10 {
        let id = format!("m{round}");
        let joined = beat(&world, joining("g", &id)).await.expect("joined");
        beat(&world, joining("g", "stays")).await.expect("joined");
        beat(&world, going_on("g", &id, LEAVE_EPOCH))
            .await
            .expect("left");
        assert!(joined.member_epoch > 0);
    }
    let before = world.coordinator.describe_consumer("g");
    let records = world.topic.logs[0].records();
    assert!(records < 40, "{records} records are left");
    let world = restart(world).await;
    assert_eq!(world.coordinator.describe_consumer("g"), before);
}

#[tokio::test]
async fn a_group_that_does_not_exist_or_is_classic_is_not_found() {
    let world = ready(1, GroupConfig::default()).await;
    let missing = Err(GroupError::GroupIdNotFound);
    assert_eq!(beat(&world, going_on("none", "a", 3)).await, missing);
    let refused = ConsumerHeartbeat {
        pattern: Some("(".into()),
        ..joining("g", "a")
    };
    assert!(matches!(
        beat(&world, refused).await,
        Err(GroupError::InvalidRegularExpression(_))
    ));
    assert_eq!(
        world.coordinator.list(),
        [],
        "no group stays for a refused member"
    );
    let unknown = ConsumerHeartbeat {
        assignor: Some("sticky".into()),
        ..joining("g", "a")
    };
    let names = GroupError::UnsupportedAssignor("uniform, range".into());
    assert_eq!(beat(&world, unknown).await, Err(names));
    // Members of a group whose subscriptions nobody can read.
    stable_member(&world.coordinator, "h").await;
    assert_eq!(beat(&world, joining("h", "a")).await, missing);
    assert_eq!(state(&world, "h"), (GroupKind::Classic, GroupState::Stable));
    assert_eq!(
        world.coordinator.describe_consumer("h"),
        Err(GroupError::GroupIdNotFound)
    );
}

#[tokio::test]
async fn an_empty_group_takes_the_protocol_of_who_joins() {
    let world = ready(1, GroupConfig::default()).await;
    let committed = vec![(partition("t"), at(5))];
    world
        .coordinator
        .commit("g", &nobody(), committed)
        .await
        .expect("committed");
    beat(&world, joining("g", "a")).await.expect("joined");
    beat(&world, going_on("g", "a", LEAVE_EPOCH))
        .await
        .expect("left");
    classic_member(&world).await;
    assert_eq!(state(&world, "g"), (GroupKind::Classic, GroupState::Stable));
    let world = restart(world).await;
    assert_eq!(state(&world, "g"), (GroupKind::Classic, GroupState::Stable));
    assert_eq!(world.coordinator.all_offsets("g").expect("here").len(), 1);
}

#[tokio::test]
async fn a_group_is_upgraded_and_downgraded_while_it_works() {
    let world = ready(1, GroupConfig::default()).await;
    let classic = classic_member(&world).await;
    let a = beat(&world, joining("g", "a"))
        .await
        .expect("upgrades the group");
    assert_eq!(count(&a.assignment), 0, "the classic member has all");
    assert_eq!(state(&world, "g").0, GroupKind::Consumer);
    let world = restart(world).await;
    assert_eq!(state(&world, "g").0, GroupKind::Consumer);
    // The classic member joins with what it has, and is told to give up a part.
    let heartbeat = world.coordinator.heartbeat("g", &classic);
    assert_eq!(heartbeat, Err(GroupError::RebalanceInProgress));
    let request = classic_join(&classic.member_id, &[0, 1, 2, 3]);
    let joined = world.coordinator.join(request).await.expect("joined");
    assert_eq!(
        (joined.leader.as_str(), joined.generation),
        ("", classic.generation)
    );
    let synced = sync(&world, &classic, Vec::new()).await.expect("synced");
    let kept = partitions_in(&synced);
    assert_eq!(kept.len(), 2);
    let heartbeat = world.coordinator.heartbeat("g", &classic);
    assert_eq!(
        heartbeat,
        Err(GroupError::RebalanceInProgress),
        "it has to join without the rest"
    );
    let request = classic_join(&classic.member_id, &kept);
    let joined = world.coordinator.join(request).await.expect("joined");
    let classic = caller(&classic.member_id, joined.generation);
    assert_eq!(
        partitions_in(&sync(&world, &classic, Vec::new()).await.expect("synced")),
        kept
    );
    assert_eq!(world.coordinator.heartbeat("g", &classic), Ok(()));
    let a = beat(&world, going_on("g", "a", a.member_epoch))
        .await
        .expect("heard");
    assert_eq!(count(&a.assignment), 2);
    assert_eq!(state(&world, "g").1, GroupState::Stable);
    // The last member with the consumer protocol leaves.
    beat(&world, going_on("g", "a", LEAVE_EPOCH))
        .await
        .expect("left");
    assert_eq!(
        state(&world, "g"),
        (GroupKind::Classic, GroupState::PreparingRebalance)
    );
    let heartbeat = world.coordinator.heartbeat("g", &classic);
    assert_eq!(heartbeat, Err(GroupError::IllegalGeneration));
    let request = classic_join(&classic.member_id, &kept);
    let joined = world.coordinator.join(request).await.expect("joined");
    assert_eq!(joined.leader, classic.member_id);
    let world = restart(world).await;
    assert_eq!(state(&world, "g").0, GroupKind::Classic);
    assert_eq!(
        world.coordinator.describe("g").expect("here").members.len(),
        1
    );
}

#[tokio::test]
async fn migration_can_be_disabled() {
    let mut config = GroupConfig::default();
    config.consumer.migration = MigrationPolicy::Disabled;
    let world = ready(1, config).await;
    classic_member(&world).await;
    assert_eq!(
        beat(&world, joining("g", "a")).await,
        Err(GroupError::GroupIdNotFound)
    );
    assert_eq!(state(&world, "g"), (GroupKind::Classic, GroupState::Stable));
}

#[tokio::test]
async fn a_silent_member_is_removed_by_the_alarm() {
    let world = ready(1, GroupConfig::default()).await;
    beat(&world, joining("g", "a")).await.expect("joined");
    world.clock.advance(Duration::from_secs(46));
    world.timers.fire_due();
    assert_eq!(state(&world, "g"), (GroupKind::Consumer, GroupState::Empty));
    let gone = beat(&world, going_on("g", "a", 1)).await;
    assert_eq!(gone, Err(GroupError::UnknownMemberId));
}
