//! The load: Produce requests of one batch each, spread over all connections and partitions.
//!
//! Whatever there is, the load is the same: a fixed number of workers with one request in flight each. A worker has its part
//! of the connections and takes them in turn; the requests take the partitions in turn.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_bench::{
    latencies::Latencies,
    population::{Population, topic},
    producer::{BatchTemplate, ProduceAnswer, ProduceFrame, Stamp},
};
use millrace_time::{SharedClock, SystemClock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Requests in flight.
pub(crate) const WORKERS: usize = 10;
pub(crate) const RECORD_BYTES: usize = 1_024;
/// Records of a batch, which is a request.
pub(crate) const RECORDS: usize = 16;
/// Records of a request without their fields.
pub(crate) const REQUEST_BYTES: usize = RECORDS * RECORD_BYTES;
const CLIENT_ID: &str = "bench-scale";
/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connections of a step, and what is written through them.
pub(crate) struct Load {
    /// By worker.
    connections: Vec<Vec<TcpStream>>,
    requests: Arc<Requests>,
    clock: SharedClock,
}

/// What workers share.
struct Requests {
    population: Population,
    template: BatchTemplate,
    stamp: Stamp,
}

/// How fast requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// So many, each worker as fast as its answers come; but none after this time.
    Unlimited { requests: usize, within: Duration },
    /// So many per second, for so long.
    Rate { per_s: f64, time: Duration },
}

/// What a load has shown.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
    /// From when a request was due; from when it was sent, where nothing was due.
    pub(crate) latencies: Latencies,
}

impl Load {
    /// Opens the connections, all of which the broker has answered once this returns.
    pub(crate) async fn connect(
        address: SocketAddr,
        connections: usize,
        population: Population,
    ) -> Result<Self, String> {
        let mut opened: Vec<Vec<TcpStream>> = (0..WORKERS).map(|_| Vec::new()).collect();
        for number in 0..connections {
            let connection = connect(address).await;
            let connection = connection.map_err(|error| format!("connection {number}: {error}"))?;
            opened[number % WORKERS].push(connection);
        }
        let stamp = Stamp {
            timestamp_ms: SystemClock::shared().wall_ms(),
            producer: None,
            base_sequence: -1,
        };
        Ok(Self {
            connections: opened,
            requests: Arc::new(Requests {
                population,
                template: BatchTemplate::random(RECORD_BYTES, 2 * REQUEST_BYTES, 1),
                stamp,
            }),
            clock: SystemClock::shared(),
        })
    }

    /// Runs the load to its end.
    pub(crate) async fn run(&mut self, pace: Pace) -> Result<Produced, String> {
        let started = self.clock.now();
        let mut workers = JoinSet::new();
        for (number, connections) in std::mem::take(&mut self.connections)
            .into_iter()
            .enumerate()
        {
            let requests = Arc::clone(&self.requests);
            let worker = Worker {
                number,
                connections,
                clock: self.clock.clone(),
                started,
                produced: Produced::default(),
            };
            workers.spawn(worker.run(requests, pace));
        }
        self.connections = (0..WORKERS).map(|_| Vec::new()).collect();
        let mut all = Produced::default();
        while let Some(done) = workers.join_next().await {
            let worker = done.map_err(|error| error.to_string())??;
            all.requests += worker.produced.requests;
            all.latencies.merge(&worker.produced.latencies);
            self.connections[worker.number] = worker.connections;
        }
        all.elapsed = self.clock.now() - started;
        Ok(all)
    }
}

struct Worker {
    number: usize,
    connections: Vec<TcpStream>,
    clock: SharedClock,
    started: Duration,
    produced: Produced,
}

impl Worker {
    async fn run(mut self, requests: Arc<Requests>, pace: Pace) -> Result<Self, String> {
        let count = self.connections.len();
        for (turn, nth) in (self.number..).step_by(WORKERS).enumerate() {
            let Some(from) = self.turn(nth, pace).await else {
                break;
            };
            let request = requests.request(nth)?;
            let connection = &mut self.connections[turn % count];
            let sent = connection.write_all(&request).await;
            sent.map_err(|error| error.to_string())?;
            let taken = timeout(PATIENCE, acknowledged(connection)).await;
            let taken = taken.map_err(|_| format!("no answer within {PATIENCE:?}"))?;
            taken.map_err(|error| error.to_string())?;
            self.produced.latencies.add(self.clock.now() - from, 1);
            self.produced.requests += 1;
        }
        Ok(self)
    }

    /// Waits until request `nth` is due. Gives when its latency begins; nothing where the load has ended.
    async fn turn(&self, nth: usize, pace: Pace) -> Option<Duration> {
        let now = self.clock.now();
        match pace {
            Pace::Unlimited { requests, within } => {
                (nth < requests && now < self.started + within).then_some(now)
            }
            Pace::Rate { per_s, time } => {
                let due = Duration::from_secs_f64(nth as f64 / per_s);
                if due >= time {
                    return None;
                }
                let due = self.started + due;
                if due <= now {
                    return Some(due);
                }
                sleep(due - now).await;
                // The timer's own delay is not the broker's.
                Some(self.clock.now())
            }
        }
    }
}

impl Requests {
    /// Request `nth`: a batch for its partition.
    fn request(&self, nth: usize) -> Result<Vec<u8>, String> {
        let Population {
            topics, partitions, ..
        } = self.population;
        let partition = nth % (topics * partitions);
        let index = i32::try_from(partition % partitions).map_err(|error| error.to_string())?;
        let mut frame = ProduceFrame::new(CLIENT_ID, &topic(partition / partitions));
        frame.begin(1);
        let records = self.template.records(RECORDS);
        frame.push(
            index,
            &self.template.header(RECORDS, &self.stamp),
            records.len(),
        );
        let mut slices = Vec::new();
        frame.slices(std::iter::once(records), 0, &mut slices);
        let mut request = Vec::with_capacity(frame.len());
        for slice in slices {
            request.extend_from_slice(&slice);
        }
        Ok(request)
    }
}

/// Connects, and sends a request that any broker answers.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&API_VERSIONS).await?;
    answer(&mut stream).await?;
    Ok(stream)
}

/// ApiVersions, version 0, correlation id 1, without a client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];

async fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Reads the answer to a request of one batch.
async fn acknowledged(stream: &mut TcpStream) -> io::Result<()> {
    let answer = Bytes::from(answer(stream).await?);
    let answer = ProduceAnswer::parse(answer).map_err(io::Error::other)?;
    match &answer.partitions[..] {
        [partition] if partition.error_code == 0 => Ok(()),
        other => Err(io::Error::other(format!("refused: {other:?}"))),
    }
}
