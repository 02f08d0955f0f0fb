//! What a byte costs with one, two and three brokers. Each broker gets the same load: on a machine with few processors, brokers
//! that all write as fast as they can would measure how these are shared.

use std::{sync::Arc, time::Duration};

use millrace_bench::{
    cluster::{Ack, History, Load, LoadPlan, Percentiles},
    machine::pause,
};
use tokio::runtime::Runtime;

use crate::{
    arguments::Options,
    contenders::{Contender, Running},
    failover::{DELIVERY_TIMEOUT, until_served},
    report::Fields,
};

const TOPIC: &str = "throughput";
const PARTITIONS_PER_BROKER: i32 = 12;
const RECORD_BYTES: usize = 1_024;
/// MiB per second of each broker.
const MIB_PER_S: u64 = 6;
/// Uploads of what was written are over by then.
const SETTLE: Duration = Duration::from_secs(3);
const GIB: f64 = (1 << 30) as f64;

/// What a load came to.
pub(crate) struct Loaded {
    /// Acknowledged.
    pub(crate) gib: f64,
    pub(crate) seconds: f64,
    /// From when a record was handed over to its acknowledgement.
    pub(crate) latencies: Percentiles,
    pub(crate) errors: usize,
}

/// The same load for each broker, and the processor time of all brokers per GiB.
pub(crate) fn run(
    options: &Options,
    runtime: &Runtime,
    contender: &mut Contender,
) -> Result<Fields, String> {
    let before = std::cell::Cell::new(Duration::ZERO);
    let loaded = load(options, runtime, contender, |contender| {
        before.set(cpu_time(contender));
        Ok(())
    })?;
    pause(SETTLE);
    let cpu = cpu_time(contender).saturating_sub(before.get());
    Ok(vec![
        ("mib_per_s", loaded.gib * 1_024.0 / loaded.seconds),
        ("cpu_s_per_gib", cpu.as_secs_f64() / loaded.gib),
        ("p50_ms", loaded.latencies.p50_ms),
        ("p99_ms", loaded.latencies.p99_ms),
        ("errors", loaded.errors as f64),
    ])
}

/// Writes at a fixed rate for each broker; `measured` is called when the warm-up is over.
pub(crate) fn load(
    options: &Options,
    runtime: &Runtime,
    contender: &mut Contender,
    measured: impl FnOnce(&Contender) -> Result<(), String>,
) -> Result<Loaded, String> {
    let brokers = contender.brokers().len();
    let partitions = PARTITIONS_PER_BROKER * i32::try_from(brokers).unwrap_or(1);
    contender.create_topic(runtime, (TOPIC, partitions))?;
    let history = Arc::new(History::new(partitions));
    let plan = LoadPlan {
        topic: TOPIC.to_owned(),
        producers: 2,
        records_per_s: MIB_PER_S * 1_024 * brokers as u64,
        record_bytes: RECORD_BYTES,
        seed: 1,
        delivery_timeout: DELIVERY_TIMEOUT,
    };
    let load = Load::start(runtime, &plan, |name| contender.client(name), &history)?;
    until_served(contender, &history, contender.clock.now())?;
    pause(options.warm_up());
    let (known, began) = (history.acked(), contender.clock.now());
    measured(contender)?;
    pause(options.load_time());
    let acks = history.acks_after(known);
    let seconds = (contender.clock.now().saturating_sub(began)).as_secs_f64();
    load.finish(runtime)?;
    let latency = |ack: &Ack| ack.acked_at.saturating_sub(ack.sent_at);
    let latencies = Percentiles::of(acks.iter().map(latency));
    Ok(Loaded {
        gib: (acks.len() * RECORD_BYTES) as f64 / GIB,
        seconds,
        latencies: latencies.ok_or("nothing was acknowledged")?,
        errors: history.snapshot().failures.len(),
    })
}

fn cpu_time(contender: &Contender) -> Duration {
    match &contender.cluster {
        Running::Millrace { brokers, .. } => brokers.cpu_time(),
        Running::Kafka(cluster) => Duration::from_secs_f64(cluster.cpu_seconds().max(0.0)),
    }
}
