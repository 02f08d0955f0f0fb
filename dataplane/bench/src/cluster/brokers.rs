//! The brokers of one cluster, as processes.
//!
//! A broker whose log another one took over ends by itself, and a supervisor starts it again. Here that is [`Brokers::tend`],
//! which whoever waits for the cluster calls in a loop.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_client::{Client, ClientConfig, transport::BrokerAddress};
use millrace_time::SharedClock;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::link::Link;
use crate::{
    broker::{Home, Running, Settings, Stopped, lasting_addresses},
    machine::pause,
    process::last_lines,
    usage::cpu_time_of,
};

/// Before a broker that ended by itself is started again, as a supervisor waits.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// A broker that ends so often has no way back.
const RESTARTS_MAX: usize = 40;
/// Longer than a drain takes.
const DRAIN_WAIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
/// How long a request of the drill's clients may take: a broker that stands still is given up after it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster that is to be started.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The broker's program.
    pub program: PathBuf,
    /// Where everything of the cluster lies; it does not exist.
    pub work: PathBuf,
    /// How many brokers there are.
    pub brokers: u32,
    /// The database that they share; none is one broker with metadata of its own.
    pub database: Option<String>,
    /// Whether each broker reaches the database by a link that [`Brokers::cut`] cuts.
    pub has_links: bool,
    /// Capacity of each write-ahead log.
    pub wal_bytes: u64,
    /// Further lines of each configuration.
    pub lines: String,
}

/// A broker that ended by itself.
#[derive(Debug, Clone)]
pub struct Exit {
    /// Its node.
    pub node: u32,
    /// When that was seen.
    pub at: Duration,
    /// Whether it was to be expected: it had stood still for longer than its lease.
    pub is_expected: bool,
    /// Its status, and what it said last.
    pub text: String,
}

impl Exit {
    /// For a report.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "node": self.node,
            "at_seconds": self.at.as_secs_f64(),
            "expected": self.is_expected,
            "text": self.text,
        })
    }
}

/// The processes and their folders.
#[derive(Debug)]
pub struct Brokers {
    clock: SharedClock,
    work: PathBuf,
    nodes: BTreeMap<u32, Node>,
    exits: Vec<Exit>,
}

#[derive(Debug)]
struct Node {
    home: Home,
    link: Option<Link>,
    running: Option<Running>,
    /// It ended by itself, and is started again then.
    restart_at: Option<Duration>,
    restarts: usize,
    may_end: bool,
}

impl Brokers {
    /// Starts all and waits until each serves. Links need a runtime.
    ///
    /// # Errors
    /// The folder exists, or a broker does not start.
    pub fn start(plan: &Plan, clock: &SharedClock) -> Result<Self, String> {
        let work = &plan.work;
        let failed = |error| format!("{}: {error}", work.display());
        fs::create_dir_all(work).map_err(failed)?;
        let work = work.canonicalize().map_err(failed)?;
        let addresses = lasting_addresses(2 * plan.brokers as usize)?;
        let mut brokers = Self {
            clock: SharedClock::clone(clock),
            nodes: BTreeMap::new(),
            exits: Vec::new(),
            work,
        };
        for (node, pair) in (1..=plan.brokers).zip(addresses.as_chunks::<2>().0) {
            let folder = brokers.work.join(format!("node-{node}"));
            let (link, database) = link_of(plan)?;
            let settings = settings(plan, &brokers.work, (node, database));
            let home = Home::create_at(&plan.program, &folder, &settings, *pair)?;
            let running = home.start_and_wait()?;
            let node_of = Node {
                home,
                link,
                running: Some(running),
                restart_at: None,
                restarts: 0,
                may_end: false,
            };
            brokers.nodes.insert(node, node_of);
        }
        Ok(brokers)
    }

    /// Where everything lies.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The nodes whose process runs.
    #[must_use]
    pub fn running(&self) -> Vec<u32> {
        let running = self.nodes.iter().filter(|(_, node)| node.running.is_some());
        running.map(|(&node, _)| node).collect()
    }

    /// The nodes that were killed or drained and are not to start by themselves.
    #[must_use]
    pub fn gone(&self) -> Vec<u32> {
        let is_gone = |node: &Node| node.running.is_none() && node.restart_at.is_none();
        let gone = self.nodes.iter().filter(|(_, node)| is_gone(node));
        gone.map(|(&node, _)| node).collect()
    }

    /// Where clients find a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn address(&self, node: u32) -> Result<SocketAddr, String> {
        self.node(node).map(|node| node.home.address())
    }

    /// A node's folder and admin HTTP.
    ///
    /// # Errors
    /// There is no such node.
    pub fn home(&self, node: u32) -> Result<&Home, String> {
        self.node(node).map(|node| &node.home)
    }

    /// A client of all, with connections of its own.
    ///
    /// # Panics
    /// The thread has not entered a runtime.
    #[must_use]
    pub fn client(&self, client_id: &str) -> Client {
        let addresses = self.nodes.values().map(|node| node.home.address());
        client_of(addresses, client_id, &self.clock)
    }

    /// `kill -9`
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, node: u32) -> Result<(), String> {
        self.take(node)?.kill_9()
    }

    /// Starts one that was killed or drained. It need not serve when this returns.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn restart(&mut self, node: u32) -> Result<(), String> {
        let node = self.node_mut(node)?;
        node.running = Some(node.home.start()?);
        (node.restart_at, node.may_end) = (None, false);
        Ok(())
    }

    /// SIGTERM, and waits until it has given everything away and ended.
    ///
    /// # Errors
    /// It takes too long, or ends with an error.
    pub fn drain(&mut self, node: u32) -> Result<(), String> {
        let stopped = self.take(node)?.stop_or_kill(DRAIN_WAIT);
        match stopped.map_err(|error| format!("node {node}: {error}"))? {
            Stopped::InPeace => Ok(()),
            Stopped::Killed => Err(format!("node {node} did not drain within {DRAIN_WAIT:?}")),
        }
    }

    /// SIGSTOP. Once it goes on, it may end by itself.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&mut self, node: u32) -> Result<(), String> {
        self.node_mut(node)?.may_end = true;
        self.signal(node, Signal::STOP)
    }

    /// SIGCONT
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw(&self, node: u32) -> Result<(), String> {
        self.signal(node, Signal::CONT)
    }

    /// Nothing gets through between the node and its database. It may end by itself.
    ///
    /// # Errors
    /// It has no link.
    pub fn cut(&mut self, node: u32) -> Result<(), String> {
        self.node_mut(node)?.may_end = true;
        self.link(node)?.cut();
        Ok(())
    }

    /// Everything gets through again, also what was sent meanwhile.
    ///
    /// # Errors
    /// It has no link.
    pub fn restore(&self, node: u32) -> Result<(), String> {
        self.link(node)?.restore();
        Ok(())
    }

    /// A node that stood still goes on as before: from now on it may not end by itself.
    ///
    /// # Errors
    /// There is no such node.
    pub fn must_run(&mut self, node: u32) -> Result<(), String> {
        self.node_mut(node)?.may_end = false;
        Ok(())
    }

    /// Notes which brokers have ended by themselves, and starts them again.
    ///
    /// # Errors
    /// One ends again and again.
    pub fn tend(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        for (&number, node) in &mut self.nodes {
            if let Some(ended) = node.running.as_mut().and_then(Running::ended) {
                let text = format!("{ended}: {}", last_lines(&node.home.log()));
                println!("node {number}: {ended}");
                self.exits.push(Exit {
                    node: number,
                    at: now,
                    // One that waits for its log to be taken over may end a few times.
                    is_expected: node.may_end,
                    text,
                });
                node.running = None;
                node.restart_at = Some(now + RESTART_PAUSE);
                node.restarts += 1;
            }
            if node.restarts > RESTARTS_MAX {
                return Err(format!(
                    "node {number} ended {RESTARTS_MAX} times by itself"
                ));
            }
            if node.restart_at.is_some_and(|at| at <= now) {
                node.running = Some(node.home.start()?);
                node.restart_at = None;
            }
        }
        Ok(())
    }

    /// Those that ended by themselves, so far.
    #[must_use]
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// What a broker that answers says of the cluster.
    #[must_use]
    pub fn view(&self) -> Option<Value> {
        let running = self.nodes.values().filter(|node| node.running.is_some());
        running
            .filter_map(|node| serde_json::from_str(&node.home.get("/v1/cluster").ok()?).ok())
            .next()
    }

    /// A node's state as `node` tells it, such as `active`.
    #[must_use]
    pub fn state_by(&self, node: u32, of: u32) -> Option<String> {
        let text = self.node(node).ok()?.home.get("/v1/cluster").ok()?;
        let view: Value = serde_json::from_str(&text).ok()?;
        state_in(&view, of)
    }

    /// Whether every node is active, as one of them says. One broker with metadata of its own always is.
    #[must_use]
    pub fn are_active(&self) -> bool {
        let is_alone = self.nodes.len() == 1;
        let view = self.view();
        let is_active = |node: &u32| {
            let state = view.as_ref().and_then(|view| state_in(view, *node));
            state.as_deref() == Some("active")
        };
        is_alone || self.nodes.keys().all(is_active)
    }

    /// Waits until every node is active, and tends them meanwhile.
    ///
    /// # Errors
    /// That takes longer than `patience`.
    pub fn until_active(&mut self, patience: Duration) -> Result<(), String> {
        let began = self.clock.now();
        while !self.are_active() {
            self.tend()?;
            if self.clock.now().saturating_sub(began) > patience {
                let view = self.view();
                return Err(format!(
                    "not all brokers are active after {patience:?}: {view:?}"
                ));
            }
            pause(POLL);
        }
        Ok(())
    }

    /// User and system time of all that run.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let running = self.nodes.values().filter_map(|node| node.running.as_ref());
        running
            .filter_map(|running| cpu_time_of(&running.pid().to_string()))
            .sum()
    }

    /// Lines of the brokers' logs that tell of a panic.
    #[must_use]
    pub fn panics(&self) -> Vec<String> {
        let panics = |(number, node): (&u32, &Node)| {
            let log = fs::read_to_string(node.home.log()).unwrap_or_default();
            let lines = log.lines().filter(|line| line.contains("panicked"));
            lines
                .map(|line| format!("node {number}: {line}"))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(panics).collect()
    }

    fn signal(&self, node: u32, signal: Signal) -> Result<(), String> {
        let running = self.node(node)?.running.as_ref();
        running
            .ok_or_else(|| format!("node {node} does not run"))?
            .signal(signal)
    }

    fn link(&self, node: u32) -> Result<&Link, String> {
        let link = self.node(node)?.link.as_ref();
        link.ok_or_else(|| format!("node {node} has no link to its database"))
    }

    fn take(&mut self, node: u32) -> Result<Running, String> {
        let running = self.node_mut(node)?.running.take();
        running.ok_or_else(|| format!("node {node} does not run"))
    }

    fn node(&self, node: u32) -> Result<&Node, String> {
        let found = self.nodes.get(&node);
        found.ok_or_else(|| format!("there is no node {node}"))
    }

    fn node_mut(&mut self, node: u32) -> Result<&mut Node, String> {
        let found = self.nodes.get_mut(&node);
        found.ok_or_else(|| format!("there is no node {node}"))
    }
}

/// A client of the cluster that is found through `addresses`. It gives a broker that stands still up soon.
#[must_use]
pub fn client_of(
    addresses: impl IntoIterator<Item = SocketAddr>,
    client_id: &str,
    clock: &SharedClock,
) -> Client {
    let addresses = addresses
        .into_iter()
        .map(|address| BrokerAddress::new(&address.ip().to_string(), address.port()));
    let mut config = ClientConfig::with_addresses(addresses.collect());
    client_id.clone_into(&mut config.client_id);
    config.request_timeout = REQUEST_TIMEOUT;
    config.clock = SharedClock::clone(clock);
    Client::new(config)
}

fn state_in(view: &Value, node: u32) -> Option<String> {
    let brokers = view["brokers"].as_array()?;
    let broker = brokers.iter().find(|broker| broker["node_id"] == node)?;
    broker["state"].as_str().map(str::to_owned)
}

/// How a broker reaches the database: its link, where it has one, and the address for its configuration.
fn link_of(plan: &Plan) -> Result<(Option<Link>, Option<String>), String> {
    let Some(database) = plan.database.as_deref().filter(|_| plan.has_links) else {
        return Ok((None, plan.database.clone()));
    };
    let failed = |what: &dyn Display| format!("a link to {database}: {what}");
    let (user, place) = database.split_once('@').ok_or_else(|| failed(&"no user"))?;
    let (server, name) = place.split_once('/').ok_or_else(|| failed(&"no name"))?;
    let server = server.parse().map_err(|error| failed(&error))?;
    let link = Link::to(server).map_err(|error| failed(&error))?;
    let address = format!("{user}@{}/{name}", link.address());
    Ok((Some(link), Some(address)))
}

fn settings(plan: &Plan, work: &Path, (node, database): (u32, Option<String>)) -> Settings {
    let member =
        database.map(|database| format!("cluster.id=drill\nmetadata.database.url={database}\n"));
    Settings {
        wal_bytes: plan.wal_bytes,
        io_depth: 8,
        bucket: Some(format!("0@file://{}/objects", work.display())),
        lines: format!(
            "node.id={node}\n{}broker.rack=zone-{}\n{}",
            member.unwrap_or_default(),
            node % 3,
            plan.lines
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_of_a_cluster_name_a_database() {
        let mut plan = Plan {
            program: PathBuf::new(),
            work: PathBuf::new(),
            brokers: 3,
            database: Some("postgres://u@127.0.0.1:1/d".to_owned()),
            has_links: false,
            wal_bytes: 1,
            lines: "last=1\n".to_owned(),
        };
        let lines_of = |plan: &Plan, node| {
            let (_, database) = link_of(plan).expect("a good address");
            settings(plan, Path::new("/w"), (node, database)).lines
        };
        let lines = lines_of(&plan, 2);
        assert!(lines.contains("metadata.database.url=postgres://u@127.0.0.1:1/d\n"));
        assert!(lines.ends_with("broker.rack=zone-2\nlast=1\n"), "{lines}");
        plan.database = None;
        let lines = lines_of(&plan, 1);
        assert!(!lines.contains("metadata.database.url"), "{lines}");
    }

    #[test]
    fn a_state_is_found_by_its_node() {
        let view = json!({ "brokers": [{ "node_id": 1, "state": "left" }, { "node_id": 2, "state": "active" }] });
        assert_eq!(state_in(&view, 2).as_deref(), Some("active"));
        assert_eq!(state_in(&view, 3), None);
    }
}
