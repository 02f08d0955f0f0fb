//! Fresh topics, and whether all that was sent to them is there.

use std::{error::Error, net::SocketAddr, time::Duration};

use millrace_bench::producer::Connection;

/// Longer than a broker on a busy machine takes for any answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How this program calls itself.
const CLIENT_ID: &str = "bench-write";

/// Whether a broker serves requests.
pub(crate) fn is_ready(broker: SocketAddr) -> bool {
    // A probe of a broker that hears but does not answer yet must end soon.
    const PROBE: Duration = Duration::from_secs(2);
    Connection::connect(broker, CLIENT_ID, PROBE).is_ok()
}

pub(crate) fn create(
    broker: SocketAddr,
    topic: &str,
    partitions: u32,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::connect(broker, CLIENT_ID, PATIENCE)?;
    connection.create_topic(topic, i32::try_from(partitions)?, PATIENCE)?;
    Ok(())
}

/// Fails where a topic does not hold as many records as were acknowledged.
pub(crate) fn must_hold(
    broker: SocketAddr,
    topic: &str,
    partitions: u32,
    records: u64,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::connect(broker, CLIENT_ID, PATIENCE)?;
    let mut held = 0;
    for partition in 0..i32::try_from(partitions)? {
        held += connection.end_offset(topic, partition)?;
    }
    if u64::try_from(held) == Ok(records) {
        Ok(())
    } else {
        Err(format!("{records} records were acknowledged, {topic} holds {held}").into())
    }
}
