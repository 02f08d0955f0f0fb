//! Share partitions whose leader this broker is (KIP-932): their records in flight, acquisition locks that time out, and the
//! share sessions of members.
//!
//! A share partition is read from the share coordinator when a member fetches it first, and forgotten once its group has no
//! session here, or the partition another leader. What changes is written to the share coordinator by one task per share
//! partition, which runs while there is something to write.
//!
//! | part | what it is |
//! |---|---|
//! | `leader` | one share partition |
//! | `elsewhere` | who leads the partitions that this broker does not |
//! | `member` | who sends a request |
//! | `state` | what the share coordinator keeps of it: read, and written |
//! | `acknowledging` | acknowledgements of a request, and when they are durable |

mod acknowledging;
mod elsewhere;
mod leader;
mod member;
mod state;

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use metrics::{Counter, Gauge};
use millrace_coordinator::{
    GroupConfigs, ShareIsolation, ShareOffsetReset, SharePartition, ShareStates,
};
use millrace_log::PartitionLog;
use millrace_model::{TopicId, TopicPartition};
use millrace_purgatory::{Purgatory, Timers, Wait};
use millrace_share::{
    GroupSettings, Limits, ResetStrategy, SESSION_PARTITION_BYTES, SESSION_PARTITIONS_MAX,
    SessionError, SessionKey, Sessions, ShareConfig,
};
use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use millrace_wire::error_code::ErrorCode;
use parking_lot::Mutex;

pub(crate) use self::{
    acknowledging::{Acknowledged, Acknowledging, AskedPartition, acknowledge},
    elsewhere::{Elsewhere, leaders_elsewhere},
    leader::{FetchTurn, Leader, readable_to},
    member::{member, of_session},
};

/// The epoch of a request that opens a share session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that closes one.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// The share partitions of this broker, about 1 KiB each.
const SHARE_PARTITIONS_MAX: usize = 4_096;

/// Records in flight, as batches of records in a row with the same state, about 128 bytes each. Where there are more, members get
/// only what is in flight already and became available again.
const IN_FLIGHT_BATCHES_MAX: usize = 24_576;

/// What share partitions and share sessions may take in memory, bytes.
pub const SHARE_PARTITIONS_BYTES_MAX: u64 = (SHARE_PARTITIONS_MAX * 1_024
    + IN_FLIGHT_BATCHES_MAX * 128
    + SESSION_PARTITIONS_MAX * SESSION_PARTITION_BYTES)
    as u64;

/// The share partitions and sessions of this broker. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharePartitions {
    shared: Arc<Shared>,
}

/// What share partitions need to work.
pub(crate) struct ShareParts {
    pub(crate) config: ShareConfig,
    /// What is set for single groups.
    pub(crate) of_groups: GroupConfigs,
    pub(crate) states: Arc<dyn ShareStates>,
    pub(crate) purgatory: Purgatory<TopicPartition, Wait>,
    pub(crate) timers: Timers,
    pub(crate) clock: SharedClock,
    pub(crate) tasks: Supervisor,
}

#[derive(Debug)]
struct Shared {
    config: ShareConfig,
    of_groups: GroupConfigs,
    states: Arc<dyn ShareStates>,
    /// Where share fetches wait.
    purgatory: Purgatory<TopicPartition, Wait>,
    timers: Timers,
    clock: SharedClock,
    tasks: Supervisor,
    sessions: Mutex<Sessions>,
    leaders: Mutex<Leaders>,
    /// The batches in flight of all share partitions.
    in_flight: Arc<AtomicUsize>,
    metrics: ShareMetrics,
}

/// The share partitions, by group.
#[derive(Debug, Default)]
struct Leaders {
    by_group: HashMap<String, HashMap<(TopicId, i32), Arc<Leader>>>,
    count: usize,
}

#[derive(Debug)]
struct ShareMetrics {
    sessions: Gauge,
    partitions: Gauge,
    acquired: Counter,
    timeouts: Counter,
    write_failures: Counter,
    /// Share partitions that were one too many.
    refused: Counter,
}

impl ShareMetrics {
    fn new() -> Self {
        Self {
            sessions: metrics::gauge!("millrace_share_sessions"),
            partitions: metrics::gauge!("millrace_share_partitions"),
            acquired: metrics::counter!("millrace_share_records_acquired_total"),
            timeouts: metrics::counter!("millrace_share_lock_timeouts_total"),
            write_failures: metrics::counter!("millrace_share_write_failures_total"),
            refused: metrics::counter!(
                "millrace_bound_refusals_total",
                "bound" => "led_share_partitions"
            ),
        }
    }
}

impl SharePartitions {
    pub(crate) fn new(parts: ShareParts) -> Self {
        let sessions = Sessions::new(parts.config.sessions_max);
        Self {
            shared: Arc::new(Shared {
                config: parts.config,
                of_groups: parts.of_groups,
                states: parts.states,
                purgatory: parts.purgatory,
                timers: parts.timers,
                clock: parts.clock,
                tasks: parts.tasks,
                sessions: Mutex::new(sessions),
                leaders: Mutex::default(),
                in_flight: Arc::default(),
                metrics: ShareMetrics::new(),
            }),
        }
    }

    /// What a group's members live by.
    pub(crate) fn settings_of(&self, group: &str) -> GroupSettings {
        let set = self.shared.of_groups.overrides(group);
        let of_broker = &self.shared.config.group;
        let reset = set.share_auto_offset_reset.map(|reset| match reset {
            ShareOffsetReset::Earliest => ResetStrategy::Earliest,
            ShareOffsetReset::Latest => ResetStrategy::Latest,
            ShareOffsetReset::ByDuration(age) => ResetStrategy::ByDuration(age),
        });
        let is_read_committed = set
            .share_isolation
            .map(|isolation| isolation == ShareIsolation::ReadCommitted);
        GroupSettings {
            record_lock: set
                .share_record_lock_duration
                .unwrap_or(of_broker.record_lock),
            delivery_count_limit: of_broker.delivery_count_limit,
            reset: reset.unwrap_or(of_broker.reset),
            is_read_committed: is_read_committed.unwrap_or(of_broker.is_read_committed),
        }
    }

    /// What bounds the share partitions of a group.
    pub(crate) fn limits(&self, settings: &GroupSettings) -> Limits {
        self.shared.config.limits(settings)
    }

    /// The sessions of this broker. Not to be held while share partitions are used.
    pub(crate) fn sessions<T>(&self, use_them: impl FnOnce(&mut Sessions) -> T) -> T {
        let mut sessions = self.shared.sessions.lock();
        let result = use_them(&mut sessions);
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        self.shared.metrics.sessions.set(sessions.len() as f64);
        result
    }

    /// The share partition of a log that this broker leads.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn leader(
        &self,
        group: &str,
        index: i32,
        log: &Arc<PartitionLog>,
    ) -> Result<Arc<Leader>, ErrorCode> {
        let mut leaders = self.shared.leaders.lock();
        let key = (log.topic_id(), index);
        if let Some(known) = leaders.get(group, key) {
            if known.is_of(log) && !known.is_closed() {
                return Ok(known);
            }
            // A log that was opened again, or one that is fenced: read again what is stored.
            leaders.remove(group, key);
            known.close(ErrorCode::NotLeaderOrFollower);
        }
        if leaders.count >= SHARE_PARTITIONS_MAX {
            leaders.forget_closed();
        }
        if leaders.count >= SHARE_PARTITIONS_MAX {
            self.shared.metrics.refused.increment(1);
            return Err(ErrorCode::KafkaStorageError);
        }
        let id = SharePartition {
            group_id: group.to_owned(),
            topic_id: log.topic_id(),
            partition: index,
        };
        let leader = Arc::new(Leader::new(
            id,
            Arc::clone(log),
            Arc::downgrade(&self.shared),
        ));
        leaders.insert(group, key, Arc::clone(&leader));
        self.shared.metrics.show_partitions(&leaders);
        Ok(leader)
    }

    /// The share partition, if this broker has read it.
    pub(crate) fn known(&self, group: &str, partition: (TopicId, i32)) -> Option<Arc<Leader>> {
        self.shared.leaders.lock().get(group, partition)
    }

    /// Opens a session for a member, in the place of the one that it has. Gives what the member fetches.
    ///
    /// # Errors
    /// There is no room for it. The member's former session is closed nevertheless.
    pub(crate) fn open_session(
        &self,
        key: &SessionKey,
        connection: u64,
        partitions: impl IntoIterator<Item = (TopicId, i32)>,
    ) -> Result<Vec<(TopicId, i32)>, SessionError> {
        let opened = self.sessions(|sessions| sessions.open(key.clone(), connection, partitions));
        if opened.is_err() {
            self.release(key);
        }
        opened
    }

    /// Closes a member's session, if it is still open, and makes available again what the member holds.
    pub(crate) fn close_session(&self, key: &SessionKey) {
        if self.sessions(|sessions| sessions.close(key)) {
            self.release(key);
        }
    }

    /// Closes the sessions that a connection has opened.
    pub(crate) fn disconnected(&self, connection: u64) {
        let keys = self.sessions(|sessions| sessions.of_connection(connection));
        for key in keys {
            self.close_session(&key);
        }
    }

    /// Makes available again what a member holds.
    fn release(&self, key: &SessionKey) {
        let leaders = self.shared.leaders.lock().of_group(&key.group);
        for leader in leaders {
            leader.release(&key.member);
            self.shared.forget_unused(&leader);
        }
    }
}

impl Shared {
    /// Forgets a share partition whose group has no session here, once everything of it is written.
    fn forget_unused(&self, leader: &Arc<Leader>) {
        let group = &leader.id().group_id;
        // In this order: a session is opened before its partitions are looked up.
        let sessions = self.sessions.lock();
        let mut leaders = self.leaders.lock();
        if sessions.has_group(group) || !leader.close_if_idle() {
            return;
        }
        leaders.remove_same(leader);
        self.metrics.show_partitions(&leaders);
    }

    fn has_too_many_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > IN_FLIGHT_BATCHES_MAX
    }

    /// Whether the log is led here, and the group has a session.
    fn is_wanted(&self, leader: &Leader) -> bool {
        !leader.log().is_closed() && self.sessions.lock().has_group(&leader.id().group_id)
    }

    /// Forgets a share partition that has another leader, or was initialized again.
    fn forget(&self, leader: &Arc<Leader>) {
        let mut leaders = self.leaders.lock();
        leaders.remove_same(leader);
        self.metrics.show_partitions(&leaders);
    }

    /// Something became available: fetches that wait look again. Not to be called while a share partition is used.
    fn wake(&self, log: &PartitionLog) {
        self.purgatory.check(log.id());
    }
}

impl Leaders {
    fn get(&self, group: &str, partition: (TopicId, i32)) -> Option<Arc<Leader>> {
        self.by_group.get(group)?.get(&partition).map(Arc::clone)
    }

    fn of_group(&self, group: &str) -> Vec<Arc<Leader>> {
        let leaders = self.by_group.get(group).into_iter();
        leaders.flat_map(HashMap::values).map(Arc::clone).collect()
    }

    fn insert(&mut self, group: &str, partition: (TopicId, i32), leader: Arc<Leader>) {
        let of_group = self.by_group.entry(group.to_owned()).or_default();
        if of_group.insert(partition, leader).is_none() {
            self.count += 1;
        }
    }

    fn remove(&mut self, group: &str, partition: (TopicId, i32)) {
        let Some(of_group) = self.by_group.get_mut(group) else {
            return;
        };
        if of_group.remove(&partition).is_some() {
            self.count -= 1;
        }
        if of_group.is_empty() {
            self.by_group.remove(group);
        }
    }

    fn remove_same(&mut self, leader: &Arc<Leader>) {
        let id = leader.id();
        let key = (id.topic_id, id.partition);
        let known = self.get(&id.group_id, key);
        if known.is_some_and(|known| Arc::ptr_eq(&known, leader)) {
            self.remove(&id.group_id, key);
        }
    }

    /// Makes room: those whose log this broker does not lead any more.
    fn forget_closed(&mut self) {
        let all = self.by_group.values().flat_map(HashMap::values);
        let closed: Vec<_> = all.filter(|leader| leader.is_closed()).cloned().collect();
        closed.iter().for_each(|leader| self.remove_same(leader));
    }
}

impl ShareMetrics {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    fn show_partitions(&self, leaders: &Leaders) {
        self.partitions.set(leaders.count as f64);
    }
}

/// The parts as their share partitions refer to them.
type WeakShared = Weak<Shared>;
