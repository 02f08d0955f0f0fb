//! Hedges slow writes.
//!
//! Most of a store's slowest responses are slow by accident: the request hit one busy machine of
//! thousands, and would be fast if sent again. So a write that exceeds the 99th percentile for its
//! size is sent a second time, and the first response counts. This is safe because a write only ever
//! creates, and both carry the same bytes: the second one finds its own object.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use metrics::Counter;
use millrace_time::SharedClock;
use parking_lot::Mutex;

use super::{Body, Bucket, BucketError, BucketLayer, NetworkShare, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// Second requests that may be under way at a time: a store that is slow as a whole is not helped by
/// twice the load.
const HEDGES_IN_FLIGHT_MAX: u32 = 5;

/// Writes that must succeed for one more hedge, once those that are saved up are used: a store that
/// fails gets no hedges at all.
const WRITES_PER_HEDGE: u32 = 10;

/// Writes of one size whose times are remembered.
const SAMPLES: usize = 256;

/// With fewer, the slowest hundredth is not known, and nothing is hedged.
const SAMPLES_MIN: usize = 100;

/// No write is doubled earlier: below this, a second request could not overtake the first.
const HEDGE_AFTER_MIN: Duration = Duration::from_millis(50);

/// Sizes are told apart by powers of two, from 64 KiB (all below count as that) to 1 GiB.
const SMALLEST_CLASS_LOG2: u32 = 16;
const CLASSES: usize = 15;

/// What is known of the writes' times, and how many hedges are under way. All uses of a bucket share
/// it.
#[derive(Debug)]
pub(crate) struct Hedges {
    times: [Mutex<Times>; CLASSES],
    in_flight: AtomicU32,
    /// Tenths of a hedge that are saved up.
    credit: AtomicU32,
    won: Counter,
    lost: Counter,
}

/// The times of the last writes of one size, in microseconds.
#[derive(Debug, Default)]
struct Times {
    recent_us: Vec<u32>,
    next: usize,
}

impl Times {
    fn learn(&mut self, took: Duration) {
        let took_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if let Some(oldest) = self.recent_us.get_mut(self.next) {
            *oldest = took_us;
        } else {
            self.recent_us.push(took_us);
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    fn p99(&self) -> Option<Duration> {
        if self.recent_us.len() < SAMPLES_MIN {
            return None;
        }
        let mut sorted = self.recent_us.clone();
        let at = sorted.len() * 99 / 100;
        let (_, p99, _) = sorted.select_nth_unstable(at);
        Some(Duration::from_micros(u64::from(*p99)))
    }
}

/// A hedge that is under way.
struct InFlight<'a>(&'a Hedges);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Hedges {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        let outcome = |outcome: &'static str| metrics::counter!("millrace_object_hedges_total", "outcome" => outcome);
        Self {
            times: std::array::from_fn(|_| Mutex::default()),
            in_flight: AtomicU32::new(0),
            credit: AtomicU32::new(HEDGES_IN_FLIGHT_MAX * WRITES_PER_HEDGE),
            won: outcome("won"),
            lost: outcome("lost"),
        }
    }

    fn times(&self, bytes: u64) -> &Mutex<Times> {
        let class = bytes.checked_ilog2().unwrap_or(0);
        let class = class.saturating_sub(SMALLEST_CLASS_LOG2) as usize;
        &self.times[class.min(CLASSES - 1)]
    }

    /// How long a write of so many bytes may take before it is doubled; `None` while not enough of
    /// them were seen.
    fn hedge_after(&self, bytes: u64) -> Option<Duration> {
        let p99 = self.times(bytes).lock().p99();
        p99.map(|p99| p99.max(HEDGE_AFTER_MIN))
    }

    fn succeeded(&self, bytes: u64, took: Duration) {
        self.times(bytes).lock().learn(took);
        let save = |credit: u32| Some((credit + 1).min(HEDGES_IN_FLIGHT_MAX * WRITES_PER_HEDGE));
        let _always = self
            .credit
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, save);
    }

    /// Leave to send one more request, if there is any.
    fn begin(&self) -> Option<InFlight<'_>> {
        let take = |in_flight: u32| (in_flight < HEDGES_IN_FLIGHT_MAX).then_some(in_flight + 1);
        self.in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        let in_flight = InFlight(self);
        let pay = |credit: u32| credit.checked_sub(WRITES_PER_HEDGE);
        self.credit
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, pay)
            .ok()?;
        Some(in_flight)
    }
}

/// A bucket whose slow writes are sent a second time. The second request pays for its bytes too.
#[derive(Debug)]
pub(crate) struct Hedged<B> {
    inner: B,
    hedges: Arc<Hedges>,
    share: Option<NetworkShare>,
    clock: SharedClock,
}

impl<B: Bucket> Hedged<B> {
    pub(crate) fn new(
        inner: B,
        hedges: Arc<Hedges>,
        share: Option<NetworkShare>,
        clock: SharedClock,
    ) -> Self {
        Self {
            inner,
            hedges,
            share,
            clock,
        }
    }

    async fn write<T, F>(&self, bytes: u64, send: impl Fn() -> F) -> Result<T, BucketError>
    where
        F: Future<Output = Result<T, BucketError>>,
    {
        let started = self.clock.now();
        let written = self.race(bytes, send).await;
        if written.is_ok() {
            let took = self.clock.now().saturating_sub(started);
            self.hedges.succeeded(bytes, took);
        }
        written
    }

    async fn race<T, F>(&self, bytes: u64, send: impl Fn() -> F) -> Result<T, BucketError>
    where
        F: Future<Output = Result<T, BucketError>>,
    {
        let mut first = pin!(send());
        let Some(after) = self.hedges.hedge_after(bytes) else {
            return first.await;
        };
        tokio::select! {
            biased;
            settled = &mut first => return settled,
            () = tokio::time::sleep(after) => {}
        }
        let Some(_in_flight) = self.hedges.begin() else {
            return first.await;
        };
        let second = pin!(async {
            if let Some(share) = &self.share {
                share.admit_out(bytes).await;
            }
            send().await
        });
        // Where one fails the other still counts: a conflict may be with the other's object.
        match select(first, second).await {
            Either::Left((Ok(value), _)) => {
                self.hedges.lost.increment(1);
                Ok(value)
            }
            Either::Right((Ok(value), _)) => {
                self.hedges.won.increment(1);
                Ok(value)
            }
            Either::Left((Err(error), second)) => second.await.map_err(|other| worse(error, other)),
            Either::Right((Err(error), first)) => {
                self.hedges.lost.increment(1);
                first.await.map_err(|other| worse(error, other))
            }
        }
    }
}

/// Of two errors the one that says more: that the object is there.
fn worse(one: BucketError, other: BucketError) -> BucketError {
    if matches!(other, BucketError::AlreadyExists) {
        other
    } else {
        one
    }
}

#[async_trait]
impl<B: Bucket> BucketLayer for Hedged<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.write(body.size(), || self.inner.put(key, body)).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        let send = || self.inner.put_part(key, upload, slot, body);
        self.write(body.size(), send).await
    }
}
