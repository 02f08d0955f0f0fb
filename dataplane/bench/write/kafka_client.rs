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
        parse(load.records, &text).ok_or_else(|| format!("Kafka's client said: {text}").into())
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

/// The last line, such as `60000 records sent, 3389.83 records/sec (211.86 MB/sec), 130.12 ms avg
/// latency, 366.00 ms max latency, 128 ms 50th, 200 ms 95th, 340 ms 99th, 360 ms 99.9th.`, whose
/// MB are of 2^20 bytes. Nothing where it is none or not all records were sent.
fn parse(records: u64, text: &str) -> Option<Outcome> {
    let line = text.lines().rev().find(|line| line.contains(" 99.9th"))?;
    let mut parts = line.trim_end_matches('.').split(", ");
    let number_before = |part: &str, unit: &str| -> Option<f64> {
        part.trim_end().strip_suffix(unit)?.trim().parse().ok()
    };
    if number_before(parts.next()?, "records sent")? != records as f64 {
        return None;
    }
    let (_, mib) = parts.next()?.split_once(" records/sec (")?;
    Some(Outcome {
        mib_per_s: number_before(mib, "MB/sec)")?,
        avg_ms: number_before(parts.next()?, "ms avg latency")?,
        max_ms: number_before(parts.next()?, "ms max latency")?,
        p50_ms: number_before(parts.next()?, "ms 50th")?,
        p99_ms: number_before(parts.nth(1)?, "ms 99th")?,
        p999_ms: number_before(parts.next()?, "ms 99.9th")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
5026 records sent, 1002.2 records/sec (62.64 MB/sec), 179.1 ms avg latency, 3062.0 ms max latency.
30000 records sent, 2638.986629 records/sec (164.94 MB/sec), 130.27 ms avg latency, \
3062.00 ms max latency, 124 ms 50th, 224 ms 95th, 259 ms 99th, 278 ms 99.9th.
";

    #[test]
    fn the_last_line_is_understood() {
        let expected = Outcome {
            mib_per_s: 164.94,
            avg_ms: 130.27,
            max_ms: 3_062.0,
            p50_ms: 124.0,
            p99_ms: 259.0,
            p999_ms: 278.0,
        };
        assert_eq!(parse(30_000, SAID), Some(expected));
    }

    #[test]
    fn a_run_that_did_not_send_everything_is_none() {
        assert_eq!(parse(30_001, SAID), None);
        let first_line = SAID.lines().next().expect("two lines");
        assert_eq!(parse(5_026, first_line), None);
        assert_eq!(parse(1, "Exception in thread \"main\""), None);
    }
}
