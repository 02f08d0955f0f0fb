//! Idempotent producers that send again whatever was not answered, through crashes, restarts and a
//! bucket that fails: every record is in the log once, in order, where its acknowledgement said.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::world::{World, small};
use futures_util::FutureExt;
use millrace_log::{AppendOrigin, AppendTicket, LogDefaults, LogManager, LogParts, PartitionLog};
use millrace_model::{Offset, TopicName};
use millrace_record::{Batch, BatchBuilder, Compression, header_of, split};
use millrace_stream::StreamStore;
use millrace_tasks::Supervisor;
use millrace_testkit::{BucketFaults, Crash};
use proptest::prelude::*;
use tokio_util::task::AbortOnDropHandle;

/// Batches that a client keeps in flight: Kafka's bound for idempotent producers.
const IN_FLIGHT: usize = 5;
const CLIENTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Send {
        client: usize,
        count: usize,
    },
    Resend {
        client: usize,
    },
    Settle {
        client: usize,
    },
    Slow {
        delay_ms: u64,
        down: bool,
    },
    Crash {
        power: bool,
    },
    Restart,
    Flush,
    /// The checkpoint is waited for, or still under way when the next step comes.
    Checkpoint {
        wait: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..CLIENTS;
    let step = prop_oneof![
        12 => (client(), 1usize..20).prop_map(|(client, count)| Step::Send { client, count }),
        2 => client().prop_map(|client| Step::Resend { client }),
        4 => client().prop_map(|client| Step::Settle { client }),
        1 => (0u64..5, any::<bool>()).prop_map(|(delay_ms, down)| Step::Slow { delay_ms, down }),
        1 => any::<bool>().prop_map(|power| Step::Crash { power }),
        1 => Just(Step::Restart),
        1 => Just(Step::Flush),
        3 => any::<bool>().prop_map(|wait| Step::Checkpoint { wait }),
    ];
    prop::collection::vec(step, 1..80)
}

struct Sent {
    sequence: i32,
    count: usize,
    ticket: Option<AppendTicket>,
}

#[derive(Default)]
struct Client {
    id: i64,
    next_sequence: i32,
    in_flight: Vec<Sent>,
    /// First sequence and offset of every batch that was acknowledged.
    acknowledged: Vec<(i32, Offset)>,
}

impl Client {
    fn batch(&self, sequence: i32, count: usize) -> Batch {
        let mut builder = BatchBuilder::new(Compression::None).producer(self.id, 0, sequence);
        for n in 0..count {
            let value = format!("{} {}", self.id, sequence + n as i32);
            builder.push(1, None, Some(value.as_bytes()), &[]);
        }
        split(builder.build()).expect("sound").remove(0)
    }

    async fn send(&mut self, log: &PartitionLog, count: usize) {
        let sequence = self.next_sequence;
        self.next_sequence += count as i32;
        let batch = self.batch(sequence, count);
        let ticket = log
            .append(vec![batch], AppendOrigin::Client)
            .await
            .expect("in order");
        self.in_flight.push(Sent {
            sequence,
            count,
            ticket: Some(ticket),
        });
    }

    /// As after a lost connection: everything that was not answered, again and in order.
    async fn resend(&mut self, log: &PartitionLog) {
        for n in 0..self.in_flight.len() {
            let Sent {
                sequence, count, ..
            } = self.in_flight[n];
            let batch = self.batch(sequence, count);
            let ticket = log
                .append(vec![batch], AppendOrigin::Client)
                .await
                .expect("known or next");
            self.in_flight[n].ticket = Some(ticket);
        }
    }

    async fn settle(&mut self) {
        for sent in self.in_flight.drain(..) {
            let appended = sent.ticket.expect("sent").await.expect("durable");
            self.acknowledged
                .push((sent.sequence, appended.base_offset));
        }
    }

    /// The broker died: answers that had left count.
    fn lose_broker(&mut self) {
        while let Some(first) = self.in_flight.first_mut() {
            match first.ticket.take().and_then(FutureExt::now_or_never) {
                Some(Ok(appended)) => {
                    self.acknowledged
                        .push((first.sequence, appended.base_offset));
                    self.in_flight.remove(0);
                }
                _ => return,
            }
        }
    }
}

struct Run {
    world: World,
    broker: Option<(LogManager, StreamStore)>,
    clients: Vec<Client>,
    checkpointing: Vec<AbortOnDropHandle<()>>,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let world = World::new(seed, small(), 4 * 1024 * 1024).await;
        let clients = (0..CLIENTS)
            .map(|id| Client {
                id: id as i64,
                ..Client::default()
            })
            .collect();
        let mut run = Self {
            world,
            broker: None,
            checkpointing: Vec::new(),
            clients,
        };
        run.open().await;
        run
    }

    fn topic() -> TopicName {
        TopicName::new("t").expect("legal")
    }

    fn log(&self) -> Arc<PartitionLog> {
        let (logs, _) = self.broker.as_ref().expect("open");
        logs.topic(&Self::topic())
            .expect("there")
            .log(0)
            .expect("served")
            .clone()
    }

    async fn open(&mut self) {
        self.world.bucket.set(BucketFaults::default());
        let store = self.world.open().await;
        let logs = LogManager::open(LogParts {
            shared: None,
            tasks: Supervisor::new(),
            meta: Arc::new(self.world.meta.clone()),
            store: store.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.clone(),
            defaults: LogDefaults::default(),
        });
        let logs = logs.await.expect("opens");
        if logs.topic(&Self::topic()).is_none() {
            logs.create_topic(&Self::topic(), Some(1), BTreeMap::new())
                .await
                .expect("created");
        }
        self.broker = Some((logs, store));
        let log = self.log();
        for client in &mut self.clients {
            client.resend(&log).await;
        }
    }

    async fn close(&mut self) {
        self.world.bucket.set(BucketFaults::default());
        let (logs, store) = self.broker.take().expect("open");
        logs.close().await;
        store.close().await;
    }

    async fn step(&mut self, step: Step) {
        let log = self.log();
        match step {
            Step::Send { client, count } => {
                if self.clients[client].in_flight.len() == IN_FLIGHT {
                    self.clients[client].settle().await;
                }
                self.clients[client].send(&log, count).await;
            }
            Step::Resend { client } => self.clients[client].resend(&log).await,
            Step::Settle { client } => self.clients[client].settle().await,
            Step::Slow { delay_ms, down } => {
                let delay = Duration::from_millis(delay_ms);
                self.world.bucket.set(BucketFaults {
                    delay,
                    down,
                    ..BucketFaults::default()
                });
            }
            Step::Crash { power } => {
                self.world.disk.crash(if power {
                    Crash::PowerLoss
                } else {
                    Crash::Killed
                });
                self.clients.iter_mut().for_each(Client::lose_broker);
                (self.broker, self.checkpointing) = (None, Vec::new());
                drop(log);
                self.open().await;
            }
            Step::Restart => {
                drop(log);
                self.close().await;
                self.clients.iter_mut().for_each(Client::lose_broker);
                self.open().await;
            }
            Step::Flush => {
                self.world.bucket.set(BucketFaults::default());
                let (_, store) = self.broker.as_ref().expect("open");
                store.flush().await.expect("uploads");
            }
            Step::Checkpoint { wait } => {
                let (logs, _) = self.broker.clone().expect("open");
                let writing = tokio::spawn(async move { logs.checkpoint().await });
                if wait {
                    writing.await.expect("no panic");
                } else {
                    let micros = self.world.random.below(600);
                    tokio::time::sleep(Duration::from_micros(micros)).await;
                    self.checkpointing.push(AbortOnDropHandle::new(writing));
                }
            }
        }
    }

    async fn verify(&self) {
        let log = self.log();
        let mut next = vec![0; CLIENTS];
        let mut at = 0;
        while at < log.high_watermark() {
            for batch in log.read(at, 5_000, true).await.expect("readable").batches {
                let header = header_of(&batch).expect("a batch");
                assert_eq!(header.base_offset as u64, at, "no gap");
                let client = header.producer_id as usize;
                assert_eq!(header.base_sequence, next[client], "once and in order");
                next[client] += header.count;
                let acknowledged = &self.clients[client].acknowledged;
                let told = acknowledged
                    .iter()
                    .find(|(first, _)| *first == header.base_sequence);
                assert_eq!(
                    told,
                    Some(&(header.base_sequence, at)),
                    "where it was said to be"
                );
                at = header.next_offset() as u64;
            }
        }
        for (client, next) in self.clients.iter().zip(next) {
            assert_eq!(client.next_sequence, next, "everything is there");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_record_is_there_once(steps in steps(), seed: u64) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut run = Run::new(seed).await;
            for step in steps {
                run.step(step).await;
            }
            run.step(Step::Crash { power: true }).await;
            for client in 0..CLIENTS {
                run.step(Step::Settle { client }).await;
            }
            run.step(Step::Restart).await;
            run.verify().await;
        });
    }
}
