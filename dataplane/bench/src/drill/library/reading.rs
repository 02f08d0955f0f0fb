//! A reading from the beginning with the client library.

use std::sync::Arc;

use millrace_client::{Consumer, ConsumerConfig, consumer::StartAt};

use super::{client, feed, on_this_thread};
use crate::drill::{
    audit::Audit,
    ledger::Promises,
    load::{START_WAIT_MAX, Stage},
};

/// Checks that the client library reads all that was promised, and nothing else, where everything
/// that was sent is acknowledged.
///
/// # Errors
/// What is missing, repeated or misplaced.
pub fn check(stage: &Arc<Stage>, promises: &Promises) -> Result<(), String> {
    let reading = async {
        let mut audits: Vec<_> = (0..stage.partitions).map(Audit::new).collect();
        for audit in &mut audits {
            audit.promise(promises)?;
        }
        let consumer = Consumer::new(&client(stage), ConsumerConfig::default());
        let all = (0..stage.partitions).map(|partition| (stage.topic.as_str(), partition));
        consumer
            .assign(all, StartAt::Beginning)
            .map_err(|error| error.to_string())?;
        let mut read = 0;
        while read < promises.records {
            let batch = tokio::time::timeout(START_WAIT_MAX, consumer.next_batch()).await;
            let missing = |_| format!("the library reads {read} of {} records", promises.records);
            let batch = batch.map_err(missing)?.map_err(|error| error.to_string())?;
            read += feed(&mut audits, batch, stage.seed)?;
        }
        audits.iter().try_for_each(|audit| {
            audit.at_end(promises)?;
            audit.nothing_invented(promises)
        })
    };
    on_this_thread(reading)
}
