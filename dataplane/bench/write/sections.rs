//! What is measured: for each section, who is loaded with what.

use crate::{
    contenders::Contender,
    disk::Disk,
    loads::{Batching, Generator, Load},
    report::{RATE, Report},
};

const ARTICLE_RECORD_BYTES: u64 = 64 << 10;
const SMALL_RECORD_BYTES: u64 = 1 << 10;
/// The article's rates: 150 and 50 MiB/s.
const RATE_150: u64 = 2_400;
const RATE_50: u64 = 800;
/// At an equal load all contenders get this share of what Kafka reaches at most.
const EQUAL_LOAD: f64 = 0.8;

pub(crate) const KAFKA_CLIENT_UNLIMITED: &str = "kafka_client_unlimited";
pub(crate) const KAFKA_CLIENT_RANDOM: &str = "kafka_client_random_unlimited";
pub(crate) const KAFKA_CLIENT_150: &str = "kafka_client_150";
pub(crate) const KAFKA_CLIENT_50: &str = "kafka_client_50";
pub(crate) const KAFKA_CLIENT_EQUAL: &str = "kafka_client_equal";
pub(crate) const LIGHT_UNLIMITED: &str = "light_unlimited";
pub(crate) const LIGHT_50: &str = "light_50";
pub(crate) const LIGHT_EQUAL: &str = "light_equal";
pub(crate) const DEVICE_ALONE: &str = "device_alone";
pub(crate) const SMALL_1: &str = "1_partition";
pub(crate) const SMALL_16: &str = "16_partitions";

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionKey {
    OwnDisk,
    EbsLike1,
    EbsLike5,
    SmallRecords,
}

/// A contender and what it is loaded with, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) loads: Vec<Load>,
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    quick: bool,
    /// Records of 64 KiB where nothing holds the client back, on the own disk
    own_disk_records: u64,
    /// and on a slow one.
    ebs_records: u64,
    small_records: u64,
    paced_seconds: u64,
    /// Of Kafka's client, whose first half second is its own start: in a run of less than a
    /// minute that alone is more than one record in a hundred. Nothing where there is no time.
    client_paced_seconds: Option<u64>,
}

impl Scale {
    pub(crate) const FULL: Self = Self {
        quick: false,
        own_disk_records: 60_000,
        ebs_records: 16_000,
        small_records: 500_000,
        paced_seconds: 20,
        client_paced_seconds: Some(60),
    };
    pub(crate) const QUICK: Self = Self {
        quick: true,
        own_disk_records: 12_000,
        ebs_records: 4_000,
        small_records: 100_000,
        paced_seconds: 5,
        client_paced_seconds: None,
    };
}

impl SectionKey {
    pub(crate) const ALL: [Self; 4] = [
        Self::OwnDisk,
        Self::EbsLike1,
        Self::EbsLike5,
        Self::SmallRecords,
    ];
    /// Those that the main figures need.
    pub(crate) const QUICK: [Self; 3] = [Self::OwnDisk, Self::EbsLike5, Self::SmallRecords];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OwnDisk => "own_disk",
            Self::EbsLike1 => "ebs_like_1ms",
            Self::EbsLike5 => "ebs_like_5ms",
            Self::SmallRecords => "small_records",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|section| section.name() == name)
            .ok_or_else(|| format!("there is no section {name}"))
    }

    pub(crate) const fn disk(self) -> Disk {
        match self {
            Self::OwnDisk | Self::SmallRecords => Disk::OWN,
            Self::EbsLike1 => Disk::ebs_like(1),
            Self::EbsLike5 => Disk::ebs_like(5),
        }
    }

    pub(crate) fn jobs(self, scale: &Scale) -> Vec<Job> {
        match self {
            Self::OwnDisk => own_disk(scale),
            Self::EbsLike1 | Self::EbsLike5 => ebs_like(scale),
            Self::SmallRecords => small_records(scale),
        }
    }

    /// What can be planned only once the first jobs have shown how much Kafka takes.
    pub(crate) fn later_jobs(self, scale: &Scale, report: &Report) -> Vec<Job> {
        match self {
            Self::OwnDisk | Self::SmallRecords => Vec::new(),
            Self::EbsLike1 | Self::EbsLike5 => {
                let most = |load: &str| report.median(self, load, Contender::KAFKA_3, RATE);
                ebs_like_equal(scale, most)
            }
        }
    }
}

fn own_disk(scale: &Scale) -> Vec<Job> {
    use Generator::{KafkaClient, KafkaClientRandom, Light};
    let unlimited = |key, generator| article(key, generator, scale.own_disk_records, None);
    let paced = |key, generator, rate| paced(scale, key, generator, rate);
    let mut brokers = vec![
        unlimited(KAFKA_CLIENT_UNLIMITED, KafkaClient),
        unlimited(LIGHT_UNLIMITED, Light),
    ];
    brokers.extend(paced(KAFKA_CLIENT_50, KafkaClient, RATE_50));
    brokers.extend(paced(LIGHT_50, Light, RATE_50));
    if !scale.quick {
        brokers.extend(paced(KAFKA_CLIENT_150, KafkaClient, RATE_150));
        brokers.push(unlimited(KAFKA_CLIENT_RANDOM, KafkaClientRandom));
    }
    let mut sink = brokers.clone();
    sink.retain(|load| load.generator == Light);
    let mut acknowledger = brokers.clone();
    acknowledger.retain(|load| load.rate.is_none() && load.generator != Light);
    let mut serial = brokers.clone();
    serial.retain(|load| load.rate.is_none() && load.generator != KafkaClientRandom);
    vec![
        job(Contender::MILLRACE, brokers.clone()),
        job(Contender::KAFKA_3, brokers.clone()),
        job(Contender::KAFKA_4, brokers),
        job(Contender::SERIAL, serial),
        job(Contender::Sink, sink),
        job(Contender::Acknowledger, acknowledger),
        job(Contender::DEVICE, vec![unlimited(DEVICE_ALONE, Light)]),
    ]
}

fn ebs_like(scale: &Scale) -> Vec<Job> {
    let unlimited = |key, generator| article(key, generator, scale.ebs_records, None);
    let light = unlimited(LIGHT_UNLIMITED, Generator::Light);
    let device = unlimited(DEVICE_ALONE, Generator::Light);
    let brokers = vec![
        unlimited(KAFKA_CLIENT_UNLIMITED, Generator::KafkaClient),
        light.clone(),
    ];
    let mut jobs = vec![
        job(Contender::MILLRACE, brokers.clone()),
        job(Contender::KAFKA_3, brokers.clone()),
        job(Contender::KAFKA_3_INDEXES_FREE, vec![light.clone()]),
        job(Contender::SERIAL, vec![light.clone()]),
        job(Contender::Sink, vec![light.clone()]),
        job(Contender::DEVICE, vec![device.clone()]),
    ];
    if !scale.quick {
        jobs.push(job(Contender::KAFKA_4, brokers));
        jobs.push(job(Contender::DEVICE_SERIAL, vec![device]));
    }
    jobs
}

/// The same load for Millrace and for Kafka: one that Kafka sustains, whose `most` is in MiB/s.
fn ebs_like_equal(scale: &Scale, most: impl Fn(&str) -> Option<f64>) -> Vec<Job> {
    let equal = |key, generator, most: Option<f64>| {
        let records_per_mib = (1 << 20) / ARTICLE_RECORD_BYTES;
        let rate = most.map(|mib| (mib * EQUAL_LOAD * records_per_mib as f64) as u64);
        rate.and_then(|rate| paced(scale, key, generator, rate))
    };
    let client = equal(
        KAFKA_CLIENT_EQUAL,
        Generator::KafkaClient,
        most(KAFKA_CLIENT_UNLIMITED),
    );
    let light = equal(LIGHT_EQUAL, Generator::Light, most(LIGHT_UNLIMITED));
    let loads: Vec<Load> = client.into_iter().chain(light).collect();
    [Contender::MILLRACE, Contender::KAFKA_3]
        .map(|contender| job(contender, loads.clone()))
        .into()
}

fn small_records(scale: &Scale) -> Vec<Job> {
    let load = |key, partitions| Load {
        key,
        generator: Generator::KafkaClient,
        batching: Batching::Default,
        record_bytes: SMALL_RECORD_BYTES,
        partitions,
        records: scale.small_records,
        rate: None,
    };
    let loads = vec![load(SMALL_1, 1), load(SMALL_16, 16)];
    let mut contenders = vec![
        Contender::MILLRACE,
        Contender::KAFKA_3,
        Contender::KAFKA_3_UNFLUSHED,
        Contender::Acknowledger,
    ];
    if !scale.quick {
        contenders.extend([Contender::KAFKA_4, Contender::KAFKA_4_UNFLUSHED]);
    }
    contenders
        .into_iter()
        .map(|contender| job(contender, loads.clone()))
        .collect()
}

fn job(contender: Contender, loads: Vec<Load>) -> Job {
    Job { contender, loads }
}

/// The article's producer.
fn article(key: &'static str, generator: Generator, records: u64, rate: Option<u64>) -> Load {
    Load {
        key,
        generator,
        batching: Batching::Article,
        record_bytes: ARTICLE_RECORD_BYTES,
        partitions: 1,
        records,
        rate,
    }
}

/// Nothing where there is no time for it.
fn paced(scale: &Scale, key: &'static str, generator: Generator, rate: u64) -> Option<Load> {
    let seconds = match generator {
        Generator::Light => Some(scale.paced_seconds),
        Generator::KafkaClient | Generator::KafkaClientRandom => scale.client_paced_seconds,
    };
    let rate = rate.max(1);
    seconds.map(|seconds| article(key, generator, rate * seconds, Some(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_load_is_one_that_kafka_sustains() {
        let most = |load: &str| (load == KAFKA_CLIENT_UNLIMITED).then_some(100.0);
        let jobs = ebs_like_equal(&Scale::FULL, most);
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[0].loads, jobs[1].loads);
        let [load] = &jobs[0].loads[..] else {
            panic!("one load, not {:?}", jobs[0].loads)
        };
        assert_eq!((load.rate, load.records), (Some(1_280), 76_800));
    }

    #[test]
    fn only_the_light_generator_speaks_to_the_sink() {
        for section in SectionKey::ALL {
            for scale in [Scale::FULL, Scale::QUICK] {
                for job in section.jobs(&scale) {
                    let speaks = |load: &Load| load.generator == Generator::Light;
                    let is_broker =
                        !matches!(job.contender, Contender::Sink | Contender::Device { .. });
                    assert!(is_broker || job.loads.iter().all(speaks), "{job:?}");
                }
            }
        }
    }
}
