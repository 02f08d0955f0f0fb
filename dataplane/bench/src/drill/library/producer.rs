//! A producer of the client library: what it was told is durable goes into the ledger.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use millrace_client::{Producer, ProducerConfig, ProducerRecord, producer::Delivery};
use tokio::sync::mpsc;

use super::{client, on_this_thread};
use crate::drill::{
    load::{self, Stage},
    pattern::{self, Place},
};

/// Groups of records that wait for their acknowledgements; the library's own memory is the narrower
/// bound.
const WAITING_MAX: usize = 4_096;
/// Longer than all restarts together keep a record waiting.
const PATIENCE: Duration = Duration::from_mins(10);
/// Of one batch; smaller than the groups of records, so that these are spread over several.
const BATCH_BYTES: usize = 64 * 1024;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Records of one partition that were handed over one after the other.
struct Group {
    first: Place,
    record_bytes: usize,
    deliveries: Vec<Delivery>,
    /// The broker's start by then: only it or a later one can acknowledge them.
    incarnation: u64,
}

/// Produces until the stage finishes; `Err` where a record is given up.
pub(in crate::drill) fn produce(stage: &Arc<Stage>, number: u32) -> Result<(), String> {
    let work = async {
        let mut config = ProducerConfig::default();
        config.batch_size = BATCH_BYTES;
        config.delivery_timeout = PATIENCE;
        config.max_block = PATIENCE;
        let producer = Producer::new(&client(stage), config).map_err(|error| error.to_string())?;
        let (groups, waiting) = mpsc::channel(WAITING_MAX);
        let both = async {
            tokio::try_join!(
                send_all(stage, number, &producer, groups),
                settle_all(stage, waiting)
            )
        };
        tokio::select! {
            done = both => done.map(|_| ()),
            () = abandoned(stage) => Ok(()),
        }
    };
    on_this_thread(work)
}

async fn abandoned(stage: &Stage) {
    while !stage.abandoned.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn send_all(
    stage: &Stage,
    number: u32,
    producer: &Producer,
    groups: mpsc::Sender<Group>,
) -> Result<(), String> {
    let mut random = load::random_of(stage.seed, number);
    let mut next = vec![0; usize::try_from(stage.partitions).unwrap_or(0)];
    let mut due = stage.clock.now();
    while !stage.finishing.load(Ordering::Acquire) {
        let partition = random.i32(0..stage.partitions);
        let (count, record_bytes) = load::shape(&mut random);
        let sequence = &mut next[usize::try_from(partition).unwrap_or(0)];
        let first = Place {
            producer: number,
            partition,
            sequence: *sequence,
        };
        *sequence += u64::from(count);
        let incarnation = stage.incarnation.load(Ordering::Acquire);
        stage.ledger.change(|promises| promises.send(first, count));
        let mut deliveries = Vec::new();
        let mut value = Vec::new();
        for sequence in (first.sequence..).take(count as usize) {
            let place = Place { sequence, ..first };
            pattern::write(stage.seed, place, record_bytes, &mut value);
            let record = ProducerRecord::to(&stage.topic)
                .partition(partition)
                .value(&value);
            let delivery = producer.send(record).await;
            deliveries.push(delivery.map_err(|error| format!("producer {number}: {error}"))?);
        }
        let group = Group {
            first,
            record_bytes,
            deliveries,
            incarnation,
        };
        if groups.send(group).await.is_err() {
            // The other half says why.
            return Ok(());
        }
        due = stage.next_due(due, record_bytes as u64 * u64::from(count));
        tokio::time::sleep(due.saturating_sub(stage.clock.now())).await;
    }
    Ok(())
}

async fn settle_all(stage: &Stage, mut waiting: mpsc::Receiver<Group>) -> Result<(), String> {
    while let Some(group) = waiting.recv().await {
        settle(stage, group).await?;
    }
    Ok(())
}

/// Waits for the acknowledgements of a group, and notes each run of offsets.
async fn settle(stage: &Stage, group: Group) -> Result<(), String> {
    let mut run: Option<(Place, u32, i64)> = None;
    for (delivery, sequence) in group.deliveries.into_iter().zip(group.first.sequence..) {
        let place = Place {
            sequence,
            ..group.first
        };
        let told = delivery
            .await
            .map_err(|error| format!("{place:?}: {error}"))?;
        let offset = told.offset.ok_or_else(|| format!("{place:?}: no offset"))?;
        stage
            .acknowledging
            .fetch_max(group.incarnation, Ordering::AcqRel);
        run = match run {
            Some((first, count, base)) if base + i64::from(count) == offset => {
                Some((first, count + 1, base))
            }
            other => {
                note(stage, other, group.record_bytes);
                Some((place, 1, offset))
            }
        };
    }
    note(stage, run, group.record_bytes);
    Ok(())
}

fn note(stage: &Stage, run: Option<(Place, u32, i64)>, record_bytes: usize) {
    let Some((first, count, base_offset)) = run else {
        return;
    };
    let bytes = record_bytes * count as usize;
    let wall_ms = stage.clock.wall_ms();
    stage.ledger.change(|promises| {
        promises.acknowledge(first, count, bytes, Some(base_offset), wall_ms);
    });
}
