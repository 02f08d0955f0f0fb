//! An ordinary client beside the greedy ones: it produces, fetches, and commits for a group.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use millrace_bench::machine::pause;
use millrace_time::SharedClock;
use millrace_wire::{
    StrBytes,
    messages::{
        FetchRequest, GroupId, OffsetCommitRequest, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};

use crate::{
    frames::{acknowledged, produce},
    wire::Wire,
};

const RECORD_BYTES: usize = 1_000;
const FETCH_VERSION: i16 = 12;
const COMMIT_VERSION: i16 = 7;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(50);

/// What the ordinary client saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Rounds of produce, fetch and commit, all of which succeeded.
    pub(crate) rounds: usize,
    /// The longest that one took.
    pub(crate) longest: Duration,
}

/// Works until it is told to stop; the first error ends it.
pub(crate) fn run(
    address: SocketAddr,
    topic: &str,
    clock: &SharedClock,
    stop: &AtomicBool,
) -> io::Result<Seen> {
    let mut wire = Wire::connect(address)?;
    let request = produce(topic, RECORD_BYTES);
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let began = clock.now();
        acknowledged(wire.exchange(&[&request])?)?;
        fetch(&mut wire, topic)?;
        commit(&mut wire, topic, seen.rounds)?;
        seen.longest = seen.longest.max(clock.now() - began);
        seen.rounds += 1;
        pause(PAUSE);
    }
    Ok(seen)
}

fn fetch(wire: &mut Wire, topic: &str) -> io::Result<()> {
    let partition = FetchPartition::default().with_partition_max_bytes(RECORD_BYTES as i32);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![partition]);
    let fetch = FetchRequest::default()
        .with_max_bytes(RECORD_BYTES as i32)
        .with_max_wait_ms(1_000)
        .with_min_bytes(1)
        .with_topics(vec![topic]);
    let answer = wire.call(FETCH_VERSION, fetch)?;
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    check("fetch", partitions.map(|partition| partition.error_code))
}

fn commit(wire: &mut Wire, topic: &str, offset: usize) -> io::Result<()> {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset as i64);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("ordinary")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer = wire.call(COMMIT_VERSION, commit)?;
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    check("commit", partitions.map(|partition| partition.error_code))
}

fn check(what: &str, codes: impl Iterator<Item = i16>) -> io::Result<()> {
    let codes: Vec<i16> = codes.collect();
    match &codes[..] {
        [0] => Ok(()),
        _ => Err(io::Error::other(format!("{what} was refused: {codes:?}"))),
    }
}
