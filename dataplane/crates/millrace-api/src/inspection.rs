//! Inspects every record of a batch without blocking other connections.
//!
//! Even a small batch may decompress to tens of mebibytes. Work below about a millisecond runs in
//! the connection's task; the rest runs on blocking threads, a few batches at a time, which bounds
//! the memory for decompressed data. Batches are compressed anew there, too.

use std::{ops::RangeInclusive, panic::resume_unwind, sync::Arc};

use millrace_record::{Batch, Compression, DECOMPRESSED_BYTES_MAX, InvalidBatch, RecordsSummary};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

/// An uncompressed batch up to this many bytes is looked at where the request is: reading its
/// records' lengths is quicker than the CRC was.
const PLAIN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for a compressed batch, as it came.
const PACKED_BYTES_MAX: usize = 64 * 1024;
/// And as far as it is decompressed there: gzip, the slowest, gives this much in a millisecond.
const UNPACKED_BYTES_MAX: usize = 256 * 1024;
/// Batches that are looked at elsewhere at one time; each takes 64 MiB at most.
const ELSEWHERE_MAX: usize = 4;
/// What a recompression takes of them: one for the records, one for the result.
const RECOMPRESSION_PLACES: u32 = 2;

/// What they take together, bytes.
pub const INSPECTION_BYTES_MAX: u64 = (ELSEWHERE_MAX * DECOMPRESSED_BYTES_MAX) as u64;

/// Where batches are looked at.
#[derive(Debug)]
pub(crate) struct Inspection {
    elsewhere: Arc<Semaphore>,
}

impl Inspection {
    pub(crate) fn new() -> Self {
        Self {
            elsewhere: Arc::new(Semaphore::new(ELSEWHERE_MAX)),
        }
    }

    /// The places, each for one batch that may decompress to [`DECOMPRESSED_BYTES_MAX`].
    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.elsewhere)
    }

    /// See [`Batch::inspect_records_of`]; gives the batch back.
    pub(crate) async fn inspect(
        &self,
        batch: Batch,
        timestamps: RangeInclusive<i64>,
    ) -> Result<(Batch, RecordsSummary), InvalidBatch> {
        if let Some(seen) = inspect_here(&batch, &timestamps) {
            return seen.map(|summary| (batch, summary));
        }
        let permit = Arc::clone(&self.elsewhere).acquire_owned().await;
        let seen = spawn_blocking(move || {
            // Held to the end even where the request has been given up.
            let _permit = permit.expect("the semaphore is never closed");
            let summary = batch.inspect_records_of(DECOMPRESSED_BYTES_MAX, &timestamps);
            summary.map(|summary| (batch, summary))
        });
        match seen.await {
            Ok(seen) => seen,
            Err(failed) => resume_unwind(failed.into_panic()),
        }
    }

    /// See [`Batch::recompressed`]. Takes two places, as both the records and the result may be large. The one that comes
    /// back with the result is for its bytes, until they are counted elsewhere.
    pub(crate) async fn recompress(
        &self,
        batch: Batch,
        (compression, level): (Compression, Option<i32>),
    ) -> Result<(Batch, OwnedSemaphorePermit), InvalidBatch> {
        let places = Arc::clone(&self.elsewhere);
        let permit = places.acquire_many_owned(RECOMPRESSION_PLACES).await;
        let done = spawn_blocking(move || {
            let mut permit = permit.expect("the semaphore is never closed");
            let recompressed = batch.recompressed(compression, level)?;
            let of_records = permit.split(1);
            drop(of_records);
            Ok((recompressed, permit))
        });
        match done.await {
            Ok(done) => done,
            Err(failed) => resume_unwind(failed.into_panic()),
        }
    }
}

/// What there is to see, if it is seen quickly.
fn inspect_here(
    batch: &Batch,
    timestamps: &RangeInclusive<i64>,
) -> Option<Result<RecordsSummary, InvalidBatch>> {
    let bytes = batch.bytes().len();
    if batch.header().compression() == Ok(Compression::None) {
        let inspect = || batch.inspect_records_of(DECOMPRESSED_BYTES_MAX, timestamps);
        return (bytes <= PLAIN_BYTES_MAX).then(inspect);
    }
    if bytes > PACKED_BYTES_MAX {
        return None;
    }
    match batch.inspect_records_of(UNPACKED_BYTES_MAX, timestamps) {
        Err(InvalidBatch::DecompressedTooLarge) => None,
        seen => Some(seen),
    }
}

#[cfg(test)]
mod tests {
    use millrace_record::{BatchBuilder, split};

    use super::*;

    const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    const ALWAYS: RangeInclusive<i64> = i64::MIN..=i64::MAX;

    fn batch(compression: Compression, value_bytes: usize) -> Batch {
        let mut builder = BatchBuilder::new(compression);
        builder.push(77, None, Some(&vec![b'x'; value_bytes]), &[]);
        split(builder.build()).expect("a batch").remove(0)
    }

    #[tokio::test]
    async fn it_makes_no_difference_where_a_batch_is_looked_at() {
        let inspection = Inspection::new();
        for compression in ALL {
            for value_bytes in [100, 5 << 20] {
                let batch = batch(compression, value_bytes);
                let here = inspect_here(&batch, &ALWAYS).is_some();
                assert_eq!(here, value_bytes == 100, "{compression:?}");
                let bytes = batch.bytes().to_vec();
                let seen = inspection.inspect(batch, ALWAYS).await;
                let (batch, summary) = seen.expect("a legal batch");
                assert_eq!(summary.max_timestamp, 77);
                assert_eq!(batch.bytes(), bytes);
            }
        }
    }

    #[tokio::test]
    async fn a_bomb_is_refused_and_its_permit_comes_back() {
        let inspection = Inspection::new();
        for _ in 0..=ELSEWHERE_MAX {
            let bomb = batch(Compression::Zstd, DECOMPRESSED_BYTES_MAX + 1);
            assert!(bomb.bytes().len() < PACKED_BYTES_MAX, "small as it comes");
            let seen = inspection.inspect(bomb, ALWAYS).await;
            assert_eq!(seen.map(|_| ()), Err(InvalidBatch::DecompressedTooLarge));
        }
        assert_eq!(inspection.elsewhere.available_permits(), ELSEWHERE_MAX);
    }

    #[tokio::test]
    async fn a_recompressed_batch_keeps_its_place_until_it_is_let_go() {
        let inspection = Inspection::new();
        let to = (Compression::Zstd, Some(5));
        let recompressed = inspection
            .recompress(batch(Compression::None, 100), to)
            .await;
        let (batch, place) = recompressed.expect("a legal batch");
        assert_eq!(batch.header().compression(), Ok(Compression::Zstd));
        assert_eq!(inspection.elsewhere.available_permits(), ELSEWHERE_MAX - 1);
        drop(place);
        let bomb = self::batch(Compression::Zstd, DECOMPRESSED_BYTES_MAX + 1);
        let to = (Compression::None, None);
        let refused = inspection.recompress(bomb, to).await;
        assert_eq!(refused.map(|_| ()), Err(InvalidBatch::DecompressedTooLarge));
        assert_eq!(inspection.elsewhere.available_permits(), ELSEWHERE_MAX);
    }
}
