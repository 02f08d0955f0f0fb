//! A consumer at the end of every partition. What it has read must still be there at the end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    Client, Consumer, ConsumerConfig,
    consumer::{ConsumerError, StartAt},
};
use tokio::{runtime::Runtime, task::JoinHandle};

use super::{
    history::{Failure, History},
    reading::{Found, take},
};

const POLL: Duration = Duration::from_millis(100);

/// A consumer at work.
#[derive(Debug)]
pub struct Follower {
    finishing: Arc<AtomicBool>,
    task: JoinHandle<BTreeMap<i32, Vec<Found>>>,
}

impl Follower {
    /// Starts to read all partitions of `topic` from their beginning. Errors that reach it go to `history`.
    pub fn start(
        runtime: &Runtime,
        client: Client,
        topic: &str,
        seed: u64,
        history: &Arc<History>,
    ) -> Self {
        let finishing = Arc::new(AtomicBool::new(false));
        let (topic, history) = (topic.to_owned(), Arc::clone(history));
        let task = runtime.spawn(follow(client, topic, seed, history, Arc::clone(&finishing)));
        Self { finishing, task }
    }

    /// Ends it; what is wrong with what it read, compared with what is there now.
    ///
    /// # Errors
    /// It panicked.
    pub fn finish(
        self,
        runtime: &Runtime,
        found: &BTreeMap<i32, Vec<Found>>,
    ) -> Result<Vec<String>, String> {
        self.finishing.store(true, Ordering::Release);
        let read = runtime.block_on(self.task);
        let read = read.map_err(|error| format!("the consumer: {error}"))?;
        Ok(compare(&read, found))
    }
}

async fn follow(
    client: Client,
    topic: String,
    seed: u64,
    history: Arc<History>,
    finishing: Arc<AtomicBool>,
) -> BTreeMap<i32, Vec<Found>> {
    let clock = client.config().clock.clone();
    let fail = |what: String| {
        history.fail(Failure {
            what: format!("the consumer: {what}"),
            at: clock.now(),
            in_time: true,
        });
    };
    let consumer = Consumer::new(&client, ConsumerConfig::default());
    let all = (0..history.partitions()).map(|partition| (topic.as_str(), partition));
    let mut read: BTreeMap<i32, Vec<Found>> = BTreeMap::new();
    if let Err(error) = consumer.assign(all, StartAt::Beginning) {
        fail(error.to_string());
        return read;
    }
    while !finishing.load(Ordering::Acquire) {
        match tokio::time::timeout(POLL, consumer.next_batch()).await {
            Err(_) => {}
            Ok(Ok(batch)) => {
                let of_partition = read.entry(batch.topic_partition().partition).or_default();
                if let Err(error) = take(batch, of_partition, seed) {
                    fail(error);
                }
            }
            Ok(Err(ConsumerError::Closed)) => break,
            Ok(Err(error)) => {
                fail(error.to_string());
                tokio::time::sleep(POLL).await;
            }
        }
    }
    // What it has read counts, not how it ends.
    let _ = consumer.close().await;
    read
}

/// What was read must be the first part of what is there.
fn compare(read: &BTreeMap<i32, Vec<Found>>, found: &BTreeMap<i32, Vec<Found>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (partition, read) in read {
        let there = found.get(partition).map_or(&[][..], Vec::as_slice);
        let differs = read
            .iter()
            .enumerate()
            .find(|&(at, record)| there.get(at) != Some(record));
        if let Some((at, record)) = differs {
            faults.push(format!(
                "partition {partition}: a consumer read {record:?} as the record {at}; there is {:?}",
                there.get(at)
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_must_stay() {
        let records = |offsets: &[i64]| {
            let found = |&offset: &i64| Found {
                offset,
                place: None,
            };
            BTreeMap::from([(1, offsets.iter().map(found).collect::<Vec<_>>())])
        };
        let there = records(&[0, 1, 2]);
        assert!(compare(&records(&[0, 1]), &there).is_empty());
        assert!(compare(&BTreeMap::new(), &there).is_empty());
        assert_eq!(compare(&records(&[0, 2]), &there).len(), 1, "skipped");
        assert_eq!(compare(&records(&[0, 1, 1]), &there).len(), 1, "twice");
        assert_eq!(compare(&records(&[0, 1, 2, 3]), &there).len(), 1, "gone");
    }
}
