//! The same load on Apache Kafka with tiered storage.
//!
//! The backlog of each partition is one segment, which is closed when it is complete, moved to remote
//! storage, and deleted from the local log. Only then is it read.

use std::time::Duration;

use millrace_bench::{
    consumer::FetchLimits,
    machine::{Patience, pause, wait_until_quiet},
    producer::{ClientError, Connection},
    usage::{cpu_time_of, peak_memory_kib, read_bytes, reset_peak_memory},
};
use millrace_time::{SharedClock, SystemClock};
use millrace_wire::{
    StrBytes,
    messages::{
        IncrementalAlterConfigsRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};

use crate::{
    arguments::Options,
    kafka::{Kafka, Phase},
    load::{
        PATIENCE, ask_for_coordinator, check_records, check_space, connect, find_backlog,
        latencies_in,
    },
    profiles::{GIB, MIB, ProfileKey},
    readers::{self, Backlog},
    report::{Fields, Report, What},
    writers::{self, Writers},
};

const PROFILE: ProfileKey = ProfileKey::KafkaTieredLocalFolder;
/// Rounds that are not counted: the JVM compiles the broker's code while it runs. The broker does not
/// restart between rounds; of what it has read it keeps only the indexes of remote segments.
const WARM_ROUNDS: usize = 4;
/// Of a topic: in remote storage, and of its local log nothing that is there, too.
const SETTINGS: [(&str, &str); 2] = [
    ("remote.storage.enable", "true"),
    ("local.retention.bytes", "1"),
];
/// Kafka's number for topics among what has a configuration.
const TOPIC_RESOURCE: i8 = 2;
/// What is done to a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;
/// A thousand segments are moved, and deleted where they were; a broker that was started again looks
/// for what it has in remote storage each half a minute.
const MOVE_PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(500);

/// Measures it in as many rounds as the main profile has.
pub(crate) fn measure(options: &Options, report: &mut Report) -> Result<(), String> {
    println!("{}", PROFILE.name());
    let mut bench = Tiered::prepare(options)?;
    let cold = bench.round()?.catch_up.get("mib_per_s").copied();
    for _ in 1..WARM_ROUNDS {
        bench.round()?;
    }
    for _ in 0..options.rounds {
        let mut round = bench.round()?;
        round
            .catch_up
            .extend(cold.map(|rate| ("cold_mib_per_s", rate)));
        report.add(PROFILE, What::CatchUp, round.catch_up);
        report.add(PROFILE, What::Before, round.before);
        report.add(PROFILE, What::During, round.during);
    }
    bench.check_records()?;
    bench.kafka.remove();
    Ok(())
}

struct Tiered<'a> {
    options: &'a Options,
    kafka: Kafka,
    clock: SharedClock,
    topics: Vec<String>,
    backlog: Vec<Backlog>,
    /// Records that were acknowledged.
    acked: u64,
}

/// What one round showed.
struct Round {
    catch_up: Fields,
    before: Fields,
    during: Fields,
}

impl<'a> Tiered<'a> {
    /// Starts the broker, writes the backlog, and has it moved to remote storage.
    fn prepare(options: &'a Options) -> Result<Self, String> {
        let load = &options.load;
        let mut bench = Self {
            options,
            kafka: Kafka::create(&options.work)?,
            clock: SystemClock::shared(),
            topics: load.topic_names(),
            backlog: Vec::new(),
            acked: 0,
        };
        // For a minute the local log still has what was moved.
        check_space(&options.work, 2 * load.backlog_bytes())?;
        bench.kafka.serve(Phase::Moving)?;
        bench.create_topics()?;
        bench.write(load.backlog_records())?;
        bench.backlog = bench.find_backlogs()?;
        bench.close_segments()?;
        bench.wait_for("the backlog is not in remote storage", |connection, of| {
            let local = connection.local_start_offset(&of.topic, of.partition)?;
            Ok(local >= of.end && connection.start_offset(&of.topic, of.partition)? == 0)
        })?;
        bench.kafka.serve(Phase::Measured)?;
        bench.wait_for("Kafka does not find the backlog again", |connection, of| {
            Ok(connection.last_tiered_offset(&of.topic, of.partition)? >= of.end - 1)
        })?;
        wait_until_quiet(Patience::THOROUGH);
        Ok(bench)
    }

    fn create_topics(&self) -> Result<(), String> {
        let failed = |error: ClientError| format!("preparing topics: {error}");
        let mut connection = connect(self.kafka.address())?;
        let partitions = i32::try_from(self.options.load.partitions_per_topic);
        let partitions = partitions.map_err(|error| error.to_string())?;
        for topic in &self.topics {
            connection
                .create_topic_with(topic, partitions, &SETTINGS, PATIENCE)
                .map_err(failed)?;
        }
        ask_for_coordinator(&mut connection).map_err(failed)
    }

    /// Writes so many records at the backlog's rate.
    fn write(&mut self, records: u64) -> Result<(), String> {
        let load = &self.options.load;
        let plan = writers::Plan {
            records_per_s: load.backlog_send_rate,
            records_max: Some(records),
            ..load.writers(self.kafka.address())
        };
        self.acked += Writers::begin(plan, &self.clock)?.wait()?;
        self.kafka.check()
    }

    fn find_backlogs(&self) -> Result<Vec<Backlog>, String> {
        let mut connection = connect(self.kafka.address())?;
        let mut all = Vec::new();
        for topic in &self.topics {
            let partitions = self.options.load.partitions_per_topic;
            all.extend(find_backlog(&mut connection, topic, partitions)?);
        }
        Ok(all)
    }

    fn check_records(&self) -> Result<(), String> {
        check_records(self.acked, &self.find_backlogs()?)
    }

    /// A segment is closed by the first record that comes when it is too old; then that is as it was
    /// again. What is written twice to each partition stays in the local log, and is not read.
    fn close_segments(&mut self) -> Result<(), String> {
        self.set_segment_age(Some("1"))?;
        self.write(2 * self.options.load.partitions() as u64)?;
        self.set_segment_age(None)
    }

    fn set_segment_age(&self, milliseconds: Option<&'static str>) -> Result<(), String> {
        let config = AlterableConfig::default()
            .with_name(StrBytes::from_static_str("segment.ms"))
            .with_config_operation(milliseconds.map_or(DELETE, |_| SET))
            .with_value(milliseconds.map(StrBytes::from_static_str));
        let resource = |topic: &String| {
            AlterConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(StrBytes::from_string(topic.clone()))
                .with_configs(vec![config.clone()])
        };
        let request = IncrementalAlterConfigsRequest::default()
            .with_resources(self.topics.iter().map(resource).collect());
        let answer = connect(self.kafka.address())?.call(&request);
        let answer = answer.map_err(|error| format!("segment.ms: {error}"))?;
        let refused = answer.responses.iter().find(|of| of.error_code != 0);
        refused.map_or(Ok(()), |of| Err(format!("segment.ms: {of:?}")))
    }

    /// Waits until something holds for each partition.
    fn wait_for(
        &mut self,
        otherwise: &str,
        holds: impl Fn(&mut Connection, &Backlog) -> Result<bool, ClientError>,
    ) -> Result<(), String> {
        let mut connection = connect(self.kafka.address())?;
        let until = self.clock.now() + MOVE_PATIENCE;
        for of in &self.backlog {
            loop {
                match holds(&mut connection, of) {
                    Ok(true) => break,
                    // Not the leader yet, or its remote storage is not ready yet.
                    Ok(false) | Err(ClientError::Refused { .. }) => {}
                    Err(error) => return Err(error.to_string()),
                }
                if self.clock.now() > until {
                    return Err(format!("{otherwise}: {} {}", of.topic, of.partition));
                }
                self.kafka.check()?;
                pause(POLL);
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<Round, String> {
        let load = &self.options.load;
        let mut writers = Writers::begin(load.writers(self.kafka.address()), &self.clock)?;
        pause(load.warm_up);
        let from = self.clock.now();
        pause(load.before);
        let before = (from, self.clock.now());
        let (catch_up, during) = self.catch_up()?;
        writers.check()?;
        self.acked += writers.finish()?;
        Ok(Round {
            catch_up,
            before: latencies_in(&writers, &[before]),
            during: latencies_in(&writers, &[during]),
        })
    }

    /// Reads the backlog; its figures, and from when to when that was.
    fn catch_up(&mut self) -> Result<(Fields, (Duration, Duration)), String> {
        let load = &self.options.load;
        let plan = readers::Plan {
            broker: self.kafka.address(),
            assignments: readers::assign(
                &self.backlog,
                load.groups_per_topic,
                load.consumers_per_group,
            ),
            limits: FetchLimits {
                wait: load.fetch_wait,
                partition_bytes_max: load.partition_fetch_bytes,
                ..FetchLimits::default()
            },
            time_max: None,
        };
        let pid = self.kafka.pid()?;
        let ended = || "Kafka has ended".to_owned();
        let counts = || Some((cpu_time_of(&pid)?, read_bytes(&pid)?));
        reset_peak_memory(&pid).map_err(|error| format!("Kafka: {error}"))?;
        let (cpu_before, read_before) = counts().ok_or_else(ended)?;
        let outcome = readers::read(&plan, &self.clock);
        self.kafka.check()?;
        let outcome = outcome?;
        let (cpu, read) = counts().ok_or_else(ended)?;
        let peak_kib = peak_memory_kib(&pid).ok_or_else(ended)?;

        let (bytes, seconds) = (outcome.bytes() as f64, outcome.took.as_secs_f64());
        let written_per_s = (load.send_rate * load.record_bytes) as f64;
        // What producers sent was read from sockets.
        let read = read.saturating_sub(read_before) as f64 - written_per_s * seconds;
        let fields = Fields::from([
            ("mib_per_s", outcome.backlog_bytes() as f64 / MIB / seconds),
            ("seconds", seconds),
            ("delivered_mib", bytes / MIB),
            ("written_mib_per_s", written_per_s / MIB),
            ("fetched_per_delivered", read / bytes),
            (
                "fetch_kib",
                bytes / outcome.fetches().max(1) as f64 / 1_024.0,
            ),
            (
                "broker_cpu_s_per_gib",
                cpu.saturating_sub(cpu_before).as_secs_f64() * GIB / bytes,
            ),
            (
                "readers_cpu_s_per_gib",
                outcome.cpu.as_secs_f64() * GIB / bytes,
            ),
            ("broker_peak_mib", peak_kib as f64 / 1_024.0),
        ]);
        Ok((fields, (outcome.began, outcome.began + outcome.took)))
    }
}
