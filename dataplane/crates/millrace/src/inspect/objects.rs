//! All objects of a cluster: each by itself, and whether together they hold each stream once and
//! without a gap.

use std::collections::BTreeMap;

use millrace_model::{Classified, FailureClass, Offset, StreamId};
use millrace_objects::{BlockRef, Listed, ObjectReader, ObjectStorage, ReadError};
use millrace_time::{SystemClock, SystemRandom};
use serde_json::{Value, json};

use super::{InspectError, print};

/// Objects that are read at the same time: hides the store's latency, and few enough that a block of
/// each fits into memory.
const READS_IN_FLIGHT: usize = 8;

/// One object, read.
#[derive(Debug, Default)]
struct Contents {
    entries: u64,
    payload_bytes: u64,
    /// Of each stream: what of it is here.
    ranges: Vec<(StreamId, Offset, Offset)>,
}

/// All objects together.
#[derive(Debug, Default)]
struct Sum {
    objects: u64,
    unsound: u64,
    size_bytes: u64,
    entries: u64,
    payload_bytes: u64,
    ranges: BTreeMap<StreamId, Vec<(Offset, Offset)>>,
}

pub(super) async fn inspect(bucket: &str, cluster: &str, verify: bool) -> Result<(), InspectError> {
    let storage = ObjectStorage::open(bucket, SystemClock::shared(), SystemRandom::shared())?;
    let mut sum = Sum::default();
    for listed in storage.list_cluster(cluster).await?.chunks(READS_IN_FLIGHT) {
        let read = |listed: &Listed| {
            let (storage, listed) = (storage.clone(), listed.clone());
            // Not supervised: awaited.
            tokio::spawn(async move { contents(&storage, &listed, verify).await })
        };
        let reads: Vec<_> = listed.iter().map(read).collect();
        for (listed, read) in listed.iter().zip(reads) {
            let contents = read.await;
            let contents = contents.unwrap_or_else(|failed| {
                std::panic::resume_unwind(failed.into_panic());
            });
            sum.add(listed, contents);
        }
    }
    sum.print(verify);
    match sum.unsound {
        0 => Ok(()),
        unsound => Err(InspectError::Unsound(unsound)),
    }
}

/// What the objects hold of one stream, block by block, in the order of the objects' keys.
pub(super) async fn inspect_stream(
    bucket: &str,
    cluster: &str,
    stream: StreamId,
) -> Result<(), InspectError> {
    let storage = ObjectStorage::open(bucket, SystemClock::shared(), SystemRandom::shared())?;
    let (mut corrupt, mut objects, mut found) = (0, 0_u64, 0_u64);
    for listed in storage.list_cluster(cluster).await? {
        objects += 1;
        let key = listed.key.as_str();
        let reader = match ObjectReader::open(&storage, listed.key.clone(), listed.size).await {
            Ok(reader) => reader,
            // It may hold the stream or not.
            Err(error) if error.class() == FailureClass::Corrupt => {
                print(&json!({ "key": key, "corrupt": error.to_string() }));
                corrupt += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for block in reader.find(stream, 0, Offset::MAX) {
            let (mut line, is_sound) = checked(&storage, &reader, block).await?;
            line["key"] = key.into();
            print(&line);
            found += 1;
            corrupt += u64::from(!is_sound);
        }
    }
    print(&json!({
        "stream": stream.get(), "objects": objects, "blocks": found, "corrupt": corrupt,
    }));
    match corrupt {
        0 => Ok(()),
        corrupt => Err(InspectError::Corrupt(corrupt)),
    }
}

/// Reads and checks one block; what is to be printed of it, and whether it is sound.
pub(super) async fn checked(
    storage: &ObjectStorage,
    reader: &ObjectReader,
    block: &BlockRef,
) -> Result<(Value, bool), ReadError> {
    let mut line = json!({
        "stream": block.stream.get(),
        "start": block.start,
        "end": block.end,
        "position": block.position,
        "size_bytes": block.size,
    });
    match reader.read_block(storage, block).await {
        Ok(entries) => {
            let payload = entries.iter().map(|entry| entry.payload.len());
            line["entries"] = entries.len().into();
            line["payload_bytes"] = payload.sum::<usize>().into();
            Ok((line, true))
        }
        Err(error) if error.class() == FailureClass::Corrupt => {
            line["corrupt"] = error.to_string().into();
            Ok((line, false))
        }
        Err(error) => Err(error),
    }
}

async fn contents(
    storage: &ObjectStorage,
    listed: &Listed,
    verify: bool,
) -> Result<Contents, ReadError> {
    let reader = ObjectReader::open(storage, listed.key.clone(), listed.size).await?;
    let mut contents = Contents::default();
    for block in reader.blocks() {
        contents.entries += u64::from(block.entries);
        if verify {
            let entries = reader.read_block(storage, block).await?;
            let payload = entries.iter().map(|entry| entry.payload.len() as u64);
            contents.payload_bytes += payload.sum::<u64>();
        }
        match contents.ranges.last_mut() {
            Some((stream, _, end)) if *stream == block.stream && *end == block.start => {
                *end = block.end;
            }
            _ => contents.ranges.push((block.stream, block.start, block.end)),
        }
    }
    Ok(contents)
}

impl Sum {
    fn add(&mut self, listed: &Listed, contents: Result<Contents, ReadError>) {
        self.objects += 1;
        self.size_bytes += listed.size;
        let key = listed.key.as_str();
        let contents = match contents {
            Ok(contents) => contents,
            Err(error) => {
                self.unsound += 1;
                print(
                    &json!({ "key": key, "size_bytes": listed.size, "unsound": error.to_string() }),
                );
                return;
            }
        };
        let ranges: Vec<_> = contents
            .ranges
            .iter()
            .map(|(stream, start, end)| json!({ "stream": stream.get(), "start": start, "end": end }))
            .collect();
        print(&json!({
            "key": key,
            "size_bytes": listed.size,
            "entries": contents.entries,
            "ranges": ranges,
        }));
        self.entries += contents.entries;
        self.payload_bytes += contents.payload_bytes;
        for (stream, start, end) in contents.ranges {
            self.ranges.entry(stream).or_default().push((start, end));
        }
    }

    /// The last line: what all of them hold. A gap is what compaction or a trim left out, or a loss;
    /// an overlap is an upload that was restarted after a crash.
    fn print(&mut self, verified: bool) {
        let (mut gaps, mut overlaps) = (0, 0);
        let mut streams = Vec::new();
        for (stream, ranges) in &mut self.ranges {
            ranges.sort_unstable();
            let start = ranges.first().map_or(0, |range| range.0);
            let mut reached = start;
            for &(from, to) in ranges.iter() {
                gaps += u64::from(from > reached);
                overlaps += u64::from(from < reached);
                reached = reached.max(to);
            }
            streams.push(json!({ "stream": stream.get(), "start": start, "end": reached }));
        }
        print(&json!({
            "objects": self.objects,
            "unsound": self.unsound,
            "verified": verified,
            "size_bytes": self.size_bytes,
            "entries": self.entries,
            "payload_bytes": verified.then_some(self.payload_bytes),
            "gaps": gaps,
            "overlaps": overlaps,
            "streams": streams,
        }));
    }
}
