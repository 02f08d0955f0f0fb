//! One kill while gigabytes are not uploaded, because the bucket is away: how long until the broker
//! acknowledges again, with how much memory, and whether all of it is uploaded once the bucket is back.
//!
//! The bucket goes away after what needs it, the first start and the creation of the topics, and before the
//! first record. So all state of all partitions is on the broker's device. A partition whose newest state is
//! only in the bucket is offline after a restart until the bucket answers.

use std::{net::SocketAddr, path::Path, time::Duration};

use millrace_bench::{
    broker::{Home, Running, Settings, files_below, free_address},
    drill::{Promises, Readback, Work, Workers},
    machine::pause,
    s3_server::{S3Server, bucket_uri, program},
    usage::peak_memory_kib,
};
use serde_json::{Value, json};

use crate::arguments::Backlog;

/// Bounds how long the upload may take: 10 MiB/s.
const UPLOAD_BYTES_PER_S_MIN: u64 = 10 << 20;
/// The longest that a restart may take until it acknowledges, with a backlog from this size on: the five
/// seconds for which it waits for the bucket, and what it does then.
const FIRST_ACK_MAX: Duration = Duration::from_secs(5 + 3);
const JUDGED_FROM_BYTES: u64 = 4 << 30;
const POLL: Duration = Duration::from_millis(100);

/// The bucket's address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    pub(crate) fn reserve() -> Result<Self, String> {
        let address = free_address()?;
        Ok(Self { address })
    }

    /// The broker's settings for this drill.
    pub(crate) fn settings(&self, arguments: &Backlog) -> Settings {
        let cache = arguments
            .cache_bytes
            .map(|bytes| format!("s3.wal.cache.size={bytes}\n"));
        Settings {
            // What the producers have under way at the kill comes on top, and so does the log's
            // own framing of small records.
            wal_bytes: (arguments.bytes + arguments.bytes / 4 + (256 << 20)) >> 20 << 20,
            io_depth: 32,
            bucket: Some(bucket_uri(self.address)),
            lines: cache.unwrap_or_default(),
        }
    }
}

/// Runs the drill in `home`; what it saw, or the reason why it failed.
pub(crate) fn run(arguments: &Backlog, endpoint: &Endpoint, home: &Home) -> Result<Value, String> {
    let program = program(arguments.s3_server.as_deref()).map_err(|error| error.to_string())?;
    let folder = home.folder().join("bucket");
    let serve =
        || S3Server::start(&program, endpoint.address, &folder).map_err(|error| error.to_string());
    let server = serve()?;
    let mut running = home.start()?;
    let work = Work {
        seed: arguments.seed,
        producers: 4,
        partitions: 6,
        bytes_per_s: u64::from(u32::MAX),
    };
    Workers::create_topics(&work, home)?;
    drop(server);
    let mut workers = Workers::begin(&work, home)?;
    let clock = workers.stage.clock.clone();
    let began = clock.now();
    workers.until_acknowledged(&mut running, arguments.bytes)?;
    let filled_in = clock.now().saturating_sub(began);
    let memory_before = peak_memory_mib(&running);
    running.kill_9()?;
    let backlog = workers.stage.ledger.snapshot().bytes;
    let (mut running, started) = workers.restart(home)?;
    let took = workers.first_ack(&mut running, started)?;
    println!(
        "{} MiB were not uploaded; the first acknowledgement came {} ms after the start",
        backlog >> 20,
        took.as_millis()
    );
    let promises = workers.finish(&mut running)?;
    let server = serve()?;
    let uploaded_in = until_uploaded(home, &folder, &promises)?;
    let memory = peak_memory_mib(&running);
    running.kill_9()?;
    running = workers.restart(home)?.0;
    Readback::new(&workers.stage).check_complete(&promises)?;
    drop(server);
    let uploaded = json!({ "seconds": uploaded_in.as_secs(), "peak_memory_mib": memory });
    if arguments.bytes >= JUDGED_FROM_BYTES && took > FIRST_ACK_MAX {
        return Err(format!(
            "the first acknowledgement took {took:?}, more than {FIRST_ACK_MAX:?}"
        ));
    }
    Ok(json!({
        "seed": arguments.seed,
        "backlog_bytes": backlog,
        "filled_in_seconds": filled_in.as_secs_f64(),
        "peak_memory_mib_while_filling": memory_before,
        "first_ack_ms": took.as_millis(),
        "peak_memory_mib_after_restart": peak_memory_mib(&running),
        "acked_records": promises.records,
        "uploaded": uploaded,
    }))
}

/// Waits until nothing is in the log alone; how long that took.
fn until_uploaded(home: &Home, bucket: &Path, promises: &Promises) -> Result<Duration, String> {
    let clock = millrace_time::SystemClock::shared();
    let began = clock.now();
    let bound = Duration::from_secs(60 + promises.bytes / UPLOAD_BYTES_PER_S_MIN);
    loop {
        let took = clock.now().saturating_sub(began);
        let pending = home.metric("millrace_upload_pending_bytes")?;
        // The gauge alone is not enough: it says 0, too, where nobody has set it yet.
        if pending == 0.0 && files_below(bucket).1 >= promises.bytes {
            return Ok(took);
        }
        if took > bound {
            return Err(format!(
                "{pending} bytes are not uploaded {bound:?} after the bucket was there"
            ));
        }
        pause(POLL);
    }
}

fn peak_memory_mib(running: &Running) -> Option<u64> {
    peak_memory_kib(&running.pid().to_string()).map(|kib| kib >> 10)
}
