//! The clients' work, done with the client library: producers, a member of a group that reads what
//! they write while the broker is killed, and a reading from the beginning after the last kill.

mod follower;
mod producer;
mod reading;

use std::{future::Future, time::Duration};

use millrace_client::{Client, ClientConfig, consumer::RecordBatch, transport::BrokerAddress};

pub use self::reading::check;
pub(super) use self::{follower::follow, producer::produce};

use super::{
    audit::Audit,
    load::{CLIENT_ID, RECONNECT_PAUSE, Stage},
    pattern,
};

/// Between two attempts to connect, at most: the broker is away for a moment, and often.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(20);
const GROUP: &str = "drill-library";

/// Runs one client on a thread of its own.
fn on_this_thread(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?
        .block_on(work)
}

fn client(stage: &Stage) -> Client {
    let broker = BrokerAddress::new(&stage.broker.ip().to_string(), stage.broker.port());
    let mut config = ClientConfig::with_addresses(vec![broker]);
    CLIENT_ID.clone_into(&mut config.client_id);
    config.reconnect_backoff = RECONNECT_PAUSE;
    config.reconnect_backoff_max = RECONNECT_PAUSE_MAX;
    config.retry_backoff = RECONNECT_PAUSE;
    config.retry_backoff_max = RECONNECT_PAUSE_MAX;
    Client::new(config)
}

/// Feeds a batch to the audit of its partition; returns how many records of it are new. Those that
/// were read before are left out, as a member of a group has to that gets a partition back.
fn feed(audits: &mut [Audit], mut batch: RecordBatch, seed: u64) -> Result<u64, String> {
    let partition = batch.topic_partition().partition;
    let audit = usize::try_from(partition)
        .ok()
        .and_then(|at| audits.get_mut(at));
    let audit = audit.ok_or_else(|| format!("there is no partition {partition}"))?;
    let mut count = 0;
    while let Some(record) = batch.next_ref() {
        let record = record.map_err(|error| error.to_string())?;
        if record.offset < audit.next() {
            continue;
        }
        let place = record.value.and_then(|value| pattern::read(seed, value));
        audit.record(record.offset, place)?;
        count += 1;
    }
    Ok(count)
}
