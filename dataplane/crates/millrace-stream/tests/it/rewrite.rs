//! Rewrites against a model: entries that may go are dropped, all others are read back as they were, whatever is compacted, trimmed and
//! crashed meanwhile.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    ops::ControlFlow,
    pin::pin,
    task::Poll,
    time::Duration,
};

use crate::world::{World, append, small};
use bytes::Bytes;
use millrace_meta::{MetaStore, ObjectKind};
use millrace_model::{Cause, Classified, FailureClass, Offset, StreamId};
use millrace_objects::{ObjectKey, bucket::Bucket as _};
use millrace_stream::{
    Entry, EntryFilter, Outcome, RewriteError, Stream, StreamConfig, StreamStore,
};
use millrace_testkit::{BucketFaults, Crash};

const WAL_BYTES: u64 = 4 * 1024 * 1024;

/// Drops all entries but every `keeps`th by its offset, and makes others shorter.
struct Thinning {
    keeps: u64,
    refuses: bool,
}

impl Thinning {
    fn drops(&self, entry: &Entry) -> bool {
        !entry.base_offset.is_multiple_of(self.keeps)
    }
}

impl EntryFilter for Thinning {
    fn filter(&mut self, entry: &Entry, is_last: bool) -> Result<Outcome, Cause> {
        Ok(match self.drops(entry) {
            false => Outcome::Keep,
            true if is_last && entry.payload.is_empty() => Outcome::Keep,
            true if is_last => Outcome::Replace(Bytes::new()),
            true => Outcome::Drop,
        })
    }

    fn check(&mut self) -> Result<(), Cause> {
        match self.refuses {
            true => Err(Cause::of(FailureClass::Corrupt, "the test refuses")),
            false => Ok(()),
        }
    }
}

struct Run {
    world: World,
    ids: Vec<StreamId>,
    store: StreamStore,
    streams: Vec<Stream>,
    /// Of each stream what was appended.
    entries: Vec<Vec<Entry>>,
}

impl Run {
    async fn new() -> Self {
        let config = StreamConfig {
            upload_threshold_bytes: 1024 * 1024,
            upload_interval: Duration::from_secs(3_600),
            cache_bytes: 4 * 1024 * 1024,
            upload_pace_percent: None,
            ..small()
        };
        let world = World::in_memory(1, config, WAL_BYTES, Duration::from_millis(100)).await;
        let (_, ids) = world.create_streams(2).await;
        let store = world.open().await;
        let streams = store.open_streams(&ids).await.expect("opens");
        Self {
            entries: vec![Vec::new(); ids.len()],
            world,
            ids,
            store,
            streams,
        }
    }

    /// Three uploads of entries of all streams.
    async fn filled() -> Self {
        let mut run = Self::new().await;
        for _ in 0..3 {
            for stream in 0..run.streams.len() {
                for _ in 0..8 {
                    let (entry, ticket) = append(&run.streams[stream], 3, 1, 300).await;
                    ticket.await.expect("durable");
                    run.entries[stream].push(entry);
                }
            }
            run.store.flush().await.expect("uploads");
        }
        run
    }

    async fn reopen(&mut self) {
        self.world.disk.crash(Crash::Killed);
        self.streams.clear();
        self.store = self.world.open().await;
        self.streams = self.store.open_streams(&self.ids).await.expect("opens");
    }

    async fn kinds(&self, stream: usize) -> Vec<ObjectKind> {
        let ranges = self.world.meta.objects_of(self.ids[stream], 0, 1_000).await;
        ranges
            .expect("found")
            .iter()
            .map(|range| range.kind)
            .collect()
    }

    /// Checks that exactly what `thinned` drops is gone, or, where it was not completed, nothing but that.
    async fn check(&self, thinned: Option<(&Thinning, bool)>) {
        for (at, (stream, entries)) in self.streams.iter().zip(&self.entries).enumerate() {
            let found = read_all(stream).await;
            for one in &found {
                let is_known = { entries.iter() }.any(|entry| entry.base_offset == one.base_offset);
                assert!(is_known, "{} was never appended", one.base_offset);
            }
            for entry in entries
                .iter()
                .filter(|entry| entry.end_offset() > stream.start_offset())
            {
                let may_go = at == 0 && thinned.is_some_and(|(thinning, _)| thinning.drops(entry));
                match found
                    .iter()
                    .find(|found| found.base_offset == entry.base_offset)
                {
                    Some(found) if may_go && found.payload.is_empty() => {
                        assert_eq!(found.count, entry.count);
                    }
                    Some(found) => {
                        assert_eq!(found, entry);
                        let completed = thinned.is_some_and(|(_, completed)| completed);
                        assert!(!may_go || !completed, "{} stayed", entry.base_offset);
                    }
                    None => {
                        assert!(
                            may_go,
                            "{} of {} is missing",
                            entry.base_offset,
                            stream.id()
                        );
                    }
                }
            }
            self.check_ranges(stream).await;
        }
    }

    /// Every range ends with an entry.
    async fn check_ranges(&self, stream: &Stream) {
        let ranges = self.world.meta.objects_of(stream.id(), 0, 1_000).await;
        for range in ranges.expect("found") {
            let end = range.range.end;
            let found = stream.fetch(end - 1, end, 100_000).await.expect("readable");
            assert_eq!(found.first().map(Entry::end_offset), Some(end));
        }
    }

    /// Rewrites all of the first stream.
    async fn rewrite(&self, filter: &mut dyn EntryFilter) -> Result<u64, RewriteError> {
        rewrite(&self.streams[0], filter).await
    }
}

async fn rewrite(stream: &Stream, filter: &mut dyn EntryFilter) -> Result<u64, RewriteError> {
    let rewriter = stream.rewriter();
    let range = (stream.start_offset(), stream.committed_offset());
    let mut replaced = 0;
    for group in rewriter.groups(range, &BTreeSet::new()).await? {
        replaced += u64::from(rewriter.rewrite(&group, filter).await?.replaced);
    }
    Ok(replaced)
}

/// Reads from every offset on, gap or not, and gives what there is.
async fn read_all(stream: &Stream) -> Vec<Entry> {
    let (start, end) = (stream.start_offset(), stream.confirm_offset());
    let (mut at, mut all) = (start, Vec::<Entry>::new());
    while at < end {
        let found = stream.fetch(at, end, 2_000).await.expect("readable");
        let first = found.first().expect("an entry behind every offset");
        assert!(first.end_offset() > at);
        all.extend(found);
        at = all.last().map_or(end, Entry::end_offset);
    }
    for offset in start..end {
        let expected = all.iter().find(|entry| entry.end_offset() > offset);
        let found = stream.fetch(offset, end, 1).await.expect("readable");
        assert_eq!(found.first(), expected, "from {offset}");
    }
    all
}

#[tokio::test]
async fn entries_are_dropped_and_offsets_in_gaps_read_on() {
    let mut run = Run::filled().await;
    assert_eq!(run.kinds(0).await, [ObjectKind::StreamSet; 3]);
    let mut thinning = Thinning {
        keeps: 9,
        refuses: false,
    };
    assert_eq!(run.rewrite(&mut thinning).await.expect("rewrites"), 1);
    assert_eq!(run.kinds(0).await, [ObjectKind::Stream]);
    run.reopen().await;
    run.check(Some((&thinning, true))).await;
    let again = run.rewrite(&mut thinning).await.expect("rewrites");
    assert_eq!(again, 0, "nothing is left to drop");
    // A trim into a gap, and object compaction of what is left.
    run.streams[0].trim(20).await.expect("trims");
    run.store.compact_now().await.expect("compacts");
    run.reopen().await;
    run.check(Some((&thinning, true))).await;
}

#[tokio::test]
async fn a_scan_sees_all_entries_of_a_range() {
    let run = Run::filled().await;
    let mut seen = Vec::new();
    let mut visit = |entry: &Entry| {
        seen.push(entry.clone());
        Ok(ControlFlow::Continue(()))
    };
    let rewriter = run.streams[0].rewriter();
    rewriter.scan((7, 40), &mut visit).await.expect("reads");
    assert_eq!(seen, run.entries[0][2..14]);
}

#[tokio::test]
async fn what_the_filter_refuses_is_not_replaced() {
    let mut run = Run::filled().await;
    let mut thinning = Thinning {
        keeps: 9,
        refuses: true,
    };
    let refused = run.rewrite(&mut thinning).await.expect_err("refused");
    assert!(matches!(refused, RewriteError::Refused(_)));
    run.reopen().await;
    run.check(None).await;
}

#[tokio::test]
async fn a_group_that_changed_meanwhile_is_not_replaced() {
    let run = Run::filled().await;
    let rewriter = run.streams[0].rewriter();
    let end = run.streams[0].committed_offset();
    let groups = rewriter
        .groups((0, end), &BTreeSet::new())
        .await
        .expect("found");
    let mut thinning = Thinning {
        keeps: 9,
        refuses: false,
    };
    rewriter
        .rewrite(&groups[0], &mut thinning)
        .await
        .expect("rewrites");
    let late = rewriter.rewrite(&groups[0], &mut thinning).await;
    let error = late.expect_err("its inputs were replaced");
    assert_eq!(error.class(), FailureClass::Gone, "{error}");
    run.check(Some((&thinning, true))).await;
}

/// It passed for an object that was replaced meanwhile, over and over.
#[tokio::test]
async fn an_object_that_is_lost_is_told_from_one_that_was_replaced() {
    for splits_first in [false, true] {
        let run = Run::filled().await;
        let (stream, none) = (&run.streams[0], BTreeSet::new());
        let (rewriter, end) = (stream.rewriter(), stream.committed_offset());
        let mut groups = Vec::new();
        if splits_first {
            groups = rewriter.groups((0, end), &none).await.expect("found");
        }
        let objects = run.world.meta.objects_of(run.ids[0], 0, 1_000).await;
        let lost = objects.expect("found")[0].object;
        let key = ObjectKey::of("c", lost);
        run.world.bucket.delete(&[key]).await.expect("deletes");
        let is_told = |error: RewriteError| {
            assert_eq!(error.class(), FailureClass::Corrupt, "{error}");
            let stream = stream.id();
            matches!(error, RewriteError::Lost { object, stream: of } if object == lost && of == stream)
        };
        let mut visit = |_: &Entry| Ok(ControlFlow::Continue(()));
        let scanned = rewriter.scan((0, end), &mut visit).await;
        assert!(is_told(scanned.expect_err("it is lost")));
        let mut thinning = Thinning {
            keeps: 9,
            refuses: false,
        };
        let told = match groups.first() {
            Some(group) => rewriter.rewrite(group, &mut thinning).await.map(|_| ()),
            None => rewriter.groups((0, end), &none).await.map(|_| ()),
        };
        assert!(is_told(told.expect_err("it is lost")));
    }
}

/// Polls a rewrite so often, and kills the broker then.
async fn killed_after(polls: u32, run: &mut Run, thinning: &mut Thinning) -> bool {
    let stream = run.streams[0].clone();
    let mut done = false;
    {
        let mut left = polls;
        let mut rewriting = pin!(rewrite(&stream, thinning));
        poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            match rewriting.as_mut().poll(context) {
                Poll::Ready(rewritten) => {
                    rewritten.expect("rewrites");
                    done = true;
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }
    drop(stream);
    run.reopen().await;
    done
}

#[tokio::test]
async fn a_crash_at_any_step_leaves_the_inputs_or_the_outputs() {
    for polls in 1.. {
        let mut run = Run::filled().await;
        let mut thinning = Thinning {
            keeps: 9,
            refuses: false,
        };
        let done = killed_after(polls, &mut run, &mut thinning).await;
        run.check(Some((&thinning, done))).await;
        run.rewrite(&mut thinning).await.expect("rewrites");
        run.check(Some((&thinning, true))).await;
        if done {
            return;
        }
    }
}

#[tokio::test]
async fn object_compaction_at_the_same_time_loses_nothing() {
    for delay in 0..12 {
        let run = Run::filled().await;
        run.world.bucket.set(BucketFaults {
            delay: Duration::from_millis(2),
            ..BucketFaults::default()
        });
        let (store, stream) = (run.store.clone(), run.streams[0].clone());
        let compacting = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay * 2)).await;
            store.compact_now().await
        });
        let mut thinning = Thinning {
            keeps: 9,
            refuses: false,
        };
        loop {
            match rewrite(&stream, &mut thinning).await {
                Ok(_) => break,
                Err(error) => assert_eq!(error.class(), FailureClass::Gone, "{error}"),
            }
        }
        compacting.await.expect("runs").expect("compacts");
        run.world.bucket.set(BucketFaults::default());
        run.check(Some((&thinning, true))).await;
    }
}

#[tokio::test]
async fn a_trim_under_a_rewrite_is_respected() {
    for to in [1 as Offset, 30, 60, 72] {
        let run = Run::filled().await;
        let stream = run.streams[0].clone();
        let rewriter = stream.rewriter();
        let range = (0, stream.committed_offset());
        let groups = rewriter
            .groups(range, &BTreeSet::new())
            .await
            .expect("found");
        stream.trim(to).await.expect("trims");
        let mut thinning = Thinning {
            keeps: 9,
            refuses: false,
        };
        for group in &groups {
            match rewriter.rewrite(group, &mut thinning).await {
                Ok(_) => {}
                Err(error) => assert_eq!(error.class(), FailureClass::Gone, "{error}"),
            }
        }
        assert_eq!(stream.start_offset(), to);
        run.check(Some((&thinning, false))).await;
    }
}
