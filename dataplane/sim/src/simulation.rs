//! One simulation, from its seed to its report.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_log::CONSUMER_OFFSETS_TOPIC;
use millrace_meta::NewTopic;
use millrace_model::{NodeId, TopicId, TopicName};
use millrace_objects::bucket::StoreBucket;
use millrace_testkit::{Crash, FaultyBucket};
use tokio::{
    select,
    task::JoinSet,
    time::{sleep, timeout},
};
use uuid::Uuid;

use crate::{
    broker::BrokerParts,
    clients::{Consumer, Group, Producer},
    database::Database,
    faults,
    machine::{Machine, Machines, Process},
    planted::Planted,
    seams::Seams,
    world::{OFFSETS_PARTITIONS, TOPIC, World},
};

/// How long after the last fault every partition must take writes again, and be read to its end.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// What came of a simulation.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What must never happen and did; empty where all is well.
    pub violations: Vec<String>,
    /// The hash of the trace.
    pub hash: u64,
    /// The trace.
    pub trace: Vec<String>,
    /// Batches that were acknowledged.
    pub acknowledgements: u64,
    /// Batches that consumers have read.
    pub reads: u64,
    /// Brokers that were fenced.
    pub fencings: u64,
    /// How often each transaction was committed.
    pub commits: BTreeMap<&'static str, u64>,
}

/// Runs the simulation of a seed, with a planted fault where there is one.
///
/// # Panics
/// The system refuses a folder for the fences, or a runtime.
#[must_use]
pub fn simulate(seed: u64, planted: Option<Planted>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(run(seed, planted))
}

/// In memory where the machine has such a folder.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder for the fences")
}

async fn run(seed: u64, planted: Option<Planted>) -> Report {
    let (seams, folder) = (Seams::new(seed, planted), folder());
    let world = build(&seams, folder.path());
    let balance_interval = match seams.random.below(2) {
        0 => Duration::ZERO,
        _ => Duration::from_secs(2),
    };
    let mut parts = JoinSet::new();
    for machine in &world.machines.all {
        let machine = Arc::clone(machine);
        parts.spawn(keep_running(machine, Arc::clone(&world), balance_interval));
    }
    sleep(seams.between_ms(0, 1_500)).await;
    create_topic(&world, (TOPIC, 1), world.partitions);
    create_topic(&world, (CONSUMER_OFFSETS_TOPIC, 2), OFFSETS_PARTITIONS);
    let within = (
        seams.between_ms(500, 7_000),
        seams.between_ms(8_000, 14_000),
    );
    let nodes: Vec<NodeId> = world.nodes().collect();
    let mut faults = JoinSet::new();
    for planned in faults::draw(&seams, &nodes, world.partitions, within) {
        faults.spawn(planned.run(Arc::clone(&world)));
    }
    let mut producers = JoinSet::new();
    for partition in 0..world.partitions {
        for id in 0..=i64::try_from(seams.random.below(2)).unwrap_or(0) {
            producers.spawn(Producer::new(Arc::clone(&world), id, partition).run());
        }
        parts.spawn(Consumer::new(Arc::clone(&world), partition).run());
    }
    for group in ["a", "b"] {
        producers.spawn(Group::new(Arc::clone(&world), group).run());
    }
    while faults.join_next().await.is_some() {}
    sleep(within.1.saturating_sub(world.now())).await;
    world.note(|| "calm".to_owned());
    world.calm_down();
    finish(&world, &mut producers).await;
    parts.abort_all();
    report(&world, seed)
}

fn build(seams: &Seams, folder: &std::path::Path) -> Arc<World> {
    let nodes = 2 + u32::try_from(seams.random.below(4)).unwrap_or(0);
    let partitions = 1 + u32::try_from(seams.random.below(4)).unwrap_or(0);
    let bucket = FaultyBucket::new(StoreBucket::memory(), seams.random.clone());
    let machines = (1..=nodes)
        .map(|node| Machine::new(NodeId(node), folder, bucket.clone(), seams))
        .collect();
    let machines = Machines::new(machines, seams.clone());
    seams
        .trace
        .note(|| format!("{nodes} nodes, {partitions} partitions"));
    let database = Database::new(seams.clone());
    World::new(seams.clone(), database, machines, partitions)
}

fn create_topic(world: &World, (name, id): (&str, u128), partitions: u32) {
    let topic = NewTopic {
        name: TopicName::new(name).expect("a legal name"),
        id: TopicId(Uuid::from_u128(id)),
        partitions,
        configs: BTreeMap::new(),
    };
    let created = world.database.create_topic(topic);
    created.expect("no topic of this name");
}

/// Starts the machine's broker again whenever it has ended.
async fn keep_running(machine: Arc<Machine>, world: Arc<World>, balance_interval: Duration) {
    let node = machine.node;
    loop {
        while machine.starts.is_cut() {
            sleep(Duration::from_millis(50)).await;
        }
        let process = Process::new(world.machines.next_process());
        machine.set_process(Some(Arc::clone(&process)));
        world.note(|| format!("node {node} starts"));
        let parts = BrokerParts {
            machine: Arc::clone(&machine),
            machines: Arc::clone(&world.machines),
            process: Arc::clone(&process),
            database: Arc::clone(&world.database),
            balance_interval,
        };
        let running = process.tasks.spawn_awaited(parts.run());
        select! {
            biased;
            () = process.ended.notified() => world.note(|| format!("node {node} is killed")),
            ended = running => {
                world.note(|| match &ended {
                    Ok(ended) => format!("node {node} ends: {ended}"),
                    Err(error) => format!("node {node} ends: {error}"),
                });
                if let Err(panic) = ended {
                    world.history.violated(format!("node {node}: {panic}"));
                }
            }
        }
        if let Some(failure) = process.tasks.failure() {
            world.history.violated(format!("node {node}: {failure}"));
        }
        process.end(Crash::Killed);
        machine.set_process(None);
        machine.set_serves(false, world.now());
        sleep(world.seams.between_ms(100, 1_500)).await;
    }
}

/// Waits until all partitions take writes again, and reads them.
async fn finish(world: &Arc<World>, producers: &mut JoinSet<()>) {
    let all = async {
        while let Some(ended) = producers.join_next().await {
            ended.expect("producers do not panic");
        }
    };
    if timeout(RECOVERY_MAX, all).await.is_err() {
        let leaders = world.database.look(|tables| tables.leaders());
        world.history.violated(format!(
            "not all partitions take writes {RECOVERY_MAX:?} after the last fault: {leaders:?}"
        ));
        return;
    }
    for partition in 0..world.partitions {
        let consumer = Consumer::new(Arc::clone(world), partition);
        match consumer.read_all(RECOVERY_MAX).await {
            Some(log) => world.history.finally(partition, &log),
            None => world.history.violated(format!(
                "partition {partition} cannot be read {RECOVERY_MAX:?} after the last fault"
            )),
        }
    }
}

fn report(world: &World, seed: u64) -> Report {
    world.check_fencings();
    let (acknowledgements, reads) = world.history.counts();
    world.note(|| format!("{acknowledgements} acknowledgements, {reads} reads"));
    let (trace, hash) = world.seams.trace.take();
    Report {
        seed,
        violations: world.history.violations(),
        hash,
        trace,
        acknowledgements,
        reads,
        fencings: world.database.fencings().len() as u64,
        commits: world.database.commits(),
    }
}
