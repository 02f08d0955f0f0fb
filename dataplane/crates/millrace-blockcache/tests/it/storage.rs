//! Object storage in memory, over a bucket that can be told to fail.

use std::sync::Arc;

use millrace_limiter::{Limiter, Tier};
use millrace_objects::{
    ObjectStorage,
    bucket::{NetworkShare, RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_testkit::FaultyBucket;
use millrace_time::{ManualClock, SeededRandom};

/// Nothing is tried twice.
pub(crate) fn storage(clock: &Arc<ManualClock>) -> (FaultyBucket, ObjectStorage) {
    let bucket = FaultyBucket::new(StoreBucket::memory(), SeededRandom::shared(1));
    let once = RetryPolicy {
        tries: 1,
        ..RetryPolicy::default()
    };
    let (timeout, random) = (TimeoutPolicy::default(), SeededRandom::shared(2));
    let storage = ObjectStorage::over(bucket.clone(), once, timeout, clock.clone(), random);
    (bucket, storage)
}

/// A share of the network that `ingress` bounds.
pub(crate) fn share(clock: &Arc<ManualClock>, ingress: Limiter, tier: Tier) -> NetworkShare {
    NetworkShare {
        ingress,
        egress: Limiter::new(clock.clone(), None),
        tier,
        flow: 0,
    }
}
