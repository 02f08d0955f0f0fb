//! Records for a broker whose log another one has taken over. It may not acknowledge them.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use millrace_bench::{cluster::leaders_by, producer::Connection};
use millrace_record::{BatchBuilder, Compression};

/// The topic that they are for: nobody else writes to it.
pub(crate) const TOPIC: &str = "drill-probes";
/// An answer comes by then, or never.
const PATIENCE: Duration = Duration::from_secs(10);
const CLIENT_ID: &str = "probe";

/// Connections to one broker, one for each partition that it leads.
pub(crate) struct Probes {
    connections: BTreeMap<i32, Connection>,
    is_sent: bool,
}

impl Probes {
    /// Connects to the broker `node`, which serves.
    pub(crate) fn connect(node: u32, address: SocketAddr) -> Result<Self, String> {
        let leaders = leaders_by(address, TOPIC)?;
        let led = leaders.iter().filter(|(_, leader)| **leader == Some(node));
        let connect = |(&partition, _)| {
            let connection = Connection::connect(address, CLIENT_ID, PATIENCE);
            let connection = connection.map_err(|error| format!("a probe: {error}"))?;
            Ok((partition, connection))
        };
        let connections = led.map(connect).collect::<Result<_, String>>()?;
        Ok(Self {
            connections,
            is_sent: false,
        })
    }

    /// Writes a record to each partition, the first time. A connection that the broker has closed takes none.
    pub(crate) fn send_once(&mut self) {
        if std::mem::replace(&mut self.is_sent, true) {
            return;
        }
        let mut batch = BatchBuilder::new(Compression::None);
        batch.push(0, None, Some(b"probe"), &[]);
        let batch = batch.build();
        self.connections.retain(|&partition, connection| {
            let sent = connection.send_produce(TOPIC, &[(partition, &batch)]);
            sent.is_ok()
        });
    }

    /// How many of them are acknowledged. That the broker closes the connection or refuses is as it should be.
    pub(crate) fn acknowledged(self) -> u64 {
        if !self.is_sent {
            return 0;
        }
        let is_acknowledged = |mut connection: Connection| {
            let answer = connection.await_produce();
            answer.is_ok_and(|answer| answer.partitions.iter().any(|one| one.error_code == 0))
        };
        let connections = self.connections.into_values();
        connections.map(|one| u64::from(is_acknowledged(one))).sum()
    }
}
