//! The brokers that take part, each with one listener for clients.

use std::{
    error::Error,
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use millrace_bench::{
    command_line::broker_program,
    kafka::{Version, format_data, java},
    machine::pause,
    process::{Background, Meter, free_port},
};
use rcgen::{CertificateParams, KeyPair};

pub(crate) const TOPIC: &str = "bench";
/// Rules of others, which the broker has to tell apart from those of the benchmark's client.
const RULES: usize = 10_000;
/// Partitions of the topic.
const PARTITIONS: usize = 4;
const HEAP: [&str; 2] = ["-Xms1G", "-Xmx1G"];
const TOOL_HEAP: [&str; 1] = ["-Xmx512M"];
const START_MAX: Duration = Duration::from_secs(120);
const START_LOOK: Duration = Duration::from_millis(100);
const PREPARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/security/Prepare.java");

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Software {
    Millrace,
    Kafka,
}

impl Software {
    pub(crate) const ALL: [Self; 2] = [Self::Millrace, Self::Kafka];

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Millrace => "millrace",
            Self::Kafka => "kafka",
        }
    }
}

/// How clients are let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variant {
    /// Unencrypted, without an authorizer.
    Plain,
    /// TLS 1.3, without an authorizer.
    Tls,
    /// Unencrypted, with an authorizer and [`RULES`] rules.
    Rules,
}

impl Variant {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Tls, Self::Rules];

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tls => "tls",
            Self::Rules => "rules_10000",
        }
    }
}

/// A broker that listens; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    process: Background,
    variant: Variant,
    folder: PathBuf,
    address: SocketAddr,
}

impl Broker {
    /// Starts a broker whose data is below `folder`, which is empty.
    pub(crate) fn start(
        software: Software,
        variant: Variant,
        folder: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        write_certificate(folder)?;
        let properties = folder.join("server.properties");
        let log = folder.join("broker.log");
        let process = match software {
            Software::Millrace => {
                fs::create_dir(folder.join("objects"))?;
                fs::write(&properties, millrace_properties(address, variant, folder))?;
                let mut broker = Command::new(broker_program()?);
                broker.args(["broker", "--config"]).arg(&properties);
                Background::start(&mut broker, "Millrace", &log, false)?
            }
            Software::Kafka => {
                let ports = [free_port()?, free_port()?];
                let text = kafka_properties(address, ports, variant, folder);
                fs::write(&properties, text)?;
                format_data(Version::V4, &properties, &folder.join("format.log"))?;
                let mut broker = java(Version::V4, &HEAP)?;
                broker.arg("kafka.Kafka").arg(&properties);
                Background::start(&mut broker, "Apache Kafka", &log, false)?
            }
        };
        let client = folder.join("client.properties");
        fs::write(client, client_properties(variant, address, folder))?;
        let mut broker = Self {
            process,
            variant,
            folder: folder.to_owned(),
            address,
        };
        broker.wait_until_it_listens()?;
        Ok(broker)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), Box<dyn Error>> {
        for _ in 0..START_MAX.as_millis() / START_LOOK.as_millis() {
            self.process.must_run()?;
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            pause(START_LOOK);
        }
        Err(format!("nobody listens at {} after {START_MAX:?}", self.address).into())
    }

    /// Creates the topic and, where the variant has any, the rules.
    pub(crate) fn prepare(&self) -> Result<(), Box<dyn Error>> {
        let rules = match self.variant {
            Variant::Rules => RULES,
            Variant::Plain | Variant::Tls => 0,
        };
        let mut prepare = java(Version::V3, &TOOL_HEAP)?;
        prepare.arg(PREPARE).arg(self.client_properties());
        prepare.args([TOPIC, &PARTITIONS.to_string(), &rules.to_string()]);
        let status = prepare.stdin(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("the topic and its rules: {status}").into());
        }
        Ok(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file that Kafka's tools read.
    pub(crate) fn client_properties(&self) -> PathBuf {
        self.folder.join("client.properties")
    }

    /// Measures the broker from now on.
    pub(crate) fn meter(&self) -> Result<Meter, Box<dyn Error>> {
        self.process.meter()
    }
}

/// A certificate of its own authority, in the two files that brokers and clients read.
fn write_certificate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let key = KeyPair::generate()?;
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names)?.self_signed(&key)?.pem();
    fs::write(folder.join("ca.pem"), &certificate)?;
    let both = format!("{}{certificate}", key.serialize_pem());
    Ok(fs::write(folder.join("server.pem"), both)?)
}

fn server_security(variant: Variant, folder: &Path) -> String {
    match variant {
        Variant::Plain => String::new(),
        Variant::Tls => format!(
            "ssl.keystore.type=PEM\nssl.keystore.location={}/server.pem\n",
            folder.display()
        ),
        // Whatever no rule is about stays allowed: the rules are about topics.
        Variant::Rules => "\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"
        .to_owned(),
    }
}

/// What the listener CLIENT stands for.
const fn protocol(variant: Variant) -> &'static str {
    match variant {
        Variant::Tls => "SSL",
        Variant::Plain | Variant::Rules => "PLAINTEXT",
    }
}

fn client_properties(variant: Variant, address: SocketAddr, folder: &Path) -> String {
    let mut text = format!(
        "bootstrap.servers={address}\nsecurity.protocol={}\n",
        protocol(variant)
    );
    if variant == Variant::Tls {
        let file = folder.join("ca.pem");
        text += &format!(
            "ssl.truststore.type=PEM\nssl.truststore.location={}\n",
            file.display()
        );
    }
    text
}

fn millrace_properties(address: SocketAddr, variant: Variant, folder: &Path) -> String {
    let (protocol, security) = (protocol(variant), server_security(variant, folder));
    let folder = folder.display();
    format!(
        "node.id=0
listeners=CLIENT://{address}
advertised.listeners=CLIENT://{address}
listener.security.protocol.map=CLIENT:{protocol}
admin.listener=none
data.dir={folder}/data
s3.wal.path=0@file://{folder}/wal?capacity=4294967296&iodepth=32
s3.data.buckets=0@file://{folder}/objects
auto.create.topics.enable=false
{security}"
    )
}

/// Kafka's own connections have listeners of their own: they are never encrypted.
fn kafka_properties(
    address: SocketAddr,
    [controller, internal]: [u16; 2],
    variant: Variant,
    folder: &Path,
) -> String {
    let (protocol, security) = (protocol(variant), server_security(variant, folder));
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENT://{address},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://{address},INTERNAL://127.0.0.1:{internal}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:{protocol}
log.dirs={}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
{security}",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_variant_is_about_differs() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let text = |variant| {
            let folder = Path::new("/w");
            let kafka = kafka_properties(address, [1, 2], variant, folder);
            [millrace_properties(address, variant, folder), kafka]
        };
        for plain in text(Variant::Plain) {
            assert!(plain.contains("CLIENT:PLAINTEXT\n") && !plain.contains("ssl."));
            assert!(!plain.contains("authorizer"));
        }
        for tls in text(Variant::Tls) {
            assert!(tls.contains("CLIENT:SSL\n") && tls.contains("/w/server.pem\n"));
        }
        for rules in text(Variant::Rules) {
            assert!(rules.contains("CLIENT:PLAINTEXT\n") && rules.contains("StandardAuthorizer"));
        }
    }
}
