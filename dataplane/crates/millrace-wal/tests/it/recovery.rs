//! Recovery on a simulated disk: whatever a crash leaves, no acknowledged record is lost, no wrong
//! byte is returned, and what one recovery says, the next ones repeat.
//!
//! `MILLRACE_SIM_SEEDS=10000` runs that many seeds; `MILLRACE_SIM_SEED=17` replays one.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use millrace_testkit::{Crash, SimDisk};
use millrace_time::{ManualClock, SeededRandom, SharedRandom};
use millrace_wal::{
    Append, AppendError, BLOCK_BYTES, OpenError, RECORD_HEAD_BYTES, ReadError, Recovered, Wal,
    WalConfig, WalRange, inspect,
};

/// Seeds of an ordinary run; the nightly one sets `MILLRACE_SIM_SEEDS`.
const SEEDS: u64 = 300;

/// Bytes before the ring: the header's two slots.
const HEADER_BYTES: u64 = 128 * 1024;

fn seeds() -> Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    match number("MILLRACE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLRACE_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

/// Runs `world` under every seed, on virtual time; a failing seed says how to replay it.
fn for_each_seed<F: Future<Output = ()>>(test: &str, world: impl Fn(u64) -> F) {
    for seed in seeds() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(world(seed));
        }));
        if let Err(panic) = outcome {
            eprintln!(
                "failed; replay with MILLRACE_SIM_SEED={seed} cargo test -p millrace-wal --test recovery {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

/// What became of a record, as far as its owner was told.
#[derive(Debug, Clone)]
struct Known {
    range: WalRange,
    payload: Bytes,
    /// Acknowledged, or returned by a recovery: it must be there until it is trimmed.
    kept: bool,
}

/// The owner of the log, who remembers everything.
struct World {
    random: SharedRandom,
    disk: SimDisk,
    config: WalConfig,
    /// By start.
    known: BTreeMap<u64, Known>,
    /// Where the present process goes on.
    opened_at: u64,
    /// Everything that ends at or below this may be gone.
    trimmed: u64,
    /// The same, as far as the present process has said so: a crash may forget it.
    asked: u64,
    /// Everything that ends at or below this must be gone.
    gone: u64,
    payloads: u64,
    /// Writes of a killed process land before the next one starts, so that none of them meets a
    /// rotten byte: together they would be two faults.
    settles: bool,
    /// Counts, so that a test can say that the seeds covered what they are meant to.
    acked: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let random = SeededRandom::shared(seed);
        let blocks = 64 + random.below(300);
        let capacity = HEADER_BYTES + blocks * u64::from(BLOCK_BYTES);
        let latency = Duration::from_micros(100 << random.below(6));
        let disk = SimDisk::new(capacity, latency, Arc::clone(&random));
        let config = WalConfig {
            depth: 1 + random.below(8) as u32,
            chunk_bytes_max: 4096 << random.below(5),
            // Small ones make a small window, which a slow write then holds up.
            record_bytes_max: 3_000 << random.below(7),
            pending_bytes_max: 32_768 << random.below(4),
            reserve_wait_max: Duration::from_millis(100),
            trim_delay: Duration::from_millis(random.below(5)),
            ..WalConfig::new(random.next_u64())
        };
        Self {
            random,
            disk,
            config,
            known: BTreeMap::new(),
            opened_at: 0,
            trimmed: 0,
            asked: 0,
            gone: 0,
            payloads: 0,
            settles: false,
            acked: 0,
        }
    }

    fn chance(&self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    /// A payload that no other record has.
    fn payload(&mut self, bytes_max: usize) -> Bytes {
        self.payloads += 1;
        let shape = self.random.below(10);
        let bound = if shape < 7 {
            600
        } else {
            12_000 << (shape - 7)
        };
        let len = self.random.below((bound as u64).min(bytes_max as u64) + 1) as usize;
        let mut payload = self.payloads.to_le_bytes().to_vec();
        while payload.len() < len {
            payload.extend(self.random.next_u64().to_le_bytes());
        }
        payload.truncate(len.max(8).min(bytes_max));
        payload.into()
    }

    /// Opens the log, compares what it has with what is known, and reads every payload.
    async fn open(&mut self) -> Result<Wal, OpenError> {
        let (wal, damaged) = self.open_damaged().await?;
        assert_eq!(damaged, [], "a record cannot be read");
        Ok(wal)
    }

    /// The same where a byte has rotted: returns also the records that cannot be read.
    async fn open_damaged(&mut self) -> Result<(Wal, Vec<WalRange>), OpenError> {
        if self.settles {
            self.disk.land_late_writes();
        }
        let config = self.config.clone();
        let (wal, recovered) = Wal::open(self.disk.attach(), config, ManualClock::shared()).await?;
        self.check(&recovered);
        self.asked = 0;
        self.opened_at = wal.metrics().next;
        let damaged = self.read_back(&wal).await;
        Ok((wal, damaged))
    }

    /// Reads every record; returns those that are damaged.
    async fn read_back(&self, wal: &Wal) -> Vec<WalRange> {
        let ranges: Vec<WalRange> = self.known.values().map(|known| known.range).collect();
        let mut damaged = Vec::new();
        // Together, and where one of them is damaged one by one.
        let payloads = match wal.read_many(&ranges).await {
            Ok(payloads) => payloads.into_iter().map(Ok).collect(),
            Err(ReadError::Damaged(_)) => {
                let each = ranges.iter().map(|range| wal.read(*range));
                futures_util::future::join_all(each).await
            }
            Err(other) => panic!("{other}"),
        };
        for (known, payload) in self.known.values().zip(payloads) {
            match payload {
                Ok(payload) => assert!(payload == known.payload, "wrong bytes at {known:?}"),
                Err(ReadError::Damaged(position)) => {
                    assert_eq!(position, known.range.start);
                    damaged.push(known.range);
                }
                Err(other) => panic!("{other} at {:?}", known.range),
            }
        }
        damaged
    }

    /// Compares a recovery with what is known, and remembers what it said.
    fn check(&mut self, recovered: &[Recovered]) {
        assert!(
            recovered.is_sorted_by(|a, b| a.range.end <= b.range.start),
            "out of order"
        );
        for Recovered {
            range,
            payload_bytes,
            head,
        } in recovered
        {
            let known = self.known.get(&range.start);
            let known = known.unwrap_or_else(|| panic!("{range:?} was given up or never written"));
            assert_eq!(known.range, *range);
            assert_eq!(known.payload.len(), *payload_bytes as usize);
            let expected = &known.payload[..known.payload.len().min(RECORD_HEAD_BYTES)];
            assert_eq!(head, expected, "wrong bytes at {range:?}");
            assert!(
                range.end > self.gone,
                "{range:?} came back after a trim to {}",
                self.gone
            );
        }
        let found: BTreeMap<u64, &Recovered> = recovered
            .iter()
            .map(|record| (record.range.start, record))
            .collect();
        for known in self.known.values() {
            let lost = known.kept && !found.contains_key(&known.range.start);
            assert!(
                !lost || known.range.end <= self.trimmed,
                "lost {:?}",
                known.range
            );
        }
        self.known.retain(|start, _| found.contains_key(start));
        self.known.values_mut().for_each(|known| known.kept = true);
    }

    /// Appends, acknowledges and trims for a while; true where the log has failed.
    async fn work(&mut self, wal: &Wal) -> bool {
        let mut pending: FuturesUnordered<_> = FuturesUnordered::new();
        for _ in 0..self.random.below(60) {
            let metrics = wal.metrics();
            if metrics.next > self.opened_at + metrics.capacity / 8 {
                // No write of a killed process is later than this.
                self.disk.land_late_writes();
            }
            match self.random.below(10) {
                0 => tokio::time::sleep(Duration::from_micros(self.random.below(3_000))).await,
                1 => self.trim(wal),
                2 if self.chance(4) => _ = self.disk.land_late_writes(),
                _ => {
                    let payload = self.payload(wal.record_bytes_max());
                    if let Ok(room) = wal.reserve(payload.len()).await {
                        let cut = self.random.below(payload.len() as u64 + 1) as usize;
                        let parts = [payload.slice(..cut), payload.slice(cut..)];
                        let append = wal.append(room, &parts);
                        self.remember(append.range, payload);
                        pending.push(tagged(append));
                    } else if self.random.below(2) == 0 {
                        // Full: what is durable is uploaded now.
                        self.trim(wal);
                    }
                }
            }
            self.observe(&mut pending);
        }
        if self.chance(3) {
            while let Some((start, result)) = pending.next().await {
                self.note(start, &result);
            }
        }
        self.observe(&mut pending);
        wal.failed().now_or_never().is_some()
    }

    fn remember(&mut self, range: WalRange, payload: Bytes) {
        if range.start < range.end {
            self.known.insert(
                range.start,
                Known {
                    range,
                    payload,
                    kept: false,
                },
            );
        }
    }

    /// Takes the answers that are there.
    fn observe<F>(&mut self, pending: &mut FuturesUnordered<F>)
    where
        F: Future<Output = (u64, Result<(), AppendError>)>,
    {
        while let Some(Some((start, result))) = pending.next().now_or_never() {
            self.note(start, &result);
        }
    }

    fn note(&mut self, start: u64, result: &Result<(), AppendError>) {
        if result.is_ok() {
            self.acked += 1;
            self.known.get_mut(&start).expect("was appended").kept = true;
        }
    }

    /// Trims up to a record that is acknowledged, as a stream layer does after an upload.
    fn trim(&mut self, wal: &Wal) {
        let durable = wal.metrics().durable;
        let below: Vec<u64> = self
            .known
            .values()
            .take_while(|known| known.range.end <= durable)
            .map(|known| known.range.end)
            .collect();
        if below.is_empty() {
            return;
        }
        let end = below[self.random.below(below.len() as u64) as usize];
        wal.trim(end, 0);
        self.trimmed = self.trimmed.max(end);
        self.asked = self.asked.max(end);
        self.gone = self.gone.max(wal.metrics().trim);
    }

    /// Closes in peace, or crashes.
    async fn end(&mut self, wal: Wal) {
        self.gone = self.gone.max(wal.metrics().trim);
        if self.chance(5) {
            wal.close().await.expect("closes");
            self.known.values_mut().for_each(|known| known.kept = true);
            self.gone = self.gone.max(self.asked);
        }
        drop(wal);
        let crash = if self.chance(2) {
            Crash::PowerLoss
        } else {
            Crash::Killed
        };
        self.disk.crash(crash);
    }

    /// An opening that is itself cut short, some time after it has started.
    async fn abort_an_opening(&self) {
        let opening = Wal::open(
            self.disk.attach(),
            self.config.clone(),
            ManualClock::shared(),
        );
        let patience = Duration::from_micros(self.random.below(4_000));
        // Whether it came through or not, nothing was appended, and the process dies.
        let _ = tokio::time::timeout(patience, opening).await;
        self.disk.crash(if self.chance(2) {
            Crash::PowerLoss
        } else {
            Crash::Killed
        });
    }
}

async fn tagged(append: Append) -> (u64, Result<(), AppendError>) {
    let start = append.range.start;
    (start, append.await)
}

/// Crash after crash, with torn, lost, reordered, lingering and late writes.
#[test]
fn no_crash_costs_an_acknowledged_record() {
    for_each_seed("no_crash", |seed| async move {
        let mut world = World::new(seed);
        for _ in 0..2 + world.random.below(6) {
            if world.chance(4) {
                world.abort_an_opening().await;
            }
            let wal = world.open().await.expect("a crash never damages the log");
            world.work(&wal).await;
            world.end(wal).await;
        }
        world.open().await.expect("a crash never damages the log");
    });
}

/// One rotten byte between a crash and the next opening: an error or a repair, at the opening or when
/// the record is read, never wrong data and never a silent cut.
#[test]
fn a_flipped_byte_is_an_error_or_a_repair() {
    let counts = std::cell::RefCell::new((0, 0, 0));
    for_each_seed("a_flipped_byte", |seed| {
        let counts = &counts;
        async move {
            let mut world = World {
                settles: true,
                ..World::new(seed)
            };
            for _ in 0..1 + world.random.below(3) {
                let wal = world.open().await.expect("opens");
                world.work(&wal).await;
                world.end(wal).await;
            }
            for _ in 0..8 {
                let (at, mask) = (rotten_byte(&world), 1 + world.random.below(255) as u8);
                world.disk.flip(at, mask);
                let opened = world.open_damaged().await;
                let is_sound = match &opened {
                    Ok((_, damaged)) if damaged.is_empty() => {
                        counts.borrow_mut().1 += 1;
                        true
                    }
                    Ok((_, damaged)) => {
                        let ring = (world.disk.capacity() - HEADER_BYTES) / 4096 * 4096;
                        let in_ring = at.checked_sub(HEADER_BYTES).expect("a record's byte");
                        let behind =
                            |range: &WalRange| (in_ring + ring - range.start % ring) % ring;
                        assert_eq!(damaged.len(), 1, "one byte is in one record");
                        assert!(behind(&damaged[0]) < damaged[0].bytes());
                        counts.borrow_mut().2 += 1;
                        false
                    }
                    Err(OpenError::Damaged { .. }) => {
                        counts.borrow_mut().0 += 1;
                        false
                    }
                    Err(other) => panic!("{other} after byte {at} was flipped by {mask:#x}"),
                };
                drop(opened);
                world.disk.crash(Crash::Killed);
                if !is_sound {
                    // The volume is restored, and nothing else was changed meanwhile.
                    world.disk.flip(at, mask);
                    world.open().await.expect("the log was left as it was");
                    world.disk.crash(Crash::PowerLoss);
                }
            }
        }
    });
    let (errors, repairs, unreadable) = counts.into_inner();
    println!("{errors} errors, {repairs} openings, {unreadable} unreadable records");
    if seeds().count() > 100 {
        assert!(
            errors > 100 && repairs > 100 && unreadable > 100,
            "{errors} errors, {repairs} openings, {unreadable} unreadable records"
        );
    }
}

/// Lives, the last of which ended long ago: everything that is there is known to be durable.
async fn settled(seed: u64) -> World {
    let mut world = World {
        settles: true,
        ..World::new(seed)
    };
    for _ in 0..1 + world.random.below(3) {
        let wal = world.open().await.expect("opens");
        world.work(&wal).await;
        world.end(wal).await;
    }
    world.open().await.expect("opens");
    world.disk.crash(Crash::Killed);
    world
}

/// The byte of the disk at a position of the ring.
fn byte_at(world: &World, position: u64) -> u64 {
    let ring = (world.disk.capacity() - HEADER_BYTES) / 4096 * 4096;
    HEADER_BYTES + position % ring
}

/// A position in `range` that is no sector's tag: a tag is asked only about what is wrong otherwise.
fn content_in(world: &World, range: Range<u64>) -> u64 {
    let positions = range.filter(|position| position % 512 < 508);
    let positions: Vec<u64> = positions.collect();
    positions[world.random.below(positions.len() as u64) as usize]
}

/// A record that is known to be durable rots: the log opens, that record is an error whenever it is
/// read, all others are what was written, and an inspection finds it.
#[test]
fn a_flipped_byte_of_a_durable_record_is_an_error_when_it_is_read() {
    let flips = std::cell::Cell::new(0);
    for_each_seed("a_flipped_byte_of_a_durable", |seed| {
        let flips = &flips;
        async move {
            let mut world = settled(seed).await;
            if world.known.is_empty() {
                return;
            }
            let n = world.random.below(world.known.len() as u64) as usize;
            let range = world.known.values().nth(n).expect("in range").range;
            let at = byte_at(&world, content_in(&world, range.start..range.end));
            world.disk.flip(at, 1 + world.random.below(255) as u8);
            let inspected = inspect(world.disk.attach()).await;
            let inspected = inspected.expect("it opens").expect("a log");
            let listed = inspected.damaged.iter().map(|record| record.range);
            assert_eq!(listed.collect::<Vec<_>>(), [range]);
            assert_eq!(inspected.records_damaged, 1);
            // Again and again: nothing that was found once is given up.
            for _ in 0..2 {
                let (wal, damaged) = world.open_damaged().await.expect("opens");
                assert_eq!(damaged, [range]);
                let again = wal.read(range).await;
                assert!(
                    matches!(again, Err(ReadError::Damaged(position)) if position == range.start)
                );
                drop(wal);
                world.disk.crash(Crash::Killed);
            }
            flips.set(flips.get() + 1);
        }
    });
    assert!(seeds().count() < 100 || flips.get() > 50, "{flips:?}");
}

/// The header or the directory of a chunk that is known to be durable rots: an error, or every record
/// is there with its bytes.
#[test]
fn a_flipped_byte_of_a_durable_head_is_an_error_or_costs_nothing() {
    let counts = std::cell::Cell::new((0, 0));
    for_each_seed("a_flipped_byte_of_a_durable_head", |seed| {
        let counts = &counts;
        async move {
            let mut world = settled(seed).await;
            let ranges: Vec<WalRange> = world.known.values().map(|known| known.range).collect();
            // Records of one chunk stand back to back, and nothing does over a chunk's end.
            let ends = |pair: &&[WalRange]| pair[0].end < pair[1].start;
            let ends: Vec<&[WalRange]> = ranges.windows(2).filter(ends).collect();
            if ends.is_empty() {
                return;
            }
            let pair = ends[world.random.below(ends.len() as u64) as usize];
            let in_header = world.chance(2);
            let position = if in_header {
                content_in(&world, pair[1].start - 64..pair[1].start)
            } else {
                // At least a length and the sum.
                content_in(&world, pair[0].end..pair[0].end + 8)
            };
            let at = byte_at(&world, position);
            world.disk.flip(at, 1 + world.random.below(255) as u8);
            let inspected = inspect(world.disk.attach()).await;
            let opened = world.open().await;
            let (mut errors, mut repairs) = counts.get();
            match opened {
                Ok(_) => {
                    assert!(!in_header, "a header is nowhere else");
                    let inspection = inspected.expect("the records are sound").expect("a log");
                    assert_eq!(inspection.directories_damaged, 1);
                    repairs += 1;
                }
                Err(OpenError::Damaged { .. }) => {
                    assert!(in_header, "all that a directory says is said elsewhere");
                    assert!(matches!(inspected, Err(OpenError::Damaged { .. })));
                    errors += 1;
                }
                Err(other) => panic!("{other}"),
            }
            counts.set((errors, repairs));
        }
    });
    let (errors, repairs) = counts.get();
    println!("{errors} errors, {repairs} repairs");
    assert!(
        seeds().count() < 100 || (errors > 20 && repairs > 20),
        "{errors} errors, {repairs} repairs"
    );
}

/// Mostly a byte of a record, sometimes any byte of the disk.
fn rotten_byte(world: &World) -> u64 {
    let ring = (world.disk.capacity() - HEADER_BYTES) / 4096 * 4096;
    match world.random.below(8) {
        0 => world.random.below(world.disk.capacity()),
        // Mostly zeros, but for the start of each slot.
        1 => world.random.below(2) * HEADER_BYTES / 2 + world.random.below(200),
        _ if world.known.is_empty() => world.random.below(world.disk.capacity()),
        _ => {
            let n = world.random.below(world.known.len() as u64) as usize;
            let known = world.known.values().nth(n).expect("in range");
            // From a little before, so that chunk headers are met too.
            let position =
                known.range.start.saturating_sub(64) + world.random.below(known.range.bytes() + 64);
            HEADER_BYTES + position % ring
        }
    }
}

/// A device that fails: nothing that was in flight is acknowledged, everything later is refused,
/// and what was acknowledged before is found again.
#[test]
fn a_failing_device_acknowledges_nothing_more() {
    for_each_seed("a_failing_device", |seed| async move {
        let mut world = World::new(seed);
        for _ in 0..3 {
            let wal = world.open().await.expect("opens");
            world.disk.fail_writes_after(world.random.below(20));
            let failed = world.work(&wal).await;
            if failed {
                let refused = wal.reserve(10).await.map(|_| ());
                assert!(
                    matches!(refused, Err(millrace_wal::ReserveError::Failed(_))),
                    "{refused:?}"
                );
                assert!(
                    wal.close().await.is_err(),
                    "a failed log does not close in peace"
                );
            }
            drop(wal);
            world.disk.crash(Crash::Killed);
        }
        world.disk.fail_reads();
        let opened = world.open().await;
        assert!(
            matches!(opened, Err(OpenError::Device { .. })),
            "{opened:?}"
        );
    });
}

/// The same seed gives the same run, down to the last position.
#[test]
fn a_seed_replays() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new(seed);
            for _ in 0..4 {
                let wal = world.open().await.expect("opens");
                world.work(&wal).await;
                world.end(wal).await;
            }
            let ranges: Vec<_> = world.known.values().map(|k| (k.range, k.kept)).collect();
            (ranges, world.acked, world.random.next_u64())
        })
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

/// The identity is chosen so that one byte is all that tells a sector of zeros at block 16 of the
/// ring from the start of a chunk there. Such places are met by chance, and are no damage.
#[tokio::test]
async fn an_empty_place_that_looks_almost_like_a_chunk_is_empty() {
    const IDENTITY: u64 = 0xd6ed_3290_0000_0000;
    let disk = SimDisk::new(4 * 1024 * 1024, Duration::ZERO, SeededRandom::shared(1));
    let config = WalConfig::new(IDENTITY);
    let (wal, _) = Wal::open(disk.attach(), config.clone(), ManualClock::shared())
        .await
        .expect("formats");
    let room = wal.reserve(9).await.expect("room");
    let record = Bytes::from_static(b"a record.");
    let appended = wal.append(room, std::slice::from_ref(&record));
    appended.await.expect("durable");
    drop(wal);
    disk.crash(Crash::Killed);

    let (wal, recovered) = Wal::open(disk.attach(), config, ManualClock::shared())
        .await
        .expect("opens again");
    let ranges: Vec<_> = recovered.into_iter().map(|r| r.range).collect();
    assert_eq!(wal.read_many(&ranges).await.expect("reads"), [record]);
}
