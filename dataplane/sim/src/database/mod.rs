//! The simulated database: one set of tables, and a connection for each start of a broker. Requests take time, fail, lose their
//! replies, and hang while the database is down or the broker is cut off from it.

mod cluster;
mod compaction;
mod objects;
mod store;
mod tables;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_meta::{
    ClusterError, CreateTopicError, Move, NewTopic, Preferred, StoreFailure, Topic,
};
use millrace_model::NodeId;
use parking_lot::Mutex;
use tokio::time::sleep;

pub(crate) use self::tables::{LEASE_TTL, Tables};
use crate::{link::Link, seams::Seams};

/// How long a request takes before somebody gives up on a database that does not answer.
const SILENCE: Duration = Duration::from_secs(2);

/// One request in so many fails without reason, and as many lose their reply.
const ONE_FAILS_OF: u64 = 300;

/// Only an outage keeps a lease from being renewed: the checks rely on it.
const RENEWAL: &str = "renew lease";

/// The database of the cluster.
#[derive(Debug)]
pub(crate) struct Database {
    tables: Mutex<Tables>,
    fencings: Mutex<Vec<(NodeId, Duration)>>,
    /// How often each transaction was committed.
    commits: Mutex<BTreeMap<&'static str, u64>>,
    /// Cut while the database is down for all.
    pub(crate) uplink: Link,
    seams: Seams,
}

impl Database {
    pub(crate) fn new(seams: Seams) -> Arc<Self> {
        Arc::new(Self {
            fencings: Mutex::default(),
            commits: Mutex::default(),
            tables: Mutex::new(Tables::new(seams.planted)),
            uplink: Link::default(),
            seams,
        })
    }

    /// Who was fenced, and when.
    pub(crate) fn fencings(&self) -> Vec<(NodeId, Duration)> {
        self.fencings.lock().clone()
    }

    /// How often each transaction was committed.
    pub(crate) fn commits(&self) -> BTreeMap<&'static str, u64> {
        self.commits.lock().clone()
    }

    /// What somebody at a console would do, without delay.
    pub(crate) fn plan_moves(&self, moves: &[Move]) -> Result<(), ClusterError> {
        self.change(|tables| tables.plan_moves(moves, Preferred::Keep))
    }

    pub(crate) fn create_topic(&self, topic: NewTopic) -> Result<Topic, CreateTopicError> {
        self.change(|tables| tables.create_topic(topic))
    }

    /// Looks at the tables as no broker can: at once, whatever is cut.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.tables.lock())
    }

    fn change<T, E>(&self, change: impl FnOnce(&mut Tables) -> Result<T, E>) -> Result<T, E> {
        let mut tables = self.tables.lock();
        let mut draft = tables.clone();
        let changed = change(&mut draft)?;
        *tables = draft;
        Ok(changed)
    }
}

/// How one start of a broker reaches the database.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    database: Arc<Database>,
    node: NodeId,
    link: Link,
}

/// The database cannot be reached, or the reply was lost.
#[derive(Debug, thiserror::Error)]
#[error("the simulated database {0}")]
struct Unreachable(&'static str);

fn failed(what: &'static str) -> StoreFailure {
    StoreFailure::Database(Box::new(Unreachable(what)))
}

impl Connection {
    pub(crate) fn new(database: Arc<Database>, node: NodeId, link: Link) -> Self {
        Self {
            database,
            node,
            link,
        }
    }

    fn seams(&self) -> &Seams {
        &self.database.seams
    }

    fn is_cut(&self) -> bool {
        self.link.is_cut() || self.database.uplink.is_cut()
    }

    /// One way of a request.
    async fn travel(&self, what: &'static str) -> Result<(), StoreFailure> {
        let random = &self.seams().random;
        let spread = if random.below(20) == 0 { 60 } else { 4 };
        sleep(Duration::from_millis(1 + random.below(spread))).await;
        if self.is_cut() {
            sleep(SILENCE).await;
            return Err(failed("does not answer"));
        }
        if what != RENEWAL && random.below(ONE_FAILS_OF) == 0 {
            return Err(failed("fails"));
        }
        Ok(())
    }

    /// A statement that only reads.
    async fn read<T>(&self, read: impl FnOnce(&mut Tables) -> T) -> Result<T, StoreFailure> {
        self.travel("read").await?;
        let found = read(&mut self.database.tables.lock());
        self.travel("read").await?;
        Ok(found)
    }

    /// A transaction: takes effect whole or not at all, and its reply may be lost.
    async fn commit<T, E>(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Tables, Duration) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<StoreFailure> + std::fmt::Display,
    {
        self.travel(what).await?;
        let now = self.seams().clock.now();
        let changed = self.database.change(|tables| change(tables, now));
        let node = self.node;
        match &changed {
            Ok(_) => {
                *self.database.commits.lock().entry(what).or_default() += 1;
                self.seams().trace.note(|| format!("db {node} {what}"));
            }
            Err(error) => {
                let trace = &self.seams().trace;
                trace.note(|| format!("db {node} {what} refused: {error}"));
            }
        }
        let changed = changed?;
        self.travel(what).await?;
        Ok(changed)
    }
}
