//! Shared parts of property tests over the whole life of a storage.

use proptest::test_runner::Config;
use tokio::runtime::Runtime;

/// How often a case that failed is made smaller: each time costs a whole life.
const SHRINKS_MAX: u32 = 200;

/// A configuration of `cases` random cases; `PROPTEST_CASES` asks for another number.
#[must_use]
pub fn property_cases(cases: u32) -> Config {
    let default = Config::default();
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    Config {
        cases: if asked_for { default.cases } else { cases },
        max_shrink_iters: SHRINKS_MAX,
        ..default
    }
}

/// A runtime of two threads, so that tasks really run at the same time.
///
/// # Panics
/// The system refuses threads.
#[must_use]
pub fn two_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}
