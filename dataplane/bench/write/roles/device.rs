//! The device alone: blocks of one size, written O_DIRECT|DSYNC as the broker's log writes, so
//! many at once, with nothing behind them.

use std::{error::Error, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_bench::{latencies, latencies::Latencies, usage};
use millrace_time::{SharedClock, SystemClock};
use millrace_wal::{BLOCK_BYTES, BufferPool};
use serde_json::{Map, Value};

use super::{MIB, flags::Flags, volume::Volume};

/// Writes `--bytes` in all to a file of `--file-bytes`, over and over.
pub(super) fn run(flags: &mut Flags) -> Result<Value, Box<dyn Error>> {
    let bytes: u64 = flags.required("bytes")?;
    let block_bytes = flags.count("block", 1 << 20)?;
    if !block_bytes.is_multiple_of(BLOCK_BYTES as usize) {
        return Err(format!("--block must be a multiple of {BLOCK_BYTES}").into());
    }
    let file_bytes = flags.optional("file-bytes")?.unwrap_or(bytes);
    let mut volume = Volume::of(flags, file_bytes)?;
    flags.finish()?;
    let clock = SystemClock::shared();
    let (cpu, began) = (usage::cpu_time(), clock.now());
    let writes = bytes.div_ceil(block_bytes as u64);
    // The volume's own runtime collects what has completed; this only waits.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let latencies = runtime.block_on(write(&mut volume, block_bytes, writes, &clock))?;
    let seconds = clock.now().saturating_sub(began).as_secs_f64();
    let cpu = usage::cpu_time().saturating_sub(cpu);

    let written = writes * block_bytes as u64;
    let mut out = Map::new();
    out.insert("mb_per_s".into(), (written as f64 / MIB / seconds).into());
    out.insert("writes_per_s".into(), (writes as f64 / seconds).into());
    latencies::describe(&latencies, &mut out);
    out.insert("cpu_seconds".into(), cpu.as_secs_f64().into());
    out.insert("seconds".into(), seconds.into());
    out.insert("writes".into(), writes.into());
    out.insert("bytes".into(), written.into());
    Ok(Value::Object(out))
}

/// Keeps as many writes under way as the volume's depth.
async fn write(
    volume: &mut Volume,
    block_bytes: usize,
    writes: u64,
    clock: &SharedClock,
) -> std::io::Result<Latencies> {
    let depth = volume.depth();
    let pool = BufferPool::new(2 * depth * block_bytes.next_power_of_two());
    let mut random = fastrand::Rng::with_seed(1);
    let (mut under_way, mut latencies) = (FuturesUnordered::new(), Latencies::default());
    let mut started = 0;
    while started < writes || !under_way.is_empty() {
        if started < writes && under_way.len() < depth {
            let mut block = pool.take(block_bytes);
            // No two blocks are equal, should anything below look for that.
            let number = random.u64(..).to_ne_bytes();
            block[..number.len()].copy_from_slice(&number);
            let began = clock.now();
            let place = volume.place(block_bytes)?;
            let write = volume.device().write(place, block);
            under_way.push(async move {
                write.await?;
                Ok::<Duration, std::io::Error>(clock.now().saturating_sub(began))
            });
            started += 1;
        } else if let Some(latency) = under_way.next().await {
            latencies.add(latency?, 1);
        }
    }
    Ok(latencies)
}
