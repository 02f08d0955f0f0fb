//! What a fetch asks for, and the reads from memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_log::{Isolation, LogManager, PartitionLog};
use millrace_model::TopicPartition;
use millrace_security::acl::Operation;
use millrace_wire::{error_code::ErrorCode, messages::FetchRequest, service::Peer};

use super::{
    TopicKey,
    answer::{Gathered, Part},
    route::{NotServed, Router},
};
use crate::{
    authorization::Rights,
    call::Reply,
    code,
    cold_reads::Source,
    context::Context,
    fetch_sessions::InSession,
    quota::Payer,
    topics::{FIRST_WITH_TOPIC_IDS, find, find_allowed},
    zones::Zone,
};

/// The longest that a fetch waits, whatever the client says; clients ask for 0.5 s, and give up on
/// any request after 30 s.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One partition that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its topic's place in [`ResolvedFetch::topics`].
    pub(super) topic: usize,
    pub(super) index: i32,
    pub(super) bytes_max: usize,
    /// The log and the offset to read from, or why there is nothing to read.
    pub(super) source: Result<Source, NotServed>,
}

/// A whole request.
#[derive(Debug)]
pub(super) struct ResolvedFetch {
    pub(super) topics: Vec<TopicKey>,
    /// In the order of the request, which is the order in which the client wants them served.
    pub(super) partitions: Vec<Wanted>,
    pub(super) bytes_max: usize,
    pub(super) bytes_min: usize,
    pub(super) wait: Duration,
    /// The connection that asks, by its number.
    pub(super) connection: u64,
    /// Who asks; nothing where no other broker could lead.
    pub(super) peer: Option<Arc<Peer>>,
    /// Which way the records go.
    pub(super) zone: Zone,
    /// Who pays for the records, if somebody has to.
    pub(super) payer: Option<Payer>,
    /// What is left out of the answer.
    pub(super) session: InSession,
}

impl ResolvedFetch {
    pub(super) fn new(
        (context, rights): (&Context, &Rights),
        reply: Reply,
        request: &FetchRequest,
        (peer, payer, session): (&Arc<Peer>, Option<Payer>, InSession),
    ) -> Self {
        let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
        let may_follow = may_follow(rights, request);
        let router = Router::new(context, peer.id, request);
        let mut partitions = Vec::new();
        for (at, topic) in request.topics.iter().enumerate() {
            let (name, id) = (&topic.topic, topic.topic_id);
            let found = match may_follow {
                Some(true) => find(&context.logs, by_id, name, id),
                Some(false) => Err(ErrorCode::TopicAuthorizationFailed),
                None => {
                    let right = (rights, Operation::Read);
                    find_allowed(&context.logs, right, by_id, name, id)
                }
            };
            for asked in &topic.partitions {
                let found = found.as_ref().map_err(|code| NotServed::Failed(*code));
                partitions.push(Wanted {
                    topic: at,
                    index: asked.partition,
                    bytes_max: size(asked.partition_max_bytes),
                    source: found.and_then(|topic| router.route(topic, asked)),
                });
            }
        }
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        // A larger answer would be followed by a long silence.
        let at_once = payer.as_ref().map_or(usize::MAX, Payer::bytes_at_once);
        let bytes_max = size(request.max_bytes)
            .min(context.config.fetch_bytes_max)
            .min(at_once);
        Self {
            topics: request.topics.iter().map(TopicKey::from).collect(),
            partitions,
            bytes_max,
            // More than may be answered cannot be waited for.
            bytes_min: size(request.min_bytes).min(bytes_max),
            wait: wait.min(WAIT_MAX),
            connection: peer.id,
            peer: context.config.members.is_some().then(|| Arc::clone(peer)),
            zone: router.zone(),
            payer,
            session,
        }
    }

    /// Reads every partition as far as it is in memory, or has been read for this connection.
    pub(super) fn read_at_hand(&self, context: &Context) -> Gathered {
        let mut gathered = Gathered::new(self.partitions.len());
        for wanted in &self.partitions {
            let left = self.bytes_max.saturating_sub(gathered.bytes());
            let first = gathered.bytes() == 0;
            let part = match (wanted.read_memory(left, first), &wanted.source) {
                (Part::Missed, Ok(source)) => {
                    let sizes = (wanted.bytes_max, left, first);
                    let read = context.cold_reads.take(self.connection, source, sizes);
                    read.map_or(Part::Missed, |read| Part::cold(source, read))
                }
                (part, _) => part,
            };
            gathered.push(part);
        }
        gathered
    }

    /// Reads what is in memory again, after a wait.
    pub(super) fn read_memory_again(&self, gathered: &mut Gathered) {
        let hot: Vec<(usize, usize)> = gathered.hot().collect();
        for (at, bytes) in hot {
            let Some(wanted) = self.partitions.get(at) else {
                continue;
            };
            let others = gathered.bytes() - bytes;
            let left = self.bytes_max.saturating_sub(others);
            let part = wanted.read_memory(left, others == 0);
            // What has left memory meanwhile may still be answered with.
            if bytes == 0 || !matches!(part, Part::Missed) {
                gathered.fill(at, part);
            }
        }
    }

    /// What tells that memory has enough, together with what `elsewhere` counts.
    pub(super) fn watch(
        &self,
        context: &Context,
        gathered: &Gathered,
        elsewhere: Arc<AtomicUsize>,
    ) -> Watched {
        let mut keys: Vec<TopicPartition> = Vec::with_capacity(self.partitions.len());
        let mut watched = Vec::with_capacity(self.partitions.len());
        for (at, _) in gathered.hot() {
            let wanted = self.partitions.get(at);
            let Some((wanted, Ok(source))) = wanted.map(|wanted| (wanted, &wanted.source)) else {
                continue;
            };
            // Nothing is awaited here: a consumer that has read all that is in objects is sent to the leader.
            let Some(log) = source.log.led() else {
                continue;
            };
            context.wakeups.listen(log);
            keys.push(log.id().clone());
            watched.push((Arc::clone(log), source.clone(), wanted.bytes_max));
        }
        let (logs, bytes_min) = (context.logs.clone(), self.bytes_min);
        let is_enough = Arc::new(move || {
            let bytes_min = bytes_min.saturating_sub(elsewhere.load(Ordering::Acquire));
            is_enough(&logs, &watched, bytes_min)
        });
        Watched { keys, is_enough }
    }
}

/// Partitions whose records are in memory as they come.
pub(super) struct Watched {
    keys: Vec<TopicPartition>,
    is_enough: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Watched {
    pub(super) fn is_enough(&self) -> bool {
        (self.is_enough)()
    }

    /// Waits until there is enough, or `time` is up.
    pub(super) async fn wait(&self, context: &Context, time: Duration) {
        let is_enough = Arc::clone(&self.is_enough);
        context
            .purgatory
            .wait(&self.keys, time, move || is_enough())
            .await;
    }
}

/// Whether a client that fetches as a replica may do so; nothing for consumers, who need to read.
fn may_follow(rights: &Rights, request: &FetchRequest) -> Option<bool> {
    let replica = request.replica_id.0.max(request.replica_state.replica_id.0);
    (replica >= 0).then(|| rights.cluster(Operation::ClusterAction).is_ok())
}

fn size(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

impl Wanted {
    fn read_memory(&self, left: usize, at_least_one: bool) -> Part {
        let source = match &self.source {
            Ok(source) => source,
            Err(unread) => return Part::unread(unread.clone()),
        };
        // Without room, only the offset is checked.
        let at_least_one = at_least_one && left > 0;
        match source.read_memory(self.bytes_max.min(left), at_least_one) {
            Some(Ok(read)) => Part::Hot(read),
            Some(Err(error)) => Part::Failed(code::of_read(&error)),
            None => Part::Missed,
        }
    }
}

/// Whether the partitions together have `bytes_min` to read, or one of them has something else to
/// tell: it is gone, or what it has is not in memory.
fn is_enough(
    logs: &LogManager,
    watched: &[(Arc<PartitionLog>, Source, usize)],
    bytes_min: usize,
) -> bool {
    let mut bytes = 0;
    for (log, source, bytes_max) in watched {
        // Deleted, or on its way to another broker.
        let is_there = logs
            .partition(log.id())
            .is_some_and(|there| Arc::ptr_eq(&there, log));
        if !is_there || log.is_closed() {
            return true;
        }
        let readable_to = match source.isolation {
            Isolation::ReadUncommitted => log.high_watermark(),
            Isolation::ReadCommitted => log.last_stable_offset(),
        };
        if readable_to <= source.offset {
            continue;
        }
        if bytes_min <= 1 {
            return true;
        }
        match source.read_memory(*bytes_max, false) {
            Some(Ok(read)) => bytes += read.batches.iter().map(bytes::Bytes::len).sum::<usize>(),
            Some(Err(_)) | None => return true,
        }
        if bytes >= bytes_min {
            return true;
        }
    }
    false
}
