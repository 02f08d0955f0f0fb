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

use millrace_bench::{
    kafka::{Version, format_data, java},
    machine::pause,
    process::{Background, free_port},
    producer::Connection,
};

use crate::rounds::CLIENT_ID;

const VERSION: Version = Version::V4;
pub(crate) const NODES: usize = 3;
/// Half of what Kafka's start script gives one: three share the machine.
const HEAP: [&str; 2] = ["-Xms512M", "-Xmx512M"];
/// Three JVMs need so long on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const START_POLL: Duration = Duration::from_millis(200);
/// A probe of a node that does not answer yet ends soon.
const PROBE: Duration = Duration::from_secs(2);

/// Its processes are killed, and its data removed, when it is dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    /// Behind it is the last node.
    proxy: Option<Background>,
}

#[derive(Debug)]
struct Node {
    process: Option<Background>,
    ports: Ports,
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
    /// last node's clients, in each direction; its replication is not delayed.
    pub(crate) fn start(folder: &Path, delay: Option<Duration>) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(folder)?;
        let mut cluster = Self {
            folder: folder.to_owned(),
            nodes: Vec::new(),
            proxy: None,
        };
        for index in 0..NODES {
            let client = free_port()?;
            let is_delayed = delay.is_some() && index + 1 == NODES;
            let ports = Ports {
                client,
                advertised: if is_delayed { free_port()? } else { client },
                internal: free_port()?,
                controller: free_port()?,
            };
            cluster.nodes.push(Node {
                process: None,
                ports,
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
    pub(crate) fn address(&self) -> String {
        let nodes = self.nodes.iter().take(NODES - 1);
        let addresses: Vec<_> = nodes
            .map(|node| local(node.ports.client).to_string())
            .collect();
        addresses.join(",")
    }

    /// User and system time of all nodes so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let time = |node: &Node| node.process.as_ref()?.cpu_time();
        let times: Option<Duration> = self.nodes.iter().map(time).sum();
        times.map_or(f64::NAN, |time| time.as_secs_f64())
    }
}

impl Node {
    fn start(&mut self, id: usize, voters: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
        let data = folder.join(format!("node-{id}"));
        let properties = folder.join(format!("node-{id}.properties"));
        fs::write(&properties, properties_of(id, self.ports, voters, &data))?;
        format_data(VERSION, &properties, &folder.join("format.log"))?;
        let mut broker = java(VERSION, &HEAP)?;
        broker.arg("kafka.Kafka").arg(&properties);
        let log = folder.join(format!("node-{id}.log"));
        let name = format!("Apache Kafka {}", VERSION.number());
        self.process = Some(Background::start(&mut broker, &name, &log, false)?);
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
