//! The stack of decorators, over a store that fails on purpose.

use std::time::Duration;

use bytes::Bytes;
use millrace_limiter::{Limiter, Network, NetworkConfig, Tier};
use millrace_model::{ObjectId, StreamEpoch, StreamId};
use millrace_objects::{
    GetError, ObjectBuilder, ObjectKey, ObjectReader, ObjectStorage, PutError, ReadError,
    StreamEntry,
    bucket::{Body, Bucket, BucketError, NetworkShare, RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_tasks::Supervisor;
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::{ManualClock, SeededRandom};

fn key() -> ObjectKey {
    ObjectKey::of("test", ObjectId(1))
}

fn chunks(text: &'static str) -> Vec<Bytes> {
    vec![Bytes::from_static(text.as_bytes())]
}

/// A stack over a faulty bucket that the test steers.
pub(crate) fn stack(seed: u64) -> (ObjectStorage, FaultyBucket) {
    let faulty = FaultyBucket::new(StoreBucket::memory(), SeededRandom::shared(seed));
    let storage = ObjectStorage::over(
        faulty.clone(),
        RetryPolicy::default(),
        TimeoutPolicy::default(),
        ManualClock::shared(),
        SeededRandom::shared(seed + 1),
    );
    (storage, faulty)
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_counts_as_success() {
    let (storage, faulty) = stack(1);
    faulty.set(BucketFaults {
        lose_reply_permille: 1_000,
        ..BucketFaults::default()
    });
    let put = tokio::spawn({
        let storage = storage.clone();
        async move { storage.put(&key(), chunks("ours")).await }
    });
    while faulty.counts().puts == 0 {
        tokio::task::yield_now().await;
    }
    faulty.set(BucketFaults::default());
    put.await
        .expect("no panic")
        .expect("its own object is success");
    assert_eq!(faulty.counts().puts, 1);
    assert_eq!(
        storage.get_range(&key(), 0..4).await.expect("there"),
        "ours"
    );
}

#[tokio::test(start_paused = true)]
async fn another_object_at_the_key_is_a_conflict() {
    let (storage, _) = stack(1);
    storage
        .put(&key(), chunks("theirs"))
        .await
        .expect("a new key");
    for ours in ["ours!!", "theirs and more", "their"] {
        let put = storage.put(&key(), chunks(ours)).await;
        assert!(
            matches!(put, Err(PutError::Conflict { .. })),
            "{ours}: {put:?}"
        );
    }
    storage
        .put(&key(), chunks("theirs"))
        .await
        .expect("equal bytes are the same object");
    let other_chunks = vec![Bytes::from_static(b"the"), Bytes::from_static(b"irs")];
    storage
        .put(&key(), other_chunks)
        .await
        .expect("however they are cut");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_over_nothing_is_tried_again() {
    let (storage, faulty) = stack(1);
    faulty.set(BucketFaults {
        conflict_permille: 500,
        ..BucketFaults::default()
    });
    for id in 0..50 {
        let key = ObjectKey::of("test", ObjectId(id));
        storage.put(&key, chunks("x")).await.expect("it passes");
    }
    assert!(faulty.counts().faults > 20);
}

#[tokio::test(start_paused = true)]
async fn a_third_of_all_requests_may_fail() {
    let mut faults_shown = 0;
    for seed in 0..20 {
        let (storage, faulty) = stack(seed);
        let faults = BucketFaults {
            fail_permille: 200,
            lose_reply_permille: 100,
            conflict_permille: 50,
            delay: Duration::from_millis(20),
            ..BucketFaults::default()
        };
        faulty.set(faults);
        for id in 0..20 {
            let key = ObjectKey::of("test", ObjectId(id));
            let bytes = Bytes::from(vec![id as u8; 1_000]);
            storage
                .put(&key, vec![bytes.clone()])
                .await
                .expect("ten tries are enough");
            assert_eq!(
                storage.get_range(&key, 0..1_000).await.expect("there"),
                bytes
            );
        }
        let all = storage.list("", None, 100).await.expect("a listing");
        assert_eq!(all.len(), 20);
        let keys: Vec<_> = all.into_iter().map(|object| object.key).collect();
        storage.delete(&keys).await.expect("deleted");
        assert!(
            storage
                .list("", None, 100)
                .await
                .expect("a listing")
                .is_empty()
        );
        faults_shown += faulty.counts().faults;
    }
    assert!(faults_shown > 200, "{faults_shown} faults test nothing");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_store_is_given_up_after_the_last_try() {
    let (storage, faulty) = stack(1);
    faulty.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    let error = storage
        .put(&key(), chunks("x"))
        .await
        .expect_err("unreachable");
    assert!(
        matches!(&error, PutError::Store { source, .. } if source.may_pass()),
        "{error:?}"
    );
    let error = storage
        .get_range(&key(), 0..1)
        .await
        .expect_err("unreachable");
    assert!(matches!(error, GetError::Store { .. }));
    faulty.set(BucketFaults::default());
    storage.put(&key(), chunks("x")).await.expect("back again");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_request_times_out_and_is_tried_again() {
    let (storage, faulty) = stack(1);
    faulty.set(BucketFaults {
        delay: Duration::from_secs(3_600),
        ..BucketFaults::default()
    });
    let clock = tokio::time::Duration::from_secs(11);
    let put = tokio::spawn({
        let storage = storage.clone();
        async move { storage.put(&key(), chunks("x")).await }
    });
    tokio::time::sleep(clock).await;
    faulty.set(BucketFaults::default());
    put.await
        .expect("no panic")
        .expect("the second try is quick");

    faulty.set(BucketFaults {
        delay: Duration::from_secs(3_600),
        ..BucketFaults::default()
    });
    let error = storage
        .get_range(&key(), 0..1)
        .await
        .expect_err("stuck for good");
    let timed_out = |source: &BucketError| matches!(source, BucketError::TimedOut(_));
    assert!(
        matches!(&error, GetError::Store { source, .. } if timed_out(source)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn large_transfers_get_more_time() {
    let (storage, faulty) = stack(1);
    faulty.set(BucketFaults {
        delay: Duration::from_secs(30),
        ..BucketFaults::default()
    });
    // 10 s and 1 MiB/s: 40 s for this one.
    let body: Vec<_> = (0..30).map(|_| Bytes::from(vec![0; 1 << 20])).collect();
    storage.put(&key(), body).await.expect("within its time");
    assert_eq!(faulty.counts().puts, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_not_tried_again() {
    let (storage, faulty) = stack(1);
    let error = storage
        .get_range(&key(), 0..1)
        .await
        .expect_err("nothing there");
    assert!(matches!(error, GetError::NotFound { .. }));
    assert!(
        storage
            .get_range(&key(), 5..5)
            .await
            .expect("nothing asked")
            .is_empty()
    );
    storage
        .put(&key(), chunks("four"))
        .await
        .expect("a new key");
    let error = storage.get_range(&key(), 2..6).await.expect_err("too far");
    assert!(
        matches!(
            error,
            GetError::Truncated {
                size: 4,
                end: 6,
                ..
            }
        ),
        "{error:?}"
    );
    let error = storage
        .get_range(&key(), 8..9)
        .await
        .expect_err("much too far");
    assert!(
        matches!(
            error,
            GetError::Truncated {
                size: 4,
                end: 9,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(faulty.counts().gets, 1);
}

#[tokio::test(start_paused = true)]
async fn a_bit_flipped_on_the_way_is_read_again_and_never_given_out() {
    let entries: Vec<_> = (0..200_u64)
        .map(|nth| StreamEntry {
            stream: StreamId(nth / 50),
            epoch: StreamEpoch(1),
            base_offset: nth,
            count: 1,
            payload: Bytes::from(vec![nth as u8; 100]),
        })
        .collect();
    let mut builder = ObjectBuilder::new(1_000);
    entries
        .iter()
        .for_each(|entry| builder.add(entry.clone()).expect("in order"));
    let built = builder.finish();
    let (mut sound, mut corrupt) = (0, 0);
    for seed in 0..40 {
        let (storage, faulty) = stack(seed);
        storage
            .put(&key(), built.chunks.clone())
            .await
            .expect("a new key");
        faulty.set(BucketFaults {
            flip_permille: 100,
            ..BucketFaults::default()
        });
        let mut read = Vec::new();
        let outcome = async {
            let reader = ObjectReader::open(&storage, key(), built.size).await?;
            for block in reader.blocks() {
                read.extend(reader.read_block(&storage, block).await?);
            }
            Ok::<_, ReadError>(())
        };
        match outcome.await {
            Ok(()) => sound += 1,
            Err(ReadError::Corrupt { .. }) => corrupt += 1,
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(read, entries[..read.len()]);
    }
    assert!(
        sound > 10,
        "reading again repairs: {sound} sound, {corrupt} corrupt"
    );
}

#[tokio::test(start_paused = true)]
async fn every_try_pays_for_its_bytes() {
    let (storage, faulty) = stack(1);
    let clock = millrace_time::SystemClock::shared();
    let unlimited = || Limiter::new(clock.clone(), None);
    let slow = Limiter::new(ManualClock::shared(), Some(1));
    let share = |ingress: &Limiter, egress: &Limiter| NetworkShare {
        ingress: ingress.clone(),
        egress: egress.clone(),
        tier: Tier::CatchUpMiss,
        flow: 0,
    };
    let free = storage.limited(share(&unlimited(), &unlimited()));
    free.put(&key(), chunks("x"))
        .await
        .expect("nothing holds it up");
    // The clock of the slow limiter stands still: what exceeds its first burst waits for good.
    let held_up = storage.limited(share(&slow, &unlimited()));
    held_up
        .put(&ObjectKey::of("test", ObjectId(2)), chunks("x"))
        .await
        .expect("egress is free");
    let gets = async {
        for _ in 0..1_000 {
            held_up.get_range(&key(), 0..1).await.expect("there");
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(5), gets).await;
    assert!(waited.is_err() && faulty.counts().gets < 1_000);
}

#[tokio::test]
async fn too_large_an_object_is_refused_before_it_is_sent() {
    let (storage, faulty) = stack(1);
    let chunk = Bytes::from(vec![0; 1 << 26]);
    let body = vec![chunk; 81];
    let error = storage
        .put(&key(), body)
        .await
        .expect_err("more than 5 GiB");
    assert!(matches!(error, PutError::TooLarge { size, .. } if size == 81 << 26));
    assert_eq!(faulty.counts().puts, 0);
}

#[tokio::test]
async fn a_shared_bucket_is_a_bucket() {
    let bucket: std::sync::Arc<dyn Bucket> = std::sync::Arc::new(StoreBucket::memory());
    bucket
        .put(&key(), &Body::from(chunks("x")))
        .await
        .expect("a new key");
    assert_eq!(bucket.size(&key()).await.expect("there"), 1);
}

/// A read that waits for its share has asked nothing of the store and leaves no debt behind; once it
/// has its share it is one try, and what lies between the pieces is paid for.
#[tokio::test(start_paused = true)]
async fn an_admitted_read_is_paid_for_and_is_one_try() {
    let clock = ManualClock::shared();
    let faulty = FaultyBucket::new(StoreBucket::memory(), SeededRandom::shared(1));
    let (retry, timeout) = (RetryPolicy::default(), TimeoutPolicy::default());
    let random = SeededRandom::shared(2);
    let storage = ObjectStorage::over(faulty.clone(), retry, timeout, clock.clone(), random);
    storage
        .put(&key(), chunks("0123456789"))
        .await
        .expect("puts");
    let limiter = || Limiter::new(clock.clone(), Some(1_000));
    let share = NetworkShare {
        ingress: limiter(),
        egress: limiter(),
        tier: Tier::Prefetch,
        flow: 0,
    };
    let limited = storage.limited(share.clone());
    let pieces = [1..3, 8..10];
    let admitted = limited.admit_read(9).await;
    let found = admitted.get_pieces(&key(), &pieces).await.expect("reads");
    assert_eq!(found, ["12", "89"]);
    // The share is used up; nothing comes in while the clock stands still.
    let wait = Duration::from_secs(1);
    let admissions = async {
        for _ in 0..1_000 {
            drop(limited.admit_read(9).await);
        }
    };
    let waited = tokio::time::timeout(wait, admissions).await;
    assert!(waited.is_err(), "the share is used up");
    assert_eq!((faulty.counts().gets, share.ingress.waiting()), (1, 0));
    faulty.set(BucketFaults {
        fail_permille: 1_000,
        ..BucketFaults::default()
    });
    let failed = storage
        .admit_read(9)
        .await
        .get_pieces(&key(), &pieces)
        .await;
    assert!(matches!(failed, Err(GetError::Store { .. })));
    assert_eq!(faulty.counts().faults, 1, "one try");
}

/// What makes room in the write-ahead log is charged and does not wait, however short the network is;
/// what waits behind it takes turns by flow.
#[tokio::test(start_paused = true)]
async fn uploads_never_wait_for_the_network_and_reads_take_turns() {
    let (storage, _) = stack(1);
    let clock = ManualClock::shared();
    let config = NetworkConfig {
        egress_bytes_per_s: Some(1_000),
        ingress_bytes_per_s: Some(1_000),
        ..NetworkConfig::default()
    };
    let network = Network::new(clock.clone(), Supervisor::new(), config);
    let uploads = storage.limited(NetworkShare::of(&network, Tier::WalUpload));
    for id in 1..20 {
        let (key, body) = (ObjectKey::of("test", ObjectId(id)), vec![0; 1_000]);
        let put = uploads.put(&key, vec![body.into()]).await;
        put.expect("time stands still");
    }
    let charged = network.egress.metrics().tiers[Tier::WalUpload as usize].bytes;
    assert_eq!(charged, 19_000);

    // One flow asks for all that a second can bring, ten times; another one once.
    let misses = storage.limited(NetworkShare::of(&network, Tier::CatchUpMiss));
    network.ingress.charge(Tier::WalUpload, 200);
    let key = ObjectKey::of("test", ObjectId(1));
    let read = |flow: u64| {
        let (of_flow, key) = (misses.for_flow(flow), key.clone());
        tokio::spawn(async move { of_flow.get_range(&key, 0..1_000).await.expect("there") })
    };
    let greedy: Vec<_> = (0..10).map(|_| read(1)).collect();
    tokio::task::yield_now().await;
    let modest = read(2);
    while network.ingress.waiting() < 11 {
        tokio::task::yield_now().await;
    }
    // Reads save up no more than 10 ms of the bandwidth.
    for _ in 0..280 {
        clock.advance(Duration::from_millis(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(modest.is_finished(), "it waits for a turn, not for all");
    let done = greedy.iter().filter(|read| read.is_finished()).count();
    assert!((1..=2).contains(&done), "{done}");
}

#[tokio::test(start_paused = true)]
async fn every_try_is_counted_by_operation_and_outcome() {
    let (storage, faulty) = stack(9);
    assert_eq!(storage.calls(), []);
    storage.put(&key(), chunks("ours")).await.expect("written");
    storage.get_range(&key(), 0..4).await.expect("there");
    let other = ObjectKey::of("test", ObjectId(2));
    storage.get_range(&other, 0..4).await.expect_err("missing");
    faulty.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    storage.get_range(&key(), 0..4).await.expect_err("down");
    let calls = storage.calls();
    let of = |operation: &str, outcome: &str| {
        let found = calls
            .iter()
            .find(|calls| calls.operation == operation && calls.outcome == outcome);
        found.map_or(0, |calls| calls.calls)
    };
    assert_eq!(
        (of("put", "ok"), of("get", "ok"), of("get", "not_found")),
        (1, 1, 1)
    );
    assert!(of("get", "failed") > 1, "each try counts: {calls:?}");
}
