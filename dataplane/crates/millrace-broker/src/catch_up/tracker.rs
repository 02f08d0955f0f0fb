//! Who reads how far behind, sampled every second.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use metrics::Gauge;
use millrace_coordinator::{GroupCoordinator, messages::GroupState};
use millrace_log::LogManager;
use millrace_model::{Offset, TopicName, TopicPartition};
use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::task::JoinError;

use crate::catch_up::{
    answer::{GroupAnswer, PartitionAnswer},
    elsewhere::{Elsewhere, Span},
    estimator::{Sighting, Track, as_float},
    pressure::Pressure,
};

/// How often positions are looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Who asks gets positions that are no older, and however many ask, they cost no more than ten samples a second.
const FRESH: Duration = Duration::from_millis(100);

/// Partitions of groups that are followed: bounds a sample's work and an answer's size. A partition
/// whose group and end stand still costs a comparison.
const FOLLOWED_MAX: usize = 10_000;

/// Groups that are listed, whether they have positions or not.
const GROUPS_MAX: usize = 10_000;

/// Pairs of group and topic that have metrics, over the broker's life: each is a time series for
/// ever, so whoever can make groups must not be able to make any number of them.
const SERIES_MAX: usize = 2_000;

/// Follows all groups. A clone is the same tracker.
#[derive(Debug, Clone)]
pub(crate) struct Tracker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    groups: GroupCoordinator,
    logs: LogManager,
    elsewhere: Elsewhere,
    clock: SharedClock,
    pressure: Mutex<Pressure>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: BTreeMap<String, Followed>,
    sampled_at: Duration,
    /// Whether there was more than is followed.
    truncated: bool,
    series: Series,
}

/// What a group wants next of a partition.
#[derive(Debug, Default)]
struct Wanted {
    position: Offset,
    member: Option<usize>,
}

/// A group and the partitions that it has positions in.
#[derive(Debug)]
struct Followed {
    state: GroupState,
    partitions: BTreeMap<TopicPartition, Track>,
}

impl Followed {
    /// Once no partition is behind any more, the group's catching up is over.
    fn settle(&mut self) {
        if !self.partitions.values().any(Track::is_behind) {
            self.partitions
                .values_mut()
                .for_each(Track::forget_progress);
        }
    }
}

impl Tracker {
    pub(crate) fn new(
        groups: GroupCoordinator,
        logs: LogManager,
        pressure: Pressure,
        clock: SharedClock,
    ) -> Self {
        Self(Arc::new(Inner {
            groups,
            logs,
            elsewhere: Elsewhere::default(),
            clock,
            pressure: Mutex::new(pressure),
            state: Mutex::default(),
        }))
    }

    /// What other brokers tell of the partitions that they lead.
    pub(crate) fn elsewhere(&self) -> &Elsewhere {
        &self.0.elsewhere
    }

    /// Samples until the broker stops. Ten thousand groups take 20 ms: not on a thread that serves requests, which would wait.
    ///
    /// # Errors
    /// A sample has panicked.
    pub(crate) async fn run(self, tasks: Supervisor) -> Result<Infallible, JoinError> {
        loop {
            let tracker = self.clone();
            tasks.compute(move || tracker.sample()).await?;
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// Looks at every group once.
    pub(crate) fn sample(&self) {
        let mut state = self.0.state.lock();
        self.sample_into(&mut state);
    }

    fn sample_into(&self, state: &mut State) {
        let inner = &*self.0;
        state.sampled_at = inner.clock.now();
        inner.pressure.lock().sample(state.sampled_at);
        let mut before = std::mem::take(&mut state.groups);
        let mut elsewhere = BTreeSet::new();
        let mut left = FOLLOWED_MAX;
        state.truncated = false;
        for listing in inner.groups.list() {
            if left == 0 || state.groups.len() >= GROUPS_MAX {
                state.truncated = true;
                break;
            }
            let tracks = before.remove(&listing.group_id);
            let mut tracks = tracks.map_or_else(BTreeMap::new, |followed| followed.partitions);
            let has_members = !matches!(listing.state, GroupState::Empty | GroupState::Dead);
            let mut partitions = BTreeMap::new();
            for (partition, wanted) in inner.positions(&listing.group_id, left) {
                if left == 0 {
                    state.truncated = true;
                    break;
                }
                if inner.is_elsewhere(&partition) {
                    elsewhere.insert(partition.clone());
                }
                let track = tracks.remove(&partition);
                if let Some(track) = inner.observe(&partition, wanted, has_members, track) {
                    partitions.insert(partition, track);
                    left -= 1;
                }
            }
            let mut followed = Followed {
                state: listing.state,
                partitions,
            };
            followed.settle();
            state.groups.insert(listing.group_id, followed);
        }
        inner.elsewhere.want(elsewhere);
        let State { groups, series, .. } = state;
        series.show(groups);
    }

    /// What readers have waited for lately.
    pub(crate) fn pressure(&self) -> Pressure {
        self.0.pressure.lock().clone()
    }

    /// All groups as they are now, by name, and whether there are more.
    pub(crate) fn answer(&self) -> (Vec<GroupAnswer>, bool) {
        let mut state = self.0.state.lock();
        if self.0.clock.now().saturating_sub(state.sampled_at) >= FRESH {
            self.sample_into(&mut state);
        }
        let group = |(name, followed): (&String, &Followed)| {
            GroupAnswer::new(name, followed.state.name(), followed.partitions.iter())
        };
        (state.groups.iter().map(group).collect(), state.truncated)
    }
}

impl Inner {
    /// What the group wants next of each partition: behind its commit, or from the start on where a
    /// member is assigned the partition and nothing is committed yet. `auto.offset.reset` stays in
    /// the consumer, so a group that begins at the latest record has too much here until it commits.
    fn positions(&self, group_id: &str, max: usize) -> BTreeMap<TopicPartition, Wanted> {
        // A group that is deleted meanwhile has none.
        let assigned = self.groups.assigned(group_id, max).unwrap_or_default();
        let committed = self.groups.all_offsets(group_id).unwrap_or_default();
        let unread = |(partition, member)| {
            let member = Some(member);
            (
                partition,
                Wanted {
                    position: 0,
                    member,
                },
            )
        };
        let mut wanted: BTreeMap<_, _> = assigned.into_iter().map(unread).collect();
        for (partition, committed) in committed {
            // A negative one is no position.
            wanted.entry(partition).or_default().position =
                Offset::try_from(committed.offset).unwrap_or(0);
        }
        wanted
    }

    /// Whether another broker leads the partition.
    fn is_elsewhere(&self, partition: &TopicPartition) -> bool {
        self.logs.partition(partition).is_none() && self.logs.exists(partition)
    }

    /// A group on a partition now; none where the topic is gone, or the partition's leader has not told yet where it ends.
    fn observe(
        &self,
        partition: &TopicPartition,
        Wanted { position, member }: Wanted,
        has_members: bool,
        track: Option<Track>,
    ) -> Option<Track> {
        let log = self.logs.partition(partition);
        let span = match &log {
            Some(log) => Span {
                start: log.start_offset(),
                end: log.high_watermark(),
                bytes: 0,
            },
            None if self.logs.exists(partition) => self.elsewhere.span(partition)?,
            None => return None,
        };
        let high_watermark = span.end;
        let seen = Sighting {
            at: self.clock.now(),
            // What is below the start is gone: the group goes on behind it.
            position: position.clamp(span.start.min(high_watermark), high_watermark),
            high_watermark,
            has_members,
            member,
        };
        let bytes = |from, to| match &log {
            Some(log) => log.bytes_between(from, to),
            None => span.bytes_between(from, to),
        };
        Some(match track {
            Some(mut track) => {
                track.see(seen, bytes);
                track
            }
            None => Track::new(seen, bytes),
        })
    }
}

/// The metrics `millrace_group_backlog_bytes` and `millrace_group_backlog_records`, by group and
/// topic. What is gone is shown as 0: a gauge cannot be taken back.
#[derive(Debug, Default)]
struct Series(HashMap<(String, TopicName), Gauges>);

struct Gauges {
    bytes: Gauge,
    records: Gauge,
    is_zero: bool,
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

impl Series {
    fn show(&mut self, groups: &BTreeMap<String, Followed>) {
        let mut sums: HashMap<(String, TopicName), (u64, u64)> = HashMap::new();
        for (group, followed) in groups {
            for (partition, track) in &followed.partitions {
                let key = (group.clone(), partition.topic.clone());
                let (bytes, records) = sums.entry(key).or_default();
                *bytes += track.backlog_bytes();
                *records += track.backlog_records();
            }
        }
        for (key, gauges) in &mut self.0 {
            let (bytes, records) = sums.remove(key).unwrap_or_default();
            if (bytes, records) != (0, 0) || !gauges.is_zero {
                gauges.set(bytes, records);
            }
        }
        let room = SERIES_MAX.saturating_sub(self.0.len());
        for ((group, topic), (bytes, records)) in sums.into_iter().take(room) {
            let mut gauges = Gauges::new(&group, &topic);
            gauges.set(bytes, records);
            self.0.insert((group, topic), gauges);
        }
    }
}

impl Gauges {
    fn new(group: &str, topic: &TopicName) -> Self {
        let labels = [
            ("group", group.to_owned()),
            ("topic", topic.as_str().to_owned()),
        ];
        Self {
            bytes: metrics::gauge!("millrace_group_backlog_bytes", &labels),
            records: metrics::gauge!("millrace_group_backlog_records", &labels),
            is_zero: true,
        }
    }

    fn set(&mut self, bytes: u64, records: u64) {
        self.bytes.set(as_float(bytes));
        self.records.set(as_float(records));
        self.is_zero = (bytes, records) == (0, 0);
    }
}

impl PartitionAnswer {
    pub(super) fn new(partition: &TopicPartition, track: &Track) -> Self {
        let band = track.eta_band();
        Self {
            topic: partition.topic.as_str().to_owned(),
            partition: partition.partition,
            position: track.position().to_string(),
            high_watermark: track.high_watermark().to_string(),
            mode: track.mode(),
            backlog_records: track.backlog_records().to_string(),
            backlog_bytes: track.backlog_bytes().to_string(),
            read_bytes_per_second: track.read_rate(),
            produce_bytes_per_second: track.produce_rate(),
            drain_bytes_per_second: track.drain_rate(),
            eta_seconds: track.eta_seconds(),
            eta_low_seconds: band.map(|band| band.low),
            eta_high_seconds: band.and_then(|band| band.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD_BYTES: u64 = 1_024;

    /// A group of which each partition is read at the same speed from the beginning on.
    struct Group {
        followed: Followed,
        at: Duration,
        position: Offset,
    }

    impl Group {
        const TOPIC: &str = "t";

        fn sight(&mut self, high_watermarks: &[Offset], read: u64) {
            self.position += read;
            let at = |end: &Offset| (self.position.min(*end), *end);
            self.sight_each(&high_watermarks.iter().map(at).collect::<Vec<_>>());
        }

        /// Each partition's position and high watermark.
        fn sight_each(&mut self, partitions: &[(Offset, Offset)]) {
            self.at += SAMPLE_INTERVAL;
            let bytes = |from: Offset, to: Offset| (to - from) * RECORD_BYTES;
            for (number, (position, high_watermark)) in partitions.iter().enumerate() {
                let seen = Sighting {
                    at: self.at,
                    position: *position,
                    high_watermark: *high_watermark,
                    has_members: true,
                    member: Some(0),
                };
                let partition = TopicPartition {
                    topic: TopicName::new(Self::TOPIC).expect("legal"),
                    partition: u32::try_from(number).expect("few"),
                };
                let tracks = &mut self.followed.partitions;
                let track = tracks.entry(partition);
                track
                    .and_modify(|track| track.see(seen, bytes))
                    .or_insert_with(|| Track::new(seen, bytes));
            }
            self.followed.settle();
        }

        fn progress(&self) -> Option<f64> {
            self.answer()["progress"].as_f64()
        }

        fn answer(&self) -> serde_json::Value {
            let answer = GroupAnswer::new("g", "Stable", self.followed.partitions.iter());
            serde_json::to_value(answer).expect("plain data")
        }

        fn new() -> Self {
            Self {
                followed: Followed {
                    state: GroupState::Stable,
                    partitions: BTreeMap::new(),
                },
                at: Duration::from_secs(1_000),
                position: 0,
            }
        }
    }

    /// What one member reads per second, it divides among the partitions that it has not finished.
    #[test]
    fn a_member_that_reads_its_partitions_in_turn_arrives_when_told() {
        const READ: u64 = 400;
        let mut group = Group::new();
        let mut partitions = [(0, 6_000), (0, 36_000), (0, 6_000), (0, 6_000)];
        group.sight_each(&partitions);
        let seconds: u64 = partitions.iter().map(|(_, end)| end / READ).sum();
        for second in 1..seconds - 15 {
            let unfinished = partitions.iter().filter(|(at, end)| at < end).count() as u64;
            for (at, end) in &mut partitions {
                *at = (*at + READ / unfinished).min(*end);
            }
            group.sight_each(&partitions);
            if second < 30 {
                continue;
            }
            let answer = group.answer();
            let told = |field: &str| answer[field].as_f64().expect("an estimate");
            let left = as_float(seconds - second);
            let eta = told("eta_seconds");
            assert!(
                (eta - left).abs() < left * 0.25,
                "{eta} of {left} at {second} s"
            );
            assert!(told("eta_low_seconds") <= left && left <= told("eta_high_seconds"));
            let drain = told("drain_bytes_per_second") / as_float(RECORD_BYTES);
            assert!(drain < 1.1 * as_float(READ), "{drain} at {second} s");
        }
    }

    #[test]
    fn a_group_does_not_go_back_when_one_of_its_partitions_is_through() {
        let mut group = Group::new();
        let ends = [20_000, 50_000, 100_000];
        group.sight(&ends, 0);
        let mut last = 0.0;
        for second in 1..98 {
            group.sight(&ends, 1_000);
            let progress = group.progress().expect("under way");
            assert!(progress > last, "{progress} after {last} at {second} s");
            last = progress;
        }
        assert!(last > 0.97, "{last}");
        group.sight(&ends, 10_000);
        assert_eq!(group.progress(), None, "nothing is left");
        let more = ends.map(|end| end + 10_000);
        group.sight(&more, 0);
        let next = group.progress().expect("behind again");
        assert!(next < 0.01, "the next catching up starts from zero: {next}");
    }
}
