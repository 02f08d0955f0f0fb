//! Properties that hold for every sequence of requests, on a paused clock.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::{paused::TokioClock, *};

const KIB: u64 = 1024;

/// One who acquires, and may give up.
#[derive(Debug, Clone)]
struct Asks {
    after_ms: u64,
    tier: Tier,
    flow: u64,
    bytes: u64,
    gives_up_after_ms: Option<u64>,
    /// What was granted is in flight for so long.
    in_flight_ms: Option<u64>,
}

fn asks() -> impl Strategy<Value = Asks> {
    let tier = prop::sample::select(Tier::ALL.to_vec());
    let gives_up = prop::option::weighted(0.3, 0_u64..3_000);
    let in_flight = prop::option::of(0_u64..200);
    let bytes = prop_oneof![1_u64..200, 1_u64..20_000, Just(200_000_u64)];
    (0_u64..3_000, tier, 0_u64..4, bytes, gives_up, in_flight).prop_map(
        |(after_ms, tier, flow, bytes, gives_up_after_ms, in_flight_ms)| Asks {
            after_ms,
            tier,
            flow,
            bytes,
            gives_up_after_ms,
            in_flight_ms,
        },
    )
}

/// What came of a world.
struct Came {
    /// Those whose bytes were granted.
    granted: u64,
    /// How often those who asked were polled.
    polls: u64,
    /// When so many bytes were taken.
    taken: Vec<(Duration, u64)>,
}

fn run<F: Future>(world: impl FnOnce() -> F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime
        .expect("a runtime")
        .block_on(async { world().await })
}

/// How often a future is polled.
async fn counting<F: Future>(polls: Arc<AtomicU64>, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| -> Poll<F::Output> {
        polls.fetch_add(1, Ordering::SeqCst);
        future.as_mut().poll(context)
    })
    .await
}

/// Everybody asks, and the rate changes.
async fn world(rate: u64, everybody: Vec<Asks>, rates: Vec<(u64, Option<u64>)>) -> Came {
    let limiter = Limiter::new(TokioClock::shared(), Some(rate));
    let granted = Arc::new(AtomicU64::new(0));
    let polls = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for asks in everybody {
        let limiter = limiter.clone();
        let (granted, polls) = (Arc::clone(&granted), Arc::clone(&polls));
        tasks.push(tokio::spawn(async move {
            sleep(Duration::from_millis(asks.after_ms)).await;
            let acquire = async {
                match asks.in_flight_ms {
                    None => {
                        let acquire = limiter.acquire_for(asks.tier, asks.flow, asks.bytes);
                        acquire.await;
                        None
                    }
                    Some(ms) => {
                        let acquire = limiter.acquire_in_flight(asks.tier, asks.flow, asks.bytes);
                        Some((acquire.await, ms))
                    }
                }
            };
            let acquire = counting(polls, acquire);
            let patience_ms = asks.gives_up_after_ms.unwrap_or(1_000_000_000);
            let in_time = timeout(Duration::from_millis(patience_ms), acquire).await;
            granted.fetch_add(u64::from(in_time.is_ok()), Ordering::SeqCst);
            if let Ok(Some((_in_flight, ms))) = in_time {
                sleep(Duration::from_millis(ms)).await;
            }
        }));
    }
    for (after_ms, rate) in rates {
        sleep(Duration::from_millis(after_ms)).await;
        limiter.set_rate(rate);
    }
    for task in tasks {
        let done = timeout(Duration::from_secs(100_000), task).await;
        done.expect("a lost wake-up").expect("no panic");
    }
    assert_eq!(limiter.waiting(), 0);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let waiting = limiter.metrics().tiers.map(|tier| tier.waiting);
    assert_eq!(waiting, [0; 5]);
    let mut state = limiter.core().state.lock();
    assert!(!state.is_driven, "it waits for nobody");
    assert_eq!(state.window.in_flight(), 0);
    Came {
        granted: granted.load(Ordering::SeqCst),
        polls: polls.load(Ordering::SeqCst),
        taken: std::mem::take(&mut state.seen.taken),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// In no stretch of time more passes than the rate allows, and what was saved up and a slice
    /// of each bucket; and in the whole time not less.
    #[test]
    fn the_rate_is_kept(
        rate in 20_000_u64..2_000_000,
        mut everybody in prop::collection::vec(asks(), 1..60),
    ) {
        for asks in &mut everybody {
            asks.gives_up_after_ms = None;
            asks.in_flight_ms = None;
        }
        let asked: u64 = everybody
            .iter()
            .filter(|asks| !asks.tier.never_waits())
            .map(|asks| asks.bytes)
            .sum();
        let Came { taken, .. } = run(|| world(rate, everybody, Vec::new()));
        prop_assert_eq!(taken.iter().map(|(_, bytes)| bytes).sum::<u64>(), asked);
        let saved_up = rate / 10 + 2 * (rate / 20 / 10);
        let burst = saved_up + rate / 100 + 2 * (rate / 20 / 100) + 6;
        // How far the stretch that ends here and is furthest ahead of the rate is so, in bytes times
        // nanoseconds per second.
        let (mut ahead, mut before) = (0_u128, Duration::ZERO);
        for (at, bytes) in taken {
            let allowed = u128::from(rate) * (at - before).as_nanos();
            ahead = ahead.saturating_sub(allowed) + u128::from(bytes) * 1_000_000_000;
            prop_assert!(ahead <= u128::from(burst) * 1_000_000_000, "{ahead} beyond the rate");
            before = at;
        }
    }

    /// However many give up, whenever they do, and however the rate changes, everybody else is
    /// granted, and each is polled a few times only.
    #[test]
    fn no_wake_up_is_lost_and_none_is_in_vain(
        rate in 500_u64..2_000_000,
        everybody in prop::collection::vec(asks(), 1..100),
        rates in prop::collection::vec(
            (0_u64..2_000, prop::option::weighted(0.8, 500_u64..2_000_000)),
            0..4,
        ),
    ) {
        let patient = everybody.iter().filter(|asks| asks.gives_up_after_ms.is_none()).count();
        let asked = everybody.len() as u64;
        let came = run(|| world(rate, everybody, rates));
        prop_assert!(came.granted >= patient as u64);
        // Once to enter, once to be granted, once for the timer of those who give up.
        prop_assert!(came.polls <= 3 * asked, "{} polls for {asked}", came.polls);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Jain's index of flows that always want more is 0.99 or better, however different the sizes
    /// of their requests are.
    #[test]
    fn flows_share_a_tier_fairly(
        rate in 100_000_u64..200_000,
        sizes in prop::collection::vec(prop_oneof![100_u64..500, 500_u64..2_000], 2..8),
    ) {
        let shares = run(|| async {
            let limiter = Limiter::new(TokioClock::shared(), Some(rate));
            let mut tasks = Vec::new();
            let mut moved = Vec::new();
            for (flow, bytes) in (0_u64..).zip(&sizes) {
                let count = Arc::new(AtomicU64::new(0));
                moved.push(Arc::clone(&count));
                // As many as are needed for the flow to have more than a turn waiting.
                for _ in 0..rate / 10 / bytes + 2 {
                    let (limiter, count, bytes) = (limiter.clone(), Arc::clone(&count), *bytes);
                    tasks.push(tokio::spawn(async move {
                        loop {
                            limiter.acquire_for(Tier::CatchUpMiss, flow, bytes).await;
                            count.fetch_add(bytes, Ordering::SeqCst);
                        }
                    }));
                }
            }
            sleep(Duration::from_secs(10)).await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            let moved = moved.iter().map(|count| count.load(Ordering::SeqCst));
            moved.collect::<Vec<u64>>()
        });
        let jain = jain(&shares);
        prop_assert!(jain >= 0.99, "{jain}: {shares:?}");
    }

    /// Compaction that always wants more gets a twentieth of the rate or more, whatever the others
    /// do, and the rate is kept.
    #[test]
    fn compaction_has_its_share(
        rate in 20_000_u64..200_000,
        charged_percent in 0_u64..300,
        others in prop::collection::vec((1_usize..4, 500_u64..50_000), 0..4),
    ) {
        let (compaction, waiting) = run(|| async {
            let limiter = Limiter::new(TokioClock::shared(), Some(rate));
            let mut tasks = Vec::new();
            let flood = |tier: Tier, bytes: u64| {
                let moved = Arc::new(AtomicU64::new(0));
                let (limiter, count) = (limiter.clone(), Arc::clone(&moved));
                let task = tokio::spawn(async move {
                    loop {
                        limiter.acquire(tier, bytes).await;
                        count.fetch_add(bytes, Ordering::SeqCst);
                    }
                });
                (task, moved)
            };
            let mut others_moved = Vec::new();
            for (tier, bytes) in others {
                let (task, moved) = flood(Tier::ALL[tier], bytes);
                tasks.push(task);
                others_moved.push(moved);
            }
            let (task, compaction) = flood(Tier::Compaction, 500);
            tasks.push(task);
            for _ in 0..200 {
                limiter.charge(Tier::WalUpload, rate * charged_percent / 1_000);
                sleep(Duration::from_millis(100)).await;
            }
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            let others = others_moved.iter().map(|moved| moved.load(Ordering::SeqCst)).sum::<u64>();
            let compaction = compaction.load(Ordering::SeqCst);
            (compaction, compaction + others)
        });
        let guaranteed = rate * 20 / 20;
        prop_assert!(compaction + 500 >= guaranteed * 98 / 100, "{compaction} of {guaranteed}");
        let burst = rate / 5 + 200 * KIB;
        let left_over = rate * 20 * 100_u64.saturating_sub(charged_percent) / 100;
        // Misses may be among the others, and have as much guaranteed.
        prop_assert!(waiting <= left_over + 2 * guaranteed + burst, "{waiting} of {left_over}");
    }
}

fn jain(shares: &[u64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    let shares: Vec<f64> = shares.iter().map(|share| *share as f64).collect();
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    let count = shares.len() as f64;
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (count * squares)
}

/// Ten thousand who wait cost a look per grant that is due, not one per waiter.
#[test]
fn ten_thousand_who_wait_are_woken_once_each() {
    const WAITERS: u64 = 10_000;
    let (looks, polls, took) = run(|| async {
        let clock = TokioClock::shared();
        let limiter = Limiter::new(clock.clone(), Some(1_000 * KIB));
        let polls = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for flow in 0..WAITERS {
            let (limiter, polls) = (limiter.clone(), Arc::clone(&polls));
            tasks.push(tokio::spawn(async move {
                let acquire = limiter.acquire_for(Tier::CatchUpMiss, flow, KIB);
                counting(polls, acquire).await;
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        let looks = limiter.core().state.lock().seen.looks;
        (looks, polls.load(Ordering::SeqCst), clock.now().as_millis())
    });
    // At 950 KiB/s, since this tier leaves headroom.
    assert!((10_490..=10_540).contains(&took), "{took} ms");
    assert!(polls <= 2 * WAITERS, "{polls} polls");
    // Timers have a granularity of a millisecond, in which one is granted here.
    assert!(looks <= WAITERS + 10, "{looks} looks");
}
