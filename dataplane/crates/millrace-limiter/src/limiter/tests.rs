use std::{sync::Arc, time::Duration};

use millrace_time::Clock;

use super::*;

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

const KIB: u64 = 1024;

#[tokio::test(start_paused = true)]
async fn without_a_rate_nothing_waits() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), None);
    for _ in 0..1_000 {
        limiter.acquire(Tier::Compaction, u64::MAX).await;
    }
    assert_eq!(clock.now(), Duration::ZERO);
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
async fn more_than_the_bucket_holds_passes_and_is_paid_for_later() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(10 * KIB));
    limiter.acquire(Tier::WalUpload, 100 * KIB).await;
    assert_eq!(clock.now(), Duration::ZERO);
    limiter.acquire(Tier::WalUpload, 1).await;
    let took = clock.now().as_millis();
    assert!((9_900..=9_902).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn the_most_urgent_goes_first_and_then_the_earliest() {
    let limiter = Limiter::new(TokioClock::shared(), Some(KIB));
    limiter.acquire(Tier::WalUpload, KIB).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for round in 0..2 {
        for tier in Tier::ALL.into_iter().rev() {
            let (limiter, order) = (limiter.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                limiter.acquire(tier, KIB).await;
                order.lock().push((tier, round));
            }));
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(limiter.waiting(), 10);
    for task in tasks {
        task.await.expect("no panic");
    }
    let order = order.lock();
    assert_eq!(order.len(), 10);
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_its_share_under_pressure() {
    let limiter = Limiter::new(TokioClock::shared(), Some(100 * KIB));
    let flood = |tier| {
        let limiter = limiter.clone();
        let bytes = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = Arc::clone(&bytes);
        let task = tokio::spawn(async move {
            loop {
                limiter.acquire(tier, KIB).await;
                count.fetch_add(KIB, std::sync::atomic::Ordering::SeqCst);
            }
        });
        (task, bytes)
    };
    // Two of the urgent, so that one always waits while the other is granted.
    let floods = [
        flood(Tier::WalUpload),
        flood(Tier::WalUpload),
        flood(Tier::Prefetch),
        flood(Tier::Compaction),
    ];
    tokio::time::sleep(Duration::from_secs(60)).await;
    let [first, second, prefetch, compaction] = floods.map(|(task, bytes)| {
        task.abort();
        bytes.load(std::sync::atomic::Ordering::SeqCst)
    });
    let share = compaction * 100 / (first + second + compaction);
    assert!((4..=6).contains(&share), "{share} %");
    assert!(
        prefetch <= 2 * KIB * 10,
        "prefetch has no share: {prefetch}"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_leaves_the_turn_to_the_next() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(KIB));
    limiter.acquire(Tier::WalUpload, KIB).await;
    let impatient = limiter.acquire(Tier::WalUpload, KIB);
    let patient = limiter.acquire(Tier::Compaction, KIB);
    let (gave_up, ()) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(10), impatient),
        patient
    );
    gave_up.expect_err("the bucket is empty for longer");
    assert_eq!(limiter.waiting(), 0);
    assert!(clock.now() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_new_rate_holds_for_those_who_wait() {
    let clock = TokioClock::shared();
    let limiter = Limiter::new(clock.clone(), Some(1));
    limiter.acquire(Tier::TailRead, 1_000_000).await;
    let wait = limiter.acquire(Tier::TailRead, 1);
    let lift = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        limiter.set_rate(None);
    };
    tokio::join!(wait, lift);
    assert_eq!(clock.now().as_secs(), 5);
}
