//! Consumer groups that read everything and commit. What a group has committed never goes back.
//!
//! Each group has one member, so that nobody else's commit explains an offset that went back. There are several groups, so that
//! their coordinators are on several brokers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    Admin, Client, Consumer, ConsumerConfig, TopicPartition,
    consumer::{CommittedOffset, ConsumerError, OffsetReset, RecordBatch},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime::Runtime, task::JoinHandle};

use super::history::{Failure, History};

/// Between two commits of a group.
const COMMIT_PAUSE: Duration = Duration::from_millis(250);
/// Between two looks at what a group has committed.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long a member waits for records before it looks whether it is to commit or to end.
const POLL: Duration = Duration::from_millis(50);
/// For so long a group may commit nothing, or have no coordinator that answers.
const COMMIT_WAIT: Duration = Duration::from_secs(60);
/// Faults that are described.
const EXAMPLES_MAX: usize = 20;

/// What groups were told.
#[derive(Debug, Default)]
struct Told {
    /// By group and partition: the highest offset that was acknowledged as committed or was seen.
    committed: BTreeMap<(u32, i32), i64>,
    commits: u64,
    /// How often a commit failed, by what the member was told.
    refused: BTreeMap<String, u64>,
    looks: u64,
    offsets_back: u64,
    examples: Vec<String>,
}

impl Told {
    fn commit(&mut self, group: u32, offsets: &BTreeMap<i32, i64>) {
        self.commits += 1;
        for (&partition, &offset) in offsets {
            let highest = self.committed.entry((group, partition)).or_default();
            *highest = (*highest).max(offset);
        }
    }

    /// `floor` is what was known before the coordinator was asked.
    fn look(&mut self, group: u32, floor: &BTreeMap<i32, i64>, found: &BTreeMap<i32, i64>) {
        self.looks += 1;
        for (&partition, &least) in floor {
            let now = found.get(&partition).copied().unwrap_or(0);
            if now < least {
                self.offsets_back += 1;
                if self.examples.len() < EXAMPLES_MAX {
                    self.examples.push(format!(
                        "group {group}, partition {partition}: {least} was committed, and now it is {now}"
                    ));
                }
            }
        }
        for (&partition, &offset) in found {
            let highest = self.committed.entry((group, partition)).or_default();
            *highest = (*highest).max(offset);
        }
    }

    fn of(&self, group: u32) -> BTreeMap<i32, i64> {
        let own = self.committed.iter().filter(|((of, _), _)| *of == group);
        own.map(|(&(_, partition), &offset)| (partition, offset))
            .collect()
    }
}

/// Groups at work.
#[derive(Debug)]
pub struct Groups {
    told: Arc<Mutex<Told>>,
    finishing: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Groups {
    /// Starts `count` groups that read `topic`, each with a member and somebody who looks. Errors that last go to `history`.
    pub fn start(
        runtime: &Runtime,
        count: u32,
        topic: &str,
        client: impl Fn(&str) -> Client,
        history: &Arc<History>,
    ) -> Self {
        let (told, finishing) = (Arc::<Mutex<Told>>::default(), Arc::<AtomicBool>::default());
        let mut tasks = Vec::new();
        for number in 0..count {
            let group = Group {
                number,
                name: format!("drill-group-{number}"),
                topic: topic.to_owned(),
                client: client(&format!("group-{number}")),
                told: Arc::clone(&told),
                history: Arc::clone(history),
                finishing: Arc::clone(&finishing),
            };
            let group = Arc::new(group);
            tasks.push(runtime.spawn(Arc::clone(&group).read()));
            tasks.push(runtime.spawn(group.look()));
        }
        Self {
            told,
            finishing,
            tasks,
        }
    }

    /// Ends them. How often a committed offset went back, and the figures.
    ///
    /// # Errors
    /// One of their tasks panicked.
    pub fn finish(self, runtime: &Runtime) -> Result<(u64, Value), String> {
        self.finishing.store(true, Ordering::Release);
        for task in self.tasks {
            let ended = runtime.block_on(task);
            ended.map_err(|error| format!("a group: {error}"))?;
        }
        let told = self.told.lock();
        let figures = json!({
            "commits": told.commits,
            "commits_refused": told.refused,
            "looks": told.looks,
            "examples": told.examples,
        });
        Ok((told.offsets_back, figures))
    }
}

struct Group {
    number: u32,
    name: String,
    topic: String,
    client: Client,
    told: Arc<Mutex<Told>>,
    history: Arc<History>,
    finishing: Arc<AtomicBool>,
}

impl Group {
    fn is_over(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    fn now(&self) -> Duration {
        self.client.config().clock.now()
    }

    fn fail(&self, what: &str, waited: Duration) {
        self.history.fail(Failure {
            what: format!("{}: {what}", self.name),
            at: self.now(),
            in_time: waited < COMMIT_WAIT,
        });
    }

    /// The member: reads, and commits what it has read.
    async fn read(self: Arc<Self>) {
        let mut config = ConsumerConfig::in_group(&self.name);
        config.auto_offset_reset = OffsetReset::Earliest;
        // Every commit is one that is noted.
        config.auto_commit_interval = Duration::from_secs(86_400);
        let consumer = Consumer::new(&self.client, config);
        if let Err(error) = consumer.subscribe(&[&self.topic]) {
            return self.fail(&error.to_string(), Duration::ZERO);
        }
        let mut read: BTreeMap<i32, i64> = BTreeMap::new();
        let (mut commit_at, mut committed_at) = (self.now(), self.now());
        while !self.is_over() {
            match tokio::time::timeout(POLL, consumer.next_batch()).await {
                Err(_) => {}
                Ok(Ok(batch)) => self.note(&mut read, &batch),
                Ok(Err(ConsumerError::Closed)) => break,
                Ok(Err(error)) => {
                    self.fail(&error.to_string(), Duration::ZERO);
                    tokio::time::sleep(POLL).await;
                }
            }
            if self.now() < commit_at || read.is_empty() {
                continue;
            }
            commit_at = self.now() + COMMIT_PAUSE;
            if self.commit(&consumer, &read).await {
                read.clear();
                committed_at = self.now();
            } else if self.now().saturating_sub(committed_at) > COMMIT_WAIT {
                self.fail("no commit succeeds", COMMIT_WAIT);
                committed_at = self.now();
            }
        }
        // Its last commits do not matter: what was acknowledged is noted.
        let _ = consumer.close().await;
    }

    /// A member that joined again may begin below what it has committed meanwhile. It commits nothing that is lower, so an
    /// offset that goes back is none of its own.
    fn note(&self, read: &mut BTreeMap<i32, i64>, batch: &RecordBatch) {
        let (partition, next) = (batch.topic_partition().partition, batch.next_offset());
        let told = self.told.lock();
        let committed = told.committed.get(&(self.number, partition)).copied();
        if next > committed.unwrap_or(0) {
            read.insert(partition, next);
        }
    }

    async fn commit(&self, consumer: &Consumer, read: &BTreeMap<i32, i64>) -> bool {
        let offset = |(&partition, &offset): (&i32, &i64)| {
            let name = TopicPartition::new(&self.topic, partition);
            (name, CommittedOffset::new(offset))
        };
        let offsets: HashMap<_, _> = read.iter().map(offset).collect();
        let committed = consumer.commit_offsets(&offsets).await;
        let mut told = self.told.lock();
        match &committed {
            Ok(()) => told.commit(self.number, read),
            Err(error) => *told.refused.entry(error.to_string()).or_default() += 1,
        }
        committed.is_ok()
    }

    /// Looks what is committed.
    async fn look(self: Arc<Self>) {
        let admin = Admin::new(&self.client);
        let mut answered_at = self.now();
        while !self.is_over() {
            tokio::time::sleep(LOOK_PAUSE).await;
            let floor = self.told.lock().of(self.number);
            match admin.group_offsets(&self.name).await {
                Ok(found) => {
                    answered_at = self.now();
                    let found = found
                        .iter()
                        .map(|(name, found)| (name.partition, found.offset));
                    self.told.lock().look(self.number, &floor, &found.collect());
                }
                Err(error) if self.now().saturating_sub(answered_at) > COMMIT_WAIT => {
                    self.fail(&format!("its offsets: {error}"), COMMIT_WAIT);
                    answered_at = self.now();
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_goes_back_is_found() {
        let mut told = Told::default();
        let at = |offset| BTreeMap::from([(3, offset)]);
        told.commit(1, &at(10));
        told.look(1, &told.of(1), &at(10));
        told.look(1, &told.of(1), &at(12));
        assert_eq!(told.offsets_back, 0);
        // Committed meanwhile, and not known when the coordinator was asked.
        let floor = told.of(1);
        told.commit(1, &at(20));
        told.look(1, &floor, &at(12));
        assert_eq!(told.offsets_back, 0);
        told.look(1, &told.of(1), &at(19));
        assert_eq!(told.offsets_back, 1);
        told.look(1, &told.of(1), &BTreeMap::new());
        assert_eq!(told.offsets_back, 2, "forgotten");
        told.look(2, &told.of(2), &BTreeMap::new());
        assert_eq!(told.offsets_back, 2, "another group");
    }
}
