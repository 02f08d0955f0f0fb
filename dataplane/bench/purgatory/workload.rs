//! The article's workload, as Apache Kafka's own benchmark of its purgatory draws it: requests
//! arrive at exponential intervals, each takes a log-normal time, and a thread of its own completes
//! those that take less than the timeout. The others expire.
//!
//! Times are whole milliseconds, as in Kafka's, so that a high rate arrives in bursts.

use std::{
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use millrace_bench::usage::cpu_time;
use millrace_time::SharedClock;
use parking_lot::Mutex;

/// Where three quarters of the standard normal distribution lie below.
const NORMAL_PCT75: f64 = 0.674_490;
/// Keys that there are, and keys that every request watches: the defaults of Kafka's benchmark.
const KEY_SPACE: u32 = 100;
const KEYS: usize = 3;
/// Milliseconds of completions that the queue can hold; more than any timeout here.
const QUEUE_SLOTS: u64 = 1_024;
/// A contender that has not ended everything this long after its deadline has lost something.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// How often a waiting thread looks again.
const TICK: Duration = Duration::from_millis(1);

/// How long requests take, by two percentiles of a log-normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) pct50_ms: u32,
    pub(crate) pct75_ms: u32,
}

/// The article's two: one request in eleven expires, and one in two.
pub(crate) const SETTINGS: [Setting; 2] = [
    Setting {
        name: "low",
        pct50_ms: 20,
        pct75_ms: 60,
    },
    Setting {
        name: "high",
        pct50_ms: 200,
        pct75_ms: 400,
    },
];

/// One run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) setting: Setting,
    pub(crate) requests: usize,
    /// Requests per second; infinite where nothing shall hold the generator back.
    pub(crate) rate: f64,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
}

/// What a run showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) target_rate: f64,
    pub(crate) actual_rate: f64,
    /// From the last request's arrival until all had ended.
    pub(crate) drain: Duration,
    /// Of the whole process, from the first arrival until all had ended.
    pub(crate) cpu: Duration,
    pub(crate) completed: usize,
    pub(crate) expired: usize,
    /// Requests that take at least the timeout.
    pub(crate) slower: usize,
}

/// What every request of a run looks at.
#[derive(Debug)]
pub(crate) struct Scene {
    clock: SharedClock,
    completed: AtomicUsize,
    expired: AtomicUsize,
}

/// A request that does nothing useful.
#[derive(Debug)]
pub(crate) struct Request {
    scene: &'static Scene,
    completes_at_ms: u64,
    _data: [u8; 100],
}

/// Something that keeps requests until they are completed or expire.
pub(crate) trait Contender: Sync {
    /// Names a request that was handed over.
    type Handle: Send;

    /// Completes the request where it is ready; otherwise keeps it, findable by each of `keys`,
    /// until it is completed or `timeout` has passed.
    fn watch(&self, request: Request, keys: &[String], timeout: Duration) -> Self::Handle;

    /// Completes a request unless it has ended. Its time has come; that need not be judged.
    fn complete(&self, handle: Self::Handle);
}

impl Request {
    /// Whether it can be completed.
    pub(crate) fn is_ready(&self) -> bool {
        self.scene.now_ms() >= self.completes_at_ms
    }

    pub(crate) fn completed(&self) {
        self.scene.completed.fetch_add(1, Relaxed);
    }

    pub(crate) fn expired(&self) {
        self.scene.expired.fetch_add(1, Relaxed);
    }
}

impl Scene {
    /// Lives as long as the process, so that a request need not count who refers to it.
    pub(crate) fn new(clock: SharedClock) -> &'static Self {
        Box::leak(Box::new(Self {
            clock,
            completed: AtomicUsize::new(0),
            expired: AtomicUsize::new(0),
        }))
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn now_ms(&self) -> u64 {
        let now = self.clock.now();
        now.as_secs() * 1_000 + u64::from(now.subsec_millis())
    }

    fn ended(&self) -> usize {
        self.completed.load(SeqCst) + self.expired.load(SeqCst)
    }
}

/// A request to come.
#[derive(Debug, Clone, Copy)]
struct Draw {
    /// Since the request before.
    interval_ms: u32,
    latency_ms: u32,
}

/// All requests to come, drawn beforehand: drawing must not be what limits a contender.
fn draw(plan: &Plan, rng: &mut Rng) -> Vec<Draw> {
    let mut interval = Intervals::new(plan.rate);
    (0..plan.requests)
        .map(|_| Draw {
            interval_ms: interval.next_ms(rng),
            latency_ms: latency_ms(plan.setting, rng),
        })
        .collect()
}

fn latency_ms(setting: Setting, rng: &mut Rng) -> u32 {
    let mean = f64::from(setting.pct50_ms).ln();
    let deviation = (f64::from(setting.pct75_ms).ln() - mean) / NORMAL_PCT75;
    // Box and Muller's way from two uniform numbers to a normal one.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.f64()).cos();
    (normal * deviation + mean).exp() as u32
}

/// Intervals in whole milliseconds; what rounding takes from one is added to the next.
struct Intervals {
    mean_ms: f64,
    residue_ms: f64,
}

impl Intervals {
    fn new(rate: f64) -> Self {
        Self {
            mean_ms: 1_000.0 / rate,
            residue_ms: 0.0,
        }
    }

    fn next_ms(&mut self, rng: &mut Rng) -> u32 {
        let interval_ms = -(1.0 - rng.f64()).ln() * self.mean_ms + self.residue_ms;
        self.residue_ms = interval_ms.fract();
        interval_ms as u32
    }
}

/// Requests by the millisecond in which they are to be completed.
///
/// One lock and one step to add a request: the queue serves every contender alike and must not be
/// what limits them.
struct CompletionQueue<H> {
    slots: Box<[Mutex<Vec<H>>]>,
    /// The next millisecond to complete. A slot's lock is held while it moves on.
    next_ms: AtomicU64,
}

impl<H> CompletionQueue<H> {
    fn new(now_ms: u64) -> Self {
        Self {
            slots: (0..QUEUE_SLOTS).map(|_| Mutex::default()).collect(),
            next_ms: AtomicU64::new(now_ms),
        }
    }

    fn add(&self, mut at_ms: u64, handle: H) {
        loop {
            let mut slot = self.slots[(at_ms % QUEUE_SLOTS) as usize].lock();
            let next_ms = self.next_ms.load(SeqCst);
            if at_ms >= next_ms {
                slot.push(handle);
                return;
            }
            // That millisecond was completed while the request was being handed over.
            at_ms = next_ms;
        }
    }

    /// Takes what is to be completed until `now_ms`, a millisecond at a time.
    fn take_due(&self, now_ms: u64, due: &mut Vec<H>) -> bool {
        let at_ms = self.next_ms.load(SeqCst);
        if at_ms > now_ms {
            return false;
        }
        let mut slot = self.slots[(at_ms % QUEUE_SLOTS) as usize].lock();
        self.next_ms.store(at_ms + 1, SeqCst);
        std::mem::swap(&mut *slot, due);
        true
    }
}

/// Runs the workload against a contender.
pub(crate) fn drive<C: Contender>(contender: &C, scene: &'static Scene, plan: &Plan) -> Measured {
    let mut rng = Rng::with_seed(plan.seed);
    let draws = draw(plan, &mut rng);
    let keys: [String; KEYS] = std::array::from_fn(|_| format!("fakeKey{}", rng.u32(..KEY_SPACE)));
    let queue = CompletionQueue::new(scene.now_ms());
    let cpu_before = cpu_time();
    let (arrivals, drain) = thread::scope(|scope| {
        scope.spawn(|| complete_all(contender, scene, &queue, plan.requests));
        let arrivals = generate(contender, scene, &queue, plan.timeout, &draws, &keys);
        (arrivals, wait_until_ended(scene, plan))
    });
    Measured {
        target_rate: plan.requests as f64 / arrivals.target.as_secs_f64(),
        actual_rate: plan.requests as f64 / arrivals.actual.as_secs_f64(),
        drain,
        cpu: cpu_time().saturating_sub(cpu_before),
        completed: scene.completed.load(SeqCst),
        expired: scene.expired.load(SeqCst),
        slower: arrivals.slower,
    }
}

/// What came of handing over all requests.
struct Arrivals {
    /// How long it should have taken.
    target: Duration,
    /// How long it took.
    actual: Duration,
    slower: usize,
}

/// Hands over all requests.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread of its own sets the pace"
)]
fn generate<C: Contender>(
    contender: &C,
    scene: &'static Scene,
    queue: &CompletionQueue<C::Handle>,
    timeout: Duration,
    draws: &[Draw],
    keys: &[String],
) -> Arrivals {
    let start = scene.now();
    let timeout_ms = timeout.as_millis() as u64;
    let start_ms = scene.now_ms();
    let mut arrival_ms = start_ms;
    let mut slower = 0;
    for draw in draws {
        arrival_ms += u64::from(draw.interval_ms);
        let latency_ms = u64::from(draw.latency_ms);
        let mut now_ms = scene.now_ms();
        if arrival_ms > now_ms {
            thread::sleep(Duration::from_millis(arrival_ms - now_ms));
            now_ms = scene.now_ms();
        }
        let completes_at_ms = now_ms + latency_ms;
        let request = Request {
            scene,
            completes_at_ms,
            _data: [0; 100],
        };
        let handle = contender.watch(request, keys, timeout);
        if latency_ms < timeout_ms {
            queue.add(completes_at_ms, handle);
        } else {
            slower += 1;
        }
    }
    Arrivals {
        target: Duration::from_millis(arrival_ms - start_ms),
        actual: scene.now() - start,
        slower,
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own completes")]
fn complete_all<C: Contender>(
    contender: &C,
    scene: &'static Scene,
    queue: &CompletionQueue<C::Handle>,
    requests: usize,
) {
    let mut due = Vec::new();
    while scene.ended() < requests {
        thread::sleep(TICK);
        let now_ms = scene.now_ms();
        while queue.take_due(now_ms, &mut due) {
            due.drain(..).for_each(|handle| contender.complete(handle));
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing tells when the last has ended"
)]
fn wait_until_ended(scene: &'static Scene, plan: &Plan) -> Duration {
    let start = scene.now();
    while scene.ended() < plan.requests {
        let waited = scene.now() - start;
        assert!(
            waited < plan.timeout + DRAIN_MAX,
            "{} of {} requests ended",
            scene.ended(),
            plan.requests
        );
        thread::sleep(TICK);
    }
    scene.now() - start
}

#[cfg(test)]
mod tests;
