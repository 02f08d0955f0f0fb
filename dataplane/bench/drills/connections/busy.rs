//! Producers: many modest ones, and a greedy one.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use millrace_bench::producer::{BatchTemplate, ProduceAnswer, ProduceFrame, Stamp};
use millrace_time::SharedClock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

/// A modest producer's requests are between these, bytes of records.
const REQUEST_BYTES: std::ops::RangeInclusive<usize> = (1 << 10)..=(16 << 10);
/// The greedy one's, as many in flight as it may have.
const GREEDY_BYTES: usize = 256 << 10;
const GREEDY_IN_FLIGHT: usize = 64;
/// No answer takes longer unless the connection starves; a real client gives up after 30 s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// What all producers do.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) topic: &'static str,
    pub(crate) partitions: i32,
    pub(crate) rate_per_s: u32,
    /// What is not measured, at the beginning.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What became of a modest producer.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Requests that were due and acknowledged while it was measured.
    pub(crate) acknowledged: u64,
    /// From when each was due.
    pub(crate) latencies: Vec<Duration>,
}

/// Runs the producers; what became of each modest one, and the bytes that the greedy one wrote
/// while it was measured.
pub(crate) async fn produce(
    load: &Load,
    clock: &SharedClock,
    count: usize,
) -> Result<(Vec<Progress>, u64), String> {
    let began = clock.now();
    let mut modest = JoinSet::new();
    for number in 0..count {
        let (load, clock) = (load.clone(), clock.clone());
        let first = began + period(&load).mul_f64(number as f64 / count as f64);
        modest.spawn(async move {
            let done = one(&load, &clock, number, began, first).await;
            done.map_err(|error| format!("producer {number}: {error}"))
        });
    }
    let greedy = tokio::spawn(greedy(load.clone(), clock.clone(), began));
    let mut all = Vec::with_capacity(count);
    while let Some(done) = modest.join_next().await {
        all.push(done.map_err(|error| error.to_string())??);
    }
    let written = greedy.await.map_err(|error| error.to_string())?;
    let written = written.map_err(|error| format!("the greedy producer: {error}"))?;
    Ok((all, written))
}

fn period(load: &Load) -> Duration {
    Duration::from_secs(1) / load.rate_per_s
}

async fn one(
    load: &Load,
    clock: &SharedClock,
    number: usize,
    began: Duration,
    first: Duration,
) -> io::Result<Progress> {
    let mut stream = TcpStream::connect(load.address).await?;
    stream.set_nodelay(true)?;
    let sizes = REQUEST_BYTES.end() - REQUEST_BYTES.start() + 1;
    let bytes = REQUEST_BYTES.start() + number * 7_919 % sizes;
    let partition = i32::try_from(number).unwrap_or(0) % load.partitions;
    let request = request(load.topic, partition, bytes, number as u64);
    let (from, to) = (began + load.warm_up, began + load.warm_up + load.measured);
    let mut progress = Progress::default();
    let mut due = first;
    while due < to {
        sleep(due.saturating_sub(clock.now())).await;
        stream.write_all(&request).await?;
        acknowledged(&mut stream).await?;
        let now = clock.now();
        if due >= from {
            progress.latencies.push(now - due);
            // What is late beyond the end was not served in the time that everybody had.
            progress.acknowledged += u64::from(now < to + period(load));
        }
        due += period(load);
    }
    Ok(progress)
}

async fn greedy(load: Load, clock: SharedClock, began: Duration) -> io::Result<u64> {
    let stream = TcpStream::connect(load.address).await?;
    stream.set_nodelay(true)?;
    let (mut reading, mut writing) = stream.into_split();
    let request = request(load.topic, 0, GREEDY_BYTES, 1);
    let (from, to) = (began + load.warm_up, began + load.warm_up + load.measured);
    let in_flight = Arc::new(Semaphore::new(GREEDY_IN_FLIGHT));
    let written = Arc::new(AtomicU64::new(0));
    let (permits, counted, reader_clock) =
        (Arc::clone(&in_flight), Arc::clone(&written), clock.clone());
    let reader = tokio::spawn(async move {
        loop {
            match acknowledged(&mut reading).await {
                Ok(()) => {}
                // Nothing is outstanding and the sender has gone.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
            if (from..to).contains(&reader_clock.now()) {
                counted.fetch_add(GREEDY_BYTES as u64, Ordering::Relaxed);
            }
            permits.add_permits(1);
        }
    });
    while clock.now() < to {
        let permit = in_flight.acquire().await.map_err(io::Error::other)?;
        permit.forget();
        writing.write_all(&request).await?;
        if reader.is_finished() {
            break;
        }
    }
    // Lets the broker answer what it has, and then close.
    writing.shutdown().await?;
    reader.await.map_err(io::Error::other)??;
    Ok(written.load(Ordering::Relaxed))
}

/// Reads the answer to one request of one batch.
async fn acknowledged(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
    let read = async {
        let length = stream.read_u32().await?;
        let mut answer = vec![0; length as usize];
        stream.read_exact(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(ANSWER_PATIENCE, read)
        .await
        .map_err(|_| io::Error::other(format!("no answer within {ANSWER_PATIENCE:?}")))??;
    let answer = ProduceAnswer::parse(Bytes::from(answer)).map_err(io::Error::other)?;
    match &answer.partitions[..] {
        [partition] if partition.error_code == 0 => Ok(()),
        other => Err(io::Error::other(format!("refused: {other:?}"))),
    }
}

fn request(topic: &str, partition: i32, bytes: usize, seed: u64) -> Vec<u8> {
    let template = BatchTemplate::random(bytes, 2 * bytes, seed);
    let stamp = Stamp {
        timestamp_ms: 1_700_000_000_000,
        producer: None,
        base_sequence: -1,
    };
    let mut frame = ProduceFrame::new("busy", topic);
    frame.begin(1);
    let records = template.records(1);
    frame.push(partition, &template.header(1, &stamp), records.len());
    let mut slices = Vec::new();
    frame.slices(std::iter::once(records), 0, &mut slices);
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}
