//! A console producer and consumer:
//!
//! ```text
//! console produce localhost:9092 orders [none|gzip|snappy|lz4|zstd]     lines of standard input
//! console consume localhost:9092 orders --records N                     from the beginning
//! console consume localhost:9092 orders --group G                       until SIGTERM or SIGINT
//!         [--assignor range|sticky|cooperative-sticky | --protocol consumer]
//! ```
//!
//! Records are printed as partition, offset and value, one a line. A member of a group commits what
//! it has printed; what it is assigned is told on standard error.

use std::{
    io::{BufRead, BufWriter, Write},
    process::ExitCode,
    time::Duration,
};

use millrace_client::{
    BoxFuture, Client, ClientConfig, Compression, Consumer, ConsumerConfig, ConsumerRecord,
    Producer, ProducerConfig, ProducerRecord, TopicPartition,
    consumer::{Assignor, GroupProtocol, OffsetReset, RebalanceListener, StartAt},
};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: console produce BOOTSTRAP TOPIC [none|gzip|snappy|lz4|zstd]
       console consume BOOTSTRAP TOPIC --records N
       console consume BOOTSTRAP TOPIC --group G \
               [--assignor range|sticky|cooperative-sticky | --protocol consumer]";
/// Large batches, as for any transfer of much data.
const BATCH_BYTES: usize = 64 * 1024;
const LINGER: Duration = Duration::from_millis(20);
/// A member that dies is missed after this.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match *arguments.as_slice() {
        ["produce", servers, topic] => produce(servers, topic, "none").await,
        ["produce", servers, topic, codec] => produce(servers, topic, codec).await,
        ["consume", servers, topic, "--records", count] => read(servers, topic, count).await,
        [
            "consume",
            servers,
            topic,
            "--group",
            group,
            ref options @ ..,
        ] => follow(servers, topic, group, options).await,
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn produce(servers: &str, topic: &str, codec: &str) -> Outcome {
    let mut config = ProducerConfig::default();
    config.batch_size = BATCH_BYTES;
    config.linger = LINGER;
    config.compression = match codec {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => return Err(USAGE.into()),
    };
    let client = Client::new(ClientConfig::new(servers)?);
    let producer = Producer::new(&client, config)?;
    // Reading blocks this thread, which is none of those that the client's tasks run on.
    for line in std::io::stdin().lock().split(b'\n') {
        // A delivery that is dropped does not stop its record; the producer counts those that fail.
        let record = ProducerRecord::to(topic);
        drop(producer.send(record.value(&line?)).await?);
    }
    producer.close().await;
    match producer.metrics().failed_records {
        0 => Ok(()),
        failed => Err(format!("{failed} records could not be stored").into()),
    }
}

async fn read(servers: &str, topic: &str, count: &str) -> Outcome {
    let count: usize = count.parse()?;
    let client = Client::new(ClientConfig::new(servers)?);
    let partitions = client.topic(topic).await?.partitions.len();
    let consumer = Consumer::new(&client, ConsumerConfig::default());
    let all = (0..i32::try_from(partitions)?).map(|partition| (topic, partition));
    consumer.assign(all, StartAt::Beginning)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for _ in 0..count {
        print(&mut out, &consumer.next().await?)?;
    }
    Ok(out.flush()?)
}

async fn follow(servers: &str, topic: &str, group: &str, options: &[&str]) -> Outcome {
    let mut config = ConsumerConfig::in_group(group);
    config.auto_offset_reset = OffsetReset::Earliest;
    config.session_timeout = SESSION_TIMEOUT;
    config.heartbeat_interval = HEARTBEAT_INTERVAL;
    match options {
        [] => {}
        ["--assignor", "range"] => config.assignors = vec![Assignor::Range],
        ["--assignor", "sticky"] => config.assignors = vec![Assignor::Sticky],
        ["--assignor", "cooperative-sticky"] => {
            config.assignors = vec![Assignor::CooperativeSticky];
        }
        ["--protocol", "consumer"] => config.group_protocol = GroupProtocol::Consumer,
        _ => return Err(USAGE.into()),
    }
    let consumer = Consumer::new(&Client::new(ClientConfig::new(servers)?), config);
    consumer.subscribe_with(&[topic], Announce)?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut out = std::io::stdout();
    loop {
        tokio::select! {
            record = consumer.next() => print(&mut out, &record?)?,
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        }
    }
    // What was printed is processed, the last record too.
    consumer.commit().await?;
    Ok(consumer.close().await?)
}

fn print(out: &mut impl Write, record: &ConsumerRecord) -> std::io::Result<()> {
    write!(out, "{} {} ", record.partition, record.offset)?;
    out.write_all(record.value.as_deref().unwrap_or_default())?;
    out.write_all(b"\n")
}

/// Tells what is assigned.
struct Announce;

impl RebalanceListener for Announce {
    fn on_assigned<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        tell("assigned", partitions);
        Box::pin(async {})
    }

    fn on_revoked<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        tell("revoked", partitions);
        Box::pin(async {})
    }
}

fn tell(what: &str, partitions: &[TopicPartition]) {
    let numbers: Vec<_> = partitions
        .iter()
        .map(|name| name.partition.to_string())
        .collect();
    eprintln!("{what} {}", numbers.join(","));
}
