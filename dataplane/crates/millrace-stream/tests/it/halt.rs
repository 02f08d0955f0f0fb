//! A record that rots in the log halts its stream, and no other.

use crate::world::{World, append, read_all, small};
use millrace_meta::MetaStore;
use millrace_model::{Classified, FailureClass, Offset, StreamId, TopicName};
use millrace_stream::{AppendError, Closed, Entry, Stream, StreamStore};
use millrace_testkit::{BucketFaults, Crash};

const MIB: u64 = 1024 * 1024;

/// Records of each stream that only the log has, and the one of the first stream that rots. Six records
/// fill a block, so three blocks before that one are sound, and three behind it.
const RECORDS: u64 = 20;
const ROTTEN: Offset = 9;

/// Every record is a chunk of its own, of one block; the two streams take turns.
const ROTTEN_AT: u64 = 2 * ROTTEN * 4_096;

struct Rotten {
    world: World,
    topics: [TopicName; 2],
    ids: [StreamId; 2],
    written: [Vec<Entry>; 2],
}

impl Rotten {
    /// Two streams with records that are not uploaded when the power fails; then a byte rots.
    async fn new(seed: u64) -> Self {
        let world = World::new(seed, small(), 16 * MIB).await;
        world.bucket.set(BucketFaults {
            down: true,
            ..BucketFaults::default()
        });
        let (first_topic, first) = world.create_streams(1).await;
        let (second_topic, second) = world.create_streams(1).await;
        let ids = [first[0], second[0]];
        let store = world.open().await;
        let streams = store.open_streams(&ids).await.expect("open");
        let mut written = [Vec::new(), Vec::new()];
        for _ in 0..RECORDS {
            for (stream, written) in streams.iter().zip(&mut written) {
                let (entry, ticket) = append(stream, 1, 1, 3_000).await;
                ticket.await.expect("durable");
                written.push(entry);
            }
        }
        world.disk.crash(Crash::PowerLoss);
        let rotten = Self {
            world,
            topics: [first_topic, second_topic],
            ids,
            written,
        };
        rotten.flip();
        rotten
    }

    /// Lets the byte rot; the second time restores it.
    fn flip(&self) {
        // Behind the log's header.
        self.world.disk.flip(128 * 1024 + ROTTEN_AT + 1_000, 0x40);
    }

    async fn open(&self) -> (StreamStore, Stream, Stream) {
        let store = self.world.open().await;
        let mut streams = store.open_streams(&self.ids).await.expect("open");
        let second = streams.pop().expect("two");
        (store, streams.pop().expect("two"), second)
    }

    /// The end of what is in objects of the first stream.
    async fn uploaded(&self) -> Offset {
        let objects = self.world.meta.objects_of(self.ids[0], 0, 1_000).await;
        let objects = objects.expect("answers");
        objects.last().map_or(0, |last| last.range.end)
    }

    /// The first stream is halted, with what is in objects of it; whoever uses it is told why.
    async fn check_halted(&self, stream: &Stream) {
        let cause = stream.halted().expect("halted").clone();
        let place = format!("{}@{ROTTEN} at position {}", stream.id(), ROTTEN_AT + 64);
        assert_eq!(cause.class(), FailureClass::Corrupt);
        assert!(cause.to_string().contains(&place), "{cause}");
        let next = stream.next_offset();
        let (_, refused) = append(stream, 1, 1, 100).await;
        assert_eq!(refused.await, Err(AppendError::Halted(cause)));
        assert_eq!(stream.next_offset(), next);
        for offset in [0, ROTTEN, RECORDS - 1] {
            let read = stream.fetch(offset, RECORDS, 1).await;
            let class = read.map_err(|error| error.class());
            assert_eq!(class, Err(FailureClass::Corrupt), "{offset}");
        }
        assert_eq!(self.uploaded().await, ROTTEN);
    }
}

/// It ended the store, at every start, and with it all other streams.
#[tokio::test]
async fn a_payload_that_rots_in_the_log_halts_its_stream_and_is_not_trimmed() {
    let mut rotten = Rotten::new(12).await;
    let (store, first, second) = rotten.open().await;
    assert_eq!(store.metrics().recovery.kept, 2 * RECORDS);
    // Before it is to be uploaded, only who reads that record meets it.
    for entry in &rotten.written[0] {
        let found = first.fetch(entry.base_offset, entry.end_offset(), 1).await;
        if entry.base_offset == ROTTEN {
            let class = found.map_err(|error| error.class());
            assert_eq!(class, Err(FailureClass::Corrupt));
        } else {
            assert_eq!(found.as_deref(), Ok(std::slice::from_ref(entry)));
        }
    }
    rotten.world.bucket.set(BucketFaults::default());
    store.flush().await.expect("all others are uploaded");
    rotten.check_halted(&first).await;
    let (entry, ticket) = append(&second, 1, 1, 3_000).await;
    ticket.await.expect("others go on");
    rotten.written[1].push(entry);
    store.flush().await.expect("uploads");
    assert!(store.failure().is_none());
    drop((first, second, store));
    rotten.world.disk.crash(Crash::Killed);

    // The next start finds the same, however the last one ended.
    for _ in 0..2 {
        let (store, first, second) = rotten.open().await;
        assert_eq!(store.metrics().recovery.kept, RECORDS - ROTTEN);
        store.flush().await.expect("there is nothing else");
        rotten.check_halted(&first).await;
        assert_eq!(read_all(&second, 10_000).await, rotten.written[1]);
        let streams = vec![rotten.ids[0]];
        assert_eq!(store.close().await, Closed::Halted { streams });
    }

    rotten.flip();
    let (store, first, second) = rotten.open().await;
    assert_eq!(
        store.metrics().recovery.kept,
        RECORDS - ROTTEN,
        "nothing was trimmed"
    );
    let (entry, ticket) = append(&first, 1, 1, 3_000).await;
    ticket.await.expect("it goes on");
    rotten.written[0].push(entry);
    store.flush().await.expect("uploads");
    assert!(first.halted().is_none());
    assert_eq!(read_all(&first, 10_000).await, rotten.written[0]);
    assert_eq!(read_all(&second, 10_000).await, rotten.written[1]);
    assert_eq!(store.close().await, Closed::Uploaded);
}

#[tokio::test]
async fn the_log_is_trimmed_again_when_a_halted_stream_is_deleted() {
    let rotten = Rotten::new(13).await;
    let (store, first, _) = rotten.open().await;
    rotten.world.bucket.set(BucketFaults::default());
    store.flush().await.expect("uploads");
    assert!(first.halted().is_some());
    let topic = &rotten.topics[0];
    rotten.world.meta.delete_topic(topic).await.expect("known");
    store.discard_streams(&rotten.ids[..1]);
    assert_eq!(store.close().await, Closed::Uploaded);

    let store = rotten.world.open().await;
    let recovery = store.metrics().recovery;
    assert_eq!((recovery.kept, recovery.forgotten), (0, 0));
}
