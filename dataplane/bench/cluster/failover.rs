//! A broker is killed under load: how long until each partition that it led acknowledges again.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use millrace_bench::{
    cluster::{History, Load, LoadPlan, Percentiles, first_acks},
    machine::pause,
};
use tokio::runtime::Runtime;

use crate::{arguments::Options, contenders::Contender, report::Fields};

const TOPIC: &str = "failover";
const PRODUCERS: u32 = 4;
/// Each partition gets two records per second: more than enough for one to wait at any time of a failover.
const RECORDS_PER_S: u64 = 2;
pub(crate) const RECORD_BYTES: usize = 200;
/// For how long clients try before an error reaches the application.
pub(crate) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Everything is served again by then.
const SERVED_WAIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// One kill.
pub(crate) fn run(
    options: &Options,
    runtime: &Runtime,
    (contender, round): (&mut Contender, usize),
) -> Result<Fields, String> {
    contender.create_topic(runtime, (TOPIC, options.partitions))?;
    let history = Arc::new(History::new(options.partitions));
    let plan = LoadPlan {
        topic: TOPIC.to_owned(),
        producers: PRODUCERS,
        records_per_s: RECORDS_PER_S * u64::try_from(options.partitions).unwrap_or(1),
        record_bytes: RECORD_BYTES,
        seed: round as u64,
        delivery_timeout: DELIVERY_TIMEOUT,
    };
    let load = Load::start(runtime, &plan, |name| contender.client(name), &history)?;
    until_served(contender, &history, contender.clock.now())?;
    pause(options.warm_up());
    let brokers = contender.brokers();
    let (victim, _) = brokers[round % brokers.len()];
    let leaders = contender.leaders(TOPIC)?;
    let led = leaders
        .iter()
        .filter(|(_, leader)| **leader == Some(victim));
    let hit: BTreeSet<i32> = led.map(|(&partition, _)| partition).collect();
    contender.kill(victim)?;
    let since = contender.clock.now();
    until_served(contender, &history, since)?;
    load.finish(runtime)?;
    let recorded = history.snapshot();
    let first = first_acks(&recorded.acks, options.partitions, since);
    let first = (0..)
        .zip(first)
        .filter(|(partition, _)| hit.contains(partition));
    let times = Percentiles::of(first.filter_map(|(_, took)| took));
    let times = times.ok_or_else(|| format!("node {victim} led nothing"))?;
    Ok(vec![
        ("p50_ms", times.p50_ms),
        ("p99_ms", times.p99_ms),
        ("max_ms", times.max_ms),
        ("errors", recorded.failures.len() as f64),
        ("partitions", hit.len() as f64),
    ])
}

/// Waits until each partition has acknowledged a record that was handed over since then.
pub(crate) fn until_served(
    contender: &mut Contender,
    history: &History,
    since: Duration,
) -> Result<(), String> {
    let began = contender.clock.now();
    loop {
        contender.tend()?;
        let unserved = history.unserved_since(since);
        if unserved.is_empty() {
            return Ok(());
        }
        if contender.clock.now().saturating_sub(began) > SERVED_WAIT {
            let count = unserved.len();
            return Err(format!(
                "{count} partitions acknowledge nothing for {SERVED_WAIT:?}"
            ));
        }
        pause(POLL);
    }
}
