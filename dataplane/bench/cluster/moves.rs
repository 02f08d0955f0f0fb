//! Everything that one broker leads moves to the others under load: how long each partition pauses.
//!
//! A pause shows only in a partition that gets records often. So a few are watched, with a record every 20 ms each, beside many
//! that get one or two per second; all of them move together.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use millrace_bench::{
    cluster::{History, Load, LoadPlan, Percentiles, longest_gaps, reassign},
    machine::pause,
};
use tokio::runtime::Runtime;

use crate::{
    arguments::Options,
    contenders::{Contender, Running},
    failover::{DELIVERY_TIMEOUT, RECORD_BYTES, until_served},
    report::Fields,
};

const WATCHED: &str = "watched";
const OTHERS: &str = "others";
const WATCHED_PARTITIONS: i32 = 48;
const WATCHED_RECORDS_PER_S: u64 = 50;
/// Moves are over by then.
const MOVE_WAIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// The broker that gives everything away.
const FROM: u32 = 1;

/// One move of a third of the partitions.
pub(crate) fn run(
    options: &Options,
    runtime: &Runtime,
    contender: &mut Contender,
) -> Result<Fields, String> {
    let others = options.partitions - WATCHED_PARTITIONS;
    let rates = [
        (WATCHED, WATCHED_PARTITIONS, WATCHED_RECORDS_PER_S),
        (OTHERS, others, 1),
    ];
    let mut loads = Vec::new();
    for (topic, partitions, records_per_s) in rates {
        contender.create_topic(runtime, (topic, partitions))?;
        let history = Arc::new(History::new(partitions));
        let plan = LoadPlan {
            topic: topic.to_owned(),
            producers: 2,
            records_per_s: records_per_s * u64::try_from(partitions).unwrap_or(1),
            record_bytes: RECORD_BYTES,
            seed: 1,
            delivery_timeout: DELIVERY_TIMEOUT,
        };
        let load = Load::start(runtime, &plan, |name| contender.client(name), &history)?;
        until_served(contender, &history, contender.clock.now())?;
        loads.push((load, history));
    }
    pause(options.warm_up());
    let hit = led_by(contender, WATCHED)?;
    let from = contender.clock.now();
    begin(contender)?;
    until_moved(contender)?;
    let took = contender.clock.now().saturating_sub(from);
    let mut failures = 0;
    for (_, history) in &loads {
        until_served(contender, history, contender.clock.now())?;
    }
    let to = contender.clock.now();
    let mut recorded = Vec::new();
    for (load, history) in loads {
        load.finish(runtime)?;
        let one = history.snapshot();
        failures += one.failures.len();
        recorded.push(one);
    }
    let acks = recorded.first().map_or(&[][..], |one| &one.acks);
    let gaps = (0..).zip(longest_gaps(acks, WATCHED_PARTITIONS, (from, to)));
    let gaps = gaps.filter(|(partition, _)| hit.contains(partition));
    let gaps = Percentiles::of(gaps.map(|(_, gap)| gap)).ok_or("nothing was watched")?;
    Ok(vec![
        ("gap_p50_ms", gaps.p50_ms),
        ("gap_p99_ms", gaps.p99_ms),
        ("gap_max_ms", gaps.max_ms),
        ("errors", failures as f64),
        ("moves_s", took.as_secs_f64()),
    ])
}

fn led_by(contender: &Contender, topic: &str) -> Result<BTreeSet<i32>, String> {
    let leaders = contender.leaders(topic)?;
    let led = leaders.iter().filter(|(_, leader)| **leader == Some(FROM));
    Ok(led.map(|(&partition, _)| partition).collect())
}

/// Reassigns each partition, or drains the broker where it serves no reassignments.
fn begin(contender: &Contender) -> Result<(), String> {
    let Running::Millrace { brokers, .. } = &contender.cluster else {
        return Err("only brokers of Millrace move partitions here".to_owned());
    };
    let address = brokers.address(FROM)?;
    let others: Vec<u32> = brokers
        .running()
        .into_iter()
        .filter(|&n| n != FROM)
        .collect();
    for topic in [WATCHED, OTHERS] {
        let led = led_by(contender, topic)?;
        let targets = led.into_iter().zip(others.iter().copied().cycle());
        let targets: BTreeMap<i32, u32> = targets.collect();
        if !reassign(address, topic, &targets)? {
            eprintln!(
                "the broker does not serve AlterPartitionReassignments; it is drained instead"
            );
            let drain = format!("{{\"node_id\":{FROM}}}");
            return brokers
                .home(FROM)?
                .post("/v1/cluster/drain", &drain)
                .map(drop);
        }
    }
    Ok(())
}

fn until_moved(contender: &mut Contender) -> Result<(), String> {
    let began = contender.clock.now();
    loop {
        contender.tend()?;
        let left = led_by(contender, WATCHED)?.len() + led_by(contender, OTHERS)?.len();
        if left == 0 {
            return Ok(());
        }
        if contender.clock.now().saturating_sub(began) > MOVE_WAIT {
            return Err(format!(
                "{left} partitions did not move within {MOVE_WAIT:?}"
            ));
        }
        pause(POLL);
    }
}
