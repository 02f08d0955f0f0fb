//! What Kafka's performance tools do to a broker, and what it takes the broker.

use std::{error::Error, fs::File, process::Stdio};

use millrace_bench::{
    kafka::{Version, java},
    kafka_tools::{Consumed, Produced},
    process::{Used, last_lines},
};

use crate::brokers::{Broker, TOPIC};

/// What Kafka's start script gives its tools.
const HEAP: [&str; 1] = ["-Xmx512M"];
const RECORD_BYTES: u64 = 1_024;
/// Large enough that records, not requests, are what is paid for.
const BATCH_BYTES: u64 = 128 * 1_024;
const LINGER_MS: u64 = 5;
const GIB: f64 = (1_u64 << 30) as f64;

/// So much through one producer, then through one consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) bytes: u64,
}

/// What one run showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) produced_mib_per_s: f64,
    /// Includes the time to join the group, in which Kafka waits three seconds for other members.
    pub(crate) consumed_mib_per_s: f64,
    /// Excludes that time.
    pub(crate) fetched_mib_per_s: f64,
    /// The broker's CPU time.
    pub(crate) produce_cpu_s_per_gib: f64,
    pub(crate) consume_cpu_s_per_gib: f64,
}

impl Load {
    const fn records(self) -> u64 {
        self.bytes / RECORD_BYTES
    }

    pub(crate) fn run(self, broker: &Broker) -> Result<Figures, Box<dyn Error>> {
        let (produced, produce_used) = metered(broker, || self.produce(broker))?;
        let (consumed, consume_used) = metered(broker, || self.consume(broker))?;
        let per_gib = |used: Used| used.cpu_seconds * GIB / self.bytes as f64;
        Ok(Figures {
            produced_mib_per_s: produced.mib_per_s,
            consumed_mib_per_s: consumed.mib_per_s,
            fetched_mib_per_s: consumed.fetched_mib_per_s,
            produce_cpu_s_per_gib: per_gib(produce_used),
            consume_cpu_s_per_gib: per_gib(consume_used),
        })
    }

    fn produce(self, broker: &Broker) -> Result<Produced, Box<dyn Error>> {
        let text = tool(
            broker,
            "ProducerPerformance",
            &[
                format!("--num-records={}", self.records()),
                format!("--record-size={RECORD_BYTES}"),
                "--throughput=-1".to_owned(),
                "--producer-props".to_owned(),
                format!("batch.size={BATCH_BYTES}"),
                format!("linger.ms={LINGER_MS}"),
                "--producer.config".to_owned(),
            ],
        )?;
        let produced = Produced::parse(self.records(), &text);
        Ok(produced.ok_or_else(|| format!("Kafka's producer said {text}"))?)
    }

    fn consume(self, broker: &Broker) -> Result<Consumed, Box<dyn Error>> {
        let text = tool(
            broker,
            "ConsumerPerformance",
            &[
                format!("--bootstrap-server={}", broker.address()),
                format!("--messages={}", self.records()),
                "--hide-header".to_owned(),
                "--consumer.config".to_owned(),
            ],
        )?;
        let consumed = Consumed::parse(self.records(), &text);
        Ok(consumed.ok_or_else(|| format!("Kafka's consumer said {text}"))?)
    }
}

fn metered<T>(
    broker: &Broker,
    does: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<(T, Used), Box<dyn Error>> {
    let meter = broker.meter()?;
    let done = does()?;
    meter.settle();
    Ok((done, meter.read()?))
}

/// What one of Kafka's tools says; the client's properties are its last argument.
fn tool(broker: &Broker, name: &str, arguments: &[String]) -> Result<String, Box<dyn Error>> {
    let properties = broker.client_properties();
    let log = properties.with_extension("log");
    let output = java(Version::V3, &HEAP)?
        .arg(format!("org.apache.kafka.tools.{name}"))
        .args(["--topic", TOPIC])
        .args(arguments)
        .arg(&properties)
        .stdin(Stdio::null())
        .stderr(File::create(&log)?)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = last_lines(&log);
    Err(format!("Kafka's tool: {}\n{text}{said}", output.status).into())
}
