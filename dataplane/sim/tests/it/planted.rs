//! The checks find faults: each planted one within a bounded number of seeds.

use millrace_sim::{Planted, simulate};

/// Seeds within which each planted fault must be found.
const SEEDS_MAX: u64 = 2_000;

/// Within which those that show soon must be.
const SEEDS_OF_SUITE: u64 = 60;

/// The first seed that shows the fault, and what it shows.
fn found(fault: Planted, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| {
        let report = simulate(seed, Some(fault));
        let first = report.violations.into_iter().next();
        first.map(|violation| (seed, violation))
    })
}

/// Some that show soon, so that the checks are checked in every run.
#[test]
fn planted_faults_are_found() {
    for fault in [
        Planted::SkipFence,
        Planted::AcknowledgeBeforeDurable,
        Planted::ReleaseBeforeUpload,
        Planted::HandOverBeforeSealed,
    ] {
        let found = found(fault, SEEDS_OF_SUITE);
        assert!(found.is_some(), "{fault:?} is not found");
    }
}

#[test]
#[ignore = "takes minutes; runs nightly"]
fn every_planted_fault_is_found() {
    for fault in Planted::ALL {
        let found = found(fault, SEEDS_MAX);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
