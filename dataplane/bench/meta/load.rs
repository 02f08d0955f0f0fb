//! The objects, the uploads, and the lookups.

use std::{collections::BTreeMap, error::Error, time::Duration};

use millrace_bench::latencies::Latencies;
use millrace_meta::{
    MetaStore, NewTopic, StreamObject, StreamSetObject, Upload,
    postgres::{PostgresMeta, PostgresOptions},
};
use millrace_model::{
    Cause, FailureClass, NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId,
    TopicName,
};
use millrace_testkit::PostgresServer;
use millrace_time::{SharedClock, SystemClock};
use tokio::task::JoinSet;

/// Partitions of each broker.
const PARTITIONS: u32 = 1_000;
/// Objects of one upload while the metadata is filled.
const FILL: usize = 1_000;
const LOOKUPS: usize = 5_000;
const COMMITS: usize = 500;
/// Ranges of an upload's stream set: partitions with little traffic.
pub(crate) const SET_RANGES: usize = 200;
/// Stream objects of an upload: partitions with much.
pub(crate) const STREAM_OBJECTS: usize = 4;
/// Ranges that a reader asks for at once.
const LOOKUP_LIMIT: usize = 16;
/// Records of a range.
const RECORDS: u64 = 1_000;
/// Between two uploads of a broker, as the pace of a busy one.
const PAUSE: Duration = Duration::from_millis(50);

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) objects: usize,
    pub(crate) brokers: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            brokers: 3,
        }
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) filled_in: Duration,
    pub(crate) lookups_alone: Latencies,
    pub(crate) lookups: Latencies,
    pub(crate) commits: Latencies,
    pub(crate) reservations: Latencies,
}

/// A broker with streams of its own.
struct Broker {
    meta: PostgresMeta,
    epoch: NodeEpoch,
    streams: Vec<StreamId>,
    ends: Vec<Offset>,
    clock: SharedClock,
}

impl Broker {
    async fn start(address: &str, n: usize) -> Result<Self, String> {
        let meta = PostgresMeta::open(address, PostgresOptions::default()).await;
        let meta = meta.map_err(text)?;
        let node = NodeId(u32::try_from(n).map_err(text)?);
        let epoch = meta.register_node(node).await.map_err(text)?;
        let topic = NewTopic {
            name: TopicName::new(format!("t{n}")).map_err(text)?,
            id: TopicId(uuid::Uuid::from_u128(n as u128 + 1)),
            partitions: PARTITIONS,
            configs: BTreeMap::new(),
        };
        let topic = meta.create_topic(topic).await.map_err(text)?;
        let streams: Vec<StreamId> = topic.partitions.iter().map(|p| p.data).collect();
        meta.open_streams(&streams, epoch).await.map_err(text)?;
        Ok(Self {
            meta,
            epoch,
            ends: vec![0; streams.len()],
            streams,
            clock: SystemClock::shared(),
        })
    }

    /// The next range of the broker's stream `nth`.
    fn range(&mut self, nth: usize) -> StreamRange {
        let nth = nth % self.streams.len();
        let start = self.ends[nth];
        self.ends[nth] += RECORDS;
        StreamRange {
            stream: self.streams[nth],
            start,
            end: self.ends[nth],
        }
    }

    /// Uploads a stream set with the next `set` streams, and an object of each of the `own` after them.
    async fn upload(
        &mut self,
        first: usize,
        (set, own): (usize, usize),
        figures: Option<&mut Figures>,
    ) -> Result<(), String> {
        let count = own + usize::from(set > 0);
        let started = self.clock.now();
        let id = self.meta.reserve_objects(self.epoch, count as u32).await;
        let id = id.map_err(text)?;
        let reserved = self.clock.now();
        let ranges: Vec<StreamRange> = (first..first + set).map(|nth| self.range(nth)).collect();
        let stream_set = (set > 0).then_some(StreamSetObject {
            id,
            size: 8 << 20,
            ranges,
        });
        let own_first = id.get() + u64::from(set > 0);
        let stream_objects = (0..own)
            .map(|nth| StreamObject {
                id: ObjectId(own_first + nth as u64),
                size: 8 << 20,
                range: self.range(first + set + nth),
            })
            .collect();
        let upload = Upload {
            node_epoch: self.epoch,
            stream_set,
            stream_objects,
        };
        self.meta.commit_upload(upload).await.map_err(text)?;
        let committed = self.clock.now();
        if let Some(figures) = figures {
            figures.reservations.add(reserved - started, 1);
            figures.commits.add(committed - reserved, 1);
        }
        Ok(())
    }

    /// Finds a random offset of a random stream.
    async fn look_up(&self, latencies: &mut Latencies) -> Result<(), String> {
        let nth = fastrand::usize(..self.streams.len());
        let from = fastrand::u64(..self.ends[nth].max(1));
        let started = self.clock.now();
        let found = self.meta.objects_of(self.streams[nth], from, LOOKUP_LIMIT);
        let found = found.await.map_err(text)?;
        latencies.add(self.clock.now() - started, 1);
        if found.first().is_none_or(|found| found.range.start > from) {
            return Err(format!("offset {from} was not found"));
        }
        Ok(())
    }

    /// Uploads as a busy broker does, and looks an offset up after each.
    async fn work(mut self) -> Result<Figures, String> {
        let mut figures = Figures::default();
        for nth in 0..COMMITS {
            let first = nth * (SET_RANGES + STREAM_OBJECTS);
            let shape = (SET_RANGES, STREAM_OBJECTS);
            self.upload(first, shape, Some(&mut figures)).await?;
            for _ in 0..LOOKUPS / COMMITS {
                self.look_up(&mut figures.lookups).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(figures)
    }
}

/// The error with its causes.
fn text(error: impl Error + Send + Sync + 'static) -> String {
    Cause::of(FailureClass::Rejected, error).to_string()
}

/// Fills the metadata and measures.
pub(crate) async fn run(server: &PostgresServer, plan: &Plan) -> Result<Figures, String> {
    let address = server.database().await;
    let clock = SystemClock::shared();
    let mut figures = Figures::default();
    let mut filling = JoinSet::new();
    let started = clock.now();
    for n in 0..plan.brokers {
        let mut broker = Broker::start(&address, n).await?;
        let uploads = plan.objects.div_ceil(FILL * plan.brokers);
        filling.spawn(async move {
            for nth in 0..uploads {
                broker.upload(nth * FILL, (0, FILL), None).await?;
            }
            Ok::<_, String>(broker)
        });
    }
    let mut brokers = Vec::new();
    while let Some(filled) = filling.join_next().await {
        brokers.push(filled.map_err(text)??);
    }
    figures.filled_in = clock.now() - started;
    for nth in 0..LOOKUPS {
        let broker = &brokers[nth % brokers.len()];
        broker.look_up(&mut figures.lookups_alone).await?;
    }
    let mut working = JoinSet::new();
    for broker in brokers {
        working.spawn(broker.work());
    }
    while let Some(done) = working.join_next().await {
        let done = done.map_err(text)??;
        figures.lookups.merge(&done.lookups);
        figures.commits.merge(&done.commits);
        figures.reservations.merge(&done.reservations);
    }
    Ok(figures)
}
