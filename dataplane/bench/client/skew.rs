//! Uniform sticky beside sticky: how evenly bytes are spread, and the latency when one broker of a
//! cluster is slow.

use std::{error::Error, time::Duration};

use crate::{
    peers::{JAVA_2_4, JAVA_4},
    rate::{self, Client, Rate, Times},
    rounds::{Bench, Section},
    targets::Kind,
};

const ROUNDS_MAX: usize = 3;
/// In each direction between clients and the slow node, and whether a quick run has it. With five requests of
/// 16 KiB in flight, the shorter delay leaves the node 4,000 records/s of each producer, more than its part. The
/// longer one leaves 800, less than its part: what is sent to it regardless has to wait.
const DELAYS: [(&str, Duration, bool); 2] = [
    (ONE_DELAYED, Duration::from_millis(100), true),
    ("one_broker_delayed_20ms", Duration::from_millis(20), false),
];
/// Four of each node.
const PARTITIONS: usize = 12;
/// Almost 3,000 batches for each partition, so that chance alone leaves less than 5 % between them.
const SPREAD: Rate = Rate {
    producers: 1,
    per_second: 150_000,
    burst_ms: 0,
    topics: 1,
    partitions: 16,
    linger_ms: 5,
    keys: "none",
};
const SPREAD_TIMES: Times = Times {
    measured: 10,
    warmup: 1,
};
const SKEW: Rate = Rate {
    producers: 3,
    per_second: 4_000,
    burst_ms: 0,
    topics: 1,
    partitions: PARTITIONS,
    linger_ms: 0,
    keys: "none",
};
const SKEW_TIMES: Times = Times {
    measured: 8,
    warmup: 2,
};

pub(crate) const ONE_DELAYED: &str = "one_broker_delayed_100ms";
pub(crate) const EQUAL: &str = "equal_queues_150000_per_s";

/// Measures both loads.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let rounds = if bench.options.quick {
        1
    } else {
        bench.options.rounds.min(ROUNDS_MAX)
    };
    {
        let target = bench.start(Kind::Millrace)?;
        for _ in 0..rounds {
            let client = Client::Ours("uniform_sticky");
            let fields = rate::run(bench, &target, &client, SPREAD, SPREAD_TIMES)?;
            bench
                .report
                .add(Section::Skew, EQUAL, "uniform_sticky", fields);
        }
    }
    let mut clients = vec![
        ("sticky", Client::Ours("sticky")),
        ("uniform_sticky", Client::Ours("uniform_sticky")),
    ];
    if !bench.options.quick {
        clients.push(("java_2.4.1", Client::Peer(bench.java(JAVA_2_4)?)));
        clients.push(("java_4", Client::Peer(bench.java(JAVA_4)?)));
    }
    for (key, delay, quick) in DELAYS {
        if bench.options.quick && !quick {
            continue;
        }
        let target = bench.start(Kind::KafkaDelayed(delay))?;
        for _ in 0..rounds {
            for (name, client) in &clients {
                let fields = rate::run(bench, &target, client, SKEW, SKEW_TIMES)?;
                bench.report.add(Section::Skew, key, name, fields);
            }
            clients.rotate_left(1);
        }
    }
    Ok(())
}
