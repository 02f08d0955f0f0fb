//! Consumers, uploads, compactions, trims, failures and short bandwidth in any order, against a model.

use proptest::prelude::*;

use super::*;

/// What happens in the model.
#[derive(Debug, Clone)]
enum Event {
    /// Some consumers read at the same time.
    Read {
        first: usize,
        many: usize,
        max_bytes: u64,
    },
    Rewind {
        consumer: usize,
        to_percent: u64,
    },
    Upload {
        sizes: Vec<usize>,
        block_bytes: usize,
    },
    Compact {
        stream: u64,
        block_bytes: usize,
    },
    Trim {
        stream: u64,
    },
    Resize {
        bytes: u64,
    },
    Fail {
        permille: u64,
    },
    Wait,
}

/// Bytes per second of prefetches where bandwidth is short: some wait until nobody wants them.
const MODEL_PREFETCH_RATE: u64 = 500;

const MODEL_STREAMS: u64 = 3;
const MODEL_CONSUMERS: usize = 7;

fn any_event() -> impl Strategy<Value = Event> {
    let sizes = prop::collection::vec(prop_oneof![0..40_usize, 900..3_000_usize], 0..12);
    let block_bytes = 1..9_000_usize;
    let stream = 0..MODEL_STREAMS;
    prop_oneof![
        12 => (0..MODEL_CONSUMERS, 1..=MODEL_CONSUMERS, 0..20_000_u64)
            .prop_map(|(first, many, max_bytes)| Event::Read { first, many, max_bytes }),
        1 => (0..MODEL_CONSUMERS, 0..100_u64)
            .prop_map(|(consumer, to_percent)| Event::Rewind { consumer, to_percent }),
        4 => (sizes, block_bytes.clone())
            .prop_map(|(sizes, block_bytes)| Event::Upload { sizes, block_bytes }),
        1 => (stream.clone(), block_bytes)
            .prop_map(|(stream, block_bytes)| Event::Compact { stream, block_bytes }),
        1 => stream.prop_map(|stream| Event::Trim { stream }),
        1 => (0..60_000_u64).prop_map(|bytes| Event::Resize { bytes }),
        1 => (0..300_u64).prop_map(|permille| Event::Fail { permille }),
        1 => Just(Event::Wait),
    ]
}

/// One consumer's read in the model: what it gives is what was written there, or an error that has
/// a reason.
async fn model_read(
    world: &World,
    cache: &BlockCache,
    at: (StreamId, Offset),
    max: u64,
    failing: bool,
) -> Offset {
    let (stream, start) = at;
    let end = world.end(stream);
    if start >= end {
        return start;
    }
    match cache.read(stream, start, end, max as usize).await {
        Ok(read) => {
            world.check(stream, start, &read);
            read.last()
                .and_then(StreamEntry::end_offset)
                .expect("an end")
        }
        Err(ReadError::Missing { offset, .. }) => {
            assert!(offset < world.start(stream), "{offset} is there");
            world.start(stream).min(end)
        }
        Err(error) => {
            assert!(failing, "{error:?}");
            start
        }
    }
}

/// The model, and the cache beside it.
struct Model {
    world: World,
    cache: BlockCache,
    size: u64,
    at: Vec<(StreamId, Offset)>,
    failing: bool,
}

impl Model {
    fn new(prefetch: u64, is_starved: bool, eviction: Eviction) -> Self {
        let (world, size) = (World::new(), 30_000);
        let sources = match is_starved {
            true => world.with_prefetch_rate(MODEL_PREFETCH_RATE),
            false => world.storage.clone().into(),
        };
        let cache = world.cache_over(sources, size, prefetch, eviction);
        let at = (0..MODEL_CONSUMERS as u64).map(|nth| (StreamId(nth % MODEL_STREAMS), 0));
        Self {
            world,
            cache,
            size,
            at: at.collect(),
            failing: false,
        }
    }

    async fn fail(&mut self, permille: u64) {
        self.failing = permille > 0;
        let delay = Duration::from_millis(if self.failing { 5 } else { 0 });
        self.world.bucket.set(BucketFaults {
            fail_permille: permille,
            delay,
            ..BucketFaults::default()
        });
        // Loads that were under way have come, or failed: later reads do not share them.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn read(&mut self, chosen: std::ops::Range<usize>, max_bytes: u64) {
        let (world, cache, failing) = (&self.world, &self.cache, self.failing);
        let reads = self.at[chosen.clone()].iter();
        let reads = reads.map(|&at| model_read(world, cache, at, max_bytes, failing));
        let came_to = futures_util::future::join_all(reads).await;
        for (nth, offset) in chosen.zip(came_to) {
            self.at[nth].1 = offset;
        }
    }

    async fn happen(&mut self, event: Event) {
        match event {
            Event::Read {
                first,
                many,
                max_bytes,
            } => {
                let chosen = first..(first + many).min(MODEL_CONSUMERS);
                self.read(chosen, max_bytes).await;
            }
            Event::Rewind {
                consumer,
                to_percent,
            } => {
                let (stream, _) = self.at[consumer];
                let end = self.world.end(stream);
                let start = self.world.start(stream).min(end);
                self.at[consumer].1 = start + (end - start) * to_percent / 100;
            }
            Event::Upload { sizes, block_bytes } => {
                self.fail(0).await;
                let of = |stream: u64| sizes.iter().skip(stream as usize).copied().collect();
                let streams = (0..MODEL_STREAMS).map(|stream| (StreamId(stream), of(stream)));
                self.world.upload(streams.collect(), block_bytes).await;
            }
            Event::Compact {
                stream,
                block_bytes,
            } => {
                self.fail(0).await;
                self.world.compact(StreamId(stream), block_bytes).await;
            }
            Event::Trim { stream } => self.world.trim(StreamId(stream)).await,
            Event::Resize { bytes } => {
                self.size = bytes;
                self.cache.set_bytes(bytes);
                // What was on its way when the budget shrank has come.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Event::Fail { permille } => self.fail(permille).await,
            Event::Wait => {
                self.world.clock.advance(Duration::from_secs(20));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
        let metrics = self.cache.metrics();
        assert!(metrics.used_bytes <= self.size, "{metrics:?}");
        assert_eq!(metrics.bypass_bytes, 0, "nobody reads: {metrics:?}");
    }
}

async fn run_model(events: Vec<Event>, prefetch: u64, is_starved: bool, eviction: Eviction) {
    let mut model = Model::new(prefetch, is_starved, eviction);
    for event in events {
        model.happen(event).await;
    }
    model.fail(0).await;
    everybody_leaves(&model.world).await;
    let left = model.cache.metrics();
    assert_eq!(
        (left.readers, left.loads_in_flight, left.bypass_bytes),
        (0, 0, 0)
    );
    assert!(
        left.used_bytes <= model.size / 16,
        "only indexes stay: {left:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_read_is_what_was_written(
        events in prop::collection::vec(any_event(), 1..80),
        prefetch in prop_oneof![Just(0), Just(1 << 20)],
        is_starved in any::<bool>(),
        is_lru in any::<bool>(),
    ) {
        let eviction = if is_lru { Eviction::Lru } else { Eviction::Watch };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(run_model(events, prefetch, is_starved, eviction));
    }
}
