//! What groups may cost together, and what is refused.

use std::collections::BTreeMap;

use super::*;
use crate::messages::ConsumerHeartbeat;

#[tokio::test]
async fn what_is_out_of_bounds_is_refused() {
    let world = ready(1, GroupConfig::default()).await;
    let join = |request| world.coordinator.join(request);
    assert_eq!(
        join(join_request("", "")).await,
        Err(GroupError::InvalidGroupId)
    );
    let long = "g".repeat(ID_BYTES_MAX + 1);
    assert_eq!(
        join(join_request(&long, "")).await,
        Err(GroupError::InvalidGroupId)
    );
    assert_eq!(
        join(join_request("g", "x")).await,
        Err(GroupError::UnknownMemberId)
    );
    for seconds in [5, 1_801] {
        let mut request = join_request("g", "");
        request.session_timeout = Duration::from_secs(seconds);
        assert_eq!(join(request).await, Err(GroupError::InvalidSessionTimeout));
    }
    let stale = Caller {
        member_id: "x".into(),
        instance_id: None,
        generation: 4,
    };
    let commit = world.coordinator.commit("none", &stale, Vec::new());
    assert_eq!(commit.await, Err(GroupError::GroupIdNotFound));
    assert_eq!(
        world.coordinator.heartbeat("none", &stale),
        Err(GroupError::UnknownMemberId)
    );
}

const MEMORY: u64 = 1 << 20;

/// A world with a group that is stable and has committed, and others that fill the memory to the
/// last offset; how many of those with large subscriptions were let in.
async fn full() -> (World, Caller, usize) {
    let config = GroupConfig {
        memory_bytes: MEMORY,
        ..GroupConfig::default()
    };
    let world = ready(4, config).await;
    let coordinator = &world.coordinator;
    let caller = stable_member(coordinator, "first").await;
    let offsets = vec![(partition("t"), at(1))];
    let committed = coordinator.commit("first", &caller, offsets.clone());
    committed.await.expect("there is room");
    let mut joined = 0;
    for group in 0..1_000 {
        let mut request = join_request(&format!("large-{group}"), "");
        request.protocols[0].metadata = Bytes::from(vec![0; 100_000]);
        match coordinator.join(request).await {
            Ok(_) => joined += 1,
            Err(error) => assert_eq!(error, GroupError::MemoryFull),
        }
        assert!(coordinator.memory_bytes() <= MEMORY);
    }
    for small in 0.. {
        let commit = coordinator.commit(&format!("small-{small}"), &nobody(), offsets.clone());
        if commit.await.is_err() {
            break;
        }
    }
    for topic in 0.. {
        let offsets = vec![(partition(&format!("t{topic}")), at(1))];
        if coordinator.commit("first", &caller, offsets).await.is_err() {
            break;
        }
    }
    (world, caller, joined)
}

/// A hundred thousand groups with large subscriptions, scaled down: what fits is served, what does not
/// is refused, and nothing of the refused stays.
#[tokio::test]
async fn all_groups_together_have_a_bound() {
    let (world, _, joined) = full().await;
    let coordinator = &world.coordinator;
    assert!(MEMORY - coordinator.memory_bytes() < 1_000);
    let large = |listing: &GroupListing| listing.group_id.starts_with("large");
    assert!((5..=10).contains(&joined), "{joined} of 100 KB in 1 MiB");
    assert_eq!(
        coordinator.list().iter().filter(|l| large(l)).count(),
        joined
    );
    // Whoever goes makes room.
    let commit = || coordinator.commit("new", &nobody(), vec![(partition("t"), at(1))]);
    assert_eq!(commit().await, Err(GroupError::MemoryFull));
    coordinator.delete("small-0").await.expect("empty");
    assert_eq!(commit().await, Ok(()));
}

#[tokio::test]
async fn a_group_that_is_there_goes_on_where_groups_have_all_their_memory() {
    let (world, caller, _) = full().await;
    let coordinator = &world.coordinator;
    let again = coordinator.commit("first", &caller, vec![(partition("t"), at(2))]);
    assert_eq!(again.await, Ok(()));
    let rejoined = coordinator.join(join_request("first", &caller.member_id));
    let rejoined = rejoined.await.expect("nothing more is asked for");
    let caller = Caller {
        generation: rejoined.generation,
        ..caller
    };
    let request = SyncRequest {
        group_id: "first".into(),
        caller: caller.clone(),
        protocol_type: None,
        protocol: None,
        assignments: vec![(caller.member_id.clone(), Bytes::from_static(b"all"))],
    };
    let synced = coordinator.sync(request).await.expect("leads");
    assert_eq!(synced.assignment, "all");
    assert_eq!(coordinator.heartbeat("first", &caller), Ok(()));
    let more = vec![(partition("t"), at(3)), (partition("other"), at(1))];
    let refused = coordinator.commit("first", &caller, more).await;
    assert_eq!(refused, Err(GroupError::MemoryFull));
}

/// A member that says what it subscribes to once more is not asked for the memory once more.
#[tokio::test]
async fn a_member_that_subscribes_to_more_needs_the_memory_for_it() {
    let config = GroupConfig {
        memory_bytes: MEMORY,
        ..GroupConfig::default()
    };
    let world = ready(1, config).await;
    let names = |count: usize, len: usize| Some((0..count).map(|n| format!("{n:0len$}")).collect());
    let mut request = ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: Some(10_000),
        names: names(1_000, 200),
        owned: Some(BTreeMap::new()),
        ..ConsumerHeartbeat::default()
    };
    let beat = |request: &ConsumerHeartbeat| {
        let heard = world
            .coordinator
            .consumer_heartbeat(request.clone(), &|_| true);
        async { heard.await.map(|answer| answer.member_epoch) }
    };
    request.member_epoch = beat(&request).await.expect("there is room");
    assert!(world.coordinator.memory_bytes() > MEMORY / 2);
    beat(&request).await.expect("nothing more is asked for");
    let used = world.coordinator.memory_bytes();
    request.names = names(4_000, 200);
    assert_eq!(beat(&request).await, Err(GroupError::MemoryFull));
    assert_eq!(world.coordinator.memory_bytes(), used);
}

/// The bound may have become smaller, with a smaller machine.
#[tokio::test]
async fn groups_that_were_there_are_loaded_whatever_they_may_have_now() {
    let (world, caller, _) = full().await;
    let used = world.coordinator.memory_bytes();
    world.coordinator.close().await;
    let smaller = GroupConfig {
        memory_bytes: 1_000,
        ..GroupConfig::default()
    };
    let again = open(&world.topic, smaller).await.coordinator;
    assert!(again.memory_bytes() > 1_000 && again.memory_bytes() <= used);
    assert_eq!(again.heartbeat("first", &caller), Ok(()));
    let new = again.join(join_request("new", ""));
    assert_eq!(new.await, Err(GroupError::MemoryFull));
}

/// Members that never come back with the id they were given, and writes that the device does not take,
/// cost memory as well.
#[tokio::test]
async fn what_waits_is_charged_until_it_is_gone() {
    let world = ready(1, GroupConfig::default()).await;
    let coordinator = &world.coordinator;
    let empty = coordinator.memory_bytes();
    let mut request = join_request("g", "");
    request.requires_known_member_id = true;
    request.client_id = "c".repeat(10_000);
    let answer = coordinator.join(request).await;
    assert!(matches!(answer, Err(GroupError::MemberIdRequired(_))));
    assert!(coordinator.memory_bytes() > empty + 10_000);
    world.clock.advance(Duration::from_secs(11));
    world.timers.fire_due();
    assert_eq!(coordinator.memory_bytes(), empty);

    world.topic.logs[0].durable.send_replace(false);
    let mut waiting = Vec::new();
    let refused = loop {
        let offsets = (0..1_000).map(|p| TopicPartition {
            partition: p,
            ..partition("t")
        });
        let offsets = offsets.map(|partition| (partition, at(1))).collect();
        let mut commit = pin!(coordinator.commit("g", &nobody(), offsets));
        match futures_util::poll!(commit.as_mut()) {
            Poll::Ready(refused) => break refused,
            Poll::Pending => waiting.push(()),
        }
        assert!(
            waiting.len() < 1_000,
            "nothing bounds what waits for the device"
        );
    };
    assert_eq!(refused, Err(GroupError::CoordinatorNotAvailable));
    assert!(coordinator.metrics().writes_bytes <= GROUP_WRITES_BYTES_MAX);
    world.topic.logs[0].durable.send_replace(true);
    let offsets = vec![(partition("t"), at(1))];
    while coordinator
        .commit("g", &nobody(), offsets.clone())
        .await
        .is_err()
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(coordinator.metrics().offsets, 1_000);
}
