//! Apache Kafka as a cluster of three nodes in KRaft mode, one of which may be behind a proxy that
//! delays its clients.

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    broker::lasting_addresses,
    kafka::{Version, format_data, java},
    machine::pause,
    process::Background,
    producer::Connection,
};

const CLIENT_ID: &str = "bench";
const VERSION: Version = Version::V4;
/// How many nodes there are.
pub const NODES: usize = 3;
/// Addresses of a node: for clients, as it is advertised, for other nodes, of its controller.
const ADDRESSES: usize = 4;
/// Half of what Kafka's start script gives one: three share the machine.
const HEAP: [&str; 2] = ["-Xms512M", "-Xmx512M"];
/// Three JVMs need so long on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const START_POLL: Duration = Duration::from_millis(200);
/// A probe of a node that does not answer yet ends soon.
const PROBE: Duration = Duration::from_secs(2);

/// Its processes are killed, and its data removed, when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    /// Behind it is the last node.
    proxy: Option<Background>,
}

#[derive(Debug)]
struct Node {
    process: Option<Background>,
    ports: Ports,
    properties: PathBuf,
    log: PathBuf,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    /// Where clients are sent; the proxy's in front of a delayed node.
    advertised: u16,
    internal: u16,
    controller: u16,
}

impl Cluster {
    /// Starts a cluster whose data is below `folder`, which does not exist. `delay` is that of the
    /// last node's clients, in each direction; its replication is not delayed. The program that calls this
    /// must then be one that delays connections where its arguments say `run proxy`.
    ///
    /// # Errors
    /// There is no Java, or Kafka cannot be fetched or does not start.
    pub fn start(folder: &Path, delay: Option<Duration>) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(folder)?;
        let mut cluster = Self {
            folder: folder.to_owned(),
            nodes: Vec::new(),
            proxy: None,
        };
        let addresses = lasting_addresses(NODES * ADDRESSES)?;
        for (index, own) in addresses.as_chunks::<ADDRESSES>().0.iter().enumerate() {
            let [client, advertised, internal, controller] = own.map(|address| address.port());
            let is_delayed = delay.is_some() && index + 1 == NODES;
            let ports = Ports {
                client,
                advertised: if is_delayed { advertised } else { client },
                internal,
                controller,
            };
            cluster.nodes.push(Node {
                process: None,
                ports,
                properties: folder.join(format!("node-{}.properties", index + 1)),
                log: folder.join(format!("node-{}.log", index + 1)),
            });
        }
        if let (Some(delay), Some(last)) = (delay, cluster.nodes.last()) {
            let listen = local(last.ports.advertised).to_string();
            let mut proxy = Command::new(std::env::current_exe()?);
            proxy
                .args([
                    "run",
                    "proxy",
                    &listen,
                    &local(last.ports.client).to_string(),
                ])
                .arg(delay.as_millis().to_string());
            let log = folder.join("proxy.log");
            cluster.proxy = Some(Background::start(&mut proxy, "the proxy", &log, false)?);
        }
        let voters: Vec<String> = (1..)
            .zip(&cluster.nodes)
            .map(|(id, node)| format!("{id}@{}", local(node.ports.controller)))
            .collect();
        for (id, node) in (1..).zip(&mut cluster.nodes) {
            node.start(id, &voters.join(","), folder)?;
        }
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn wait_until_ready(&mut self) -> Result<(), Box<dyn Error>> {
        let looks = START_MAX.as_millis() / START_POLL.as_millis();
        for node in &mut self.nodes {
            let process = node.process.as_mut().ok_or("a node was not started")?;
            let mut left = looks;
            while Connection::connect(local(node.ports.client), CLIENT_ID, PROBE).is_err() {
                process.must_run()?;
                left = left
                    .checked_sub(1)
                    .ok_or("a node of Apache Kafka does not answer")?;
                pause(START_POLL);
            }
        }
        Ok(())
    }

    /// The nodes that are never delayed.
    #[must_use]
    pub fn address(&self) -> String {
        let nodes = self.nodes.iter().take(NODES - 1);
        let addresses: Vec<_> = nodes
            .map(|node| local(node.ports.client).to_string())
            .collect();
        addresses.join(",")
    }

    /// All nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let nodes = self.nodes.iter();
        nodes.map(|node| local(node.ports.advertised)).collect()
    }

    /// `kill -9` of a node; the first one is 1.
    ///
    /// # Errors
    /// There is no such node.
    pub fn kill(&mut self, id: usize) -> Result<(), Box<dyn Error>> {
        self.node(id)?.process = None;
        Ok(())
    }

    /// Starts a node that was killed, with its data, and waits until it serves clients.
    ///
    /// # Errors
    /// There is no such node, or it does not start.
    pub fn restart(&mut self, id: usize) -> Result<(), Box<dyn Error>> {
        self.node(id)?.execute()?;
        self.wait_until_ready()
    }

    fn node(&mut self, id: usize) -> Result<&mut Node, String> {
        let node = self.nodes.get_mut(id.wrapping_sub(1));
        node.ok_or_else(|| format!("there is no node {id}"))
    }

    /// User and system time of all nodes so far.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let time = |node: &Node| node.process.as_ref()?.cpu_time();
        let times: Option<Duration> = self.nodes.iter().map(time).sum();
        times.map_or(f64::NAN, |time| time.as_secs_f64())
    }
}

impl Node {
    /// Its first start.
    fn start(&mut self, id: usize, voters: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
        let data = folder.join(format!("node-{id}"));
        fs::write(
            &self.properties,
            properties_of(id, self.ports, voters, &data),
        )?;
        format_data(VERSION, &self.properties, &folder.join("format.log"))?;
        self.execute()
    }

    fn execute(&mut self) -> Result<(), Box<dyn Error>> {
        let mut broker = java(VERSION, &HEAP)?;
        broker.arg("kafka.Kafka").arg(&self.properties);
        let name = format!("Apache Kafka {}", VERSION.number());
        self.process = Some(Background::start(&mut broker, &name, &self.log, false)?);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Killed first: they would write into the folder.
        self.nodes.clear();
        self.proxy = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn properties_of(id: usize, ports: Ports, voters: &str, data: &Path) -> String {
    let Ports {
        client,
        advertised,
        internal,
        controller,
    } = ports;
    format!(
        "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{client},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised},INTERNAL://127.0.0.1:{internal}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
",
        data.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_go_through_the_proxy() {
        let ports = Ports {
            client: 1,
            advertised: 2,
            internal: 3,
            controller: 4,
        };
        let text = properties_of(3, ports, "1@a", Path::new("/w"));
        assert!(text.contains("\nlisteners=PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:3,"));
        assert!(
            text.contains(
                "\nadvertised.listeners=PLAINTEXT://127.0.0.1:2,INTERNAL://127.0.0.1:3\n"
            )
        );
    }
}
