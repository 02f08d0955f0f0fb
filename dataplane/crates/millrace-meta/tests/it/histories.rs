//! Random histories on SQLite and on PostgreSQL: every answer must be the same.
//!
//! A seed determines the history. A failure prints it; `MILLRACE_META_SEED=n` replays it, and
//! `MILLRACE_META_SEEDS=1000` runs that many.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use millrace_meta::{
    Compaction, MetaStore, NewTopic, StreamObject, StreamSetObject, Upload,
    postgres::{PostgresMeta, PostgresOptions},
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId, TopicName,
};
use millrace_time::{ManualClock, SeededRandom, SharedRandom};
use uuid::Uuid;

use millrace_testkit::PostgresServer;

const SEEDS: u64 = 12;
const STEPS: u64 = 80;
const NODES: u64 = 3;
const TOPICS: u64 = 4;
/// All pages of a listing, and a little of one.
const LIMITS: [usize; 2] = [1_000, 2];

/// The two stores, and what the history so far has made of them.
struct Both {
    sqlite: Arc<dyn MetaStore>,
    postgres: Arc<dyn MetaStore>,
    random: SharedRandom,
    history: Vec<String>,
    epochs: Vec<NodeEpoch>,
    streams: Vec<StreamId>,
    objects: Vec<ObjectId>,
    topics_made: u128,
}

/// Asks both stores the same and compares their answers; gives SQLite's. Arguments are written out twice.
macro_rules! ask {
    ($both:expr, $method:ident($($argument:expr),*)) => {{
        let called = format!(concat!(stringify!($method), "{:?}"), ($(&$argument,)*));
        let (one, other) = (
            $both.sqlite.$method($($argument),*).await,
            $both.postgres.$method($($argument),*).await,
        );
        $both.compare(called, &one, &other);
        one
    }};
}

impl Both {
    fn compare<T: Debug, E: Debug>(
        &mut self,
        called: String,
        one: &Result<T, E>,
        other: &Result<T, E>,
    ) {
        let (one, other) = (format!("{one:?}"), format!("{other:?}"));
        self.history.push(format!("{called} -> {one}"));
        assert_eq!(one, other, "{}", self.history.join("\n"));
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_of<T: Copy>(&self, items: &[T]) -> Option<T> {
        let index = self.below(items.len().max(1) as u64);
        items.get(usize::try_from(index).expect("small")).copied()
    }

    /// Mostly the newest start, sometimes one that was replaced or never was.
    fn epoch(&self) -> NodeEpoch {
        let last = self.epochs.last().copied();
        let any = match self.below(8) {
            0 => self.one_of(&self.epochs),
            1 => Some(NodeEpoch(99)),
            _ => last,
        };
        any.unwrap_or(NodeEpoch(1))
    }

    fn stream(&self) -> StreamId {
        let any = self.one_of(&self.streams).filter(|_| self.below(12) > 0);
        any.unwrap_or(StreamId(10_000))
    }

    fn some_streams(&self) -> Vec<StreamId> {
        (0..=self.below(4)).map(|_| self.stream()).collect()
    }

    fn name(&self) -> TopicName {
        TopicName::new(format!("t{}", self.below(TOPICS))).expect("legal")
    }

    /// Where a stream ends, by what SQLite says: `None` where it does not exist.
    async fn end_of(&self, stream: StreamId, epoch: NodeEpoch) -> Option<Offset> {
        // Opening again under the same epoch changes nothing; under another one, PostgreSQL is asked too.
        let opened = self.sqlite.open_streams(&[stream], epoch).await.ok()?;
        self.postgres.open_streams(&[stream], epoch).await.ok()?;
        Some(opened.first()?.end)
    }

    async fn topics(&mut self) {
        match self.below(5) {
            0 | 1 => {
                self.topics_made += 1;
                let topic = NewTopic {
                    name: self.name(),
                    id: TopicId(Uuid::from_u128(self.topics_made)),
                    partitions: u32::try_from(self.below(4)).expect("small"),
                    configs: BTreeMap::from([("a".to_owned(), self.below(9).to_string())]),
                };
                if let Ok(made) = ask!(self, create_topic(topic.clone())) {
                    let streams = made.partitions.iter().flat_map(|p| [p.data, p.meta]);
                    self.streams.extend(streams);
                }
            }
            2 => {
                let (name, total) = (self.name(), u32::try_from(self.below(6)).expect("small"));
                if let Ok(made) = ask!(self, create_partitions(&name, total)) {
                    let streams = made.partitions.iter().flat_map(|p| [p.data, p.meta]);
                    self.streams.extend(streams);
                }
            }
            3 => {
                let name = self.name();
                let _ = ask!(self, delete_topic(&name));
            }
            _ => {
                let (name, configs) = (self.name(), BTreeMap::new());
                let _ = ask!(self, set_topic_configs(&name, configs.clone()));
            }
        }
    }

    /// Ranges that continue their streams, or nearly.
    async fn ranges(&self, epoch: NodeEpoch) -> Vec<StreamRange> {
        let mut streams = self.some_streams();
        streams.sort_unstable();
        if self.below(10) > 0 {
            streams.dedup();
        }
        let mut ranges = Vec::new();
        for stream in streams {
            let end = self.end_of(stream, epoch).await.unwrap_or(0);
            let start = end + self.below(20).saturating_sub(18);
            let length = self.below(10);
            ranges.push(StreamRange {
                stream,
                start,
                end: start + length,
            });
        }
        ranges
    }

    async fn new_id(&mut self, epoch: NodeEpoch) -> Option<ObjectId> {
        let first = ask!(self, reserve_objects(epoch, 1)).ok()?;
        self.objects.push(first);
        Some(first)
    }

    async fn upload(&mut self) {
        let epoch = self.epoch();
        let ranges = self.ranges(epoch).await;
        let Some(id) = self.new_id(epoch).await else {
            return;
        };
        let (stream_set, stream_objects) = as_objects(id, ranges);
        let upload = Upload {
            node_epoch: epoch,
            stream_set,
            stream_objects,
        };
        let _ = ask!(self, commit_upload(upload.clone()));
        if self.below(4) == 0 {
            let _ = ask!(self, commit_upload(upload.clone()));
        }
    }

    async fn compact(&mut self) {
        let epoch = self.epoch();
        let inputs: Vec<ObjectId> = (0..=self.below(3))
            .filter_map(|_| self.one_of(&self.objects))
            .collect();
        let mut ranges = Vec::new();
        for &input in &inputs {
            if let Ok(Some(contents)) = ask!(self, object_contents(input)) {
                ranges.extend(contents.live.iter().map(|live| live.range));
            }
        }
        ranges.sort_unstable();
        if self.below(6) == 0 {
            ranges.pop();
        }
        let Some(id) = self.new_id(epoch).await else {
            return;
        };
        let (stream_set, stream_objects) = as_objects(id, joined(ranges));
        let compaction = Compaction {
            node_epoch: epoch,
            inputs,
            stream_set,
            stream_objects,
        };
        let _ = ask!(self, commit_compaction(compaction.clone()));
        if self.below(4) == 0 {
            let _ = ask!(self, commit_compaction(compaction.clone()));
        }
    }

    async fn step(&mut self) {
        match self.below(14) {
            0 => {
                let node = NodeId(u32::try_from(self.below(NODES)).expect("small"));
                if let Ok(epoch) = ask!(self, register_node(node)) {
                    self.epochs.push(epoch);
                }
            }
            1 | 2 => self.topics().await,
            3 | 4 => {
                let (streams, epoch) = (self.some_streams(), self.epoch());
                let _ = ask!(self, open_streams(&streams, epoch));
            }
            5..=8 => self.upload().await,
            9 => {
                let (stream, epoch, start) = (self.stream(), self.epoch(), self.below(40));
                let _ = ask!(self, trim_stream(stream, epoch, start));
            }
            10 | 11 => self.compact().await,
            12 => {
                let (epoch, object) = (self.epoch(), self.one_of(&self.objects));
                let released = object.into_iter().collect::<Vec<_>>();
                let _ = ask!(self, release_objects(epoch, &released));
            }
            _ => {
                let epoch = self.epoch();
                if let Ok(retired) = ask!(self, retired_objects(epoch, 2)) {
                    let _ = ask!(self, mark_deleted(epoch, &retired));
                }
            }
        }
    }

    /// Everything that can be asked.
    async fn look(&mut self) {
        let _ = ask!(self, topics());
        for limit in LIMITS {
            let (set, stream) = (self.one_of(&self.objects), self.one_of(&self.streams));
            let _ = ask!(self, stream_sets(set, limit));
            let _ = ask!(self, stream_summaries(stream, limit));
            let (stream, from) = (self.stream(), self.below(40));
            let _ = ask!(self, objects_of(stream, from, limit));
        }
        if let Some(object) = self.one_of(&self.objects) {
            let _ = ask!(self, object_contents(object));
        }
        let epoch = self.epoch();
        let _ = ask!(self, retired_objects(epoch, 1_000));
        let _ = ask!(self, allocate_producer_ids(3));
    }
}

/// One object of all ranges: a set where there are several.
fn as_objects(
    id: ObjectId,
    ranges: Vec<StreamRange>,
) -> (Option<StreamSetObject>, Vec<StreamObject>) {
    match ranges[..] {
        [range] => {
            let object = StreamObject {
                id,
                size: 50,
                range,
            };
            (None, vec![object])
        }
        _ => {
            let size = 1_000;
            (Some(StreamSetObject { id, size, ranges }), Vec::new())
        }
    }
}

/// Ranges that touch as one.
fn joined(ranges: Vec<StreamRange>) -> Vec<StreamRange> {
    let mut joined: Vec<StreamRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if (last.stream, last.end) == (range.stream, range.start) => {
                last.end = range.end;
            }
            _ => joined.push(range),
        }
    }
    joined
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a number"))
}

#[tokio::test]
async fn both_stores_answer_the_same() {
    let server = PostgresServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    let seeds = match number("MILLRACE_META_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLRACE_META_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        println!("MILLRACE_META_SEED={seed}");
        let options = SqliteOptions {
            retired_retention: Duration::ZERO,
            ..SqliteOptions::default()
        };
        let path = folder.path().join(format!("{seed}.db"));
        let sqlite = SqliteMeta::open(&path, options, ManualClock::shared()).await;
        let options = PostgresOptions {
            connections_max: 2,
            retired_retention: Duration::ZERO,
            ..PostgresOptions::default()
        };
        let postgres = PostgresMeta::open(&server.database().await, options).await;
        let mut both = Both {
            sqlite: Arc::new(sqlite.expect("opens")),
            postgres: Arc::new(postgres.expect("opens")),
            random: SeededRandom::shared(seed),
            history: Vec::new(),
            epochs: Vec::new(),
            streams: Vec::new(),
            objects: Vec::new(),
            topics_made: 0,
        };
        for _ in 0..STEPS {
            both.step().await;
            if both.below(5) == 0 {
                both.look().await;
            }
        }
        both.look().await;
    }
}
