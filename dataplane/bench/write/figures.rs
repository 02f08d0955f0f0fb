//! The main figures: ratios of medians.
//!
//! Throughput is ours over the other's, latency and CPU time too: of those, less is better. Where
//! several versions of Kafka ran, the best of them counts, figure by figure.

use crate::{
    contenders::Contender,
    report::{Field, P99, RATE, Report, SERVER_CPU},
    sections::{
        DEVICE_ALONE, KAFKA_CLIENT_50, KAFKA_CLIENT_EQUAL, KAFKA_CLIENT_UNLIMITED, LIGHT_50,
        LIGHT_EQUAL, LIGHT_UNLIMITED, SMALL_1, SMALL_16, SectionKey,
    },
};

/// Kafka's client rounds latencies down to whole milliseconds. What it shows as less than this is
/// taken for this, since 0 would make any ratio nothing.
const CLIENT_RESOLUTION_MS: f64 = 1.0;
/// Those that make durable before they acknowledge.
const KAFKAS: [Contender; 2] = [Contender::KAFKA_3, Contender::KAFKA_4];
/// Those that do not.
const UNFLUSHED: [Contender; 2] = [Contender::KAFKA_3_UNFLUSHED, Contender::KAFKA_4_UNFLUSHED];

type Ratios = Vec<(&'static str, Option<f64>)>;

/// The ratios of a section, by key; nothing where what they need did not run.
pub(crate) fn of_section(report: &Report, section: SectionKey) -> Ratios {
    let of = Section { report, section };
    match section {
        SectionKey::OwnDisk => of.own_disk(),
        SectionKey::EbsLike1 | SectionKey::EbsLike5 => of.ebs_like(),
        SectionKey::SmallRecords => of.small_records(),
    }
}

struct Section<'a> {
    report: &'a Report,
    section: SectionKey,
}

impl Section<'_> {
    fn own_disk(&self) -> Ratios {
        let ours_to_sink = self.ratio(LIGHT_UNLIMITED, SERVER_CPU, Contender::Sink);
        vec![
            ("max_ratio_kafka_client", self.rate(KAFKA_CLIENT_UNLIMITED)),
            ("max_ratio_light_client", self.rate(LIGHT_UNLIMITED)),
            ("cpu_per_gib_ratio", self.cpu(KAFKA_CLIENT_UNLIMITED)),
            ("cpu_per_gib_ratio_light_client", self.cpu(LIGHT_UNLIMITED)),
            ("cpu_vs_bare_sink", ours_to_sink),
            ("p99_ratio_50MBps", self.p99_of(KAFKA_CLIENT_50, LIGHT_50)),
            ("p99_ratio_50MBps_light_client", self.p99(LIGHT_50, 0.0)),
            (
                "ratio_to_serial",
                self.ratio(LIGHT_UNLIMITED, RATE, Contender::SERIAL),
            ),
            (
                "ratio_to_bare_sink",
                self.ratio(LIGHT_UNLIMITED, RATE, Contender::Sink),
            ),
            ("share_of_device", self.share_of_device()),
            (
                "share_of_client_limit",
                self.ratio(KAFKA_CLIENT_UNLIMITED, RATE, Contender::Acknowledger),
            ),
        ]
    }

    fn ebs_like(&self) -> Ratios {
        vec![
            ("max_ratio", self.rate(LIGHT_UNLIMITED)),
            ("max_ratio_kafka_client", self.rate(KAFKA_CLIENT_UNLIMITED)),
            (
                "max_ratio_indexes_free",
                self.ratio(LIGHT_UNLIMITED, RATE, Contender::KAFKA_3_INDEXES_FREE),
            ),
            ("p99_ratio", self.p99_of(KAFKA_CLIENT_EQUAL, LIGHT_EQUAL)),
            ("p99_ratio_light_client", self.p99(LIGHT_EQUAL, 0.0)),
            (
                "ratio_to_serial",
                self.ratio(LIGHT_UNLIMITED, RATE, Contender::SERIAL),
            ),
            (
                "ratio_to_bare_sink",
                self.ratio(LIGHT_UNLIMITED, RATE, Contender::Sink),
            ),
        ]
    }

    fn small_records(&self) -> Ratios {
        let flushed = |load| self.rate(load);
        let unflushed = |load| self.rate_over(UNFLUSHED, load);
        let of_limit = |load| self.ratio(load, RATE, Contender::Acknowledger);
        vec![
            (
                "ratio_to_kafka_flushed",
                worse(flushed(SMALL_1), flushed(SMALL_16)),
            ),
            ("ratio_to_kafka_flushed_1_partition", flushed(SMALL_1)),
            ("ratio_to_kafka_flushed_16_partitions", flushed(SMALL_16)),
            (
                "ratio_to_kafka_unflushed",
                worse(unflushed(SMALL_1), unflushed(SMALL_16)),
            ),
            ("ratio_to_kafka_unflushed_1_partition", unflushed(SMALL_1)),
            (
                "ratio_to_kafka_unflushed_16_partitions",
                unflushed(SMALL_16),
            ),
            ("share_of_client_limit_1_partition", of_limit(SMALL_1)),
            ("share_of_client_limit_16_partitions", of_limit(SMALL_16)),
        ]
    }

    /// Of what the device can write. It gets each byte twice, in the log and in an object.
    fn share_of_device(&self) -> Option<f64> {
        let device = self.median(DEVICE_ALONE, Contender::DEVICE, RATE)?;
        Some(2.0 * self.ours(LIGHT_UNLIMITED, RATE)? / device)
    }

    fn median(&self, load: &str, contender: Contender, field: Field) -> Option<f64> {
        self.report.median(self.section, load, contender, field)
    }

    fn ours(&self, load: &str, field: Field) -> Option<f64> {
        self.median(load, Contender::MILLRACE, field)
    }

    fn ratio(&self, load: &str, field: Field, other: Contender) -> Option<f64> {
        Some(self.ours(load, field)? / self.median(load, other, field)?)
    }

    fn kafkas(&self, load: &str, field: Field) -> impl Iterator<Item = f64> {
        KAFKAS
            .into_iter()
            .filter_map(move |kafka| self.median(load, kafka, field))
    }

    /// Over the fastest Kafka.
    fn rate(&self, load: &str) -> Option<f64> {
        self.rate_over(KAFKAS, load)
    }

    /// Over the fastest of some others.
    fn rate_over(&self, others: [Contender; 2], load: &str) -> Option<f64> {
        let rates = others
            .into_iter()
            .filter_map(|other| self.median(load, other, RATE));
        let fastest = rates.reduce(f64::max)?;
        Some(self.ours(load, RATE)? / fastest)
    }

    /// Over the most frugal Kafka.
    fn cpu(&self, load: &str) -> Option<f64> {
        let least = self.kafkas(load, SERVER_CPU).reduce(f64::min)?;
        Some(self.ours(load, SERVER_CPU)? / least)
    }

    /// Over the Kafka that answers soonest, with latencies of at least `resolution_ms`.
    fn p99(&self, load: &str, resolution_ms: f64) -> Option<f64> {
        let least = self.kafkas(load, P99).reduce(f64::min)?;
        let ours = self.ours(load, P99)?;
        Some(ours.max(resolution_ms) / least.max(resolution_ms))
    }

    /// With Kafka's client, or with the light one where Kafka's had no time.
    fn p99_of(&self, client: &str, light: &str) -> Option<f64> {
        self.p99(client, CLIENT_RESOLUTION_MS)
            .or_else(|| self.p99(light, 0.0))
    }
}

fn worse(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one?.min(other?))
}
