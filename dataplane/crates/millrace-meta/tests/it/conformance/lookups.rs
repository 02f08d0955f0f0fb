//! Lookups that are made at the same time.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use millrace_meta::{StreamSetObject, Upload};
use millrace_model::{Offset, StreamId, StreamRange};
use tokio::time::{Duration, timeout};

use super::{Store, opened, range, upload};

/// More than one query answers.
const LOOKUPS: u64 = 1_500;

/// The ranges of each stream, in their order.
type Pieces = BTreeMap<StreamId, Vec<StreamRange>>;

/// Uploads sets of some streams each, and every fifth time objects of one stream each.
async fn uploaded(store: &Store) -> Pieces {
    let (node_epoch, streams) = opened(store, 9).await;
    let mut pieces = Pieces::new();
    for nth in 0..40_usize {
        let chosen = streams.iter().enumerate();
        let chosen = chosen.filter(|(place, _)| (place + nth) % 3 != 0);
        let mut ranges = Vec::new();
        for (place, &stream) in chosen {
            let of_stream = pieces.entry(stream).or_default();
            let mut start = of_stream.last().map_or(0, |last| last.end);
            // Some have two ranges in one upload.
            for _ in 0..=nth % 2 {
                let next = range(stream, start, start + 1 + (place + nth) as u64 % 4);
                start = next.end;
                of_stream.push(next);
                ranges.push(next);
            }
        }
        // The store keeps them in order, however they come.
        ranges.rotate_left(nth % 5);
        let of_singles = upload(store, node_epoch, &ranges).await;
        let next = match nth % 5 {
            0 => of_singles,
            _ => Upload {
                stream_set: Some(StreamSetObject {
                    id: of_singles.stream_objects[0].id,
                    size: 500,
                    ranges,
                }),
                stream_objects: Vec::new(),
                node_epoch,
            },
        };
        store.commit_upload(next).await.expect("commits");
    }
    let trimmed = streams[4];
    store
        .trim_stream(trimmed, node_epoch, 20)
        .await
        .expect("trims");
    let left = pieces.get_mut(&trimmed).expect("was uploaded");
    left.retain(|piece| piece.end > 20);
    pieces
}

fn expected(pieces: &Pieces, (stream, from, limit): (StreamId, Offset, usize)) -> Vec<StreamRange> {
    let of_stream = pieces.get(&stream).into_iter().flatten();
    let behind = of_stream.filter(|piece| piece.end > from);
    behind.take(limit).copied().collect()
}

pub(super) async fn each_of_many_lookups_has_its_own_answer(store: Store) {
    let pieces = uploaded(&store).await;
    let known: Vec<StreamId> = pieces.keys().copied().collect();
    let lookups = (0..LOOKUPS).map(|nth| {
        let stream = match nth % 11 {
            10 => StreamId(1 << 40),
            place => known[place as usize % known.len()],
        };
        (stream, nth % 83, 1 + nth as usize % 9)
    });
    let found = lookups.clone().map(|(stream, from, limit)| {
        let store = &store;
        async move { store.objects_of(stream, from, limit).await.expect("found") }
    });
    // Those that are given up must not take the answers of others with them.
    let given_up = lookups.clone().step_by(7).map(|(stream, from, limit)| {
        let patience = Duration::from_micros(from * 20);
        timeout(patience, store.objects_of(stream, from, limit))
    });
    let (found, _) = tokio::join!(join_all(found), join_all(given_up));
    for (lookup, found) in lookups.zip(found) {
        let found: Vec<StreamRange> = found.into_iter().map(|found| found.range).collect();
        assert_eq!(found, expected(&pieces, lookup), "{lookup:?}");
    }
}
