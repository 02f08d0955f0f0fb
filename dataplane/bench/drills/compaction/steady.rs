//! A producer at a fixed rate, whose latencies count from when a record is due.

use std::{pin::pin, time::Duration};

use millrace_client::{Admin, Client, Producer, ProducerConfig, ProducerRecord, admin::NewTopic};
use millrace_perf::Latencies;
use millrace_time::{SharedClock, SystemClock};
use tokio::task::JoinSet;

const TOPIC: &str = "steady";
const RECORD_BYTES: usize = 1_024;
/// Records come in bursts of this length, so that timers need not be finer than they are.
const BURST: Duration = Duration::from_millis(5);

/// The producer, which writes while something is waited for.
pub(crate) struct SteadyProducer {
    producer: Producer,
    clock: SharedClock,
    records_per_burst: usize,
}

impl SteadyProducer {
    pub(crate) async fn create(client: &Client, rate: usize) -> Result<Self, String> {
        let topic = NewTopic::new(TOPIC).partitions(1);
        let created = Admin::new(client).create_topics(&[topic]).await;
        for (_, result) in created.map_err(|error| error.to_string())? {
            result.map_err(|error| error.to_string())?;
        }
        let mut config = ProducerConfig::default();
        config.linger = Duration::ZERO;
        let producer = Producer::new(client, config).map_err(|error| error.to_string())?;
        let bursts_per_s = (1_000 / BURST.as_millis()) as usize;
        Ok(Self {
            producer,
            clock: SystemClock::shared(),
            records_per_burst: rate.div_ceil(bursts_per_s),
        })
    }

    /// Writes until `end` is ready, and gives what it gave.
    pub(crate) async fn produce_while<T>(
        &self,
        end: impl Future<Output = Result<T, String>>,
    ) -> Result<(Latencies, T), String> {
        let mut end = pin!(end);
        let mut latencies = Latencies::default();
        let mut bursts = tokio::time::interval(BURST);
        let mut in_flight = JoinSet::new();
        let value = vec![b'v'; RECORD_BYTES];
        let started = self.clock.now();
        let mut number = 0_u32;
        let given = loop {
            tokio::select! {
                given = &mut end => break given?,
                Some(done) = in_flight.join_next() => count(&mut latencies, done)?,
                _ = bursts.tick() => {
                    // The interval catches up with bursts that were late.
                    let due = started + BURST * number;
                    number += 1;
                    for _ in 0..self.records_per_burst {
                        let record = ProducerRecord::to(TOPIC).value(&value);
                        let sent = self.producer.send(record).await;
                        let delivery = sent.map_err(|error| error.to_string())?;
                        let clock = SharedClock::clone(&self.clock);
                        in_flight.spawn(async move {
                            let stored = delivery.await.map_err(|error| error.to_string());
                            stored.map(|_| clock.now().saturating_sub(due))
                        });
                    }
                }
            }
        };
        while let Some(done) = in_flight.join_next().await {
            count(&mut latencies, done)?;
        }
        Ok((latencies, given))
    }
}

fn count(
    latencies: &mut Latencies,
    done: Result<Result<Duration, String>, tokio::task::JoinError>,
) -> Result<(), String> {
    let latency = done.map_err(|error| error.to_string())??;
    latencies.add(latency, 1);
    Ok(())
}
