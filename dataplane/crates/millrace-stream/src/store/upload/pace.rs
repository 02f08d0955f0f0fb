//! The pace of uploads.
//!
//! A block sent at full speed briefly takes all of the bandwidth, and a core or two for checksums and
//! encryption, and producers wait longer meanwhile. That gains nothing: the next block is not full
//! yet. So uploads run slightly faster than the recent fill rate of blocks, which spreads one upload
//! over the time in which the next block fills.
//!
//! Uploads run at full speed while the log or the cache fills up, an append waits for room, a flush
//! or a close waits for them, or entries recovered by a restart are not uploaded yet.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge};
use millrace_limiter::Pacer;
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{config::StreamConfig, store::StoreInner};

/// For how long the fastest filling counts: a producer that pauses for less finds its pace again.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Fillings that are remembered at most; each is slower than the one before it, so the last ones
/// matter least.
const REMEMBERED_MAX: usize = 64;

/// A block counts as filled over this time at least: a burst into an empty block is no rate,
const FILL_MIN: Duration = Duration::from_millis(100);
/// and at most: a block that waited for its age says nothing about how fast appends can come.
const FILL_MAX: Duration = Duration::from_secs(20);

/// Uploads that have committed nothing for so long do not keep up. Until then it is better that
/// appends wait for the next commit than that payloads are left to the log: reading them back costs
/// the device and the processor more than it gains, and a bucket that works commits sooner.
const STALLED_AFTER: Duration = Duration::from_millis(250);

/// How often the pressure is looked at while anything is uploaded.
const LOOK: Duration = Duration::from_millis(50);

/// What the pace depends on, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::store) struct Pressure {
    /// The store is closing.
    pub(in crate::store) closing: bool,
    /// Somebody waits for room in the log or in the cache.
    pub(in crate::store) waiting: bool,
    /// What a restart found in the log is not uploaded yet.
    pub(in crate::store) recovering: bool,
    /// How full the log is, percent.
    pub(in crate::store) log_percent: u64,
    /// Payload that is not uploaded yet, in percent of the cache.
    pub(in crate::store) cache_percent: u64,
}

/// Why uploads are not held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    Closing,
    Flush,
    Recovery,
    Waiting,
    Log,
    Cache,
}

impl Forced {
    const ALL: [Self; 6] = [
        Self::Closing,
        Self::Flush,
        Self::Recovery,
        Self::Waiting,
        Self::Log,
        Self::Cache,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Closing => "closing",
            Self::Flush => "flush",
            Self::Recovery => "recovery",
            Self::Waiting => "waiting",
            Self::Log => "log",
            Self::Cache => "cache",
        }
    }
}

/// Sets the rate of the pacer that uploads pass.
#[derive(Debug)]
pub(in crate::store) struct Pace {
    pacer: Pacer,
    clock: SharedClock,
    /// `None`: uploads are never held back.
    headroom_percent: Option<u64>,
    forced_percent: u64,
    upload_interval_ms: u64,
    /// A block is through before the next one is sealed by its age, however few appends come.
    rate_min: AtomicU64,
    /// Blocks below this sequence were found in the log.
    recovered_to: u64,
    state: Mutex<State>,
    /// Flushes that wait now.
    flushes: AtomicU64,
    /// Blocks that are sealed and not committed.
    owed: AtomicU64,
    work: Notify,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    /// When a block was committed last; at first, when the store was opened.
    committed_at: Duration,
    /// When blocks were full, and how fast they had filled, bytes/s; ever slower ones.
    fillings: VecDeque<(Duration, u64)>,
    forced: Option<Forced>,
    rate: Option<u64>,
}

#[derive(Debug)]
struct Metrics {
    rate: Gauge,
    forced: [(Forced, Counter); Forced::ALL.len()],
}

impl Metrics {
    fn new() -> Self {
        let counter = |forced: Forced| {
            let counter =
                metrics::counter!("millrace_upload_forced_total", "reason" => forced.as_str());
            (forced, counter)
        };
        Self {
            rate: metrics::gauge!("millrace_upload_rate_bytes_per_second"),
            forced: Forced::ALL.map(counter),
        }
    }
}

/// A flush that waits, while it lives.
pub(in crate::store) struct Flushing<'a>(&'a Pace);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.flushes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pace {
    /// Uploads of blocks of `block_bytes`, of which `owed` were found in the log.
    pub(in crate::store) fn new(
        clock: SharedClock,
        config: &StreamConfig,
        block_bytes: u64,
        owed: u64,
    ) -> Self {
        let interval_ms = u64::try_from(config.upload_interval.as_millis()).unwrap_or(u64::MAX);
        let state = State {
            committed_at: clock.now(),
            ..State::default()
        };
        let pace = Self {
            pacer: Pacer::new(clock.clone(), None),
            clock,
            headroom_percent: config.upload_pace_percent,
            forced_percent: config.upload_forced_percent,
            upload_interval_ms: interval_ms.max(1),
            rate_min: AtomicU64::new(1),
            recovered_to: owed,
            state: Mutex::new(state),
            flushes: AtomicU64::new(0),
            owed: AtomicU64::new(owed),
            work: Notify::new(),
            metrics: Metrics::new(),
        };
        pace.set_block_bytes(block_bytes);
        pace
    }

    /// Blocks have `block_bytes` from now on.
    pub(in crate::store) fn set_block_bytes(&self, block_bytes: u64) {
        let rate_min = block_bytes.saturating_mul(1_000) / self.upload_interval_ms;
        self.rate_min.store(rate_min.max(1), Ordering::Relaxed);
    }

    /// What uploads pass.
    pub(in crate::store) fn pacer(&self) -> Pacer {
        self.pacer.clone()
    }

    /// A block of `bytes` was sealed that took so long to fill.
    pub(in crate::store) fn sealed(&self, bytes: u64, filled_in: Duration) {
        let filled_in = filled_in.clamp(FILL_MIN, FILL_MAX);
        let filled_us = u64::try_from(filled_in.as_micros()).unwrap_or(u64::MAX);
        let rate = bytes.saturating_mul(1_000_000) / filled_us;
        let now = self.clock.now();
        let mut state = self.state.lock();
        while state
            .fillings
            .back()
            .is_some_and(|&(_, slower)| slower <= rate)
        {
            state.fillings.pop_back();
        }
        if state.fillings.len() < REMEMBERED_MAX {
            state.fillings.push_back((now, rate));
        }
        drop(state);
        self.owed.fetch_add(1, Ordering::AcqRel);
        self.work.notify_one();
    }

    /// Whether the block that is committed next was found in the log.
    pub(in crate::store) fn recovers(&self, next: u64) -> bool {
        next < self.recovered_to
    }

    /// A block was committed.
    pub(in crate::store) fn committed(&self) {
        self.owed.fetch_sub(1, Ordering::AcqRel);
        self.state.lock().committed_at = self.clock.now();
    }

    /// After how long uploads will not have kept up, unless a block is committed first; zero where
    /// they do not keep up now.
    pub(in crate::store) fn stalls_in(&self) -> Duration {
        let committed_at = self.state.lock().committed_at;
        (committed_at + STALLED_AFTER).saturating_sub(self.clock.now())
    }

    /// Uploads are not held back while the answer lives.
    pub(in crate::store) fn flushing(&self) -> Flushing<'_> {
        self.flushes.fetch_add(1, Ordering::AcqRel);
        self.adjust(Pressure::default());
        Flushing(self)
    }

    /// Sets the rate.
    pub(in crate::store) fn adjust(&self, pressure: Pressure) {
        let forced = self.forced(pressure);
        let now = self.clock.now();
        let mut state = self.state.lock();
        while state
            .fillings
            .front()
            .is_some_and(|&(at, _)| now.saturating_sub(at) > REMEMBERED)
        {
            state.fillings.pop_front();
        }
        let fastest = state.fillings.front().map(|&(_, rate)| rate);
        let rate = match (forced, fastest, self.headroom_percent) {
            (None, Some(rate), Some(percent)) => Some(
                (rate.saturating_mul(percent) / 100).max(self.rate_min.load(Ordering::Relaxed)),
            ),
            _ => None,
        };
        if forced != state.forced {
            state.forced = forced;
            let counters = self.metrics.forced.iter();
            counters
                .filter(|(reason, _)| Some(*reason) == forced)
                .for_each(|(_, counter)| counter.increment(1));
        }
        if rate != state.rate {
            state.rate = rate;
            self.pacer.set_rate(rate);
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
            self.metrics.rate.set(rate.unwrap_or(0) as f64);
        }
    }

    fn forced(&self, pressure: Pressure) -> Option<Forced> {
        let Pressure {
            closing,
            waiting,
            recovering,
            log_percent,
            cache_percent,
        } = pressure;
        let reasons = [
            (closing, Forced::Closing),
            (self.flushes.load(Ordering::Acquire) > 0, Forced::Flush),
            (recovering, Forced::Recovery),
            (waiting, Forced::Waiting),
            (log_percent >= self.forced_percent, Forced::Log),
            (cache_percent >= self.forced_percent, Forced::Cache),
        ];
        let reason = reasons.into_iter().find(|(holds, _)| *holds);
        reason.map(|(_, reason)| reason)
    }

    /// Resolves when there is something to upload.
    async fn has_work(&self) {
        while self.owed.load(Ordering::Acquire) == 0 {
            self.work.notified().await;
        }
    }
}

/// Looks at the pressure while anything is uploaded; costs nothing while nothing is.
pub(in crate::store) async fn watch(store: Arc<StoreInner>) {
    loop {
        store.upload.pace.has_work().await;
        store.upload.pace.adjust(store.pressure());
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::ManualClock;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    struct Rig {
        clock: Arc<ManualClock>,
        pace: Pace,
    }

    impl Rig {
        fn new() -> Self {
            let clock = ManualClock::shared();
            let config = StreamConfig {
                upload_pace_percent: Some(125),
                upload_forced_percent: 60,
                upload_interval: Duration::from_secs(60),
                ..StreamConfig::default()
            };
            let pace = Pace::new(clock.clone(), &config, 60 * MIB, 0);
            Self { clock, pace }
        }

        fn rate(&self, pressure: Pressure) -> Option<u64> {
            self.pace.adjust(pressure);
            self.pace.state.lock().rate
        }
    }

    #[test]
    fn uploads_keep_up_for_a_while_after_each_commit() {
        let Rig { clock, pace } = &Rig::new();
        assert_eq!(pace.stalls_in(), STALLED_AFTER);
        clock.advance(STALLED_AFTER);
        assert_eq!(pace.stalls_in(), Duration::ZERO);
        pace.sealed(MIB, Duration::from_secs(1));
        pace.committed();
        clock.advance(STALLED_AFTER / 2);
        assert_eq!(pace.stalls_in(), STALLED_AFTER / 2);
    }

    #[test]
    fn uploads_go_a_quarter_faster_than_the_fastest_block_filled_lately() {
        let Rig { clock, pace } = &Rig::new();
        let rate = || {
            pace.adjust(Pressure::default());
            pace.state.lock().rate
        };
        assert_eq!(rate(), None, "nothing is known yet");
        pace.sealed(64 * MIB, Duration::from_secs(2));
        assert_eq!(rate(), Some(40 * MIB));
        clock.advance(Duration::from_secs(200));
        pace.sealed(64 * MIB, Duration::from_secs(4));
        assert_eq!(rate(), Some(40 * MIB), "the faster one still counts");
        clock.advance(Duration::from_secs(101));
        assert_eq!(rate(), Some(20 * MIB), "and is forgotten in the end");
        pace.sealed(64 * MIB, Duration::from_secs(1));
        assert_eq!(rate(), Some(80 * MIB), "a faster one counts at once");
    }

    #[test]
    fn no_time_to_fill_is_taken_at_its_word() {
        let rig = Rig::new();
        rig.pace.sealed(MIB, Duration::from_millis(1));
        assert_eq!(rig.rate(Pressure::default()), Some(MIB * 10 * 125 / 100));
        let rig = Rig::new();
        rig.pace.sealed(2 * MIB, Duration::from_secs(60));
        assert_eq!(rig.rate(Pressure::default()), Some(MIB), "a block a minute");
    }

    #[test]
    fn nothing_is_held_back_under_pressure() {
        let rig = Rig::new();
        rig.pace.sealed(64 * MIB, Duration::from_secs(1));
        let calm = Pressure::default();
        for pressed in [
            Pressure {
                closing: true,
                ..calm
            },
            Pressure {
                waiting: true,
                ..calm
            },
            Pressure {
                recovering: true,
                ..calm
            },
            Pressure {
                log_percent: 60,
                ..calm
            },
            Pressure {
                cache_percent: 61,
                ..calm
            },
        ] {
            assert_eq!(rig.rate(pressed), None, "{pressed:?}");
            assert_eq!(rig.rate(calm), Some(80 * MIB));
        }
        let below = Pressure {
            log_percent: 59,
            cache_percent: 59,
            ..calm
        };
        assert!(rig.rate(below).is_some());
        let flushing = rig.pace.flushing();
        assert_eq!(rig.rate(calm), None);
        drop(flushing);
        assert!(rig.rate(calm).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let rig = Rig::new();
        for n in 0..1_000 {
            rig.pace.sealed((10_000 - n) * MIB, Duration::from_secs(1));
        }
        assert_eq!(rig.pace.state.lock().fillings.len(), REMEMBERED_MAX);
        assert_eq!(
            rig.rate(Pressure::default()),
            Some(10_000 * MIB * 125 / 100)
        );
    }

    #[tokio::test]
    async fn whoever_waits_is_let_go_once_uploads_are_forced() {
        let rig = Rig::new();
        rig.pace.sealed(64 * MIB, Duration::from_secs(1));
        rig.pace.adjust(Pressure::default());
        let pacer = rig.pace.pacer();
        let waiting = tokio::spawn(async move {
            for _ in 0..4 {
                pacer.pass(1_000 * MIB).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished(), "the manual clock stands still");
        let _flushing = rig.pace.flushing();
        waiting.await.expect("let go");
    }
}
