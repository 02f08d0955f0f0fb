//! Kafka's own producer test, `kafka-producer-perf-test`, of the article's version.

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use millrace_bench::{
    kafka::{Version, java},
    kafka_tools::Produced,
    process::last_lines,
};

use crate::loads::{Batching, Generator, Load, Outcome};

/// What Kafka's start script gives its tools.
const HEAP: [&str; 1] = ["-Xmx512M"];
/// Records of a payload file; the client draws one of them each time.
const PAYLOADS: usize = 256;
/// The payloads are the same in every run.
const SEED: u64 = 3;

/// The client, with files of payloads by size.
#[derive(Debug)]
pub(crate) struct KafkaClient {
    folder: PathBuf,
}

impl KafkaClient {
    /// Keeps its payload files and what it says in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub(crate) fn run(
        &self,
        load: &Load,
        broker: SocketAddr,
        topic: &str,
    ) -> Result<Outcome, Box<dyn Error>> {
        let mut test = java(Version::V3, &HEAP)?;
        test.args([
            "org.apache.kafka.tools.ProducerPerformance",
            "--topic",
            topic,
        ])
        .args(["--num-records", &load.records.to_string()])
        .arg("--throughput")
        .arg(load.rate.map_or("-1".into(), |rate| rate.to_string()));
        if load.generator == Generator::KafkaClientRandom {
            test.args(["--record-size", &load.record_bytes.to_string()]);
        } else {
            test.arg("--payload-file").arg(self.payloads(load)?);
        }
        test.args(["--producer-props", &format!("bootstrap.servers={broker}")]);
        if load.batching == Batching::Article {
            test.args(["batch.size=1048576", "linger.ms=1"]);
        }
        let log = self.folder.join("client.log");
        let output = test.stderr(File::create(&log)?).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaints = std::fs::read_to_string(&log)?;
        if !output.status.success() || complaints.contains("Exception") {
            let said = last_lines(&log);
            return Err(format!("Kafka's client: {}\n{text}{said}", output.status).into());
        }
        let produced = Produced::parse(load.records, &text)
            .ok_or_else(|| format!("Kafka's client said: {text}"))?;
        Ok(Outcome {
            mib_per_s: produced.mib_per_s,
            avg_ms: produced.avg_ms,
            max_ms: produced.max_ms,
            p50_ms: produced.p50_ms,
            p99_ms: produced.p99_ms,
            p999_ms: produced.p999_ms,
        })
    }

    /// A file of lines of printable bytes, written once.
    fn payloads(&self, load: &Load) -> Result<PathBuf, Box<dyn Error>> {
        let bytes = usize::try_from(load.record_bytes)?;
        let path = self.folder.join(format!("payloads-{bytes}"));
        if !path.exists() {
            let mut random = Rng::with_seed(SEED);
            let mut file = BufWriter::new(File::create(&path)?);
            for _ in 0..PAYLOADS {
                let mut line: Vec<u8> = (0..bytes).map(|_| printable(&mut random)).collect();
                line.push(b'\n');
                file.write_all(&line)?;
            }
            file.flush()?;
        }
        Ok(path)
    }
}

fn printable(random: &mut Rng) -> u8 {
    random.alphanumeric() as u8
}
