//! Random lives against a model: appends, uploads, trims, faults, crashes and restarts in any order.
//! After each restart everything that was acknowledged is there, in place, and nothing else than
//! what was appended.

use std::time::Duration;

use crate::world::{World, append, read_all, small};
use futures_util::FutureExt;
use millrace_model::{Offset, StreamId};
use millrace_stream::{AppendTicket, Entry, Stream, StreamConfig, StreamStore};
use millrace_testkit::{BucketFaults, Crash, property_cases, two_threads};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Append {
        stream: usize,
        count: u32,
        length: usize,
    },
    Settle,
    Flush,
    Trim {
        stream: usize,
        permille: u64,
    },
    Read {
        stream: usize,
        permille: u64,
        bytes: usize,
    },
    Faults {
        fail: u64,
        lose: u64,
        down: bool,
        delay_ms: u64,
    },
    Crash {
        power: bool,
    },
    Restart,
}

const STREAMS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..STREAMS, 1u32..5, prop_oneof![9 => 24usize..3_000, 1 => 10_000usize..30_000])
            .prop_map(|(stream, count, length)| Step::Append { stream, count, length }),
        3 => Just(Step::Settle),
        1 => Just(Step::Flush),
        1 => (0..STREAMS, 0u64..=1_000)
            .prop_map(|(stream, permille)| Step::Trim { stream, permille }),
        3 => (0..STREAMS, 0u64..1_000, 0usize..20_000)
            .prop_map(|(stream, permille, bytes)| Step::Read { stream, permille, bytes }),
        2 => (0u64..500, 0u64..300, any::<bool>(), 0u64..8)
            .prop_map(|(fail, lose, down, delay_ms)| Step::Faults { fail, lose, down, delay_ms }),
        1 => any::<bool>().prop_map(|power| Step::Crash { power }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// What one stream should have.
#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    /// Everything below was acknowledged.
    acknowledged: Offset,
    start: Offset,
    tickets: Vec<(Offset, AppendTicket)>,
}

impl Model {
    /// Entries that can be read when the stream ends at `end`.
    fn readable(&self, end: Offset) -> &[Entry] {
        let first = self
            .entries
            .partition_point(|entry| entry.end_offset() <= self.start);
        let last = self
            .entries
            .partition_point(|entry| entry.base_offset < end);
        &self.entries[first.min(last)..last]
    }

    /// The process is gone: what was answered until now counts, the rest is open.
    fn crash(&mut self) {
        for (end, ticket) in self.tickets.drain(..) {
            if let Some(Ok(())) = ticket.now_or_never() {
                self.acknowledged = self.acknowledged.max(end);
            }
        }
    }
}

struct Run {
    world: World,
    ids: Vec<StreamId>,
    models: Vec<Model>,
    store: Option<StreamStore>,
    streams: Vec<Stream>,
    life: u64,
    /// How slow the bucket is.
    delay: Duration,
}

impl Run {
    async fn new(seed: u64) -> Self {
        // In every other world memory is so short that payloads are left to the log.
        let config = StreamConfig {
            cache_bytes: if seed.is_multiple_of(2) {
                256 * 1024
            } else {
                80 * 1024
            },
            ..small()
        };
        let world = World::new(seed, config, 4 * 1024 * 1024).await;
        let (_, ids) = world.create_streams(STREAMS as u32 / 2).await;
        let models = (0..STREAMS).map(|_| Model::default()).collect();
        let (store, streams, delay) = (None, Vec::new(), Duration::ZERO);
        let mut run = Self {
            world,
            ids,
            models,
            store,
            streams,
            life: 0,
            delay,
        };
        run.open().await;
        run
    }

    async fn open(&mut self) {
        self.life += 1;
        let store = self.world.open().await;
        self.streams = store.open_streams(&self.ids).await.expect("open");
        self.store = Some(store);
        for (stream, model) in self.streams.iter().zip(&mut self.models) {
            let (next, confirmed) = (stream.next_offset(), stream.confirm_offset());
            assert_eq!(next, confirmed, "what is recovered is durable");
            assert!(
                next >= model.acknowledged,
                "{next} < {}",
                model.acknowledged
            );
            assert!(
                next == 0 || model.entries.iter().any(|entry| entry.end_offset() == next),
                "the end {next} is the end of an entry"
            );
            model.entries.retain(|entry| entry.end_offset() <= next);
            model.acknowledged = next;
            assert_eq!(stream.start_offset(), model.start);
        }
        // Everything is read from the bucket or from what was recovered, so it must answer.
        self.heal();
        self.check().await;
    }

    /// The bucket works, but may be slow: uploads are under way when the next crash comes.
    fn heal(&self) {
        self.world.bucket.set(BucketFaults {
            delay: self.delay,
            ..BucketFaults::default()
        });
    }

    async fn check(&self) {
        for (stream, model) in self.streams.iter().zip(&self.models) {
            let end = stream.confirm_offset();
            assert!(end >= model.acknowledged);
            assert_eq!(read_all(stream, 7_000).await, model.readable(end));
        }
    }

    async fn settle(&mut self) {
        for model in &mut self.models {
            for (end, ticket) in model.tickets.drain(..) {
                ticket.await.expect("durable");
                model.acknowledged = model.acknowledged.max(end);
            }
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Append {
                stream,
                count,
                length,
            } => {
                let (entry, ticket) = append(&self.streams[stream], count, self.life, length).await;
                self.models[stream]
                    .tickets
                    .push((entry.end_offset(), ticket));
                self.models[stream].entries.push(entry);
            }
            Step::Settle => self.settle().await,
            Step::Flush => {
                self.heal();
                self.store
                    .as_ref()
                    .expect("open")
                    .flush()
                    .await
                    .expect("uploads");
            }
            Step::Trim { stream, permille } => {
                let handle = &self.streams[stream];
                let (start, end) = (handle.start_offset(), handle.confirm_offset());
                let new_start = start + (end - start) * permille / 1_000;
                assert_eq!(handle.trim(new_start).await, Ok(new_start));
                self.models[stream].start = new_start;
            }
            Step::Read {
                stream,
                permille,
                bytes,
            } => {
                self.heal();
                self.read(stream, permille, bytes).await;
            }
            Step::Faults {
                fail,
                lose,
                down,
                delay_ms,
            } => {
                self.delay = Duration::from_millis(delay_ms);
                self.world.bucket.set(BucketFaults {
                    fail_permille: fail,
                    lose_reply_permille: lose,
                    down,
                    delay: self.delay,
                    ..BucketFaults::default()
                });
            }
            Step::Crash { power } => self.crash(power).await,
            Step::Restart => self.restart().await,
        }
    }

    async fn crash(&mut self, power: bool) {
        self.world.disk.crash(if power {
            Crash::PowerLoss
        } else {
            Crash::Killed
        });
        self.models.iter_mut().for_each(Model::crash);
        (self.store, self.streams) = (None, Vec::new());
        self.open().await;
    }

    async fn restart(&mut self) {
        self.settle().await;
        self.heal();
        self.store.take().expect("open").close().await;
        self.streams.clear();
        self.open().await;
    }

    async fn read(&self, stream: usize, permille: u64, bytes: usize) {
        let (handle, model) = (&self.streams[stream], &self.models[stream]);
        let (start, end) = (handle.start_offset(), handle.confirm_offset());
        let at = start + (end - start) * permille / 1_000;
        let found = handle.fetch(at, end, bytes).await.expect("readable");
        if at == end {
            assert!(found.is_empty());
            return;
        }
        assert!(found[0].base_offset <= at && at < found[0].end_offset());
        let from = model
            .entries
            .iter()
            .position(|e| *e == found[0])
            .expect("appended");
        assert_eq!(model.entries[from..from + found.len()], found);
        let total: usize = found.iter().map(|entry| entry.payload.len()).sum();
        assert!(found.len() == 1 || total <= bytes, "{total} > {bytes}");
    }
}

/// Cases of an ordinary run.
const CASES: u32 = 32;

fn live(steps: Vec<Step>, seed: u64) {
    let runtime = two_threads();
    runtime.block_on(async {
        let mut run = Run::new(seed).await;
        for step in steps {
            run.step(step).await;
        }
        run.step(Step::Crash { power: true }).await;
        run.step(Step::Restart).await;
    });
}

proptest! {
    #![proptest_config(property_cases(CASES))]

    #[test]
    fn acknowledged_entries_survive_whatever_happens(steps in steps(), seed: u64) {
        live(steps, seed);
    }
}

/// Each of two blocks ended with an entry larger than what it had until then. Their uploads together
/// left one byte too few for the last entry, and nothing that could be left to the log.
#[test]
fn an_entry_gets_in_beside_two_uploads_to_a_bucket_that_is_down() {
    let down = Step::Faults {
        fail: 0,
        lose: 0,
        down: true,
        delay_ms: 0,
    };
    let lengths = [866, 27_041, 2_581, 13_051, 17_185, 18_125];
    let appends = lengths.map(|length| Step::Append {
        stream: 0,
        count: 1,
        length,
    });
    let steps = std::iter::once(down).chain(appends).collect();
    live(steps, 429_272_249_052_269_407);
}
