//! Producers and consumers.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use millrace_model::{NodeId, Offset};
use millrace_record::{Batch, BatchBuilder, Compression, split};
use tokio::time::sleep;

use crate::{
    history::Sent,
    network::{Produced, Refusal},
    world::World,
};

/// Batches that a producer may have in flight: so many a broker remembers of it.
const IN_FLIGHT_MAX: usize = 4;

/// Batches that each producer has to get acknowledged after the last fault.
const BATCHES_AFTER: u32 = 3;

/// An idempotent producer of one partition. It sends what was not acknowledged again until it is.
pub(crate) struct Producer {
    world: Arc<World>,
    id: i64,
    partition: u32,
    /// Whom it takes for the leader.
    leader: NodeId,
    next: i32,
    unacknowledged: VecDeque<Sent>,
}

impl Producer {
    pub(crate) fn new(world: Arc<World>, id: i64, partition: u32) -> Self {
        let leader = any(&world);
        Self {
            world,
            id,
            partition,
            leader,
            next: 0,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Writes until the world is calm and a few more batches are acknowledged.
    pub(crate) async fn run(mut self) {
        let mut after = 0;
        while after < BATCHES_AFTER {
            self.fill();
            let is_calm = self.world.is_calm();
            let batches: Vec<(Sent, Batch)> = self
                .unacknowledged
                .iter()
                .map(|&sent| (sent, batch(sent)))
                .collect();
            let produced = self
                .world
                .produce(self.leader, self.partition, batches)
                .await;
            let acknowledged = self.take(produced).await;
            if is_calm {
                after += acknowledged;
            }
            sleep(self.world.seams.between_ms(30, 350)).await;
        }
    }

    fn fill(&mut self) {
        let random = &self.world.seams.random;
        let wanted = 1 + usize::try_from(random.below(IN_FLIGHT_MAX as u64)).unwrap_or(0);
        while self.unacknowledged.len() < wanted {
            let count = 1 + u32::try_from(random.below(3)).unwrap_or(0);
            self.unacknowledged.push_back(Sent {
                producer: self.id,
                sequence: self.next,
                count,
            });
            self.next += i32::try_from(count).unwrap_or(1);
        }
    }

    /// Takes an answer; gives how many batches were acknowledged.
    async fn take(&mut self, produced: Produced) -> u32 {
        let mut acknowledged = 0;
        for result in produced {
            match result {
                Ok(at) => {
                    let Some(sent) = self.unacknowledged.pop_front() else {
                        continue;
                    };
                    acknowledged += 1;
                    let (leader, partition) = (self.leader, self.partition);
                    self.world.note(|| {
                        format!("node {leader} acknowledged {sent:?} of {partition} at {at}")
                    });
                    self.world.history.acknowledged(partition, at, sent);
                }
                Err(refusal) => self.refused(refusal).await,
            }
        }
        acknowledged
    }

    async fn refused(&mut self, refusal: Refusal) {
        let (id, leader, partition) = (self.id, self.leader, self.partition);
        self.world
            .note(|| format!("producer {id} of {partition} at node {leader}: {refusal:?}"));
        if let Refusal::Sequence(what) = &refusal {
            let what = format!("node {leader}, partition {partition}: {what}");
            self.world.history.violated(what);
        }
        self.leader = next_leader(&self.world, &refusal);
        sleep(self.world.seams.between_ms(20, 100)).await;
    }
}

/// A consumer of one partition.
pub(crate) struct Consumer {
    world: Arc<World>,
    partition: u32,
    leader: NodeId,
    position: Offset,
}

impl Consumer {
    pub(crate) fn new(world: Arc<World>, partition: u32) -> Self {
        let leader = any(&world);
        Self {
            world,
            partition,
            leader,
            position: 0,
        }
    }

    /// Reads until the world is calm, now and then from the beginning.
    pub(crate) async fn run(mut self) {
        while !self.world.is_calm() {
            match self.step().await {
                Ok(batches) => {
                    for (at, sent) in batches {
                        self.world.history.read(self.partition, at, sent);
                    }
                }
                Err(refusal) => self.leader = next_leader(&self.world, &refusal),
            }
            if self.world.seams.random.below(60) == 0 {
                self.position = 0;
            }
            sleep(self.world.seams.between_ms(50, 400)).await;
        }
    }

    /// Reads the whole partition; `None` where that takes longer than `wait`.
    pub(crate) async fn read_all(mut self, wait: Duration) -> Option<Vec<(Offset, Sent)>> {
        let until = self.world.now() + wait;
        let mut all = Vec::new();
        while self.world.now() < until {
            match self.step().await {
                Ok(batches) if batches.is_empty() => return Some(all),
                Ok(batches) => all.extend(batches),
                Err(refusal) => {
                    self.leader = next_leader(&self.world, &refusal);
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        None
    }

    async fn step(&mut self) -> Result<Vec<(Offset, Sent)>, Refusal> {
        let from = self.position;
        let batches = self.world.fetch(self.leader, self.partition, from).await?;
        if let Some(&(at, sent)) = batches.last() {
            self.position = at + u64::from(sent.count);
        }
        Ok(batches)
    }
}

/// A consumer group that commits ever higher offsets and asks for them.
pub(crate) struct Group {
    world: Arc<World>,
    name: &'static str,
    /// Whom it takes for its coordinator.
    coordinator: NodeId,
    next: Offset,
    acknowledged: Offset,
}

impl Group {
    pub(crate) fn new(world: Arc<World>, name: &'static str) -> Self {
        let coordinator = any(&world);
        Self {
            world,
            name,
            coordinator,
            next: 1,
            acknowledged: 0,
        }
    }

    /// Commits and asks until the world is calm and a few more commits are acknowledged.
    pub(crate) async fn run(mut self) {
        let mut after = 0;
        while after < BATCHES_AFTER {
            let (name, is_calm) = (self.name, self.world.is_calm());
            let done = match self.world.seams.random.below(3) {
                0 => self.ask().await,
                _ => self
                    .commit()
                    .await
                    .inspect(|()| after += u32::from(is_calm)),
            };
            if let Err(refusal) = done {
                let at = self.coordinator;
                self.world
                    .note(|| format!("group {name} at node {at}: {refusal:?}"));
                self.coordinator = next_leader(&self.world, &refusal);
            }
            sleep(self.world.seams.between_ms(50, 400)).await;
        }
        // The last word must stand.
        while self.ask().await.is_err() {
            self.coordinator = any(&self.world);
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn commit(&mut self) -> Result<(), Refusal> {
        let (name, at, offset) = (self.name, self.coordinator, self.next);
        self.next += 1;
        self.world.commit(at, name.to_owned(), offset).await?;
        self.acknowledged = offset;
        self.world
            .note(|| format!("node {at} acknowledged {offset} of group {name}"));
        Ok(())
    }

    async fn ask(&mut self) -> Result<(), Refusal> {
        let (name, at, least) = (self.name, self.coordinator, self.acknowledged);
        let found = self.world.committed(at, name.to_owned(), least).await?;
        if found.is_some_and(|found| found >= self.next) {
            let what = format!("group {name} has {found:?}, which nobody committed");
            self.world.history.violated(what);
        }
        Ok(())
    }
}

fn next_leader(world: &World, refusal: &Refusal) -> NodeId {
    match refusal {
        Refusal::NotLeader(Some(leader)) if world.seams.random.below(4) > 0 => *leader,
        _ => any(world),
    }
}

fn any(world: &World) -> NodeId {
    let all = &world.machines.all;
    let index = world.seams.random.below(all.len() as u64);
    let index = usize::try_from(index).unwrap_or(0);
    all[index].node
}

/// The batch that is known by `sent`. Its contents follow from it.
fn batch(sent: Sent) -> Batch {
    let Sent {
        producer,
        sequence,
        count,
    } = sent;
    let mut builder = BatchBuilder::new(Compression::None).producer(producer, 0, sequence);
    for n in 0..count {
        let value = format!("{producer}/{sequence}/{n} ");
        let value = value.repeat(4 + usize::try_from(sequence).unwrap_or(0) % 40);
        builder.push(i64::from(sequence), None, Some(value.as_bytes()), &[]);
    }
    let mut batches = split(builder.build()).expect("a sound batch");
    batches.pop().expect("one batch")
}
