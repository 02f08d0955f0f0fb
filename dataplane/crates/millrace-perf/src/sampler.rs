//! One sample per second, more while consumers catch up: what the progress line shows, and the report's
//! charts.

use serde::Serialize;

use crate::{
    options::Workload,
    phases::Phase,
    recorder::{ByPhase, Recorder, Tally},
    report::{Recent, seconds},
    run::Run,
};

/// Samples that the report keeps: an hour's. A longer run keeps every second one, then every fourth.
const SAMPLES_MAX: usize = 3_600;
/// The rates of a shorter time are those of single batches: a chart would show a spike.
const SAMPLE_SECONDS_MIN: f64 = 0.15;

/// A second of a run, or a part of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    kind: &'static str,
    pub(crate) elapsed_seconds: f64,
    pub(crate) phase: Phase,
    pub(crate) produced: Option<FlowSample>,
    pub(crate) consumed: Option<FlowSample>,
}

/// What was produced, or consumed. Counts are those of the whole run so far, warm-up included; rates
/// and latencies are those of the time since the last sample.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FlowSample {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) records_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) errors: u64,
    pub(crate) latency_ms: Option<Recent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lag_records: Option<u64>,
}

/// What one recorder reported so far.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) by_phase: ByPhase,
    fresh: ByPhase,
    fresh_sum: Tally,
}

impl Totals {
    /// Collects what is new; with `merged` it is added to what was new the last time.
    fn collect(&mut self, recorder: &Recorder, merged: bool) {
        recorder.collect(&mut self.fresh);
        if !merged {
            self.fresh_sum.clear();
        }
        for (total, new) in self.by_phase.iter_mut().zip(&self.fresh) {
            total.merge(new);
            self.fresh_sum.merge(new);
        }
    }

    /// Over some phases.
    pub(crate) fn of(&self, phases: &[Phase]) -> Tally {
        let mut sum = Tally::default();
        for phase in phases {
            sum.merge(&self.by_phase[*phase as usize]);
        }
        sum
    }

    fn counts(&self) -> (u64, u64, u64) {
        let sum = |part: fn(&Tally) -> u64| self.by_phase.iter().map(part).sum();
        (
            sum(|tally| tally.records),
            sum(|tally| tally.bytes),
            sum(|tally| tally.errors),
        )
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) produced: Totals,
    pub(crate) consumed: Totals,
    pub(crate) replayed: Totals,
    samples: Vec<Sample>,
    /// Every so many samples are kept.
    stride: usize,
    taken: usize,
    /// The last one is kept.
    is_last_kept: bool,
    /// When the last one was taken, and the one before it.
    last_us: u64,
    before_us: u64,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self {
            produced: Totals::default(),
            consumed: Totals::default(),
            replayed: Totals::default(),
            samples: Vec::new(),
            stride: 1,
            taken: 0,
            is_last_kept: false,
            last_us: 0,
            before_us: 0,
        }
    }

    /// Takes a sample; nothing where too little time has passed since the last one.
    pub(crate) fn sample(&mut self, run: &Run) -> Option<Sample> {
        let now_us = run.phases.now_us();
        if seconds(now_us.saturating_sub(self.last_us)) < SAMPLE_SECONDS_MIN {
            return None;
        }
        self.collect(run, false);
        (self.before_us, self.last_us) = (self.last_us, now_us);
        let sample = self.sample_of(run);
        self.keep(&sample);
        Some(sample)
    }

    /// The last sample of a run, with its last state. Where too little time has passed since the one
    /// before, it takes its place and covers both times. Nothing where no time has passed at all.
    pub(crate) fn finish(&mut self, run: &Run) -> Option<Sample> {
        if let Some(sample) = self.sample(run) {
            return Some(sample);
        }
        self.collect(run, true);
        self.last_us = run.phases.now_us();
        if self.last_us == 0 {
            return None;
        }
        let sample = self.sample_of(run);
        if self.is_last_kept || self.samples.len() == SAMPLES_MAX {
            self.samples.pop();
        }
        self.samples.push(sample.clone());
        Some(sample)
    }

    /// Collects what is new; with `merged` as part of what was new the last time.
    fn collect(&mut self, run: &Run, merged: bool) {
        self.produced.collect(&run.produced, merged);
        self.consumed.collect(&run.consumed, merged);
        self.replayed.collect(&run.replayed, merged);
    }

    /// From `before_us` until `last_us`.
    fn sample_of(&self, run: &Run) -> Sample {
        let passed = seconds(self.last_us.saturating_sub(self.before_us));
        let (produces, consumes) = (run.plan.produce.is_some(), run.plan.consume.is_some());
        Sample {
            kind: "progress",
            elapsed_seconds: seconds(self.last_us),
            phase: run.phases.at(self.before_us),
            produced: produces.then(|| flow(&[&self.produced], passed, None)),
            consumed: consumes.then(|| {
                let parts = [&self.consumed, &self.replayed];
                flow(&parts, passed, self.lag(run))
            }),
        }
    }

    fn lag(&self, run: &Run) -> Option<u64> {
        match run.plan.workload {
            Workload::Consume | Workload::Mixed => lag(run),
            // Exact, and known also before the consumers start.
            _ => {
                let (produced, consumed) = (self.produced.counts().0, self.consumed.counts().0);
                Some(produced.saturating_sub(consumed))
            }
        }
    }

    fn keep(&mut self, sample: &Sample) {
        self.is_last_kept = self.taken.is_multiple_of(self.stride);
        if self.is_last_kept {
            self.samples.push(sample.clone());
        }
        self.taken += 1;
        if self.samples.len() > SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

fn flow(parts: &[&Totals], passed: f64, lag_records: Option<u64>) -> FlowSample {
    let counts = parts.iter().map(|part| part.counts());
    let (records, bytes, errors) = counts.fold((0, 0, 0), |sum, next| {
        (sum.0 + next.0, sum.1 + next.1, sum.2 + next.2)
    });
    let fresh = |part: fn(&Tally) -> u64| -> u64 {
        parts.iter().map(|totals| part(&totals.fresh_sum)).sum()
    };
    // Only one part has latencies.
    let latencies = parts
        .iter()
        .find_map(|part| part.fresh_sum.latencies.summary());
    FlowSample {
        records,
        bytes,
        records_per_second: fresh(|tally| tally.records) as f64 / passed,
        bytes_per_second: fresh(|tally| tally.bytes) as f64 / passed,
        errors,
        latency_ms: latencies.map(Recent::from),
        lag_records,
    }
}

/// As the last fetches told; nothing where that is not known of all partitions.
fn lag(run: &Run) -> Option<u64> {
    let consumers = run.consumers.lock();
    let mut sum = None;
    for (consumer, partitions) in consumers.iter() {
        for partition in partitions {
            let lag = u64::try_from(consumer.lag(partition)?).unwrap_or(0);
            sum = Some(sum.unwrap_or(0) + lag);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use millrace_time::{ManualClock, SeededRandom};

    use super::*;
    use crate::{options::tests::plan, run::Run};

    #[test]
    fn rates_are_those_of_the_last_second_and_counts_those_of_the_run() {
        let clock = ManualClock::shared();
        let plan = plan("produce --duration 10 --warmup 1").expect("legal");
        let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
        let mut sampler = Sampler::new();
        assert!(sampler.sample(&run).is_none());
        for second in 0_u64..3 {
            let due_us = second * 1_000_000;
            let phase = run.phases.at(due_us) as usize;
            run.produced.with(|tallies| {
                for _ in 0..=second {
                    tallies[phase].add(100, Some(1_000 * (second + 1)));
                }
            });
            clock.advance(std::time::Duration::from_secs(1));
            let sample = sampler.sample(&run).expect("a second has passed");
            assert!(sample.consumed.is_none());
            let produced = sample.produced.expect("a producer");
            assert_eq!(produced.records_per_second, (second + 1) as f64);
            let latency = produced.latency_ms.expect("records");
            assert_eq!(latency.max, (second + 1) as f64);
            let phase = if second == 0 {
                Phase::Warmup
            } else {
                Phase::Test
            };
            assert_eq!(sample.phase, phase);
            assert_eq!(produced.records, (second + 1) * (second + 2) / 2);
        }
        // The warm-up's record is not part of the result.
        assert_eq!(sampler.produced.of(&[Phase::Test]).records, 5);
    }

    #[test]
    fn the_end_of_a_run_is_part_of_the_last_point_if_it_is_short() {
        for (last_ms, points) in [(149, 2), (150, 3)] {
            let clock = ManualClock::shared();
            let plan = plan("produce --duration 10").expect("legal");
            let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
            let mut sampler = Sampler::new();
            let produce = |ms| {
                run.produced
                    .with(|tallies| tallies[Phase::Test as usize].add(100, None));
                clock.advance(std::time::Duration::from_millis(ms));
            };
            for _ in 0..2 {
                produce(1_000);
                assert!(sampler.sample(&run).is_some());
            }
            produce(last_ms);
            let last = sampler.finish(&run).expect("the last state");
            assert_eq!(sampler.produced.of(&[Phase::Test]).records, 3);
            let shown = last.produced.expect("a producer");
            assert_eq!(shown.records, 3);
            let (records, ms) = if points == 2 {
                (2.0, 1_000 + last_ms)
            } else {
                (1.0, last_ms)
            };
            let expected = records * 1_000.0 / ms as f64;
            assert!(
                (shown.records_per_second - expected).abs() < 1e-6,
                "{shown:?}"
            );
            let samples = sampler.into_samples();
            assert_eq!(samples.len(), points);
            let kept = samples.last().expect("some").elapsed_seconds;
            assert_eq!(kept, last.elapsed_seconds);
        }
    }

    #[test]
    fn a_run_that_reads_between_two_samples_ends_with_what_was_read_and_no_lag() {
        let clock = ManualClock::shared();
        let plan = plan("catch-up --duration 10").expect("legal");
        let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
        let mut sampler = Sampler::new();
        let phase = Phase::Test as usize;
        run.produced.with(|tallies| tallies[phase].add(100, None));
        clock.advance(std::time::Duration::from_secs(1));
        let sample = sampler.sample(&run).expect("a second has passed");
        assert_eq!(sample.consumed.expect("a consumer").lag_records, Some(1));
        run.consumed.with(|tallies| tallies[phase].add(100, None));
        clock.advance(std::time::Duration::from_millis(30));
        sampler.finish(&run);
        let last = sampler.into_samples().pop().expect("some");
        let consumed = last.consumed.expect("a consumer");
        assert!(consumed.bytes_per_second > 90.0, "{consumed:?}");
        assert_eq!((consumed.records, consumed.lag_records), (1, Some(0)));
    }

    #[test]
    fn a_sample_that_is_asked_for_too_early_is_part_of_the_next_one() {
        let clock = ManualClock::shared();
        let plan = plan("produce --duration 10").expect("legal");
        let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
        let mut sampler = Sampler::new();
        for (ms, expected) in [(100, None), (100, Some(10.0))] {
            run.produced
                .with(|tallies| tallies[Phase::Test as usize].add(100, None));
            clock.advance(std::time::Duration::from_millis(ms));
            let sample = sampler.sample(&run).and_then(|sample| sample.produced);
            assert_eq!(sample.map(|flow| flow.records_per_second), expected);
        }
    }

    #[test]
    fn a_long_run_keeps_fewer_samples() {
        let clock = ManualClock::shared();
        let plan = plan("produce --duration 10").expect("legal");
        let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
        let mut sampler = Sampler::new();
        for _ in 0..SAMPLES_MAX * 5 {
            clock.advance(std::time::Duration::from_secs(1));
            sampler.sample(&run);
        }
        let samples = sampler.into_samples();
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&samples.len()));
        let distance = |pair: &[Sample]| pair[1].elapsed_seconds - pair[0].elapsed_seconds;
        assert!(samples.windows(2).all(|pair| distance(pair) == 8.0));
    }
}
