//! Appends through the page cache and flushes each time, as Kafka does with
//! `log.flush.interval.messages=1`: what a flush costs on this disk, and under the shim that makes
//! flushes slower, whether it does.

use std::{error::Error, fs::OpenOptions, io::Write, path::PathBuf};

use millrace_bench::{latencies, latencies::Latencies, usage};
use millrace_time::SystemClock;
use serde_json::{Map, Value};

use super::{MIB, flags::Flags};

/// Appends `--block` bytes to `--file`, `--count` times.
pub(super) fn run(flags: &mut Flags) -> Result<Value, Box<dyn Error>> {
    let path: PathBuf = flags.required("file")?;
    let block = vec![0x5a; flags.count("block", 1 << 20)?];
    let count = flags.count("count", 100)?;
    flags.finish()?;
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).open(&path)?;
    let clock = SystemClock::shared();
    let (cpu, began) = (usage::cpu_time(), clock.now());
    let mut latencies = Latencies::default();
    for _ in 0..count {
        file.write_all(&block)?;
        let began = clock.now();
        file.sync_data()?;
        latencies.add(clock.now().saturating_sub(began), 1);
    }
    let seconds = clock.now().saturating_sub(began).as_secs_f64();
    let cpu = usage::cpu_time().saturating_sub(cpu);

    let bytes = (count * block.len()) as f64;
    let mut out = Map::new();
    out.insert("mb_per_s".into(), (bytes / MIB / seconds).into());
    latencies::describe(&latencies, &mut out);
    out.insert("cpu_seconds".into(), cpu.as_secs_f64().into());
    out.insert("seconds".into(), seconds.into());
    out.insert("flushes".into(), count.into());
    Ok(Value::Object(out))
}
