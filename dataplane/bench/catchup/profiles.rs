//! What is measured, one profile after the other, on one backlog.

use std::time::Duration;

use millrace_bench::{
    consumer::FetchLimits,
    machine::{Patience, pause, wait_until_quiet},
    producer::ClientError,
    profile::Profiler,
    usage::{cpu_time_of, peak_memory_kib},
};
use millrace_time::{SharedClock, SystemClock};

use crate::{
    arguments::Options,
    kafka,
    load::{
        PATIENCE, ask_for_coordinator, check_records, check_space, connect, find_backlog,
        latencies_in,
    },
    raw,
    readers::{self, Assignment, Backlog, Outcome},
    report::{Fields, Report, What},
    stand::Stand,
    tiered,
    watch::{Observed, watched},
    writers::{self, Writers},
};

pub(crate) const MIB: f64 = (1 << 20) as f64;
pub(crate) const GIB: f64 = (1 << 30) as f64;

/// What a reader would like of the cache: the article's three data blocks of half a MiB, which a
/// fetch of a MiB touches that begins in the middle of one.
const READER_BYTES: u64 = 3 * (512 << 10);

/// Readers of different speeds, half of the partitions each; the article's example.
const SIDE_TOPIC: &str = "side";
const SIDE_PARTITIONS: usize = 8;
const FAST_BYTES_PER_S: u64 = 10_000_000;
const SLOW_BYTES_PER_S: u64 = 1_000_000;
/// The article's cache for each of such readers.
const SIDE_CACHE_BYTES: u64 = SIDE_PARTITIONS as u64 * (2 << 20);
/// For how long readers with a rate, or behind a tenth of the network, are watched.
const TIMED: Duration = Duration::from_secs(30);
const TIMED_QUICK: Duration = Duration::from_secs(10);
/// What the CPU could do, over what the link of a network-bound profile carries.
const LINK_PART: f64 = 3.0;

/// One way to read the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProfileKey {
    /// As the broker comes, with the baselines at what the network carries.
    Main,
    /// Without prefetch: what a reader needs of the cache.
    NoPrefetch,
    /// The cache at a quarter of what the readers would like.
    QuarterCache,
    /// The same with plain LRU.
    QuarterCacheLru,
    /// Fast and slow readers.
    SideBySide,
    /// The same with plain LRU.
    SideBySideLru,
    /// The baselines at a tenth of what catch-up reached.
    Tenth,
    /// No baselines.
    NoLimiter,
    /// The broker has a processor of its own, and shares no other.
    Pinned,
    /// All that the broker sends and receives passes a link of a third of what catch-up reached, which
    /// is what the baselines say.
    NetworkBound,
    /// The same without baselines.
    NetworkBoundNoLimiter,
    /// Apache Kafka with tiered storage in a local folder, in place of Millrace and the S3 server.
    KafkaTieredLocalFolder,
}

impl ProfileKey {
    pub(crate) const ALL: [Self; 12] = [
        Self::Main,
        Self::NoPrefetch,
        Self::QuarterCache,
        Self::QuarterCacheLru,
        Self::SideBySide,
        Self::SideBySideLru,
        Self::Tenth,
        Self::NoLimiter,
        Self::Pinned,
        Self::NetworkBound,
        Self::NetworkBoundNoLimiter,
        Self::KafkaTieredLocalFolder,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::NoPrefetch => "no_prefetch",
            Self::QuarterCache => "quarter_cache",
            Self::QuarterCacheLru => "quarter_cache_lru",
            Self::SideBySide => "side_by_side",
            Self::SideBySideLru => "side_by_side_lru",
            Self::Tenth => "tenth",
            Self::NoLimiter => "no_limiter",
            Self::Pinned => "pinned",
            Self::NetworkBound => "network_bound",
            Self::NetworkBoundNoLimiter => "network_bound_no_limiter",
            Self::KafkaTieredLocalFolder => "kafka_tiered_local_folder",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|profile| profile.name() == name);
        found.ok_or_else(|| format!("there is no profile {name:?}"))
    }

    fn is_side_by_side(self) -> bool {
        matches!(self, Self::SideBySide | Self::SideBySideLru)
    }

    fn is_network_bound(self) -> bool {
        matches!(self, Self::NetworkBound | Self::NetworkBoundNoLimiter)
    }

    /// Whether its baselines depend on what the main profile reached.
    pub(crate) fn needs_main(self) -> bool {
        self == Self::Tenth || self.is_network_bound()
    }

    /// Whether it is about what producers notice.
    fn compares_producers(self) -> bool {
        let is_main = matches!(self, Self::Main | Self::Tenth | Self::NoLimiter);
        is_main || self == Self::Pinned || self.is_network_bound()
    }

    /// The cache's budget.
    pub(crate) fn cache_bytes(self, options: &Options) -> u64 {
        match self {
            Self::QuarterCache | Self::QuarterCacheLru => {
                options.load.partitions() as u64 * READER_BYTES / 4
            }
            Self::SideBySide | Self::SideBySideLru => SIDE_CACHE_BYTES,
            _ => options.block_cache_bytes,
        }
    }
}

/// Runs all profiles; Kafka's at the end, when neither Millrace nor the S3 server runs any more.
pub(crate) fn measure(options: &Options) -> Result<Report, String> {
    let kafka = ProfileKey::KafkaTieredLocalFolder;
    let mut profiles = options.profiles.clone();
    // What Kafka needs is fetched, or known to be missing, before anything is measured.
    if profiles.contains(&kafka)
        && let Some(missing) = kafka::missing()
    {
        println!("{} is left out: {missing}", kafka.name());
        profiles.retain(|&profile| profile != kafka);
    }
    let idle_percent = wait_until_quiet(Patience::THOROUGH);
    let mut report = Report::new(options, idle_percent);
    let own: Vec<_> = profiles.iter().filter(|&&of| of != kafka).collect();
    if !own.is_empty() {
        let mut bench = Bench::prepare(options, report)?;
        for &&profile in &own {
            bench.profile(profile)?;
        }
        bench.check_records()?;
        // Kafka inherits the processors that this program may use.
        bench.stand.pin(false)?;
        report = bench.report;
        bench.stand.remove();
    }
    if profiles.contains(&kafka) {
        tiered::measure(options, &mut report)?;
    }
    Ok(report)
}

struct Bench<'a> {
    options: &'a Options,
    stand: Stand,
    clock: SharedClock,
    topics: Vec<String>,
    backlog: Vec<Backlog>,
    side: Vec<Backlog>,
    /// What the baselines are set to, bytes per second.
    link: u64,
    /// Records that were acknowledged.
    acked: u64,
    report: Report,
}

impl<'a> Bench<'a> {
    /// Starts everything and writes the backlogs.
    fn prepare(options: &'a Options, report: Report) -> Result<Self, String> {
        let load = &options.load;
        let mut bench = Self {
            options,
            stand: Stand::create(options)?,
            clock: SystemClock::shared(),
            topics: load.topic_names(),
            backlog: Vec::new(),
            side: Vec::new(),
            link: 0,
            acked: 0,
            report,
        };
        let bytes = load.written_bytes_max() + bench.side_bytes();
        check_space(bench.stand.home.folder(), bytes)?;
        bench.stand.serve("")?;
        bench.create_topics()?;
        println!("writing {} MiB", load.backlog_bytes() >> 20);
        bench.write(
            bench.topics.clone(),
            load.partitions_per_topic,
            load.backlog_records(),
        )?;
        if options
            .profiles
            .iter()
            .any(|profile| profile.is_side_by_side())
        {
            let records = bench.side_bytes() / load.record_bytes as u64;
            bench.write(vec![SIDE_TOPIC.to_owned()], SIDE_PARTITIONS, records)?;
        }
        // The next broker uploads what was too little for an upload, and the one after it has nothing
        // of the backlog in its log.
        bench.stand.serve("")?;
        bench.find_backlogs()?;
        let first = bench.raw(false)?;
        bench.link = options.link.unwrap_or((first["mib_per_s"] * MIB) as u64);
        Ok(bench)
    }

    fn timed(&self) -> Duration {
        if self.options.quick {
            TIMED_QUICK
        } else {
            TIMED
        }
    }

    /// So much that the fast readers do not come to the end.
    fn side_bytes(&self) -> u64 {
        let seconds = self.timed().as_secs() + 3;
        FAST_BYTES_PER_S * SIDE_PARTITIONS as u64 * seconds
    }

    fn create_topics(&mut self) -> Result<(), String> {
        let failed = |error: ClientError| format!("preparing topics: {error}");
        let mut connection = connect(self.stand.home.address())?;
        let partitions = i32::try_from(self.options.load.partitions_per_topic);
        let partitions = partitions.map_err(|error| error.to_string())?;
        for topic in &self.topics {
            connection
                .create_topic(topic, partitions, PATIENCE)
                .map_err(failed)?;
        }
        connection
            .create_topic(SIDE_TOPIC, SIDE_PARTITIONS as i32, PATIENCE)
            .map_err(failed)?;
        ask_for_coordinator(&mut connection).map_err(failed)
    }

    fn writers(&self) -> writers::Plan {
        self.options.load.writers(self.stand.address())
    }

    /// Writes so many records at the backlog's rate.
    fn write(
        &mut self,
        topics: Vec<String>,
        partitions: usize,
        records: u64,
    ) -> Result<(), String> {
        let plan = writers::Plan {
            topics,
            partitions_per_topic: partitions,
            records_per_s: self.options.load.backlog_send_rate,
            records_max: Some(records),
            ..self.writers()
        };
        self.acked += Writers::begin(plan, &self.clock)?.wait()?;
        self.stand.check()
    }

    fn find_backlogs(&mut self) -> Result<(), String> {
        let mut connection = connect(self.stand.home.address())?;
        let partitions = self.options.load.partitions_per_topic;
        for topic in &self.topics {
            let found = find_backlog(&mut connection, topic, partitions)?;
            self.backlog.extend(found);
        }
        self.side = find_backlog(&mut connection, SIDE_TOPIC, SIDE_PARTITIONS)?;
        Ok(())
    }

    fn check_records(&mut self) -> Result<(), String> {
        self.backlog.clear();
        self.find_backlogs()?;
        check_records(self.acked, self.backlog.iter().chain(&self.side))
    }

    /// What catch-up reached in the main profile, divided by `part`; bytes per second.
    fn part_of_main(&self, part: f64) -> Result<u64, String> {
        let main = self
            .report
            .median(ProfileKey::Main, What::CatchUp, "mib_per_s");
        let main = main.ok_or("the main profile has no result")?;
        Ok((main * MIB / part) as u64)
    }

    /// The settings of a profile.
    fn lines(&self, profile: ProfileKey) -> Result<String, String> {
        let mut lines = format!(
            "s3.block.cache.size={}\n",
            profile.cache_bytes(self.options)
        );
        let baseline = match profile {
            ProfileKey::Main => Some(self.link),
            ProfileKey::Tenth => Some(self.part_of_main(10.0)?),
            ProfileKey::NetworkBound => Some(self.part_of_main(LINK_PART)?),
            _ => None,
        };
        if let Some(baseline) = baseline {
            lines.push_str(&format!(
                "s3.network.ingress.baseline.bandwidth={baseline}\n\
                 s3.network.egress.baseline.bandwidth={baseline}\n"
            ));
        }
        match profile {
            ProfileKey::NoPrefetch => lines.push_str("s3.prefetch.max.bytes=0\n"),
            ProfileKey::QuarterCacheLru | ProfileKey::SideBySideLru => {
                lines.push_str("s3.block.cache.eviction=lru\n");
            }
            _ => {}
        }
        Ok(lines)
    }

    fn profile(&mut self, profile: ProfileKey) -> Result<(), String> {
        println!("{}", profile.name());
        let rounds = if profile.compares_producers() {
            self.options.rounds
        } else {
            1
        };
        for _ in 0..rounds {
            self.round(profile)?;
        }
        Ok(())
    }

    /// One round, with a broker that has read nothing yet.
    fn round(&mut self, profile: ProfileKey) -> Result<(), String> {
        let lines = self.lines(profile)?;
        match profile.is_network_bound() {
            true => {
                let link = self.part_of_main(LINK_PART)?;
                self.stand.serve_linked(link, &lines)?;
            }
            false => self.stand.serve(&lines)?,
        }
        self.stand.pin(profile == ProfileKey::Pinned)?;
        let plan = writers::Plan {
            is_first: profile == ProfileKey::Pinned || profile.is_network_bound(),
            ..self.writers()
        };
        let mut writers = Writers::begin(plan, &self.clock)?;
        pause(self.options.load.warm_up);
        let mut before = None;
        if profile.compares_producers() {
            let from = self.clock.now();
            pause(self.options.load.before);
            before = Some((from, self.clock.now()));
        }
        if profile == ProfileKey::Main {
            let raw = self.raw(false)?;
            self.report.add(profile, What::Raw, raw);
            let relay = self.raw(true)?;
            self.report.add(profile, What::Relay, relay);
        }
        let (outcome, observed) = self.catch_up(profile)?;
        let during = (outcome.began, outcome.began + outcome.took);
        let mut fields = self.fields(profile, &outcome, &observed);
        fields.extend(baseline_in(&lines).map(|bytes| ("baseline_mib_per_s", bytes / MIB)));
        self.report.add(profile, What::CatchUp, fields);
        writers.check()?;
        self.acked += writers.finish()?;
        for (what, window) in [(What::Before, before), (What::During, Some(during))] {
            let fields = latencies_in(&writers, window.as_slice());
            self.report.add(profile, what, fields);
        }
        Ok(())
    }

    fn catch_up(&mut self, profile: ProfileKey) -> Result<(Outcome, Observed), String> {
        let load = &self.options.load;
        let limits = FetchLimits {
            wait: load.fetch_wait,
            partition_bytes_max: load.partition_fetch_bytes,
            ..FetchLimits::default()
        };
        let assignments = if profile.is_side_by_side() {
            side_by_side(&self.side)
        } else {
            readers::assign(
                &self.backlog,
                load.groups_per_topic,
                load.consumers_per_group,
            )
        };
        let is_slow = profile == ProfileKey::Tenth || profile.is_network_bound();
        let is_timed = profile.is_side_by_side() || is_slow;
        let plan = readers::Plan {
            broker: self.stand.address(),
            assignments,
            limits,
            time_max: is_timed.then(|| self.timed()),
        };
        let clock = self.clock.clone();
        let profiler = match &self.options.cpu_profile {
            Some(folder) if profile == ProfileKey::Main => {
                let pid = self.stand.broker_pid()?;
                Some(Profiler::attach(&pid, folder, "catchup")?)
            }
            _ => None,
        };
        let (outcome, observed) =
            watched(&mut self.stand, &clock, || readers::read(&plan, &clock))?;
        if let Some(profiler) = profiler {
            let gib = outcome.bytes() as f64 / GIB;
            profiler.finish(gib)?.print("catchup");
        }
        Ok((outcome, observed))
    }

    /// One round of the bare client, or of the relay, over as many bytes as the backlog has.
    fn raw(&mut self, is_relay: bool) -> Result<Fields, String> {
        let plan = raw::Plan {
            bucket_uri: self.stand.bucket_uri.clone(),
            parallel: self.options.raw_parallel,
            get_bytes: self.options.raw_get_bytes,
            bytes_max: self.backlog_bytes(),
            is_relay,
        };
        let server = self.stand.server.pid().to_string();
        let s3_cpu = || cpu_time_of(&server).unwrap_or_default();
        let before = s3_cpu();
        let outcome = raw::read(&plan, &self.clock)?;
        let s3_cpu = s3_cpu().saturating_sub(before).as_secs_f64();
        let (bytes, seconds) = (outcome.bytes as f64, outcome.took.as_secs_f64());
        Ok(Fields::from([
            ("mib_per_s", bytes / MIB / seconds),
            ("seconds", seconds),
            ("gets_per_mib", outcome.gets as f64 * MIB / bytes),
            ("s3_cpu_s_per_gib", s3_cpu * GIB / bytes),
            (
                "readers_cpu_s_per_gib",
                outcome.cpu.as_secs_f64() * GIB / bytes,
            ),
        ]))
    }

    fn backlog_bytes(&self) -> u64 {
        let records: i64 = self.backlog.iter().map(|backlog| backlog.end).sum();
        u64::try_from(records).unwrap_or(0) * self.options.load.record_bytes as u64
    }

    fn fields(&self, profile: ProfileKey, outcome: &Outcome, observed: &Observed) -> Fields {
        let bytes = outcome.bytes() as f64;
        let seconds = outcome.took.as_secs_f64();
        // What the log cache had is not counted as delivered from objects.
        let from_objects = match observed.cache_delivered_bytes {
            0.0 => bytes,
            delivered => delivered.min(bytes),
        };
        let load = &self.options.load;
        let written = (load.send_rate * load.record_bytes) as f64 / MIB;
        let partitions = if profile.is_side_by_side() {
            SIDE_PARTITIONS
        } else {
            load.partitions()
        };
        let server = self.stand.server.pid().to_string();
        let s3_peak = peak_memory_kib(&server).unwrap_or(0) as f64 / 1_024.0;
        let mut fields = Fields::from([
            ("mib_per_s", outcome.backlog_bytes() as f64 / MIB / seconds),
            ("seconds", seconds),
            ("delivered_mib", bytes / MIB),
            ("written_mib_per_s", written),
            ("fetched_per_delivered", observed.get_bytes / from_objects),
            (
                "cache_fetched_per_delivered",
                observed.cache_fetched_per_delivered,
            ),
            (
                "cache_delivered_share",
                observed.cache_delivered_bytes / bytes,
            ),
            ("evicted_unread_mib", observed.evicted_unread_bytes / MIB),
            (
                "s3_sent_per_delivered",
                observed.s3_sent_bytes / from_objects,
            ),
            ("gets_per_mib", observed.gets * MIB / bytes),
            (
                "get_kib",
                observed.get_bytes / observed.gets.max(1.0) / 1_024.0,
            ),
            ("gets_parallel", observed.gets_parallel),
            (
                "fetch_kib",
                bytes / outcome.fetches().max(1) as f64 / 1_024.0,
            ),
            ("cache_peak_mib", observed.cache_peak_bytes / MIB),
            (
                "cache_budget_mib",
                profile.cache_bytes(self.options) as f64 / MIB,
            ),
            (
                "cache_mib_per_partition",
                observed.cache_peak_bytes / MIB / partitions as f64,
            ),
            ("broker_cpu_s_per_gib", observed.broker_cpu * GIB / bytes),
            ("s3_cpu_s_per_gib", observed.s3_cpu * GIB / bytes),
            (
                "readers_cpu_s_per_gib",
                outcome.cpu.as_secs_f64() * GIB / bytes,
            ),
            ("writers_cpu_s", observed.writers_cpu),
            ("uploaded_mib", observed.uploaded_bytes / MIB),
            ("broker_peak_mib", observed.broker_peak_bytes / MIB),
            ("s3_peak_mib", s3_peak),
        ]);
        if profile.is_side_by_side() {
            fields.extend(shares_of_rates(outcome, seconds));
        }
        fields
    }
}

fn baseline_in(lines: &str) -> Option<f64> {
    let key = "s3.network.egress.baseline.bandwidth=";
    let value = lines.lines().find_map(|line| line.strip_prefix(key))?;
    value.parse().ok()
}

/// One reader for each partition: fast ones, then as many slow ones.
fn side_by_side(backlog: &[Backlog]) -> Vec<Assignment> {
    let reader = |(number, of): (usize, &Backlog)| Assignment {
        group: format!("side-{number}"),
        topic: of.topic.clone(),
        ends: vec![(of.partition, of.end)],
        bytes_per_s: Some(rate_of(number)),
    };
    backlog.iter().enumerate().map(reader).collect()
}

fn rate_of(number: usize) -> u64 {
    if number < SIDE_PARTITIONS / 2 {
        FAST_BYTES_PER_S
    } else {
        SLOW_BYTES_PER_S
    }
}

/// What the worst of the fast readers and the worst of the slow ones got of their rates.
fn shares_of_rates(outcome: &Outcome, seconds: f64) -> [(&'static str, f64); 2] {
    let share = |(number, reader): (usize, &readers::Progress)| {
        reader.bytes as f64 / seconds / rate_of(number) as f64
    };
    let least = |rate: u64| {
        let readers = outcome.readers.iter().enumerate();
        let of_rate = readers.filter(|(number, _)| rate_of(*number) == rate);
        of_rate.map(share).fold(f64::INFINITY, f64::min)
    };
    [
        ("fast_share_of_rate_min", least(FAST_BYTES_PER_S)),
        ("slow_share_of_rate_min", least(SLOW_BYTES_PER_S)),
    ]
}
