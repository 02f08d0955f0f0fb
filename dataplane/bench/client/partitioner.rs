//! Partitioners: the latency of records, by how they are spread.

use std::error::Error;

use crate::{
    peers::{JAVA_2_3, JAVA_2_4, JAVA_4},
    rate::{self, Client, Rate, Times},
    rounds::{Bench, Section},
    targets::Kind,
};

const TIMES: Times = Times {
    measured: 5,
    warmup: 2,
};
const QUICK_TIMES: Times = Times {
    measured: 4,
    warmup: 1,
};
/// More of this section would take longer than all others together: of the main loads, and of the
/// others.
const ROUNDS_MAX: usize = 3;
const OTHER_ROUNDS_MAX: usize = 2;
const OURS: [&str; 3] = ["sticky", "uniform_sticky", "round_robin"];

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// Our partitioners.
    Ours,
    /// Ours and Java's before KIP-480 and newest.
    WithJava,
    /// And Java's with KIP-480, and librdkafka.
    All,
}

/// A load on a target.
#[derive(Debug, Clone, Copy)]
struct Load {
    key: &'static str,
    kind: Kind,
    rate: Rate,
    field: Field,
    /// Who takes part in a quick run; nobody where it leaves the load out.
    quick: Option<Field>,
    rounds_max: usize,
}

pub(crate) const AT_16: &str = "3_producers_1000_per_s_16_partitions";
pub(crate) const AT_16_SLOW_DISK: &str = "3_producers_1000_per_s_16_partitions_disk_5ms";
pub(crate) const AT_16_KAFKA: &str = "3_producers_1000_per_s_16_partitions_kafka";
pub(crate) const LINGER_1000: &str = "1_producer_1000_per_s_16_partitions_linger_1000";
pub(crate) const AT_10_000: [(&str, &str); 3] = [
    ("16", "3_producers_10000_per_s_16_partitions"),
    ("64", "3_producers_10000_per_s_64_partitions"),
    ("128", "3_producers_10000_per_s_128_partitions"),
];

const BASE: Rate = Rate::article(3, 1_000, 16);
const ONE: Rate = Rate::article(1, 1_000, 16);
const FAST: Rate = Rate::article(3, 10_000, 16);

#[rustfmt::skip]
const LOADS: [Load; 19] = [
    load(AT_16, Kind::Millrace, BASE, Field::All).quick(Field::WithJava),
    load(LINGER_1000, Kind::Millrace, ONE.linger(1_000), Field::All).quick(Field::Ours),
    load(AT_10_000[0].1, Kind::Millrace, FAST, Field::WithJava),
    load(AT_10_000[1].1, Kind::Millrace, FAST.partitions(64), Field::Ours),
    load(AT_10_000[2].1, Kind::Millrace, FAST.partitions(128), Field::Ours),
    load("1_producer_1000_per_s_16_partitions", Kind::Millrace, ONE, Field::Ours),
    load("1_producer_10000_per_s_16_partitions", Kind::Millrace, ONE.per_second(10_000), Field::Ours),
    load("3_producers_1000_per_s_64_partitions", Kind::Millrace, BASE.partitions(64), Field::Ours),
    load("3_producers_1000_per_s_16_partitions_1_topic", Kind::Millrace, BASE.one_topic(), Field::Ours),
    load("3_producers_1000_per_s_16_partitions_evenly", Kind::Millrace, BASE.evenly(), Field::Ours),
    load("3_producers_10000_per_s_16_partitions_evenly", Kind::Millrace, FAST.evenly(), Field::Ours),
    load("1_producer_1000_per_s_16_partitions_linger_1000_evenly_1_topic", Kind::Millrace, ONE.linger(1_000).evenly().one_topic(), Field::Ours),
    load("3_producers_1000_per_s_16_partitions_mixed_keys", Kind::Millrace, BASE.keys("mixed"), Field::WithJava),
    load("3_producers_1000_per_s_16_partitions_random_keys", Kind::Millrace, BASE.keys("random"), Field::Ours),
    load("1_producer_1000_per_s_128_partitions_sequential_keys", Kind::Millrace, ONE.partitions(128).keys("sequential"), Field::Ours),
    load(AT_16_SLOW_DISK, Kind::MillraceSlowDisk, BASE, Field::WithJava).quick(Field::Ours),
    load("3_producers_1000_per_s_16_partitions_evenly_disk_5ms", Kind::MillraceSlowDisk, BASE.evenly(), Field::Ours),
    load(AT_16_KAFKA, Kind::Kafka, BASE, Field::All).main(),
    load("1_producer_1000_per_s_16_partitions_linger_1000_kafka", Kind::Kafka, ONE.linger(1_000), Field::WithJava),
];

const fn load(key: &'static str, kind: Kind, rate: Rate, field: Field) -> Load {
    Load {
        key,
        kind,
        rate,
        field,
        quick: None,
        rounds_max: OTHER_ROUNDS_MAX,
    }
}

impl Load {
    const fn quick(mut self, field: Field) -> Self {
        self.quick = Some(field);
        self.main()
    }

    const fn main(mut self) -> Self {
        self.rounds_max = ROUNDS_MAX;
        self
    }
}

/// Measures all loads; each target is started once.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    for kind in [Kind::Millrace, Kind::MillraceSlowDisk, Kind::Kafka] {
        let quick = bench.options.quick;
        let field = |load: &Load| if quick { load.quick } else { Some(load.field) };
        let wanted = bench.options.load.as_deref().unwrap_or_default();
        let loads = LOADS
            .iter()
            .filter(|load| load.kind == kind && load.key.contains(wanted));
        let loads: Vec<_> = loads
            .filter_map(|load| Some((load, field(load)?)))
            .collect();
        if !loads.is_empty() {
            measure_on(bench, kind, &loads)?;
        }
    }
    Ok(())
}

fn measure_on(
    bench: &mut Bench<'_>,
    kind: Kind,
    loads: &[(&'static Load, Field)],
) -> Result<(), Box<dyn Error>> {
    let target = bench.start(kind)?;
    let times = if bench.options.quick {
        QUICK_TIMES
    } else {
        TIMES
    };
    for round in 0..bench.options.rounds {
        for (load, field) in loads {
            if round >= load.rounds_max {
                continue;
            }
            let mut clients = clients(bench, *field)?;
            let turn = round % clients.len();
            clients.rotate_left(turn);
            for (name, client) in &clients {
                let fields = rate::run(bench, &target, client, load.rate, times);
                let fields = fields.map_err(|error| format!("{}, {name}: {error}", load.key))?;
                bench
                    .report
                    .add(Section::Partitioner, load.key, name, fields);
            }
        }
    }
    Ok(())
}

fn clients(
    bench: &mut Bench<'_>,
    field: Field,
) -> Result<Vec<(&'static str, Client)>, Box<dyn Error>> {
    let mut clients: Vec<_> = OURS.map(|name| (name, Client::Ours(name))).into();
    let versions: &[_] = match field {
        Field::Ours => &[],
        Field::WithJava => &[("java_2.3.1", JAVA_2_3), ("java_4", JAVA_4)],
        Field::All => &[
            ("java_2.3.1", JAVA_2_3),
            ("java_2.4.1", JAVA_2_4),
            ("java_4", JAVA_4),
        ],
    };
    for (name, version) in versions {
        clients.push((name, Client::Peer(bench.java(version)?)));
    }
    if field == Field::All
        && let Some(peer) = bench.librdkafka()
    {
        clients.push(("librdkafka", Client::Peer(peer)));
    }
    Ok(clients)
}
