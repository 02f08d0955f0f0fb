//! What each workload does, from its first record to its last.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use millrace_client::{Client, Consumer, TopicPartition, consumer::ConsumerMetrics};
use tokio::task::JoinHandle;

use crate::{
    consuming::{Goal, Offsets, Reader, Role, Start, consumers},
    ending::Reason,
    error::PerfError,
    options::{ConsumeOptions, Plan, Workload},
    phases::micros,
    producing::{self, Produced},
    run::Run,
    topic,
};

/// Readers that get nothing for so long, though something is missing, will not get it.
const DRAIN_IDLE_MAX: Duration = Duration::from_secs(5);
/// What was acknowledged late is waited for no longer than this: whoever started the run waits as well.
const DRAIN_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// What the clients did. Times are microseconds since the start of the run.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) produced: Vec<Produced>,
    pub(crate) consumed: Vec<ConsumerMetrics>,
    /// When the last acknowledgement came.
    pub(crate) produced_us: u64,
    /// When the last record was consumed.
    pub(crate) consumed_us: u64,
    pub(crate) catch_up_begins_us: u64,
}

/// The parts of a run that exist before it begins.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) partitions: Vec<TopicPartition>,
    /// Where the partitions ended before.
    pub(crate) ends: Offsets,
    /// Consumers that read from the beginning of the run, with their partitions.
    pub(crate) consumers: Vec<(Consumer, Vec<TopicPartition>)>,
}

impl Stage {
    /// Finds or creates the topic, and prepares consumers.
    pub(crate) async fn set(client: Client, plan: &Plan) -> Result<Self, PerfError> {
        let partitions = topic::partitions(&client, plan).await?;
        let ends = topic::end_offsets(&client, &partitions).await?;
        let ready = match (plan.workload, &plan.consume) {
            (Workload::Consume, Some(ConsumeOptions { consumers: count })) => {
                consumers(&client, &partitions, *count, &Start::Beginning)?
            }
            (Workload::EndToEnd | Workload::Mixed, Some(ConsumeOptions { consumers: count })) => {
                consumers(&client, &partitions, *count, &Start::At(ends.clone()))?
            }
            _ => Vec::new(),
        };
        Ok(Self {
            client,
            partitions,
            ends,
            consumers: ready,
        })
    }
}

/// Does the workload until the run ends.
pub(crate) async fn perform(run: &Arc<Run>, stage: &Stage) -> Result<Done, PerfError> {
    run.consumers.lock().clone_from(&stage.consumers);
    match run.plan.workload {
        Workload::Produce => produce(run, stage).await,
        Workload::Consume => consume(run, stage).await,
        Workload::EndToEnd | Workload::Mixed => end_to_end(run, stage).await,
        Workload::CatchUp => catch_up(run, stage).await,
    }
}

async fn produce(run: &Arc<Run>, stage: &Stage) -> Result<Done, PerfError> {
    let produced = finish_producers(run, start_producers(run, stage)?).await;
    Ok(Done {
        produced,
        produced_us: run.phases.now_us(),
        ..Done::default()
    })
}

async fn consume(run: &Arc<Run>, stage: &Stage) -> Result<Done, PerfError> {
    let options = &run.plan.run;
    let is_bounded = options.num_records.is_some() || options.duration.is_some();
    let begins = topic::beginning_offsets(&stage.client, &stage.partitions).await?;
    let goal = |partitions: &[TopicPartition]| {
        let ends = partitions.iter().filter_map(|partition| {
            let end = *stage.ends.get(partition)?;
            let is_empty = begins.get(partition).is_some_and(|begin| *begin >= end);
            (!is_empty).then(|| (partition.clone(), end))
        });
        if is_bounded {
            Goal::None
        } else {
            Goal::Offsets(ends.collect())
        }
    };
    let readers = start_readers(run, &stage.consumers, Role::Consume, goal);
    let ends_readers = async {
        run.ending.ended().await;
        run.readers_end.cancel();
        std::future::pending::<()>().await;
    };
    let consumed = tokio::select! {
        () = ends_readers => Vec::new(),
        consumed = finish_readers(readers) => consumed,
    };
    run.ending.end(Reason::Records);
    Ok(Done {
        consumed,
        consumed_us: run.progress.last_us(),
        ..Done::default()
    })
}

async fn end_to_end(run: &Arc<Run>, stage: &Stage) -> Result<Done, PerfError> {
    let mut readers = start_readers(run, &stage.consumers, Role::Consume, |_| Goal::None);
    if run.plan.workload == Workload::Mixed {
        let replay = consumers(
            &stage.client,
            &stage.partitions,
            stage.consumers.len(),
            &Start::Beginning,
        )?;
        readers.extend(start_readers(run, &replay, Role::Replay, |_| Goal::None));
    }
    let produced = finish_producers(run, start_producers(run, stage)?).await;
    let produced_us = run.phases.now_us();
    drain(run, &produced, produced_us + micros(DRAIN_MAX)).await;
    Ok(Done {
        produced,
        consumed: finish_readers(readers).await,
        produced_us,
        consumed_us: run.progress.last_us(),
        ..Done::default()
    })
}

async fn catch_up(run: &Arc<Run>, stage: &Stage) -> Result<Done, PerfError> {
    let producers = start_producers(run, stage)?;
    let backlog = run.plan.backlog.unwrap_or_default() + run.plan.run.warmup;
    tokio::select! {
        () = tokio::time::sleep(backlog) => {}
        () = run.ending.ended() => {}
    }
    let count = run
        .plan
        .consume
        .as_ref()
        .map_or(1, |consume| consume.consumers);
    let start = Start::At(stage.ends.clone());
    let consumers = consumers(&stage.client, &stage.partitions, count, &start)?;
    run.phases.begin_catch_up();
    let catch_up_begins_us = run.phases.now_us();
    run.progress.catch_up(consumers.len());
    let readers = start_readers(run, &consumers, Role::Consume, |partitions| {
        Goal::CaughtUp(partitions.iter().cloned().collect())
    });
    let produced = finish_producers(run, producers).await;
    let produced_us = run.phases.now_us();
    // Whether the readers catch up in time is what is measured.
    drain(run, &produced, run.deadline_us.unwrap_or(u64::MAX)).await;
    Ok(Done {
        produced,
        consumed: finish_readers(readers).await,
        produced_us,
        consumed_us: run.progress.last_us(),
        catch_up_begins_us,
    })
}

/// Reads back what a run has produced.
pub(crate) async fn read_back(run: &Arc<Run>, stage: &Stage) -> Result<(), PerfError> {
    let ends = topic::end_offsets(&stage.client, &stage.partitions).await?;
    let start = Start::At(stage.ends.clone());
    let consumers = consumers(&stage.client, &stage.partitions, 1, &start)?;
    let goal = |partitions: &[TopicPartition]| {
        let ends = partitions.iter().filter_map(|partition| {
            let end = *ends.get(partition)?;
            let is_empty = stage.ends.get(partition) == Some(&end);
            (!is_empty).then(|| (partition.clone(), end))
        });
        Goal::Offsets(ends.collect())
    };
    let readers = start_readers(run, &consumers, Role::Verify, goal);
    finish_readers(readers).await;
    Ok(())
}

fn start_producers(run: &Arc<Run>, stage: &Stage) -> Result<Vec<JoinHandle<Produced>>, PerfError> {
    let Some(options) = &run.plan.produce else {
        return Ok(Vec::new());
    };
    let start = |index| producing::start(run, &stage.client, options, index);
    let started: Result<Vec<_>, _> = (0..options.producers).map(start).collect();
    if started.is_err() {
        // Those that have started end with the run.
        run.ending.end(Reason::Failure);
    }
    started
}

/// Waits until all records are complete: the run has ended then at the latest.
async fn finish_producers(run: &Run, producers: Vec<JoinHandle<Produced>>) -> Vec<Produced> {
    let finished = join_all(producers).await;
    run.ending.end(Reason::Records);
    let mut produced = Vec::with_capacity(finished.len());
    for one in finished {
        match one {
            Ok(one) => produced.push(one),
            Err(error) => run.ending.fail(format!("a producer: {error}")),
        }
    }
    produced
}

fn start_readers(
    run: &Arc<Run>,
    consumers: &[(Consumer, Vec<TopicPartition>)],
    role: Role,
    goal: impl Fn(&[TopicPartition]) -> Goal,
) -> Vec<JoinHandle<ConsumerMetrics>> {
    let start = |(consumer, partitions): &(Consumer, Vec<TopicPartition>)| {
        let reader = Reader::new(run, consumer.clone(), goal(partitions), role);
        // Not supervised: the run awaits it.
        tokio::spawn(reader.read())
    };
    consumers.iter().map(start).collect()
}

async fn finish_readers(readers: Vec<JoinHandle<ConsumerMetrics>>) -> Vec<ConsumerMetrics> {
    join_all(readers)
        .await
        .into_iter()
        .filter_map(Result::ok)
        .collect()
}

/// Lets the readers read what was acknowledged, and ends them: at `until_us` at the latest, unless every
/// record has to be verified.
async fn drain(run: &Run, produced: &[Produced], until_us: u64) {
    let until_us = if run.verifier.is_some() {
        u64::MAX
    } else {
        until_us
    };
    let acknowledged: u64 = produced
        .iter()
        .map(|one| one.sent.numbers - one.sent.failed.len() as u64)
        .sum();
    let mut last = (run.progress.records(), run.phases.now_us());
    while last.0 < acknowledged && !run.readers_end.is_cancelled() && run.phases.now_us() < until_us
    {
        tokio::time::sleep(LOOK).await;
        let (records, now_us) = (run.progress.records(), run.phases.now_us());
        if records > last.0 {
            last = (records, now_us);
        } else if Duration::from_micros(now_us - last.1) > DRAIN_IDLE_MAX {
            let missing = acknowledged - records;
            run.ending
                .fail(format!("{missing} acknowledged records were not delivered"));
            break;
        }
    }
    run.readers_end.cancel();
}
