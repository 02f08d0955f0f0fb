//! The clusters that are measured, with what is done to both kinds.

use std::{net::SocketAddr, time::Duration};

use millrace_bench::{
    cluster::{Brokers, Leaders, Plan, client_of, leaders_by},
    kafka_cluster::{Cluster, NODES},
};
use millrace_client::{Admin, Client, admin::NewTopic};
use millrace_testkit::PostgresServer;
use millrace_time::{SharedClock, SystemClock};
use tokio::runtime::Runtime;

use crate::arguments::Options;

/// All brokers are there by then.
const READY_WAIT: Duration = Duration::from_secs(60);
/// A topic with a thousand partitions is created by then.
const CREATE_WAIT: Duration = Duration::from_secs(120);
const CREATE_PAUSE: Duration = Duration::from_millis(500);
/// What a load writes in its time, and what is not uploaded yet.
const WAL_BYTES: u64 = 1 << 30;
const LINES: &str = "s3.block.cache.size=67108864\noffsets.topic.num.partitions=12\n\
                     auto.create.topics.enable=false\n";

/// What can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// So many brokers on one PostgreSQL, whose commits are durable, and a folder as their bucket.
    Millrace(u32),
    /// Three brokers of Apache Kafka; each partition is on all of them.
    Kafka,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Millrace(brokers) => format!("millrace_{brokers}"),
            Self::Kafka => format!("kafka_{NODES}"),
        }
    }
}

/// What runs. Its processes are killed when it is dropped.
pub(crate) struct Contender {
    pub(crate) clock: SharedClock,
    pub(crate) cluster: Running,
}

pub(crate) enum Running {
    Millrace {
        brokers: Brokers,
        server: PostgresServer,
        database: String,
    },
    Kafka(Cluster),
}

impl Contender {
    /// Starts it with its data in the work folder, which is empty.
    pub(crate) fn start(kind: Kind, options: &Options, runtime: &Runtime) -> Result<Self, String> {
        let clock = SystemClock::shared();
        let work = options.work.join(kind.name());
        let cluster = match kind {
            Kind::Kafka => {
                let cluster = Cluster::start(&work, None);
                Running::Kafka(cluster.map_err(|error| error.to_string())?)
            }
            Kind::Millrace(count) => {
                let server = PostgresServer::durable();
                let database = runtime.block_on(server.database());
                let plan = Plan {
                    program: options.program.clone(),
                    work,
                    brokers: count,
                    database: Some(database.clone()),
                    has_links: false,
                    wal_bytes: WAL_BYTES,
                    lines: LINES.to_owned(),
                };
                let mut brokers = Brokers::start(&plan, &clock)?;
                brokers.until_active(READY_WAIT)?;
                Running::Millrace {
                    brokers,
                    server,
                    database,
                }
            }
        };
        Ok(Self { clock, cluster })
    }

    /// Brokers by their ids, and where clients find them.
    pub(crate) fn brokers(&self) -> Vec<(u32, SocketAddr)> {
        match &self.cluster {
            Running::Kafka(cluster) => (1..).zip(cluster.addresses()).collect(),
            Running::Millrace { brokers, .. } => {
                let nodes = brokers.running().into_iter();
                nodes
                    .filter_map(|node| Some((node, brokers.address(node).ok()?)))
                    .collect()
            }
        }
    }

    /// A client of all brokers.
    pub(crate) fn client(&self, client_id: &str) -> Client {
        let addresses = self.brokers().into_iter().map(|(_, address)| address);
        client_of(addresses, client_id, &self.clock)
    }

    /// Creates a topic; Kafka's nodes may still have to find each other.
    pub(crate) fn create_topic(
        &self,
        runtime: &Runtime,
        (name, partitions): (&str, i32),
    ) -> Result<(), String> {
        let replicas = match self.cluster {
            Running::Kafka(_) => i16::try_from(NODES).unwrap_or(1),
            Running::Millrace { .. } => 1,
        };
        let topic = NewTopic::new(name)
            .partitions(partitions)
            .replication_factor(replicas);
        let admin = Admin::new(&self.client("creates"));
        let began = self.clock.now();
        runtime.block_on(async {
            loop {
                let created = admin.create_topics(std::slice::from_ref(&topic));
                let error = match created.await {
                    Ok(mut results) => match results.remove(name) {
                        Some(Err(error)) if error.code != EXISTS => error.to_string(),
                        _ => return Ok(()),
                    },
                    Err(error) => error.to_string(),
                };
                if self.clock.now().saturating_sub(began) > CREATE_WAIT {
                    return Err(format!("creating {name}: {error}"));
                }
                tokio::time::sleep(CREATE_PAUSE).await;
            }
        })
    }

    /// Who leads the partitions of a topic.
    pub(crate) fn leaders(&self, topic: &str) -> Result<Leaders, String> {
        let brokers = self.brokers();
        let (_, first) = brokers.first().ok_or("no broker runs")?;
        leaders_by(*first, topic)
    }

    /// `kill -9`
    pub(crate) fn kill(&mut self, node: u32) -> Result<(), String> {
        match &mut self.cluster {
            Running::Kafka(cluster) => cluster
                .kill(node as usize)
                .map_err(|error| error.to_string()),
            Running::Millrace { brokers, .. } => brokers.kill(node),
        }
    }

    /// Starts again what has ended by itself.
    pub(crate) fn tend(&mut self) -> Result<(), String> {
        match &mut self.cluster {
            Running::Kafka(_) => Ok(()),
            Running::Millrace { brokers, .. } => brokers.tend(),
        }
    }
}

const EXISTS: millrace_client::ErrorCode = millrace_client::ErrorCode::TOPIC_ALREADY_EXISTS;
