//! What a contender is loaded with, and what that showed.

use std::{
    error::Error,
    net::SocketAddr,
    process::{Command, Stdio},
};

use millrace_bench::usage::cpu_time_of_ended_children;
use serde_json::Value;

use crate::kafka_client::KafkaClient;

const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;

/// Who makes the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generator {
    /// Kafka's own producer test, records from a file.
    KafkaClient,
    /// The same with random records, each byte of which the client draws as it goes.
    KafkaClientRandom,
    /// Our own, whose requests are ready-made.
    Light,
}

/// How a producer gathers records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batching {
    /// `batch.size` 1 MiB, `linger.ms` 1.
    Article,
    /// Kafka's defaults: 16 KiB, 0 ms.
    Default,
}

/// One load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    /// Its key in the report.
    pub(crate) key: &'static str,
    pub(crate) generator: Generator,
    pub(crate) batching: Batching,
    pub(crate) record_bytes: u64,
    pub(crate) partitions: u32,
    pub(crate) records: u64,
    /// Records per second; nothing is as many as possible.
    pub(crate) rate: Option<u64>,
}

/// What one run of a load showed of the client's side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) mib_per_s: f64,
    pub(crate) avg_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
}

/// What a run showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// CPU seconds of the server, per GiB of records.
    pub(crate) server_cpu_per_gib: f64,
    pub(crate) server_peak_mib: Option<f64>,
    /// CPU seconds of the client, starting it included.
    pub(crate) client_cpu_per_gib: Option<f64>,
    /// Flush calls of the server, where they are counted.
    pub(crate) flushes_per_mib: Option<f64>,
    /// What was taken of what was offered, from 0 to about 1, where there was a rate.
    pub(crate) share_of_offered: Option<f64>,
}

impl Load {
    pub(crate) fn bytes(&self) -> u64 {
        self.record_bytes * self.records
    }

    pub(crate) fn mib(&self) -> f64 {
        self.bytes() as f64 / MIB
    }

    pub(crate) fn gib(&self) -> f64 {
        self.bytes() as f64 / GIB
    }

    /// Runs it against a server in a process of its own. Returns what it showed and the client's
    /// CPU seconds.
    pub(crate) fn run(
        &self,
        target: Target<'_>,
        server: SocketAddr,
        client: &KafkaClient,
    ) -> Result<(Outcome, f64), Box<dyn Error>> {
        let cpu_before = cpu_time_of_ended_children();
        let outcome = match self.generator {
            Generator::Light => self.run_light(target, server)?,
            Generator::KafkaClient | Generator::KafkaClientRandom => match target {
                Target::Topic(topic) => client.run(self, server, topic)?,
                Target::Sink => return Err("the bare sink knows no protocol".into()),
            },
        };
        let cpu = cpu_time_of_ended_children().saturating_sub(cpu_before);
        Ok((outcome, cpu.as_secs_f64()))
    }

    fn run_light(&self, target: Target<'_>, server: SocketAddr) -> Result<Outcome, Box<dyn Error>> {
        let (batch_bytes, linger_ms) = match self.batching {
            Batching::Article => (1_u32 << 20, 1),
            Batching::Default => (16 << 10, 0),
        };
        let mut light = Command::new(std::env::current_exe()?);
        light.args(["run", "light", "--bootstrap", &server.to_string()]);
        match target {
            Target::Topic(topic) => light.args(["--topic", topic]),
            Target::Sink => light.arg("--sink"),
        };
        let throughput = match self.mib_per_s() {
            None => "unlimited".to_owned(),
            Some(rate) => rate.to_string(),
        };
        for (name, value) in [
            ("--partitions", self.partitions.to_string()),
            ("--record-bytes", self.record_bytes.to_string()),
            ("--batch-bytes", batch_bytes.to_string()),
            ("--linger-ms", linger_ms.to_string()),
            ("--records", self.records.to_string()),
            ("--throughput-mb", throughput),
            ("--in-flight", "5".to_owned()),
        ] {
            light.args([name, &value]);
        }
        let output = light.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the light load generator: {}", output.status).into());
        }
        self.light_outcome(&serde_json::from_slice(&output.stdout)?)
    }

    /// The rate that is offered.
    pub(crate) fn mib_per_s(&self) -> Option<f64> {
        self.rate
            .map(|records| (records * self.record_bytes) as f64 / MIB)
    }

    fn light_outcome(&self, shown: &Value) -> Result<Outcome, Box<dyn Error>> {
        let count = |key: &str| shown[key].as_u64();
        if (count("records"), count("errors")) != (Some(self.records), Some(0)) {
            let all = self.records;
            return Err(format!("of {all} records not all were sent: {shown}").into());
        }
        Outcome::of_role(shown)
    }
}

impl Outcome {
    /// What a role shows.
    pub(crate) fn of_role(shown: &Value) -> Result<Self, Box<dyn Error>> {
        let number = |key: &str| {
            let number = shown[key].as_f64();
            number.ok_or_else(|| format!("{key} is missing in {shown}"))
        };
        Ok(Self {
            mib_per_s: number("mb_per_s")?,
            avg_ms: number("avg_ms")?,
            p50_ms: number("p50_ms")?,
            p99_ms: number("p99_ms")?,
            p999_ms: number("p999_ms")?,
            max_ms: number("max_ms")?,
        })
    }
}

/// Where a load goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Topic(&'a str),
    Sink,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOAD: Load = Load {
        key: "light_50",
        generator: Generator::Light,
        batching: Batching::Article,
        record_bytes: 65_536,
        partitions: 1,
        records: 100,
        rate: Some(800),
    };

    #[test]
    fn a_rate_in_records_is_one_in_bytes() {
        assert_eq!(LOAD.mib_per_s(), Some(50.0));
        assert_eq!(LOAD.bytes(), 6_553_600);
    }

    #[test]
    fn a_load_that_loses_a_record_fails() {
        let shown = |records: u64, errors: u64| {
            json!({
                "mb_per_s": 50.0, "avg_ms": 1.0, "p50_ms": 1.0,
                "p99_ms": 2.5, "p999_ms": 3.0, "max_ms": 4.0,
                "records": records, "errors": errors,
            })
        };
        let outcome = LOAD.light_outcome(&shown(100, 0)).expect("all went well");
        assert_eq!((outcome.mib_per_s, outcome.p99_ms), (50.0, 2.5));
        assert!(LOAD.light_outcome(&shown(99, 0)).is_err());
        assert!(LOAD.light_outcome(&shown(100, 1)).is_err());
        assert!(
            LOAD.light_outcome(&json!({ "records": 100, "errors": 0 }))
                .is_err()
        );
    }
}
