//! The checks find faults: each planted one within a bounded number of seeds.

use millrace_sim::{Planted, simulate};

/// Seeds within which each planted fault must be found.
const SEEDS_MAX: u64 = 2_000;

/// The first seed that shows the fault, and what it shows.
fn found(fault: Planted) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let report = simulate(seed, Some(fault));
        let first = report.violations.into_iter().next();
        first.map(|violation| (seed, violation))
    })
}

#[test]
#[ignore = "takes minutes; runs nightly"]
fn every_planted_fault_is_found() {
    for fault in Planted::ALL {
        let found = found(fault);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
