//! What broker, S3 server and clients do and use while something is measured.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use millrace_bench::{
    broker::Metrics,
    machine::pause,
    usage::{cpu_time_of, cpu_time_of_threads, peak_memory_kib, reset_peak_memory, written_bytes},
};
use millrace_time::SharedClock;

use crate::{stand::Stand, writers};

/// Between two looks at the cache.
const SAMPLE: Duration = Duration::from_millis(100);
const CACHE_BYTES: &str = "millrace_block_cache_bytes";
/// The most since the broker's start, by its own account, what is beside the budget included: between
/// two looks nothing is missed.
const CACHE_PEAK: &str = "millrace_block_cache_peak_bytes";
/// What is resident beside the budget: blocks for readers that found no room.
const CACHE_BYPASS: &str = "millrace_block_cache_bypass_bytes";

/// Between the beginning and the end of something.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observed {
    /// Successful range GETs of the broker.
    pub(crate) gets: f64,
    pub(crate) get_bytes: f64,
    /// By the block cache's own account: fetched over delivered, and what it delivered.
    pub(crate) cache_fetched_per_delivered: f64,
    pub(crate) cache_delivered_bytes: f64,
    pub(crate) evicted_unread_bytes: f64,
    /// GETs under way on average: the time that they took together over the time that passed.
    pub(crate) gets_parallel: f64,
    pub(crate) uploaded_bytes: f64,
    /// What the S3 server handed to the system, less what was uploaded, which it writes to files:
    /// what it sent.
    pub(crate) s3_sent_bytes: f64,
    pub(crate) broker_cpu: f64,
    pub(crate) s3_cpu: f64,
    pub(crate) writers_cpu: f64,
    /// The broker's largest resident set.
    pub(crate) broker_peak_bytes: f64,
    /// The most that the block cache held or was loading.
    pub(crate) cache_peak_bytes: f64,
}

/// What is counted at one moment.
struct Counts {
    metrics: Metrics,
    s3_written: u64,
    broker_cpu: Duration,
    s3_cpu: Duration,
    writers_cpu: Duration,
}

/// Does `work` and watches meanwhile.
pub(crate) fn watched<T>(
    stand: &mut Stand,
    clock: &SharedClock,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Observed), String> {
    let pid = stand.broker_pid()?;
    reset_peak_memory(&pid).map_err(|error| format!("the broker: {error}"))?;
    let before = Counts::take(stand)?;
    let began = clock.now();
    let done = AtomicBool::new(false);
    let (result, cache_peak) = thread::scope(|scope| {
        let stand = &*stand;
        let sampling = scope.spawn(|| sample_cache(stand, &done));
        let result = work();
        done.store(true, Ordering::Release);
        let peak = sampling.join();
        (result, peak.unwrap_or_else(|_| Err("a panic".to_owned())))
    });
    let seconds = clock.now().saturating_sub(began).as_secs_f64();
    // The broker's end is the reason why the work failed, not the other way round.
    stand.check()?;
    let result = result?;
    let after = Counts::take(stand)?;
    let mut observed = after.since(&before, seconds)?;
    observed.cache_peak_bytes = cache_peak?;
    let kib = peak_memory_kib(&pid).ok_or("the broker has ended")?;
    observed.broker_peak_bytes = (kib << 10) as f64;
    Ok((result, observed))
}

fn sample_cache(stand: &Stand, done: &AtomicBool) -> Result<f64, String> {
    let mut peak = 0.0_f64;
    while !done.load(Ordering::Acquire) {
        let metrics = stand.home.metrics()?;
        let used = metrics.sum(CACHE_BYTES, "");
        let used = used.ok_or_else(|| format!("the broker has no metric {CACHE_BYTES}"))?;
        let told = metrics.sum(CACHE_PEAK, "").unwrap_or(0.0);
        let beside = metrics.sum(CACHE_BYPASS, "").unwrap_or(0.0);
        peak = peak.max(used + beside).max(told);
        pause(SAMPLE);
    }
    Ok(peak)
}

impl Counts {
    fn take(stand: &Stand) -> Result<Self, String> {
        let server = stand.server.pid().to_string();
        let ended = || "the S3 server has ended".to_owned();
        let broker = stand.broker_pid()?;
        Ok(Self {
            metrics: stand.home.metrics()?,
            s3_written: written_bytes(&server).ok_or_else(ended)?,
            broker_cpu: cpu_time_of(&broker).ok_or("the broker has ended")?,
            s3_cpu: cpu_time_of(&server).ok_or_else(ended)?,
            writers_cpu: cpu_time_of_threads(writers::THREADS),
        })
    }

    fn since(&self, before: &Self, seconds: f64) -> Result<Observed, String> {
        let passed = |name: &str, label: &str| {
            let of = |counts: &Self| counts.metrics.sum(name, label).unwrap_or(0.0);
            of(self) - of(before)
        };
        let get = "operation=\"get\"";
        let got = "operation=\"get\",outcome=\"ok\"";
        let gets = passed("millrace_object_requests_total", got);
        if gets < 0.0 {
            return Err("the broker was restarted while it was watched".to_owned());
        }
        let cache = |what: &str| passed(&format!("millrace_block_cache_{what}_bytes_total"), "");
        let cache_delivered_bytes = cache("delivered");
        let uploaded_bytes = passed("millrace_object_bytes_total", "operation=\"p");
        let cpu = |of: fn(&Self) -> Duration| of(self).saturating_sub(of(before)).as_secs_f64();
        Ok(Observed {
            gets,
            get_bytes: passed("millrace_object_bytes_total", get),
            cache_fetched_per_delivered: cache("fetched") / cache_delivered_bytes,
            cache_delivered_bytes,
            evicted_unread_bytes: cache("evicted_unread"),
            gets_parallel: passed("millrace_object_request_seconds_sum", get) / seconds,
            uploaded_bytes,
            s3_sent_bytes: self.s3_written.saturating_sub(before.s3_written) as f64
                - uploaded_bytes,
            broker_cpu: cpu(|counts| counts.broker_cpu),
            s3_cpu: cpu(|counts| counts.s3_cpu),
            writers_cpu: cpu(|counts| counts.writers_cpu),
            ..Observed::default()
        })
    }
}
