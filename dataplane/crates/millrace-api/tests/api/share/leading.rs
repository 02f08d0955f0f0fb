//! What the leader of a share partition knows: states that are stored, and logs that change.

use kafka_protocol::messages::DeleteTopicsRequest;

use super::*;
use crate::{
    calls::topic_name,
    committed_reads::{end, send},
    versions::delete_records,
};

fn starting_at(reset: ResetStrategy) -> ShareConfig {
    ShareConfig {
        group: GroupSettings {
            reset,
            ..GroupSettings::default()
        },
        ..ShareConfig::default()
    }
}

#[tokio::test]
async fn what_is_acknowledged_survives_a_restart() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b", "c", "d"])).await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    let types = [ACCEPT, RELEASE, ACCEPT];
    assert_eq!(one.acknowledged(&[(0, 2, &types)]).await, 0);
    drop(one);
    let world = world.restart().await;
    let mut one = Member::new(&world, "m1", 1);
    // The session is gone, with what the member held.
    one.epoch = 3;
    assert_eq!(error(&mut one, 3).await, Code::ShareSessionNotFound.code());
    one.epoch = 0;
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    let response = one.ask(&request).await;
    assert_eq!(acquired(&response), [(1, 1, 2), (3, 3, 1)]);
}

#[tokio::test]
async fn an_acknowledgement_waits_for_the_share_coordinator() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b"])).await;
    let mut one = Member::new(&world, "m1", 1);
    states(&world).set_down(true);
    one.join().await;
    states(&world).set_down(false);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(
        acquired(&one.ask(&request).await),
        [(0, 1, 1)],
        "once the state can be read"
    );
    states(&world).set_down(true);
    let request = one.request(&[0], &[(0, 0, &[ACCEPT])]);
    let Sent::Later(mut answered) = world.send_as(&one.peer, VERSION, &request).await else {
        panic!("answered at once")
    };
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut answered).await;
    assert!(waited.is_err(), "answered although it is not durable");
    states(&world).set_down(false);
    let response = answer::<ShareFetchRequest>(VERSION, Sent::Later(answered)).await;
    assert_eq!(partitions(&response)[0].acknowledge_error_code, 0);
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(1), Vec::new())
    );
}

#[tokio::test]
async fn a_write_that_fails_leaves_the_records_with_the_member() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b"])).await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    states(&world).fail_write(ShareStateError::Invalid);
    let failed = Code::UnknownServerError.code();
    assert_eq!(one.acknowledged(&[(0, 0, &[ACCEPT])]).await, failed);
    assert_eq!(one.acknowledged(&[(0, 1, &[ACCEPT])]).await, 0);
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(2), Vec::new())
    );
}

/// Waits until the share coordinator keeps this of the first partition.
async fn keeps(world: &World, expected: (Option<u64>, Vec<(u64, i8, i16)>)) {
    for _ in 0..500 {
        if states(world).kept(&share_partition(world, 0)) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let kept = states(world).kept(&share_partition(world, 0));
    assert_eq!(kept, expected);
}

/// Nobody waits for a write of what has timed out.
#[tokio::test]
async fn what_could_not_be_written_is_written_when_the_last_member_goes() {
    let share = ShareConfig {
        group: GroupSettings {
            record_lock: Duration::from_millis(50),
            ..GroupSettings::default()
        },
        ..ShareConfig::default()
    };
    let world = world_with(share).await;
    world.produce("t", 0, batch(&["a"])).await;
    let mut one = Member::new(&world, "m1", 1);
    states(&world).fail_write(ShareStateError::Invalid);
    one.join().await;
    while !states(&world).has_failed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.service.disconnected(&one.peer);
    keeps(&world, (Some(0), vec![(0, 0, 1)])).await;
}

#[tokio::test]
async fn a_marker_after_the_last_record_is_done() {
    let world = world().await;
    send(&world, 1, 0, "a").await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    assert_eq!(one.acknowledged(&[(0, 0, &[ACCEPT])]).await, 0);
    keeps(&world, (Some(1), Vec::new())).await;
    end(&world, 1, true).await;
    assert_eq!(one.fetch().await, []);
    keeps(&world, (Some(2), Vec::new())).await;
}

#[tokio::test]
async fn a_share_partition_that_is_fenced_is_read_again() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b"])).await;
    for error in [ShareStateError::Fenced, ShareStateError::FencedStateEpoch] {
        let mut one = Member::new(&world, "m1", 1);
        one.join().await;
        states(&world).fail_write(error);
        let not_leader = Code::NotLeaderOrFollower.code();
        assert_eq!(one.acknowledged(&[(0, 1, &[ACCEPT])]).await, not_leader);
        assert_eq!(
            one.acknowledged(&[(0, 1, &[ACCEPT])]).await,
            Code::UnknownTopicOrPartition.code(),
            "nobody holds anything"
        );
        let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
        assert_eq!(acquired(&one.ask(&request).await), [(0, 1, 1)]);
        one.epoch = -1;
        one.acknowledge(&[]).await;
        states(&world)
            .initialize(share_partition(&world, 0), 1, Some(0))
            .await
            .expect("initialized");
    }
    // Its group was deleted.
    states(&world)
        .delete(share_partition(&world, 0))
        .await
        .expect("deleted");
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
}

#[tokio::test]
async fn groups_begin_where_their_settings_say() {
    for (reset, expected) in [
        (ResetStrategy::Earliest, vec![(0, 1, 1), (2, 2, 1)]),
        (ResetStrategy::Latest, vec![(2, 2, 1)]),
        // Its records are of 1970.
        (
            ResetStrategy::ByDuration(Duration::from_secs(60)),
            vec![(2, 2, 1)],
        ),
    ] {
        let world = World::with(Settings {
            share: starting_at(reset),
            kept_share_states: Some(Arc::default()),
            ..Settings::default()
        });
        let world = world.await;
        world.create("t", 1, &[]).await;
        world.produce("t", 0, batch(&["a", "b"])).await;
        let mut one = Member::new(&world, "m1", 1);
        let request = one.request(&[0], &[]).with_max_wait_ms(200);
        let mut all = acquired(&one.ask(&request).await);
        world.produce("t", 0, batch(&["c"])).await;
        let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
        all.extend(acquired(&one.ask(&request).await));
        assert_eq!(all, expected, "{reset:?}");
        // It is stored, so that the next leader does not begin elsewhere.
        let (start, _) = states(&world).kept(&share_partition(&world, 0));
        let first = expected
            .first()
            .map(|(first, ..)| u64::try_from(*first).expect("an offset"));
        assert_eq!(start, first);
    }
}

#[tokio::test]
async fn aborted_records_are_not_delivered_where_committed_ones_are_asked_for() {
    let share = ShareConfig {
        group: GroupSettings {
            is_read_committed: true,
            ..GroupSettings::default()
        },
        ..ShareConfig::default()
    };
    let world = world_with(share).await;
    world.produce("t", 0, batch(&["a"])).await;
    send(&world, 1, 0, "aborted").await;
    send(&world, 2, 0, "committed").await;
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(
        acquired(&one.ask(&request).await),
        [(0, 0, 1)],
        "up to the last stable offset"
    );
    end(&world, 1, false).await;
    end(&world, 2, true).await;
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&one.ask(&request).await), [(2, 2, 1)]);
    assert_eq!(
        one.acknowledged(&[(0, 0, &[ACCEPT]), (2, 2, &[ACCEPT])])
            .await,
        0
    );
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(5), Vec::new()),
        "with the markers"
    );
}

#[tokio::test]
async fn records_that_are_deleted_are_not_delivered() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b", "c"])).await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    assert_eq!(one.acknowledged(&[(0, 2, &[RELEASE])]).await, 0);
    let mut request = delete_records("t");
    request.topics[0].partitions[0].offset = 2;
    let deleted = world.ask(2, &request).await;
    assert_eq!(deleted.topics[0].partitions[0].error_code, 0);
    assert_eq!(one.fetch().await, [(2, 2, 2)]);
    assert_eq!(one.acknowledged(&[(0, 2, &[ACCEPT])]).await, 0);
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(3), Vec::new())
    );

    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    assert_eq!(world.ask(5, &request).await.responses[0].error_code, 0);
    let request = one.request(&[0], &[]);
    let response = one.ask(&request).await;
    assert_eq!(
        partitions(&response)[0].error_code,
        Code::UnknownTopicId.code()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_objects_are_delivered() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b", "c"])).await;
    let world = world.chill().await;
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&one.ask(&request).await), [(0, 2, 1)]);
    assert_eq!(one.acknowledged(&[(0, 2, &[ACCEPT])]).await, 0);
}

#[tokio::test]
async fn partitions_take_turns() {
    let world = world().await;
    for index in [0, 1] {
        for _ in 0..3 {
            world.produce("t", index, batch(&["a"])).await;
        }
    }
    let mut one = Member::new(&world, "m1", 1);
    let request = one
        .request(&[0, 1], &[])
        .with_max_wait_ms(300)
        .with_min_bytes(1 << 20);
    let mut from = Vec::new();
    let response = one.ask(&request.with_max_records(1)).await;
    from.push(response);
    for _ in 0..3 {
        let request = one.request(&[0, 1], &[]).with_max_records(1);
        from.push(one.ask(&request).await);
    }
    let with_records = from.iter().map(|response| {
        let partitions = partitions(response).into_iter();
        let mut some = partitions.filter(|partition| !partition.acquired_records.is_empty());
        some.next().map(|partition| partition.partition_index)
    });
    let with_records: Vec<_> = with_records.collect();
    assert_eq!(with_records, [Some(0), Some(1), Some(0), Some(1)]);
    // One that is forgotten is not fetched, and what was acquired of it can be acknowledged.
    let forgotten = share_fetch_request::ForgottenTopic::default()
        .with_topic_id(one.topic)
        .with_partitions(vec![1]);
    let request = one.request(&[1], &[(0, 0, &[ACCEPT])]);
    let response = one
        .ask(&request.with_forgotten_topics_data(vec![forgotten]))
        .await;
    let told: Vec<_> = { partitions(&response).into_iter() }
        .map(|of| {
            (
                of.partition_index,
                of.acknowledge_error_code,
                of.acquired_records.len(),
            )
        })
        .collect();
    assert_eq!(told, [(0, 0, 1), (1, 0, 0)]);
}

/// With the share coordinator of the broker itself.
#[tokio::test]
async fn states_are_kept_by_the_share_coordinator() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.produce("t", 0, batch(&["a", "b", "c"])).await;
    let initialized = world
        .share_states
        .initialize(share_partition(&world, 0), 3, None);
    initialized.await.expect("initialized");
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(200);
    assert_eq!(
        acquired(&one.ask(&request).await),
        [],
        "after the last record"
    );
    world.produce("t", 0, batch(&["d", "e", "f"])).await;
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&one.ask(&request).await), [(3, 5, 1)]);
    let types = [ACCEPT, RELEASE, REJECT];
    assert_eq!(one.acknowledged(&[(3, 5, &types)]).await, 0);
    drop(one);
    let world = world.restart().await;
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(10_000);
    assert_eq!(acquired(&one.ask(&request).await), [(4, 4, 2)]);
    assert_eq!(one.acknowledged(&[(4, 4, &[ACCEPT])]).await, 0);
    let state = world
        .share_states
        .read_summary(share_partition(&world, 0))
        .await;
    let state = state.expect("known");
    assert_eq!((state.state_epoch, state.start_offset), (3, Some(6)));
}
