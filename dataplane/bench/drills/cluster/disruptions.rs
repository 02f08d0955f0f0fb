//! What is done to the cluster, one thing after the other, and how long clients wait for it.

use std::time::Duration;

use fastrand::Rng;
use millrace_testkit::PostgresServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{arguments::Arguments, brokers::Brokers, clients::Clients};

/// What a broker acknowledged before it died has arrived by then.
const IN_FLIGHT: Duration = Duration::from_millis(50);
/// After a disruption, everything is served by then.
const SERVED_WAIT: Duration = Duration::from_secs(90);
/// Between two disruptions: longer than a judge must have held its lease.
const REST: Duration = Duration::from_secs(7);
/// A broker that stands still so long is replaced: three times a lease.
const STAND_STILL: Duration = Duration::from_secs(9);
const POLL: Duration = Duration::from_millis(50);

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disruption {
    Kill,
    DoubleKill,
    Stop,
    Drain,
    DatabaseRestart,
}

impl Disruption {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::DoubleKill => "kill -9 of two",
            Self::Stop => "SIGSTOP",
            Self::Drain => "SIGTERM",
            Self::DatabaseRestart => "restart of the database",
        }
    }
}

/// All that were asked for, in an order that the seed decides.
pub(crate) fn planned(arguments: &Arguments, random: &mut Rng) -> Vec<Disruption> {
    let counts = [
        (Disruption::Kill, arguments.kills),
        (Disruption::DoubleKill, arguments.double_kills),
        (Disruption::Stop, arguments.stops),
        (Disruption::Drain, arguments.drains),
        (Disruption::DatabaseRestart, arguments.database_restarts),
    ];
    let mut planned: Vec<Disruption> = counts
        .into_iter()
        .flat_map(|(disruption, count)| vec![disruption; count])
        .collect();
    random.shuffle(&mut planned);
    planned
}

/// The cluster and its clients.
pub(crate) struct Scene<'a> {
    pub(crate) brokers: &'a mut Brokers,
    pub(crate) clients: &'a Clients,
    pub(crate) server: &'a PostgresServer,
    pub(crate) random: &'a mut Rng,
}

impl Scene<'_> {
    /// Does it, waits until all partitions are served again, and tells how long each had none that acknowledged.
    pub(crate) async fn run(&mut self, disruption: Disruption) -> Result<Value, String> {
        self.brokers.must_run()?;
        self.clients.gaps();
        let mut nodes = self.brokers.nodes();
        self.random.shuffle(&mut nodes);
        let hit = match disruption {
            Disruption::DoubleKill => nodes.into_iter().take(2).collect(),
            Disruption::DatabaseRestart => Vec::new(),
            _ => nodes.into_iter().take(1).collect::<Vec<_>>(),
        };
        for &node in &hit {
            match disruption {
                Disruption::Kill | Disruption::DoubleKill => self.brokers.kill(node)?,
                Disruption::Drain => self.brokers.drain(node)?,
                Disruption::Stop => self.stand_still(node).await?,
                Disruption::DatabaseRestart => {}
            }
        }
        if disruption == Disruption::DatabaseRestart {
            self.server.halt();
            self.server.resume();
        }
        // A broker that is back before anybody noticed goes on with its own log.
        let at_once = disruption == Disruption::Kill && self.random.u8(..4) == 0;
        if !at_once {
            self.all_served().await?;
        }
        let running = self.brokers.nodes();
        let gone = hit.iter().filter(|&node| !running.contains(node));
        let waited = (!at_once).then(|| gaps(self.clients));
        for &node in gone {
            self.brokers.start_node(node)?;
        }
        self.all_served().await?;
        let waited = waited.unwrap_or_else(|| gaps(self.clients));
        let what = match at_once {
            true => "kill -9, started again at once",
            false => disruption.name(),
        };
        println!("{what} {hit:?}: {waited}");
        sleep(REST).await;
        self.all_served().await?;
        Ok(json!({ "what": what, "gap": waited }))
    }

    /// A broker that wakes after it was replaced ends by itself.
    async fn stand_still(&mut self, node: u32) -> Result<(), String> {
        self.brokers.signal(node, Signal::STOP)?;
        sleep(STAND_STILL).await;
        self.brokers.signal(node, Signal::CONT)?;
        let ended = async {
            while !self.brokers.has_ended(node) {
                sleep(POLL).await;
            }
        };
        let ended = timeout(SERVED_WAIT, ended).await;
        ended.map_err(|_| format!("node {node} was replaced and goes on"))
    }

    /// The database is down for a while. Nobody may notice, and nobody be replaced when it is back.
    pub(crate) async fn outage(&mut self, time: Duration) -> Result<Value, String> {
        self.brokers.must_run()?;
        self.clients.gaps();
        self.server.halt();
        sleep(time).await;
        let waited = gaps(self.clients);
        self.server.resume();
        sleep(REST * 2).await;
        self.brokers.must_run()?;
        self.all_served().await?;
        println!("no database for {time:?}: {waited}");
        Ok(json!({ "seconds": time.as_secs(), "gap": waited }))
    }

    /// Waits until each partition has had an acknowledgement from now on.
    pub(crate) async fn all_served(&mut self) -> Result<(), String> {
        let since = self.clients.now() + IN_FLIGHT;
        let served = async {
            while !self.clients.all_since(since) {
                sleep(POLL).await;
            }
        };
        let served = timeout(SERVED_WAIT, served).await;
        served.map_err(|_| format!("not all partitions acknowledged again within {SERVED_WAIT:?}"))
    }
}

/// The longest time without an acknowledgement, over the partitions.
fn gaps(clients: &Clients) -> Value {
    let mut gaps = clients.gaps();
    gaps.sort_unstable();
    let at = |percent: usize| {
        let last = gaps.len().saturating_sub(1);
        let gap = gaps.get(last * percent / 100).copied().unwrap_or_default();
        u64::try_from(gap.as_millis()).unwrap_or(u64::MAX)
    };
    json!({ "p50_ms": at(50), "p99_ms": at(99), "max_ms": at(100) })
}
