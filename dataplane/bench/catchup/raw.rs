//! The limit: the same objects, read by a bare client.
//!
//! It uses the broker's own library for S3, without retries, hedges, deadlines, checks or a cache,
//! and drops what it gets. So what the ratio to it shows is what Millrace costs, and not what
//! another HTTP library would have. As a relay, it also sends what it gets to clients that drop it, which
//! is the least that any broker does.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_bench::usage::cpu_time_of_threads;
use millrace_objects::{
    Listed, ObjectKey,
    bucket::{Bucket, BucketUri, StoreBucket},
};
use millrace_time::SharedClock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// The name of these threads, by which their CPU time is found.
const THREADS: &str = "raw";
const THREADS_MAX: usize = 2;
/// Objects that one listing answers.
const PAGE: usize = 1_000;
/// What a client of the relay reads at once.
const CLIENT_BYTES: usize = 256 * 1024;

/// What is read.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) bucket_uri: String,
    /// GETs under way at once.
    pub(crate) parallel: usize,
    /// Bytes of each.
    pub(crate) get_bytes: u64,
    /// Ends where so much was read.
    pub(crate) bytes_max: u64,
    /// Whether clients get it: one for each GET under way.
    pub(crate) is_relay: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) bytes: u64,
    pub(crate) gets: u64,
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
}

/// Reads the objects in the order of their listing, each from its beginning to its end.
pub(crate) fn read(plan: &Plan, clock: &SharedClock) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS_MAX)
        .thread_name(THREADS)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let uri: BucketUri = plan
            .bucket_uri
            .parse()
            .map_err(|error| format!("{error}"))?;
        let bucket = StoreBucket::open(&uri).map_err(|error| format!("the bucket: {error}"))?;
        let objects = list(&bucket).await?;
        let ranges = Arc::new(cut(&objects, plan.get_bytes, plan.bytes_max));
        let (bucket, turn) = (Arc::new(bucket), Arc::new(AtomicUsize::new(0)));
        let began = clock.now();
        let mut tasks = JoinSet::new();
        for _ in 0..plan.parallel {
            tasks.spawn(get(
                Arc::clone(&bucket),
                Arc::clone(&ranges),
                Arc::clone(&turn),
                plan.is_relay,
            ));
        }
        let mut bytes = 0;
        while let Some(done) = tasks.join_next().await {
            bytes += done.map_err(|error| error.to_string())??;
        }
        Ok(Outcome {
            bytes,
            gets: ranges.len() as u64,
            took: clock.now().saturating_sub(began),
            cpu: cpu_time_of_threads(THREADS),
        })
    })
}

async fn list(bucket: &StoreBucket) -> Result<Vec<Listed>, String> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let after = all.last().map(|listed| listed.key.clone());
        let page = bucket.list("", after.as_ref(), PAGE).await;
        let page = page.map_err(|error| format!("listing the bucket: {error}"))?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Ranges of `get_bytes`, the last one of an object perhaps shorter, until they hold `bytes_max`.
fn cut(objects: &[Listed], get_bytes: u64, bytes_max: u64) -> Vec<(ObjectKey, Range<u64>)> {
    let (mut ranges, mut bytes) = (Vec::new(), 0);
    for object in objects {
        for start in (0..object.size).step_by(usize::try_from(get_bytes).unwrap_or(usize::MAX)) {
            if bytes >= bytes_max {
                return ranges;
            }
            let range = start..object.size.min(start + get_bytes);
            bytes += range.end - range.start;
            ranges.push((object.key.clone(), range));
        }
    }
    ranges
}

/// A client that drops what it is sent, and the task that ends when it has everything.
async fn connect_client() -> std::io::Result<(TcpStream, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (relay, client) = tokio::join!(
        TcpStream::connect(listener.local_addr()?),
        listener.accept()
    );
    let (mut client, _) = client?;
    let reading = tokio::spawn(async move {
        let mut bytes = vec![0; CLIENT_BYTES];
        while client.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    });
    Ok((relay?, reading))
}

async fn get(
    bucket: Arc<StoreBucket>,
    ranges: Arc<Vec<(ObjectKey, Range<u64>)>>,
    turn: Arc<AtomicUsize>,
    is_relay: bool,
) -> Result<u64, String> {
    let failed = |error| format!("a client of the relay: {error}");
    let mut client = None;
    if is_relay {
        client = Some(connect_client().await.map_err(failed)?);
    }
    let mut bytes = 0;
    while let Some((key, range)) = ranges.get(turn.fetch_add(1, Ordering::Relaxed)) {
        let wanted = range.end - range.start;
        let got = bucket.get(key, range.clone()).await;
        let got = got.map_err(|error| format!("{key}: {error}"))?;
        if got.len() as u64 != wanted {
            return Err(format!("{key}: {} bytes of {wanted}", got.len()));
        }
        if let Some((client, _)) = &mut client {
            client.write_all(&got).await.map_err(failed)?;
        }
        bytes += wanted;
    }
    if let Some((client, reading)) = client {
        drop(client);
        reading.await.map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_model::ObjectId;
    use millrace_objects::bucket::Body;
    use millrace_time::SystemClock;

    use super::*;

    fn key(id: u64) -> ObjectKey {
        ObjectKey::of("raw", ObjectId(id))
    }

    fn object(id: u64, size: u64) -> Listed {
        Listed { key: key(id), size }
    }

    #[test]
    fn ranges_cover_objects_until_there_is_enough() {
        let objects = [object(1, 25), object(2, 10)];
        let sizes = |bytes_max| -> Vec<u64> {
            let ranges = cut(&objects, 10, bytes_max);
            ranges
                .iter()
                .map(|(_, range)| range.end - range.start)
                .collect()
        };
        assert_eq!(sizes(u64::MAX), [10, 10, 5, 10]);
        assert_eq!(sizes(21), [10, 10, 5]);
        assert_eq!(sizes(20), [10, 10]);
    }

    #[test]
    fn all_of_a_bucket_is_read() {
        let folder = std::env::temp_dir().join(format!("bench-raw-{}", std::process::id()));
        let bucket_uri = format!("0@file://{}", folder.display());
        let uri: BucketUri = bucket_uri.parse().expect("legal");
        let bucket = StoreBucket::open(&uri).expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let put = async {
            for id in [1, 2] {
                let body = Body::from(vec![Bytes::from(vec![7; 5_000])]);
                bucket.put(&key(id), &body).await.expect("written");
            }
        };
        runtime.expect("a runtime").block_on(put);
        for is_relay in [false, true] {
            let plan = Plan {
                bucket_uri: bucket_uri.clone(),
                parallel: 3,
                get_bytes: 1_000,
                bytes_max: u64::MAX,
                is_relay,
            };
            let read = read(&plan, &SystemClock::shared()).expect("sound");
            assert_eq!((read.bytes, read.gets), (10_000, 10));
            assert!(read.took > Duration::ZERO);
        }
        std::fs::remove_dir_all(folder).expect("written");
    }
}
