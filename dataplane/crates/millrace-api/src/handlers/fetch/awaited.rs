//! The cold reads that a fetch waits for: started in [`crate::cold_reads`], taken as they complete.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{
    answer::{Gathered, Part},
    resolve::ResolvedFetch,
};
use crate::{cold_reads::BYTES_MIN, context::Context};

/// What a fetch waits for.
#[derive(Debug)]
pub(super) struct Awaited {
    connection: u64,
    /// Told when one of the reads has found something, or has given up.
    pub(super) changed: Arc<Notify>,
    /// The places in the request of the partitions that are being read.
    reading: Vec<usize>,
}

/// Sees to it that what was missed is read: in the order in which the client wants it, and as much
/// as an answer can carry.
pub(super) fn start(
    context: &Context,
    fetch: &ResolvedFetch,
    gathered: &Gathered,
) -> Option<Awaited> {
    if !gathered.missed_any() {
        return None;
    }
    let changed = Arc::new(Notify::new());
    let mut reading = Vec::new();
    let room = fetch.bytes_max.saturating_sub(gathered.bytes());
    let mut expected = 0;
    for at in gathered.missed() {
        let wanted = fetch.partitions.get(at);
        let Some((wanted, Ok(source))) = wanted.map(|wanted| (wanted, &wanted.source)) else {
            continue;
        };
        if expected > 0 && expected >= room {
            break;
        }
        let bytes_max = wanted.bytes_max.min(room.max(BYTES_MIN));
        let ensured = context
            .cold_reads
            .ensure(fetch.connection, source, bytes_max, &changed);
        if let Some(bytes) = ensured {
            expected += bytes.max(BYTES_MIN);
            reading.push(at);
        }
    }
    Some(Awaited {
        connection: fetch.connection,
        changed,
        reading,
    })
}

impl Awaited {
    /// Whether anything is being read.
    pub(super) fn is_empty(&self) -> bool {
        self.reading.is_empty()
    }

    /// Takes what has been found since.
    pub(super) fn collect(
        &mut self,
        context: &Context,
        fetch: &ResolvedFetch,
        gathered: &mut Gathered,
    ) {
        let cold_reads = &context.cold_reads;
        let connection = self.connection;
        self.reading.retain(|&at| {
            let wanted = fetch.partitions.get(at);
            let Some((wanted, Ok(source))) = wanted.map(|wanted| (wanted, &wanted.source)) else {
                return false;
            };
            let room = fetch.bytes_max.saturating_sub(gathered.bytes());
            let sizes = (wanted.bytes_max, room, gathered.bytes() == 0);
            match cold_reads.take(connection, source, sizes) {
                Some(read) => {
                    gathered.fill(at, Part::cold(source, read));
                    false
                }
                None => cold_reads.is_reading(connection, source),
            }
        });
    }
}
