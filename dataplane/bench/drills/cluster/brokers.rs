//! The brokers of the cluster, as processes.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use millrace_bench::broker::{Home, Running, Settings, Stopped};
use millrace_client::{Client, ClientConfig, transport::BrokerAddress};
use rustix::process::{Pid, Signal, kill_process};

use crate::arguments::Arguments;

const WAL_BYTES: u64 = 128 << 20;
/// Longer than a drain of all partitions takes.
const STOP_WAIT: Duration = Duration::from_secs(90);

/// All of them; those that do not run are among the homes only.
pub(crate) struct Brokers {
    homes: BTreeMap<u32, Home>,
    running: BTreeMap<u32, Running>,
}

impl Brokers {
    /// Starts all.
    pub(crate) fn start(arguments: &Arguments, database: &str) -> Result<Self, String> {
        let work = &arguments.files.work;
        fs::create_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))?;
        let mut brokers = Self {
            homes: BTreeMap::new(),
            running: BTreeMap::new(),
        };
        for node in 1..=arguments.brokers {
            let home = create(arguments, database, node)?;
            brokers.homes.insert(node, home);
            brokers.start_node(node)?;
        }
        Ok(brokers)
    }

    /// The nodes that run.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        self.running.keys().copied().collect()
    }

    /// Starts one and waits until it serves.
    pub(crate) fn start_node(&mut self, node: u32) -> Result<(), String> {
        let home = self.home(node)?;
        let running = home.start_and_wait()?;
        self.running.insert(node, running);
        Ok(())
    }

    /// `kill -9`
    pub(crate) fn kill(&mut self, node: u32) -> Result<(), String> {
        let running = self.running.remove(&node);
        running
            .ok_or_else(|| format!("node {node} does not run"))?
            .kill_9()
    }

    /// SIGTERM, which drains it.
    pub(crate) fn drain(&mut self, node: u32) -> Result<(), String> {
        let running = self.running.remove(&node);
        let running = running.ok_or_else(|| format!("node {node} does not run"))?;
        match running.stop_or_kill(STOP_WAIT)? {
            Stopped::InPeace => Ok(()),
            Stopped::Killed => Err(format!("node {node} did not drain within {STOP_WAIT:?}")),
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, node: u32, signal: Signal) -> Result<(), String> {
        let running = self.running.get(&node);
        let running = running.ok_or_else(|| format!("node {node} does not run"))?;
        let pid = i32::try_from(running.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("the broker has no process id")?;
        kill_process(pid, signal).map_err(|error| format!("node {node}: {error}"))
    }

    /// Takes out a broker that has ended by itself; `false` where it still runs.
    pub(crate) fn has_ended(&mut self, node: u32) -> bool {
        let ended = self.running.get_mut(&node).and_then(Running::ended);
        if ended.is_some() {
            self.running.remove(&node);
        }
        ended.is_some()
    }

    /// Fails where one has ended that nobody asked to.
    pub(crate) fn must_run(&mut self) -> Result<(), String> {
        for (node, running) in &mut self.running {
            if let Some(ended) = running.ended() {
                return Err(format!("node {node}: {ended}"));
            }
        }
        Ok(())
    }

    /// A client of all.
    pub(crate) fn client(&self) -> Client {
        let bootstrap = self.homes.values().map(|home| {
            let address = home.address();
            BrokerAddress::new(&address.ip().to_string(), address.port())
        });
        Client::new(ClientConfig::with_addresses(bootstrap.collect()))
    }

    fn home(&self, node: u32) -> Result<&Home, String> {
        self.homes
            .get(&node)
            .ok_or_else(|| format!("there is no node {node}"))
    }
}

fn create(arguments: &Arguments, database: &str, node: u32) -> Result<Home, String> {
    let work = &arguments.files.work;
    let bucket = absolute(work)?;
    let settings = Settings {
        wal_bytes: WAL_BYTES,
        io_depth: 8,
        bucket: Some(format!("0@file://{bucket}/objects")),
        lines: format!(
            "node.id={node}\ncluster.id=drill\nbroker.rack=zone-{}\nmetadata.database.url={database}\n\
             s3.wal.cache.size=33554432\ns3.block.cache.size=33554432\ns3.wal.upload.interval.ms=2000\n\
             offsets.topic.num.partitions=12\n",
            node % 3
        ),
    };
    Home::create(
        &arguments.files.program,
        &work.join(format!("node-{node}")),
        &settings,
    )
}

fn absolute(path: &Path) -> Result<String, String> {
    let found = path.canonicalize();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(found.display().to_string())
}
