//! Objects on their way into a bucket that fails on purpose: in parts, hedged, paced.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use millrace_limiter::Pacer;
use millrace_model::ObjectId;
use millrace_objects::{
    ObjectKey, ObjectStorage, PutError,
    bucket::{
        Body, Bucket, BucketError, BucketLayer, PartTag, RetryPolicy, StoreBucket, TimeoutPolicy,
        UploadId,
    },
};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::{Clock, SeededRandom, SharedClock};
use proptest::prelude::*;

const MIB: usize = 1024 * 1024;

/// Follows tokio's paused clock.
#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl TokioClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the paused clock of the test's runtime"
    )]
    fn shared() -> SharedClock {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

fn key(id: u64) -> ObjectKey {
    ObjectKey::of("test", ObjectId(id))
}

/// So many mebibytes and a little, all of them different.
fn chunks(mebibytes: usize, salt: u64) -> Vec<Bytes> {
    let chunk = |n: usize| {
        let mut chunk = vec![n as u8 ^ salt as u8; if n == mebibytes { 77 } else { MIB }];
        chunk[..8].copy_from_slice(&(salt << 32 | n as u64).to_be_bytes());
        Bytes::from(chunk)
    };
    (0..=mebibytes).map(chunk).collect()
}

struct World {
    storage: ObjectStorage,
    bucket: FaultyBucket,
    clock: SharedClock,
}

impl World {
    fn new(seed: u64, tries: u32) -> Self {
        let bucket = FaultyBucket::new(StoreBucket::memory(), SeededRandom::shared(seed));
        let clock = TokioClock::shared();
        let retry = RetryPolicy {
            tries,
            ..RetryPolicy::default()
        };
        let random = SeededRandom::shared(seed ^ 1);
        let timeout = TimeoutPolicy::default();
        let storage = ObjectStorage::over(bucket.clone(), retry, timeout, clock.clone(), random);
        Self {
            storage,
            bucket,
            clock,
        }
    }

    async fn holds(&self, key: &ObjectKey, chunks: &[Bytes]) {
        self.bucket.set(BucketFaults::default());
        let expected = chunks.concat();
        let end = expected.len() as u64;
        let found = self.storage.get_range(key, 0..end).await.expect("there");
        assert!(found == expected, "{key} has other bytes");
        let longer = self.storage.get_range(key, 0..end + 1).await;
        assert!(longer.is_err(), "{key} has more bytes");
    }

    /// Writes small objects until the bucket knows how long a write takes.
    async fn learn(&self, delay: Duration) {
        self.bucket.set(BucketFaults {
            delay,
            ..BucketFaults::default()
        });
        for id in 1_000..1_100 {
            let (key, chunks) = (key(id), vec![Bytes::from_static(b"x")]);
            self.storage.put(&key, chunks).await.expect("written");
        }
    }
}

/// Runs a write until it is done, however often it fails.
async fn write(storage: &ObjectStorage, key: &ObjectKey, chunks: &[Bytes]) -> u32 {
    let mut write = storage.write(key, chunks.to_vec());
    for failed in 0.. {
        match write.run().await {
            Ok(()) => return failed,
            Err(PutError::Store { .. }) => tokio::time::sleep(Duration::from_secs(1)).await,
            Err(error) => panic!("{error:?}"),
        }
    }
    unreachable!("it ends with success only")
}

#[tokio::test(start_paused = true)]
async fn a_large_object_is_written_in_parts_and_a_small_one_is_not() {
    let world = World::new(1, 10);
    let (small, large) = (chunks(31, 1), chunks(70, 2));
    world
        .storage
        .put(&key(1), small.clone())
        .await
        .expect("written");
    assert_eq!(
        (world.bucket.counts().puts, world.bucket.counts().parts),
        (1, 0)
    );
    world
        .storage
        .put(&key(2), large.clone())
        .await
        .expect("written");
    let counts = world.bucket.counts();
    assert_eq!((counts.puts, counts.parts, counts.completions), (1, 4, 1));
    world.holds(&key(1), &small).await;
    world.holds(&key(2), &large).await;
}

#[tokio::test(start_paused = true)]
async fn parts_that_the_store_has_are_not_sent_again() {
    let (mut failed_runs, mut faults) = (0, 0);
    for seed in 0..8 {
        // Without retries of its own, so that the failures end the runs.
        let world = World::new(seed, 1);
        let chunks = chunks(80, seed);
        world.bucket.set(BucketFaults {
            fail_permille: 400,
            ..BucketFaults::default()
        });
        failed_runs += write(&world.storage, &key(1), &chunks).await;
        let counts = world.bucket.counts();
        assert_eq!((counts.parts, counts.completions), (5, 1), "seed {seed}");
        faults += counts.faults;
        world.holds(&key(1), &chunks).await;
    }
    assert!(failed_runs >= 8 && faults >= 20, "{failed_runs} {faults}");
}

/// A bucket that refuses to complete the first upload that was started, however often it is asked.
#[derive(Debug)]
struct Refusing {
    inner: StoreBucket,
    refused: OnceLock<UploadId>,
}

#[async_trait]
impl BucketLayer for Refusing {
    type Inner = StoreBucket;

    fn inner(&self) -> &StoreBucket {
        &self.inner
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        let upload = self.inner.begin_parts(key).await?;
        let _first = self.refused.get_or_init(|| upload.clone());
        Ok(upload)
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        if self.refused.get() == Some(upload) {
            return Err(BucketError::Failed("a part has another receipt".into()));
        }
        self.inner.complete_parts(key, upload, parts, whole).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_whose_completion_is_refused_for_ever_starts_again() {
    let bucket = Refusing {
        inner: StoreBucket::memory(),
        refused: OnceLock::new(),
    };
    let (clock, random) = (TokioClock::shared(), SeededRandom::shared(1));
    let (retry, timeout) = (RetryPolicy::default(), TimeoutPolicy::default());
    let storage = ObjectStorage::over(bucket, retry, timeout, clock, random);
    let chunks = chunks(40, 1);
    let (key, expected) = (key(1), chunks.concat());
    let written = tokio::time::timeout(Duration::from_secs(600), write(&storage, &key, &chunks));
    written.await.expect("restarted");
    let end = expected.len() as u64;
    let found = storage.get_range(&key, 0..end).await.expect("there");
    assert!(found == expected);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_reply_was_lost_counts_as_success() {
    let world = World::new(1, 10);
    let chunks = chunks(40, 1);
    let writing = tokio::spawn({
        let (storage, chunks) = (world.storage.clone(), chunks.clone());
        async move { storage.put(&key(1), chunks).await }
    });
    while world.bucket.counts().parts < 2 {
        tokio::task::yield_now().await;
    }
    world.bucket.set(BucketFaults {
        lose_reply_permille: 1_000,
        ..BucketFaults::default()
    });
    while world.bucket.counts().completions == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.bucket.set(BucketFaults::default());
    writing.await.expect("no panic").expect("its own object");
    assert_eq!(world.bucket.counts().completions, 1);
    world.holds(&key(1), &chunks).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_settled_while_reads_fail_too() {
    for seed in 0..10 {
        let world = World::new(seed, 10);
        let chunks = chunks(31, seed);
        let writing = tokio::spawn({
            let (storage, chunks) = (world.storage.clone(), chunks.clone());
            world.bucket.set(BucketFaults {
                lose_reply_permille: 1_000,
                ..BucketFaults::default()
            });
            async move { storage.put(&key(1), chunks).await }
        });
        while world.bucket.counts().puts == 0 {
            tokio::task::yield_now().await;
        }
        // A comparison takes five requests.
        world.bucket.set(BucketFaults {
            fail_permille: 500,
            ..BucketFaults::default()
        });
        let started = world.clock.now();
        writing.await.expect("no panic").expect("its own object");
        let took = world.clock.now() - started;
        assert!(took < Duration::from_secs(40), "seed {seed}: {took:?}");
        world.holds(&key(1), &chunks).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_object_at_the_key_is_a_conflict_for_parts_too() {
    let world = World::new(1, 10);
    let theirs = chunks(40, 1);
    world
        .storage
        .put(&key(1), theirs.clone())
        .await
        .expect("written");
    let ours = world.storage.put(&key(1), chunks(40, 2)).await;
    assert!(matches!(ours, Err(PutError::Conflict { .. })), "{ours:?}");
    world
        .storage
        .put(&key(1), theirs.clone())
        .await
        .expect("equal bytes are the same object");
    world.holds(&key(1), &theirs).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_too_long_is_sent_again_and_the_first_answer_counts() {
    let world = World::new(1, 10);
    world.learn(Duration::from_millis(80)).await;
    world.bucket.set(BucketFaults {
        stall_permille: 1_000,
        stall: Duration::from_secs(3_600),
        ..BucketFaults::default()
    });
    let started = world.clock.now();
    let writing = tokio::spawn({
        let storage = world.storage.clone();
        async move { storage.put(&key(1), vec![Bytes::from_static(b"y")]).await }
    });
    tokio::time::sleep(Duration::from_millis(70)).await;
    assert_eq!(world.bucket.counts().faults, 1, "the first is stuck");
    world.bucket.set(BucketFaults::default());
    writing
        .await
        .expect("no panic")
        .expect("the second is quick");
    let took = world.clock.now() - started;
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_as_a_whole_gets_few_second_requests() {
    let world = World::new(1, 1);
    world.learn(Duration::ZERO).await;
    for (round, stuck) in [(0, 25), (1, 20)] {
        let before = world.bucket.counts().faults;
        world.bucket.set(BucketFaults {
            stall_permille: 1_000,
            stall: Duration::from_secs(3_600),
            ..BucketFaults::default()
        });
        let puts = (0..20).map(|id| {
            let storage = world.storage.clone();
            tokio::spawn(async move {
                let (key, chunks) = (key(round * 20 + id), vec![Bytes::from_static(b"y")]);
                storage.put(&key, chunks).await
            })
        });
        let puts: Vec<_> = puts.collect();
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Twenty, and five more at first; then none, for nothing succeeded that would earn one.
        assert_eq!(
            world.bucket.counts().faults - before,
            stuck,
            "round {round}"
        );
        for put in puts {
            put.await.expect("no panic").expect_err("it timed out");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paced_write_is_spread_and_a_retry_does_not_pay_twice() {
    let world = World::new(3, 20);
    let pace = Pacer::new(world.clock.clone(), Some(16 * MIB as u64));
    let paced = world.storage.paced(pace.clone());
    let started = world.clock.now();
    paced.put(&key(1), chunks(128, 1)).await.expect("written");
    let took = world.clock.now() - started;
    // Eight seconds' worth; the last part pays for none but itself, and a tenth was saved up.
    assert!((6.5..7.5).contains(&took.as_secs_f64()), "{took:?}");
    world.bucket.set(BucketFaults {
        fail_permille: 500,
        ..BucketFaults::default()
    });
    pace.set_rate(None);
    pace.set_rate(Some(16 * MIB as u64));
    let retried = world.clock.now();
    paced.put(&key(2), chunks(128, 2)).await.expect("written");
    let took = world.clock.now() - retried;
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(world.bucket.counts().faults > 4);

    // Whoever waits already is let go when the pace is given up.
    let writing = tokio::spawn({
        let paced = paced.clone();
        async move { paced.put(&key(3), chunks(128, 3)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.bucket.set(BucketFaults::default());
    let forced = world.clock.now();
    pace.set_rate(None);
    writing.await.expect("no panic").expect("written");
    assert!(world.clock.now() - forced < Duration::from_millis(10));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 50, ..ProptestConfig::default() })]

    /// Whatever the store does, each write ends with exactly its bytes at its key.
    #[test]
    fn every_write_ends_with_its_own_bytes(
        seed: u64,
        sizes in prop::collection::vec(prop_oneof![4 => 0usize..3, 1 => 32usize..50], 1..12),
        fail in 0u64..500, lose in 0u64..300, conflict in 0u64..100, repeat in 0u64..300,
        stall in 0u64..150, stall_ms in 60u64..15_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let world = World::new(seed, 3);
            world.learn(Duration::from_millis(5)).await;
            world.bucket.set(BucketFaults {
                fail_permille: fail,
                lose_reply_permille: lose,
                conflict_permille: conflict,
                repeat_permille: repeat,
                stall_permille: stall,
                stall: Duration::from_millis(stall_ms),
                delay: Duration::from_millis(5),
                ..BucketFaults::default()
            });
            let objects: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(id, &size)| (key(id as u64), chunks(size, seed ^ id as u64)))
                .collect();
            let writes = objects.iter().map(|(key, chunks)| write(&world.storage, key, chunks));
            futures_util::future::join_all(writes).await;
            for (key, chunks) in &objects {
                world.holds(key, chunks).await;
            }
        });
    }
}
