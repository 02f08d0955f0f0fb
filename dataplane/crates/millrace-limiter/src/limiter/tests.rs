use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_tasks::Supervisor;
use millrace_time::ManualClock;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{paused::TokioClock, *};
use crate::{LimiterMode, Network, NetworkConfig};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Takes what was saved up.
fn empty(limiter: &Limiter) {
    let rate = limiter.rate().expect("bounded");
    limiter.charge(Tier::WalUpload, rate.div_ceil(10));
}

/// Acquires again and again, and counts.
fn flood(limiter: &Limiter, tier: Tier, flow: u64, bytes: u64) -> Flood {
    let moved = Arc::new(AtomicU64::new(0));
    let (limiter, count) = (limiter.clone(), Arc::clone(&moved));
    let task = tokio::spawn(async move {
        loop {
            limiter.acquire_for(tier, flow, bytes).await;
            count.fetch_add(bytes, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    Flood { task, moved }
}

struct Flood {
    task: tokio::task::JoinHandle<()>,
    moved: Arc<AtomicU64>,
}

impl Flood {
    fn stop(&self) -> u64 {
        self.task.abort();
        self.moved.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_nothing_waits() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), None);
    for tier in Tier::ALL {
        limiter.acquire(tier, u64::MAX / 10).await;
        assert!(limiter.try_acquire(tier, 5));
    }
    assert_eq!(clock.now(), Duration::ZERO);
    assert_eq!(limiter.metrics().tiers[4].bytes, u64::MAX / 10 + 5);
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_at_the_rate() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    for _ in 0..500 {
        limiter.acquire(Tier::TailRead, KIB).await;
    }
    // Five seconds' worth, of which a tenth of a second was saved up; timers round up by 1 ms.
    let took = clock.now().as_millis();
    assert!((4_880..=4_910).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_a_slice_passes_once_all_of_it_is_granted() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(10 * MIB));
    limiter.acquire(Tier::CatchUpMiss, 50 * MIB).await;
    // At 9.5 MiB/s: this tier leaves headroom.
    let took = clock.now().as_millis();
    assert!((5_230..=5_270).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn an_urgent_request_waits_for_a_slice_of_a_large_one_at_most() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(MIB));
    let large = limiter.acquire(Tier::CatchUpMiss, 100 * MIB);
    let urgent = async {
        sleep(Duration::from_secs(7)).await;
        let since = clock.now();
        limiter.acquire(Tier::TailRead, KIB).await;
        clock.now() - since
    };
    tokio::select! {
        () = large => panic!("it takes 100 s"),
        waited = urgent => assert!(waited <= Duration::from_millis(12), "{waited:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_most_urgent_goes_first_and_then_the_earliest() {
    let limiter = Limiter::new(TokioClock::shared(), Some(KIB));
    empty(&limiter);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    let waiting_tiers = &Tier::ALL[1..];
    for round in 0..2 {
        for tier in waiting_tiers.iter().copied().rev() {
            let (limiter, order) = (limiter.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                limiter.acquire(tier, 10).await;
                order.lock().push((tier, round));
            }));
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(limiter.waiting(), 8);
    for task in tasks {
        task.await.expect("no panic");
    }
    let order = order.lock();
    assert_eq!(order.len(), 8);
    // A share brings its tier forward, and each tier stays in order.
    let without_share = order.iter().filter(|(tier, _)| !tier.has_share());
    assert!(without_share.is_sorted(), "{order:?}");
    for tier in Tier::WITH_SHARE {
        let of_tier = order.iter().filter(|(of, _)| *of == tier);
        assert!(of_tier.is_sorted(), "{order:?}");
    }
    let last_of = |tier| order.iter().rposition(|(of, _)| *of == tier);
    assert!(
        last_of(Tier::CatchUpMiss) < last_of(Tier::Prefetch),
        "{order:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_top_tier_never_waits_and_the_others_give_way() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    for _ in 0..5 {
        limiter.acquire(Tier::WalUpload, 10 * KIB).await;
    }
    limiter.charge(Tier::WalUpload, 10 * KIB);
    assert!(limiter.try_acquire(Tier::WalUpload, 10 * KIB));
    assert_eq!(clock.now(), Duration::ZERO);
    // 70 of which 10 were saved up.
    limiter.acquire(Tier::TailRead, 1).await;
    let took = clock.now().as_millis();
    assert!((599..=602).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn the_debt_of_the_top_tier_is_bounded() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    limiter.charge(Tier::WalUpload, u64::MAX / 4);
    limiter.acquire(Tier::TailRead, 1).await;
    let took = clock.now().as_millis();
    assert!((999..=1_002).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_its_share_under_any_pressure() {
    for pressure in [Tier::WalUpload, Tier::TailRead, Tier::Prefetch] {
        keeps_its_share(Tier::Compaction, pressure).await;
    }
}

/// Who reads old data goes on, however much producers send.
#[tokio::test(start_paused = true)]
async fn misses_keep_their_share_under_any_pressure() {
    for pressure in [Tier::WalUpload, Tier::TailRead] {
        keeps_its_share(Tier::CatchUpMiss, pressure).await;
    }
}

async fn keeps_its_share(tier: Tier, pressure: Tier) {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    let produce = async {
        loop {
            // Twice the rate, for what never waits.
            limiter.acquire(pressure, 20 * KIB).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let _always_over = timeout(Duration::from_secs(5), produce).await;
    let urgent = flood_unless_top(&limiter, pressure);
    let flood = flood(&limiter, tier, 0, KIB);
    for _ in 0..600 {
        if pressure.never_waits() {
            limiter.charge(pressure, 20 * KIB);
        }
        sleep(Duration::from_millis(100)).await;
    }
    urgent.iter().for_each(|flood| {
        flood.stop();
    });
    // 60 s at a twentieth of 100 KiB/s.
    let moved = flood.stop() / KIB;
    assert!((296..=306).contains(&moved), "{pressure:?}: {moved} KiB");
}

/// The shares of two tiers do not come out of each other.
#[tokio::test(start_paused = true)]
async fn both_shares_are_kept_at_the_same_time() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    limiter.charge(Tier::WalUpload, 200 * KIB);
    let misses = flood(&limiter, Tier::CatchUpMiss, 0, KIB);
    let compaction = flood(&limiter, Tier::Compaction, 0, KIB);
    for _ in 0..600 {
        limiter.charge(Tier::WalUpload, 20 * KIB);
        sleep(Duration::from_millis(100)).await;
    }
    for moved in [misses.stop() / KIB, compaction.stop() / KIB] {
        assert!((296..=306).contains(&moved), "{moved} KiB");
    }
}

fn flood_unless_top(limiter: &Limiter, tier: Tier) -> Vec<Flood> {
    // Two, so that one always waits while the other is granted.
    let floods = if tier.never_waits() { 0 } else { 2 };
    (0..floods)
        .map(|flow| flood(limiter, tier, flow, KIB))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn tiers_without_a_guarantee_wait_for_the_more_urgent() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    empty(&limiter);
    let urgent = flood_unless_top(&limiter, Tier::CatchUpMiss);
    sleep(Duration::from_millis(200)).await;
    let prefetch = flood(&limiter, Tier::Prefetch, 0, KIB);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(prefetch.stop(), 0);
    let urgent: u64 = urgent.iter().map(Flood::stop).sum();
    // Of 95 KiB/s, since this tier leaves headroom.
    assert!(urgent >= 1_890 * KIB, "{urgent}");
}

#[tokio::test(start_paused = true)]
async fn compaction_has_all_of_it_where_nobody_else_wants_any() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    let compaction = flood(&limiter, Tier::Compaction, 0, KIB);
    sleep(Duration::from_secs(10)).await;
    let moved = compaction.stop() / KIB;
    // Of 95 KiB/s. With its share on top it may run ahead by the debt that this makes.
    assert!((940..=970).contains(&moved), "{moved} KiB");
}

/// What saves up nothing makes no queue in the network when it comes back.
#[tokio::test(start_paused = true)]
async fn tiers_that_leave_headroom_save_up_hardly_anything() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    sleep(Duration::from_secs(5)).await;
    let since = clock.now();
    limiter.acquire(Tier::Prefetch, 10 * KIB).await;
    let took = (clock.now() - since).as_millis();
    assert!((90..=110).contains(&took), "{took} ms");
}

/// Reads from memory may use the headroom.
#[tokio::test(start_paused = true)]
async fn the_headroom_is_for_what_is_more_urgent() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    let tail = flood_unless_top(&limiter, Tier::TailRead);
    sleep(Duration::from_secs(10)).await;
    let moved: u64 = tail.iter().map(Flood::stop).sum();
    assert!(moved >= 990 * KIB, "{moved}");
}

/// Those who leave it wait; whoever may use it does not stand behind them.
#[tokio::test(start_paused = true)]
async fn what_is_more_urgent_does_not_wait_where_only_the_headroom_is_left() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    let catch_up = flood(&limiter, Tier::CatchUpMiss, 0, 10 * KIB);
    sleep(Duration::from_secs(10)).await;
    assert!(limiter.waiting() > 0);
    assert!(limiter.try_acquire(Tier::TailRead, 2 * KIB));
    let since = clock.now();
    limiter.acquire(Tier::TailRead, 2 * KIB).await;
    assert_eq!(clock.now(), since);
    catch_up.stop();
}

#[tokio::test(start_paused = true)]
async fn flows_of_a_tier_take_turns_whatever_they_ask_for() {
    let limiter = Limiter::new(TokioClock::shared(), Some(MIB));
    // One flow asks for much, in many requests; another for little.
    let mut greedy: Vec<Flood> = (0..50)
        .map(|_| flood(&limiter, Tier::CatchUpMiss, 1, 256 * KIB))
        .collect();
    let modest: Vec<Flood> = (0..8)
        .map(|_| flood(&limiter, Tier::CatchUpMiss, 2, 16 * KIB))
        .collect();
    sleep(Duration::from_secs(100)).await;
    let modest: u64 = modest.iter().map(Flood::stop).sum();
    let moved: u64 = greedy.drain(..).map(|flood| flood.stop()).sum();
    let share = modest * 100 / (modest + moved);
    assert!((47..=55).contains(&share), "{share} %");
}

#[tokio::test(start_paused = true)]
async fn a_flow_pays_for_requests_larger_than_a_turn_though_it_has_one_at_a_time() {
    let limiter = Limiter::new(TokioClock::shared(), Some(MIB));
    let greedy = flood(&limiter, Tier::CatchUpMiss, 1, MIB);
    let modest: Vec<Flood> = (0..4)
        .map(|_| flood(&limiter, Tier::CatchUpMiss, 2, 64 * KIB))
        .collect();
    sleep(Duration::from_secs(200)).await;
    let modest: u64 = modest.iter().map(Flood::stop).sum();
    let share = modest * 100 / (modest + greedy.stop());
    assert!((45..=55).contains(&share), "{share} %");
}

#[tokio::test(start_paused = true)]
async fn requests_larger_than_a_turn_are_granted_one_after_the_other() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(10 * MIB));
    empty(&limiter);
    let since = clock.now();
    let mut requests = JoinSet::new();
    for flow in 0..8 {
        let (limiter, clock) = (limiter.clone(), clock.clone());
        requests.spawn(async move {
            limiter
                .acquire_for(Tier::CatchUpMiss, flow, 3 * MIB / 2)
                .await;
            clock.now() - since
        });
    }
    let mut granted_at = requests.join_all().await;
    granted_at.sort();
    for pair in granted_at.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(apart >= Duration::from_millis(140), "{granted_at:?}");
    }
}

/// A network with a latency that carries one request after the other, and stops now and then.
struct Carrier {
    bytes_per_s: u64,
    latency: Duration,
    request_bytes: u64,
    turn: tokio::sync::Mutex<u64>,
    in_flight: AtomicU64,
}

/// What came of five seconds.
#[derive(Debug)]
struct Carried {
    /// MiB by tier.
    mib: [u64; 5],
    /// Requests in flight, times a hundred, on average.
    in_flight_percent: u64,
}

impl Carrier {
    const STOPS_EACH: u64 = 300;
    const STOP: Duration = Duration::from_millis(50);

    async fn carry(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        sleep(self.latency).await;
        let mut turn = self.turn.lock().await;
        *turn += 1;
        if turn.is_multiple_of(Self::STOPS_EACH) {
            sleep(Self::STOP).await;
        }
        let micros = self.request_bytes * 1_000_000 / self.bytes_per_s;
        sleep(Duration::from_micros(micros)).await;
        drop(turn);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    fn new(bytes_per_s: u64, latency_ms: u64, request_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_per_s,
            latency: Duration::from_millis(latency_ms),
            request_bytes,
            turn: tokio::sync::Mutex::default(),
            in_flight: AtomicU64::new(0),
        })
    }

    /// Readers that always want more, for some time before it is counted.
    async fn run(self: Arc<Self>, limiter: &Limiter, readers: &[Tier]) -> Carried {
        let carrier = self;
        let bytes = carrier.request_bytes;
        let counts: Arc<[AtomicU64; 5]> = Arc::default();
        let mut tasks = JoinSet::new();
        for (flow, &tier) in (0..).zip(readers) {
            let (limiter, carrier) = (limiter.clone(), Arc::clone(&carrier));
            let counts = Arc::clone(&counts);
            tasks.spawn(async move {
                loop {
                    let in_flight = limiter.acquire_in_flight(tier, flow, bytes).await;
                    carrier.carry().await;
                    counts[tier as usize].fetch_add(bytes, Ordering::SeqCst);
                    drop(in_flight);
                }
            });
        }
        let count = || [0, 1, 2, 3, 4].map(|tier: usize| counts[tier].load(Ordering::SeqCst));
        sleep(Duration::from_secs(60)).await;
        let before = count();
        let mut in_flight_percent = 0;
        for _ in 0..5_000 {
            sleep(Duration::from_millis(1)).await;
            in_flight_percent += carrier.in_flight.load(Ordering::SeqCst);
        }
        let mut mib = count();
        for (mib, before) in mib.iter_mut().zip(before) {
            *mib = (*mib - before) / MIB;
        }
        Carried {
            mib,
            in_flight_percent: in_flight_percent / 50,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_are_in_flight_than_the_rate_needs() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * MIB));
    let carried = Carrier::new(111 * MIB, 1, MIB)
        .run(&limiter, &[Tier::CatchUpMiss; 16])
        .await;
    // Of 475 MiB, of which the window costs a twentieth at most; without it, 168 % are in flight.
    assert!(
        carried.mib[Tier::CatchUpMiss as usize] >= 449,
        "{carried:?}"
    );
    assert!(carried.in_flight_percent <= 130, "{carried:?}");
}

#[tokio::test(start_paused = true)]
async fn a_latency_costs_a_twentieth_of_the_bandwidth_at_most() {
    for latency_ms in [30, 100] {
        let limiter = Limiter::new(TokioClock::shared(), Some(100 * MIB));
        let readers = [Tier::CatchUpMiss; 16];
        let carried = Carrier::new(500 * MIB, latency_ms, MIB)
            .run(&limiter, &readers)
            .await;
        let mib = carried.mib[Tier::CatchUpMiss as usize];
        // Of 475 MiB.
        assert!(mib >= 449, "{latency_ms} ms: {carried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_slower_than_the_rate_is_used_fully_and_compaction_has_its_share() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * MIB));
    // More misses than the widest window has room for.
    let mut readers = [Tier::CatchUpMiss; 3_200];
    readers[2_400..].fill(Tier::Compaction);
    let carrier = Carrier::new(64 * MIB, 1, 64 * KIB);
    let Carried { mib, .. } = carrier.run(&limiter, &readers).await;
    let compaction = mib[Tier::Compaction as usize];
    let all = compaction + mib[Tier::CatchUpMiss as usize];
    // The network carries 64 KiB in 1 ms, and stops for a seventh of the time.
    assert!(all >= 260, "{mib:?}");
    assert!(compaction >= all / 20, "{mib:?}");
}

#[tokio::test(start_paused = true)]
async fn shares_are_kept_where_producers_take_all_and_reads_take_long() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * MIB));
    let producers = {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            loop {
                limiter.charge(Tier::WalUpload, 2 * MIB);
                sleep(Duration::from_millis(10)).await;
            }
        })
    };
    let mut readers = [Tier::CatchUpMiss; 64];
    readers[32..].fill(Tier::Compaction);
    let Carried { mib, .. } = Carrier::new(500 * MIB, 100, 64 * KIB)
        .run(&limiter, &readers)
        .await;
    producers.abort();
    // A twentieth each, for five seconds.
    for tier in [Tier::CatchUpMiss, Tier::Compaction] {
        assert!(mib[tier as usize] >= 23, "{mib:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_urgent_read_does_not_wait_for_what_is_in_flight() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(10 * MIB));
    let in_flight = limiter
        .acquire_in_flight(Tier::CatchUpMiss, 0, 5 * MIB)
        .await;
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire_in_flight(Tier::CatchUpMiss, 0, MIB).await }
    });
    sleep(Duration::from_millis(500)).await;
    let since = clock.now();
    limiter.acquire(Tier::TailRead, MIB / 2).await;
    assert_eq!(clock.now(), since);
    assert_eq!(limiter.waiting(), 1);
    drop(in_flight);
    drop(waits.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_leaves_the_turn_to_the_next() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(KIB));
    empty(&limiter);
    let impatient = limiter.acquire(Tier::TailRead, 100 * KIB);
    let patient = limiter.acquire(Tier::Compaction, 100);
    let (gave_up, ()) = tokio::join!(timeout(Duration::from_millis(10), impatient), patient);
    gave_up.expect_err("it takes 100 s");
    assert_eq!(limiter.waiting(), 0);
    assert!(
        clock.now() < Duration::from_millis(250),
        "{:?}",
        clock.now()
    );
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_bytes_that_it_was_granted() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    empty(&limiter);
    // Gets 490 of 500 and gives up.
    let impatient = limiter.acquire(Tier::TailRead, 500 * KIB);
    timeout(Duration::from_millis(4_900), impatient)
        .await
        .expect_err("it takes 5 s");
    // More than may be saved up does not come back; what may does.
    let since = clock.now();
    limiter.acquire(Tier::TailRead, 10 * KIB).await;
    assert!(clock.now() - since <= Duration::from_millis(1));
    assert_eq!(
        limiter.metrics().tiers[Tier::TailRead as usize].bytes,
        10 * KIB
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_granted_to_one_who_does_not_look_any_more_come_back() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(100 * KIB));
    empty(&limiter);
    {
        let mut blind = std::pin::pin!(limiter.acquire(Tier::TailRead, 10 * KIB));
        let first = timeout(Duration::from_millis(1), blind.as_mut()).await;
        first.expect_err("it takes 100 ms");
        // Granted, but never polled again.
        sleep(Duration::from_millis(150)).await;
        assert_eq!(limiter.waiting(), 0);
    }
    let since = clock.now();
    limiter.acquire(Tier::TailRead, 10 * KIB).await;
    assert_eq!(clock.now(), since);
}

#[tokio::test(start_paused = true)]
async fn a_new_rate_holds_for_those_who_wait() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(1));
    let wait = limiter.acquire(Tier::TailRead, 1_000_000);
    let lift = async {
        sleep(Duration::from_secs(5)).await;
        limiter.set_rate(Some(1_000_000));
    };
    tokio::join!(wait, lift);
    let took = clock.now().as_millis();
    assert!((5_990..=6_005).contains(&took), "{took} ms");
    let wait = limiter.acquire(Tier::Prefetch, 1_000_000_000);
    let lift = async {
        sleep(Duration::from_secs(1)).await;
        limiter.set_rate(None);
    };
    tokio::join!(wait, lift);
    assert_eq!(clock.now().as_millis() - took, 1_000);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_waits_there_is_neither_a_task_nor_a_timer() {
    let limiter = Limiter::new(TokioClock::shared(), Some(KIB));
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    empty(&limiter);
    limiter.acquire(Tier::TailRead, 10 * KIB).await;
    // The last one who waits for long gives up: nobody is left to be woken.
    let impatient = limiter.acquire(Tier::TailRead, 1_000_000 * KIB);
    let _gave_up = timeout(Duration::from_millis(5), impatient).await;
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(tasks(), before);
    assert!(!limiter.core().state.lock().is_driven);
}

#[test]
fn those_who_wait_survive_the_runtime_of_the_one_who_grants() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().expect("a runtime")
    };
    let clock = ManualClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(1_000));
    let (first, second) = (runtime(), runtime());
    let waiting = limiter.clone();
    first.spawn(async move { waiting.acquire(Tier::TailRead, 500).await });
    first.block_on(tokio::task::yield_now());
    first.block_on(tokio::task::yield_now());
    assert_eq!(limiter.waiting(), 1);
    let waiting = limiter.clone();
    let survivor = second.spawn(async move { waiting.acquire(Tier::TailRead, 500).await });
    second.block_on(tokio::task::yield_now());
    assert_eq!(limiter.waiting(), 2);
    drop(first);
    clock.advance(Duration::from_secs(10));
    // Nothing is saved up beyond a tenth of a second, so time has to go on.
    let in_time = async {
        let goes_on = async {
            loop {
                sleep(Duration::from_millis(2)).await;
                clock.advance(Duration::from_millis(100));
            }
        };
        tokio::select! {
            granted = survivor => granted.expect("no panic"),
            () = goes_on => {}
        }
    };
    let waited = second.block_on(async { timeout(Duration::from_secs(20), in_time).await });
    waited.expect("a lost wake-up");
    assert_eq!(limiter.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_leaves_headroom_has_its_rate_again_soon_after_others_used_all() {
    let limiter = Limiter::new(TokioClock::shared(), Some(MIB));
    let tail = flood(&limiter, Tier::TailRead, 0, KIB);
    sleep(Duration::from_secs(100)).await;
    tail.stop();
    sleep(Duration::from_secs(2)).await;
    let catch_up = flood(&limiter, Tier::CatchUpMiss, 1, KIB);
    sleep(Duration::from_secs(10)).await;
    let moved = catch_up.stop();
    assert!(moved >= 10 * MIB * 94 / 100, "{moved}");
}

#[tokio::test(start_paused = true)]
async fn separate_directions_know_nothing_of_each_other() {
    let clock = TokioClock::shared();
    let config = NetworkConfig {
        mode: LimiterMode::Separate,
        ingress_bytes_per_s: Some(KIB),
        egress_bytes_per_s: None,
    };
    let network = Network::new(clock.clone(), Supervisor::new(), config);
    network.ingress.charge(Tier::WalUpload, 100 * KIB);
    assert!(network.egress.try_acquire(Tier::TailRead, 100 * KIB));
    assert!(!network.ingress.try_acquire(Tier::TailRead, 1));
    network.set_egress(Some(5));
    assert_eq!(
        (network.ingress.rate(), network.egress.rate()),
        (Some(KIB), Some(5))
    );
}

#[tokio::test(start_paused = true)]
async fn shared_directions_draw_on_one_bandwidth_and_are_counted_apart() {
    let clock = TokioClock::shared();
    let config = NetworkConfig {
        mode: LimiterMode::Shared,
        ingress_bytes_per_s: Some(100 * KIB),
        egress_bytes_per_s: Some(200 * KIB),
    };
    let network = Network::new(clock.clone(), Supervisor::new(), config);
    assert_eq!(network.egress.rate(), Some(100 * KIB));
    network.ingress.charge(Tier::WalUpload, 60 * KIB);
    network.egress.acquire(Tier::TailRead, KIB).await;
    let took = clock.now().as_millis();
    assert!((499..=512).contains(&took), "{took} ms");
    let bytes = |limiter: &Limiter| limiter.metrics().tiers.map(|tier| tier.bytes / KIB);
    assert_eq!(bytes(&network.ingress), [60, 0, 0, 0, 0]);
    assert_eq!(bytes(&network.egress), [0, 1, 0, 0, 0]);
    let waited = network.egress.metrics().tiers[1].waited.as_millis();
    assert_eq!(waited, took);
    network.set_ingress(None);
    assert_eq!(network.ingress.rate(), Some(200 * KIB));
    network.set_egress(None);
    assert_eq!(network.config().egress_bytes_per_s, None);
    assert_eq!(network.ingress.rate(), None);
}
