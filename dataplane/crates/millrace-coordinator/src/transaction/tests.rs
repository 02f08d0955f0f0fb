mod faults;
mod world;

use std::sync::atomic::Ordering;

use millrace_record::records;
use tokio::time::sleep;

use self::world::*;
use super::{
    messages::{InitProducer, TransactionConfig, TransactionFilter},
    *,
};
use crate::log::memory::MemoryTopic;

#[tokio::test(start_paused = true)]
async fn a_new_id_gets_a_producer_and_then_epochs() {
    let world = World::new().await;
    assert_eq!(world.init(None).await, Ok((1_000, 0)));
    assert_eq!(world.init(None).await, Ok((1_000, 1)));
    assert_eq!(world.state(), TransactionState::Empty);
    world.lose_and_gain().await;
    assert_eq!(world.init(None).await, Ok((1_000, 2)));
}

#[tokio::test(start_paused = true)]
async fn timeouts_have_bounds() {
    let world = World::new().await;
    let init = async |id: &str, timeout| {
        let request = InitProducer {
            transactional_id: id.into(),
            timeout,
            expected: None,
        };
        world.coordinator.init_producer_id(request).await
    };
    let longest = TransactionConfig::default().timeout_max;
    for timeout in [Duration::ZERO, longest + Duration::from_millis(1)] {
        assert_eq!(
            init("id", timeout).await,
            Err(TransactionError::InvalidTimeout)
        );
    }
    assert_eq!(
        init("", TIMEOUT).await,
        Err(TransactionError::InvalidRequest)
    );
    assert!(init("id", longest).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn transactions_of_the_first_protocol_keep_their_epoch() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    assert_eq!(
        world.verify(producer, "t"),
        Err(TransactionError::Abortable)
    );
    assert_eq!(world.add(producer, &["t", "u"]).await, Ok(()));
    let written = world.log().records();
    assert_eq!(world.add(producer, &["t"]).await, Ok(()));
    assert_eq!(world.log().records(), written, "nothing new to write");
    assert_eq!(world.verify(producer, "t"), Ok(()));
    assert_eq!(
        world.verify(producer, "v"),
        Err(TransactionError::Abortable)
    );
    assert_eq!(world.end(producer, true, 1).await, Ok(producer));
    world.settle().await;
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    for topic in ["t", "u"] {
        assert_eq!(world.markers(topic), [(producer, true)]);
    }
    // The answer may have been lost.
    assert_eq!(world.end(producer, true, 1).await, Ok(producer));
    let refused = world.end(producer, false, 1).await;
    assert_eq!(refused, Err(TransactionError::InvalidState));
    assert_eq!(world.add(producer, &["t"]).await, Ok(()));
    assert_eq!(world.end(producer, false, 1).await, Ok(producer));
    world.settle().await;
    assert_eq!(world.state(), TransactionState::CompleteAbort);
    assert_eq!(world.markers("t"), [(producer, true), (producer, false)]);
    assert_eq!(world.markers("u"), [(producer, true)]);
}

#[tokio::test(start_paused = true)]
async fn transactions_of_the_second_protocol_end_with_an_epoch_of_their_own() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    let next = (producer.0, producer.1 + 1);
    assert_eq!(world.end(producer, true, 2).await, Ok(next));
    world.settle().await;
    assert_eq!(world.markers("t"), [(next, true)]);
    // The answer may have been lost.
    assert_eq!(world.end(producer, true, 2).await, Ok(next));
    let fenced = world.add(producer, &["t"]).await;
    assert_eq!(fenced, Err(TransactionError::ProducerFenced));
    assert_eq!(world.add(next, &["t"]).await, Ok(()));
    assert_eq!(
        world.end(next, false, 2).await,
        Ok((producer.0, next.1 + 1))
    );
}

/// The table of KIP-890: what an end does where no transaction is open.
#[tokio::test(start_paused = true)]
async fn ends_without_a_transaction_are_answered_as_kafka_does() {
    use TransactionError::{InvalidState, ProducerFenced};
    use TransactionState::{CompleteAbort, CompleteCommit, Empty};
    let (current, bumped) = (Ok((7, 5)), Ok((7, 6)));
    for (state, committed, retried, first) in [
        (Empty, false, Err(ProducerFenced), bumped),
        (Empty, true, Err(ProducerFenced), Err(InvalidState)),
        (CompleteAbort, false, current, bumped),
        (CompleteAbort, true, Err(InvalidState), Err(InvalidState)),
        (CompleteCommit, false, Err(InvalidState), bumped),
        (CompleteCommit, true, current, Err(InvalidState)),
    ] {
        let world = loaded(stored(state, 5)).await;
        let what = format!("{state:?}, committed: {committed}");
        assert_eq!(world.end((7, 4), committed, 2).await, retried, "{what}");
        assert_eq!(world.end((7, 5), committed, 2).await, first, "{what}");
        world.settle().await;
        assert!(!world.state().is_ending());
    }
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_is_not_the_current_one_is_refused() {
    use TransactionError::{IdNotFound, InvalidProducerIdMapping, ProducerFenced};
    let world = World::new().await;
    assert_eq!(
        world.add((1, 0), &["t"]).await,
        Err(InvalidProducerIdMapping)
    );
    assert_eq!(
        world.end((1, 0), true, 2).await,
        Err(InvalidProducerIdMapping)
    );
    assert_eq!(world.verify((1, 0), "t"), Err(InvalidProducerIdMapping));
    assert_eq!(world.coordinator.describe("id").map(drop), Err(IdNotFound));
    world.init(None).await.expect("new");
    world.init(None).await.expect("known");
    for (producer, expected) in [
        ((1, 1), InvalidProducerIdMapping),
        ((1_000, 0), ProducerFenced),
        ((1_000, 2), ProducerFenced),
    ] {
        assert_eq!(world.add(producer, &["t"]).await, Err(expected));
        assert_eq!(world.verify(producer, "t"), Err(expected));
        for protocol in [1, 2] {
            assert_eq!(world.end(producer, true, protocol).await, Err(expected));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_producer_aborts_what_the_old_one_left_open() {
    for protocol in [1, 2] {
        let world = World::new().await;
        let old = world.init(None).await.expect("new");
        world.add(old, &["t"]).await.expect("begun");
        assert_eq!(world.init(None).await, Err(TransactionError::Concurrent));
        world.settle().await;
        assert_eq!(world.markers("t"), [((1_000, 1), false)]);
        assert_eq!(world.init(None).await, Ok((1_000, 2)));
        let fenced = Err(TransactionError::ProducerFenced);
        assert_eq!(world.end(old, true, protocol).await, fenced);
        assert_eq!(world.add(old, &["t"]).await.map(|()| old), fenced);
    }
}

/// KIP-360.
#[tokio::test(start_paused = true)]
async fn a_producer_that_knows_its_epoch_goes_on_with_the_next() {
    let world = World::new().await;
    let first = world.init(None).await.expect("new");
    let second = world.init(Some(first)).await;
    assert_eq!(second, Ok((1_000, 1)));
    // The answer may have been lost.
    assert_eq!(world.init(Some(first)).await, second);
    assert_eq!(world.init(Some((1_000, 1))).await, Ok((1_000, 2)));
    let fenced = Err(TransactionError::ProducerFenced);
    assert_eq!(world.init(Some(first)).await, fenced);
    assert_eq!(world.init(Some((999, 2))).await, fenced);
    // A new producer fences all of them.
    assert_eq!(world.init(None).await, Ok((1_000, 3)));
    assert_eq!(world.init(Some((1_000, 2))).await, fenced);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_epoch_makes_a_new_producer_id() {
    use TransactionState::{Empty, Ongoing};
    const LAST: i16 = i16::MAX - 1;
    let world = loaded(stored(Empty, LAST)).await;
    assert_eq!(world.init(Some((7, LAST))).await, Ok((1_000, 0)));
    assert_eq!(world.init(Some((7, LAST))).await, Ok((1_000, 0)));
    assert_eq!(world.init(None).await, Ok((1_000, 1)));

    let world = loaded(stored(Ongoing, LAST)).await;
    assert_eq!(world.end((7, LAST), true, 2).await, Ok((1_000, 0)));
    world.settle().await;
    assert_eq!(world.markers("t"), [((7, i16::MAX), true)]);
    assert_eq!(world.end((7, LAST), true, 2).await, Ok((1_000, 0)));
    assert_eq!(world.add((1_000, 0), &["t"]).await, Ok(()));

    // What fences the last epoch is nobody's: nothing could fence that in turn.
    let world = loaded(stored(Ongoing, LAST)).await;
    world.pass(TIMEOUT).await;
    assert_eq!(world.markers("t"), [((7, i16::MAX), false)]);
    let refused = world.end((7, LAST), false, 2).await;
    assert_eq!(refused, Err(TransactionError::ProducerFenced));
    assert_eq!(world.init(None).await, Ok((1_000, 0)));
}

/// The new id was fenced until the last transaction of the old one was complete.
#[tokio::test(start_paused = true)]
async fn a_producer_with_its_next_id_waits_for_the_end_of_its_last_transaction() {
    use TransactionError::Concurrent;
    const LAST: i16 = i16::MAX - 1;
    let world = loaded(stored(TransactionState::Ongoing, LAST)).await;
    world.data.is_down.store(true, Ordering::SeqCst);
    let next = world.end((7, LAST), true, 2).await.expect("durable");
    assert_eq!(next, (1_000, 0));
    assert_eq!(world.add(next, &["t"]).await, Err(Concurrent));
    assert_eq!(world.verify(next, "t"), Err(Concurrent));
    assert_eq!(world.end(next, false, 2).await, Err(Concurrent));
    assert_eq!(world.init(Some(next)).await, Err(Concurrent));
    world.data.is_down.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.add(next, &["t"]).await, Ok(()));
}

/// It got the epoch that fenced it, with which no transaction could have been aborted.
#[tokio::test(start_paused = true)]
async fn a_producer_that_was_fenced_with_the_last_epoch_gets_a_new_id() {
    const LAST: i16 = i16::MAX - 1;
    let world = loaded(stored(TransactionState::Ongoing, LAST)).await;
    world.pass(TIMEOUT).await;
    assert_eq!(world.markers("t"), [((7, i16::MAX), false)]);
    assert_eq!(world.init(Some((7, LAST))).await, Ok((1_000, 0)));
    assert_eq!(world.init(Some((7, LAST))).await, Ok((1_000, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_zombie_does_not_abort_the_transaction_of_its_successor() {
    let world = World::new().await;
    let zombie = world.init(None).await.expect("new");
    let producer = world.init(None).await.expect("known");
    world.add(producer, &["t"]).await.expect("begun");
    let fenced = world.init(Some(zombie)).await;
    assert_eq!(fenced, Err(TransactionError::ProducerFenced));
    assert_eq!(world.state(), TransactionState::Ongoing);
    assert_eq!(world.end(producer, true, 2).await, Ok((producer.0, 2)));
}

/// The log says that it begins in an hour.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_a_wrong_clock_has_stamped_is_aborted_in_time() {
    let begun = stored(TransactionState::Ongoing, 3);
    let start_ms = 60 * 60 * 1_000 + begun.start_ms;
    let world = loaded(Metadata { start_ms, ..begun }).await;
    world.pass(TIMEOUT - Duration::from_millis(1)).await;
    assert_eq!(world.state(), TransactionState::Ongoing);
    world.pass(Duration::from_millis(1)).await;
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_takes_too_long_is_aborted_also_by_another_coordinator() {
    for is_moved in [false, true] {
        let world = World::new().await;
        let producer = world.init(None).await.expect("new");
        world.add(producer, &["t"]).await.expect("begun");
        world.pass(TIMEOUT / 2).await;
        world.add(producer, &["u"]).await.expect("ongoing");
        if is_moved {
            world.lose_and_gain().await;
        }
        world.pass(TIMEOUT / 2 - Duration::from_millis(1)).await;
        assert_eq!(world.state(), TransactionState::Ongoing);
        world.pass(Duration::from_millis(1)).await;
        assert_eq!(world.state(), TransactionState::CompleteAbort);
        let next = (producer.0, producer.1 + 1);
        for topic in ["t", "u"] {
            assert_eq!(world.markers(topic), [(next, false)]);
        }
        let fenced = world.add(producer, &["t"]).await;
        assert_eq!(fenced, Err(TransactionError::ProducerFenced));
        let fenced = world.end(producer, false, 1).await;
        assert_eq!(fenced, Err(TransactionError::ProducerFenced));
        // As in Kafka 4.1.
        assert_eq!(world.end(producer, false, 2).await, Ok(next));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_is_answered_when_it_is_decided_and_the_next_waits_for_the_markers() {
    use TransactionError::{Concurrent, InvalidState};
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    world.data.is_down.store(true, Ordering::SeqCst);
    let next = world.end(producer, true, 2).await.expect("durable");
    world.settle().await;
    let metrics = world.coordinator.metrics();
    assert_eq!((metrics.ids, metrics.ongoing, metrics.ending), (1, 0, 1));
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    assert_eq!(world.add(next, &["t"]).await, Err(Concurrent));
    assert_eq!(world.init(None).await, Err(Concurrent));
    assert_eq!(world.end(producer, true, 2).await, Err(Concurrent));
    assert_eq!(world.end(producer, false, 2).await, Err(InvalidState));
    // Whoever coordinates it next goes on.
    world.lose_and_gain().await;
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    world.data.is_down.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.markers("t"), [(next, true)]);
}

/// It was fenced, because the epoch had grown already.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_repeated_while_its_completion_is_written_is_retried() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    world.data.is_down.store(true, Ordering::SeqCst);
    let next = world.end(producer, true, 2).await.expect("durable");
    world.log().durable.send_replace(false);
    world.data.is_down.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.markers("t"), [(next, true)]);
    let repeated = world.end(producer, true, 2).await;
    assert_eq!(repeated, Err(TransactionError::Concurrent));
    world.log().durable.send_replace(true);
    world.settle().await;
    assert_eq!(world.end(producer, true, 2).await, Ok(next));
}

/// Producers write to one partition while they add another one.
#[tokio::test(start_paused = true)]
async fn partitions_are_verified_while_others_are_added() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    world.log().durable.send_replace(false);
    let mut adding = std::pin::pin!(world.add(producer, &["u"]));
    assert!(futures_util::poll!(adding.as_mut()).is_pending());
    assert_eq!(world.verify(producer, "t"), Ok(()));
    assert_eq!(
        world.verify(producer, "u"),
        Err(TransactionError::Abortable)
    );
    assert_eq!(
        world.add(producer, &["t"]).await,
        Err(TransactionError::Concurrent)
    );
    world.log().durable.send_replace(true);
    assert_eq!(adding.await, Ok(()));
    assert_eq!(world.verify(producer, "u"), Ok(()));
}

/// A second marker that was still on its way when the transaction was complete ended the next one of its producer.
#[tokio::test(start_paused = true)]
async fn markers_are_not_written_twice_at_the_same_time() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    let slow = Fault::Slow(Duration::from_secs(10));
    world.data.faults.lock().extend([slow, slow]);
    world.end(producer, true, 1).await.expect("durable");
    // The alarm of the transaction's timeout rings.
    world.pass(TIMEOUT).await;
    sleep(Duration::from_secs(11)).await;
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    world.add(producer, &["t"]).await.expect("begun");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(world.markers("t"), [(producer, true)]);
    assert_eq!(world.state(), TransactionState::Ongoing);
}

/// An answer to a marker that came after the id had ended one transaction elsewhere, and was ending another one here,
/// completed that one without its markers.
#[tokio::test(start_paused = true)]
async fn markers_complete_only_the_transaction_that_they_were_written_for() {
    let first = World::new().await;
    let topic = MemoryTopic::of(first.topic.logs.clone());
    topic.create_elsewhere();
    let (data, clock, ids) = (first.data.clone(), first.clock.clone(), first.ids.clone());
    let second = World::with(topic, data, clock, ids).await;
    let producer = first.init(None).await.expect("new");
    first.add(producer, &["t"]).await.expect("begun");
    let slow = Fault::SlowAnswer(Duration::from_secs(100));
    first.data.faults.lock().push_back(slow);
    first.end(producer, true, 1).await.expect("durable");
    first.settle().await;
    first.topic.lose(0);
    first.settle().await;

    second.topic.gain(0);
    second.settle().await;
    assert_eq!(second.state(), TransactionState::CompleteCommit);
    second.add(producer, &["u"]).await.expect("begun");
    second.data.is_down.store(true, Ordering::SeqCst);
    second.end(producer, true, 1).await.expect("durable");
    second.topic.lose(0);
    second.settle().await;

    first.topic.gain(0);
    sleep(Duration::from_secs(200)).await;
    first.settle().await;
    assert_eq!(first.state(), TransactionState::PrepareCommit);
    first.data.is_down.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(first.state(), TransactionState::CompleteCommit);
    assert_eq!(first.markers("u"), [(producer, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_written_is_tried_again_in_peace() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t"]).await.expect("begun");
    world.data.is_down.store(true, Ordering::SeqCst);
    world.end(producer, true, 2).await.expect("durable");
    world.log().broken.store(true, Ordering::SeqCst);
    world.data.is_down.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    assert_eq!(world.markers("t").len(), 1, "a marker for every attempt");
    world.log().broken.store(false, Ordering::SeqCst);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    // Neither is one whose abort cannot be written.
    let producer = world.init(None).await.expect("known");
    world.add(producer, &["t"]).await.expect("begun");
    world.log().broken.store(true, Ordering::SeqCst);
    world.pass(TIMEOUT).await;
    assert_eq!(world.state(), TransactionState::Ongoing);
    world.log().broken.store(false, Ordering::SeqCst);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[tokio::test(start_paused = true)]
async fn partitions_that_are_gone_need_no_marker() {
    let world = World::new().await;
    let producer = world.init(None).await.expect("new");
    world.add(producer, &["t", "u"]).await.expect("begun");
    world.data.gone.lock().insert(partition("t"));
    world.end(producer, true, 2).await.expect("durable");
    world.settle().await;
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!((world.markers("t").len(), world.markers("u").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_not_used_are_forgotten_but_not_open_transactions() {
    let world = World::new().await;
    world.init(None).await.expect("new");
    let config = TransactionConfig::default();
    world.clock.advance(config.id_expiration);
    sleep(config.cleanup_interval).await;
    world.settle().await;
    let described = world.coordinator.describe("id").map(drop);
    assert_eq!(described, Err(TransactionError::IdNotFound));
    assert_eq!(world.history("id").last(), Some(&None));
    assert_eq!(world.init(None).await, Ok((1_001, 0)));

    let world = loaded(stored(TransactionState::Ongoing, 0)).await;
    world.data.is_down.store(true, Ordering::SeqCst);
    world.end((7, 0), true, 2).await.expect("durable");
    world.clock.advance(config.id_expiration);
    sleep(config.cleanup_interval).await;
    assert!(world.coordinator.describe("id").is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_id_whose_producer_went_away_too_early_does_not_stay() {
    let world = World::new().await;
    let before = world.coordinator.memory_bytes();
    world.log().broken.store(true, Ordering::SeqCst);
    let refused = world.init(None).await;
    assert_eq!(refused, Err(TransactionError::CoordinatorNotAvailable));
    assert!(world.coordinator.memory_bytes() > before);
    sleep(TransactionConfig::default().cleanup_interval * 2).await;
    assert_eq!(world.coordinator.memory_bytes(), before);
}

#[tokio::test(start_paused = true)]
async fn transactions_are_listed_by_what_is_asked_for() {
    let world = World::new().await;
    let mut producers = Vec::new();
    for id in ["a-1", "a-2", "b-1"] {
        let request = InitProducer {
            transactional_id: id.into(),
            timeout: TIMEOUT,
            expected: None,
        };
        let producer = world.coordinator.init_producer_id(request).await;
        producers.push(producer.expect("new"));
    }
    let added = [partition("t")];
    let begun = world
        .coordinator
        .add_partitions("a-2", producers[1], &added);
    begun.await.expect("begun");
    world.pass(Duration::from_secs(5)).await;
    let listed = |filter| {
        let listed = world.coordinator.list(&filter).expect("legal");
        let ids = listed.into_iter().map(|listing| listing.transactional_id);
        ids.collect::<Vec<_>>()
    };
    let all = TransactionFilter::default();
    assert_eq!(listed(all.clone()), ["a-1", "a-2", "b-1"]);
    let of_pattern = |pattern: &str| TransactionFilter {
        id_pattern: Some(pattern.into()),
        ..all.clone()
    };
    assert_eq!(listed(of_pattern("a-.")), ["a-1", "a-2"]);
    assert_eq!(listed(of_pattern("a")), Vec::<String>::new());
    assert_eq!(listed(of_pattern("a-1|b-1")), ["a-1", "b-1"]);
    let illegal = world.coordinator.list(&of_pattern("("));
    assert_eq!(illegal, Err(TransactionError::InvalidPattern));
    let ongoing = TransactionFilter {
        states: vec![TransactionState::Ongoing],
        ..all.clone()
    };
    assert_eq!(listed(ongoing), ["a-2"]);
    let of_producer = TransactionFilter {
        producer_ids: vec![producers[2].0],
        ..all.clone()
    };
    assert_eq!(listed(of_producer), ["b-1"]);
    let longer = |seconds| TransactionFilter {
        states: vec![TransactionState::Ongoing],
        longer_than: Some(Duration::from_secs(seconds)),
        ..all.clone()
    };
    assert_eq!(listed(longer(4)), ["a-2"]);
    assert_eq!(listed(longer(5)), Vec::<String>::new());
    let described = world.coordinator.describe("a-2").expect("known");
    assert_eq!(described.partitions, BTreeSet::from([partition("t")]));
    assert_eq!(described.producer_id, producers[1].0);
    assert_eq!(described.timeout, TIMEOUT);
}
